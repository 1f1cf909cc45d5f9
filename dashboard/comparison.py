"""Rows of a comparison: what was measured, and where nothing was, what is predicted; never merged unsaid."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
from pandas.io.formats.style import Styler

from assay import numbers
from assay.loads import arrivals, hardware_words
from dashboard import answers, evidence, ratios
from dashboard.address import Comparison
from dashboard.charts import ENERGY, LATENCY, MEMORY, SPEEDUP, TOKEN_ENERGY, Metric, Row, name_of
from dashboard.differences import EVIDENCE
from dashboard.palette import badge
from dashboard.ranking import completed
from domain.errors import AssayError
from domain.vocabulary import MODES

__all__ = ["Rows", "against_cpu", "chosen", "rows", "sentence", "table"]

TELLING = {
    "runtime": "runtime", "compiled": "", "layout": "", "threads": "threads", "scenario": "", "image_size": "size",
    "sequence_length": "length", "weights": "weights",
}  # fmt: skip
"""Fields that may tell rows of one name apart, in the order in which they are said."""
_HEADS = ("Hardware", "Model")
MOST_ASKED = 1000
MOST = 100
"""Rows that one comparison holds; the API ranks, so the rest are the slower ones."""
_LESS = {MEMORY: "smaller", ENERGY: "less", TOKEN_ENERGY: "less"}
BETTER = {"smaller is better": min, "larger is better": max}


class Rows(NamedTuple):
    """Rows of a model, and why none is predicted where none is."""

    rows: list[dict[str, Any]]
    unpredicted: str | None


def rows(model: str, position: int, mode: str = MODES[0], batch: int | None = None, *, estimates: bool = True) -> Rows:
    """Return every configuration of a model with evidence, then, if asked for, what is predicted on other hardware.

    What was measured is shown also where nothing can be predicted; then the reason comes with it.

    Predictions are for one batch, the one asked for or else the most frequent among the evidence, the fastest of each
    hardware and platform: estimates of everything would bury what was measured.
    """
    known = answers.compare(model, mode, position)["rows"]
    if not estimates:
        return Rows(against_cpu([completed(row) for row in known]), None)
    batches = Counter(row["batch_size"] for row in known if row.get("batch_size") and row.get("mode") in (mode, None))
    size = batch or (batches.most_common(1)[0][0] if batches else 1)
    try:
        predicted = answers.recommend(
            {"model": model, "mode": mode, "batch_sizes": [size], "top": MOST_ASKED}, position
        )["ranked"]
        unpredicted = None
    except AssayError as problem:
        if not known:
            raise
        predicted, unpredicted = [], str(problem)
    # Measured rows come with their method from the comparison; the recommendation would tell them a second time.
    others = [{**row, "mode": mode} for row in predicted if row.get("basis") not in EVIDENCE]
    return Rows(against_cpu([completed(row) for row in (*known, *_one_each(others))]), unpredicted)


def _one_each(estimates: Sequence[Row]) -> list[Row]:
    first: dict[Any, Row] = {}
    for row in estimates:
        first.setdefault((row.get("hardware"), row.get("platform")), row)
    return list(first.values())


def chosen(everything: Sequence[Row], asked: Comparison, metric: Metric) -> list[dict[str, Any]]:
    """Return the rows that the filters leave and that have the metric, best first; evidence is never cut for estimates.

    With the basis left to us, estimates are shown only where there is no evidence.
    """
    left = [dict(row) for row in everything if _passes(row, asked) and row.get(metric.key) is not None]
    known = [row for row in left if row.get("basis") in EVIDENCE]
    if asked.basis == "measured" or (asked.basis == "auto" and known):
        left = known

    def order(row: Row) -> float:
        return -float(row[metric.key]) if metric.better.startswith("larger") else float(row[metric.key])

    kept = sorted(left, key=lambda row: (row.get("basis") not in EVIDENCE, order(row)))[:MOST]
    return distinguished(sorted(kept, key=order))


def distinguished(found: Sequence[Row]) -> list[dict[str, Any]]:
    """Add to rows of one name, as `distinct`, the words of the fields in which they differ; the run last."""
    for key in ("", "run_id"):
        alike: dict[str, list[Row]] = {}
        for row in found:
            alike.setdefault(name_of(row), []).append(row)
        tell = tuple(TELLING) if not key else (key,)
        differing = {name: [each for each in tell if _differs(group, each)] for name, group in alike.items()}
        found = [
            {**row, "distinct": " · ".join(_words(row, differing[name_of(row)])) or row.get("distinct")}
            for row in found
        ]
    return [dict(row) for row in found]


def _differs(group: Sequence[Row], key: str) -> bool:
    return len({str(row.get(key)) for row in group}) > 1


def _words(row: Row, keys: Sequence[str]) -> list[str]:
    told = [_said(key, row.get(key)) for key in keys]
    return [str(row["distinct"]), *told] if told and row.get("distinct") else told


def _said(key: str, value: Any) -> str:
    if key == "compiled":
        return "compiled" if value else "not compiled"
    words = "not said" if value is None else str(value)
    return words if key in ("runtime", "layout", "mode", "scenario") else f"{TELLING.get(key, 'run')} {words}"


def _times_faster(row: Row, baseline: Row) -> float | None:
    """Return the ratio of the latencies, as the ranked answers do, or of the throughputs where one is unknown."""
    if row.get("latency_ms") and baseline.get("latency_ms"):
        return float(baseline["latency_ms"] / row["latency_ms"])
    if row.get("throughput_per_s") and baseline.get("throughput_per_s"):
        return float(row["throughput_per_s"] / baseline["throughput_per_s"])
    return None


def against_cpu(found: Sequence[Row]) -> list[dict[str, Any]]:
    """Add to each row how often it does the work of plain CPU: fp32, not compiled, the same batch and lengths.

    The baseline is measured, by one of our runs or somebody's; without one, or where no batch was said, the factor is
    missing.
    """
    baselines: dict[Any, Row] = {}
    for row in found:
        plain = row.get("platform") == "cpu" and row.get("precision") == "fp32" and not row.get("compiled")
        if plain and row.get("basis") in EVIDENCE and row.get("throughput_per_s"):
            baselines.setdefault(_work(row), row)
    told = []
    for row in found:
        baseline = baselines.get(_work(row)) if row.get("batch_size") else None
        ratio = None if baseline is None else _times_faster(row, baseline)
        low, high = (None, None) if baseline is None else ratios.of(baseline, row, *LATENCY[:3])[1:]
        itself = row is baseline
        told.append({**row, SPEEDUP.key: row.get(SPEEDUP.key) or ratio, SPEEDUP.low: None if itself else low,
                     SPEEDUP.high: None if itself else high,
                     "baseline": None if baseline is None else name_of(baseline)})  # fmt: skip
    return told


def sentence(found: Sequence[Row], metric: Metric) -> str:
    """Say which row is best and by how much over the next that its interval does not reach.

    Latencies are compared at one batch: a call of one item is always shorter than a call of many.
    """
    best = found[0]
    scale = metric.scale([best.get(metric.key)])
    words = f"{name_of(best)}: {scale.show(best[metric.key], best.get(metric.low), best.get(metric.high))}"
    words += f" ({badge(best.get('basis'), best.get('origin'))})"
    others = [row for row in found[1:] if metric is not LATENCY or row.get("batch_size") == best.get("batch_size")]
    for other in others:
        if apart(best, other, metric):
            return f"{words}, {_by(best[metric.key], other[metric.key], metric)} than {name_of(other)}"
    return f"{words}; the others cannot be told apart from it" if others else words


def _by(best: float, other: float, metric: Metric) -> str:
    """Write how much better: of a time or a rate how much faster, of an amount which part of the other is saved."""
    less = _LESS.get(metric)
    if less is not None:
        return f"{numbers.share(1 - best / other)} {less}"
    return numbers.change(other / best if metric.better.startswith("smaller") else best / other if other else None)


def apart(first: Row, other: Row, metric: Metric) -> bool:
    """Say whether two rows' intervals do not meet; a row without an interval is its value alone."""
    ends = []
    for row in (first, other):
        low, high = row.get(metric.low), row.get(metric.high)
        ends.append((row[metric.key] if low is None else low, row[metric.key] if high is None else high))
    return bool(ends[0][1] < ends[1][0] or ends[1][1] < ends[0][0])


def table(found: Sequence[Row], metric: Metric) -> Styler:
    """Return the comparison as a table: value, interval, n, factor over plain CPU, basis."""
    scale = metric.scale([row.get(metric.key) for row in found])
    value = f"{metric.title} {scale.unit}"
    figures = {
        value: [scale.of(row.get(metric.key)) for row in found],
        "low": [scale.of(row.get(metric.low)) for row in found],
        "high": [scale.of(row.get(metric.high)) for row in found],
        "vs plain CPU ×": [row.get(SPEEDUP.key) for row in found],
    }
    if metric is SPEEDUP or all(row.get("subject") for row in found):
        # The first says it already; among models there is no one row of plain CPU to stand beside.
        figures.pop("vs plain CPU ×")
    named = {
        _HEADS[bool(found and found[0].get("subject"))]: [
            str(row.get("subject") or hardware_words(row, str(row.get("hardware") or numbers.MISSING))) for row in found
        ],
        "Platform": [str(row.get("platform") or numbers.MISSING) for row in found],
        "Precision": [str(row.get("precision") or numbers.MISSING) for row in found],
        "Batch": pd.Series([row.get("batch_size") for row in found], dtype="Int64"),
        "Load": [arrivals(row) or numbers.MISSING for row in found],
    }
    if not any(arrivals(row) for row in found):
        named.pop("Load")
    rests = {
        "n": pd.Series([row.get("n") for row in found], dtype="Int64"),
        "Basis": [badge(row.get("basis"), row.get("origin")) for row in found],
        "Verdict": [str(_verdict(row, metric) or numbers.MISSING) for row in found],
        "Baseline": [str(row.get("baseline") or numbers.MISSING) for row in found],
        "Evidence": [evidence.path_of(row) for row in found],
    }
    if not any(row.get("baseline") for row in found):
        rests.pop("Baseline")
    floats = {head: pd.Series(values, dtype="float64") for head, values in figures.items()}
    frame = pd.DataFrame({**named, **floats, **rests})
    return frame.style.format(dict.fromkeys(floats, numbers.significant), na_rep=numbers.MISSING)


def _verdict(row: Row, metric: Metric) -> Any:
    """The verdict on a metric: energy has its own."""
    return row.get("energy_verdict" if metric in (ENERGY, TOKEN_ENERGY) else "verdict")


def _passes(row: Row, asked: Comparison) -> bool:
    return (
        row.get("mode") in (asked.mode, None)
        and (not asked.platform or row.get("platform") in asked.platform)
        and (not asked.precision or row.get("precision") in asked.precision)
        and (asked.batch is None or row.get("batch_size") == asked.batch)
    )


def _work(row: Row) -> tuple[Any, ...]:
    return tuple(
        row.get(key)
        for key in ("mode", "batch_size", "sequence_length", "image_size", "concurrency", "arrival_rate_per_s")
    )
