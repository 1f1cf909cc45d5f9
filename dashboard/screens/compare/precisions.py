"""Precisions of one model on one hardware: how much faster and smaller than fp32, and whether the outputs are still right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
from pandas.io.formats.style import Styler

from dashboard import evidence, ratios
from dashboard.differences import EVIDENCE
from dashboard.ranking import completed
from dashboard.screens.compare import query
from dashboard.work import estimated, most_frequent, most_measured, work_of
from presentation import formatting, loads
from presentation.charts import LATENCY, MEMORY, Metric, Row, name_of
from presentation.palette import badge

__all__ = ["LESS_MEMORY", "SPEED", "Precisions", "beside_fp32", "find", "output_check", "sentence", "table"]

SPEED = Metric(
    "speed_ratio",
    "speed_ratio_low",
    "speed_ratio_high",
    "Speed against fp32",
    lambda _: formatting.Scale("×", 1.0),
    "larger is better",
)
LESS_MEMORY = Metric(
    "memory_ratio",
    "memory_ratio_low",
    "memory_ratio_high",
    "Peak memory against fp32",
    lambda _: formatting.Scale("×", 1.0),
    "smaller is better",
)
_METHOD = ("platform", "compiled", "concurrency", "arrival_rate_per_s")
"""What a row has to share with the fp32 that it stands beside: under another load a call takes another time."""


class Precisions(NamedTuple):
    """Rows of one model on one hardware at one batch and work, and why none is predicted where none is."""

    rows: list[dict[str, Any]]
    batch: int
    unpredicted: str | None
    other_work: int
    """Rows of the hardware that were left out because they did other work."""


def find(model: str, hardware: str, mode: str, batch: int | None, position: int) -> Precisions:
    """Return what was measured, at the batch asked for or the most frequent one, and estimates of what was not."""
    seen = query.of_model(model, mode, position, hardware=hardware)["rows"]
    size = batch or most_frequent(seen, "batch_size") or 1
    at_size = [row for row in seen if row.get("batch_size") == size]
    work = most_measured(at_size or seen)
    measured = [completed(row) for row in at_size if work_of(row) == work]
    document = estimated(model, [hardware], mode, [size], work, position)
    checks = {
        (row["platform"], row["precision"]): row.get("output_error") for row in (*document.rows, *document.measured)
    }
    existing = {(*_method(row), row["precision"]) for row in measured}
    guessed = [row for row in document.rows if (*_method(row), row["precision"]) not in existing]
    rows = [
        {**row, "output_error": row.get("output_error") or checks.get((row["platform"], row["precision"]))}
        for row in (*measured, *guessed)
    ]
    return Precisions(beside_fp32(rows), size, document.unpredicted, len(seen) - len(measured))


def beside_fp32(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Add to each row its speed and memory over fp32 on the same platform, compiled alike, under the same load; evidence is preferred."""
    baselines: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: row.get("basis") not in EVIDENCE):
        if row.get("precision") == "fp32":
            baselines.setdefault(_method(row), row)
    result = []
    for row in rows:
        base = baselines.get(_method(row), {})
        speed = ratios.of(base, row, LATENCY.key, LATENCY.low, LATENCY.high)
        memory = ratios.of(row, base, MEMORY.key, MEMORY.low, MEMORY.high)
        result.append(
            {
                **row,
                **dict(zip((SPEED.key, SPEED.low, SPEED.high), speed, strict=True)),
                **dict(zip((LESS_MEMORY.key, LESS_MEMORY.low, LESS_MEMORY.high), memory, strict=True)),
                "baseline": name_of(base) if base else None,
            }
        )
    named = [{**row, "named": _named(row)} for row in result]
    return sorted(named, key=lambda row: (str(row.get("platform")), row[LATENCY.key] or float("inf")))


def _named(row: Row) -> str:
    words = [str(row.get("platform")), str(row.get("precision")), *["compiled"] * bool(row.get("compiled"))]
    return " · ".join(filter(None, [*words, loads.arrivals(row)]))


def _method(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(key) or False for key in _METHOD)


def output_check(row: Row) -> str:
    """Say in words how the outputs in this precision came out where somebody verified them."""
    error: Mapping[str, Any] | None = row.get("output_error")
    if not error:
        return "not verified"
    right = error.get("outcome") == "passed"
    return "✓ right" if right else f"≠ {error.get('outcome') or 'not right'}"


def sentence(rows: Sequence[Row]) -> str:
    """Say which precision is fastest against fp32 and what it costs in correctness; whether that is decided."""
    compared = [row for row in rows if row.get(SPEED.key) and row.get("precision") != "fp32"]
    if not compared:
        return "Nothing stands beside fp32 here"
    measured = [row for row in compared if row.get("basis") in EVIDENCE]
    best = max(measured or compared, key=lambda row: row[SPEED.key])
    ratio = ratios.Ratio(best[SPEED.key], best.get(SPEED.low), best.get(SPEED.high))
    where = " · ".join(filter(None, [str(best["platform"]), loads.arrivals(best)]))
    parts = [f"{best['precision']} on {where}: {_speed_words(ratio)}"]
    if best.get(LESS_MEMORY.key):
        parts.append(f"{formatting.share(best[LESS_MEMORY.key])} of its memory")
    return f"{', '.join(parts)} ({badge(best.get('basis'), best.get('origin'))}); outputs {output_check(best)}"


def _speed_words(ratio: ratios.Ratio) -> str:
    if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        return "cannot be told apart from fp32"
    return f"{formatting.change(ratio.value)} than fp32"


def table(rows: Sequence[Row]) -> Styler:
    """Return each precision with latency, memory, both over fp32, and its output errors."""
    time = formatting.latency_scale([row.get(LATENCY.key) for row in rows])
    size = formatting.memory_scale([row.get(MEMORY.key) for row in rows])
    errors = [row.get("output_error") or {} for row in rows]
    figures = {
        f"Latency {time.unit}": [time.of(row.get(LATENCY.key)) for row in rows],
        "Speed vs fp32 ×": [row.get(SPEED.key) for row in rows],
        f"Memory {size.unit}": [size.of(row.get(MEMORY.key)) for row in rows],
        "Memory vs fp32 ×": [row.get(LESS_MEMORY.key) for row in rows],
    }
    floats = {head: pd.Series(values, dtype="float64") for head, values in figures.items()}
    frame = pd.DataFrame(
        {
            "Platform": [str(row.get("platform")) for row in rows],
            "Precision": [str(row.get("precision") or formatting.MISSING) for row in rows],
            "Compiled": ["yes" if row.get("compiled") else "no" for row in rows],
            "Load": [loads.arrivals(row) or formatting.MISSING for row in rows],
            **floats,
            "Output cosine": pd.Series([error.get("cosine") for error in errors], dtype="float64"),
            "Largest output error": pd.Series([error.get("max_absolute") for error in errors], dtype="float64"),
            "n": pd.Series([row.get("n") for row in rows], dtype="Int64"),
            "Basis": [badge(row.get("basis"), row.get("origin")) for row in rows],
            "Verdict": [str(row.get("verdict") or formatting.MISSING) for row in rows],
            "Evidence": [evidence.path_of(row) for row in rows],
        }
    )
    frame.insert(5, f"Interval {time.unit}", [_interval(row, time) for row in rows])
    frame.insert(7, "Against fp32", [_against(row) for row in rows])
    frame.insert(8, "Outputs", [output_check(row) for row in rows])
    if (frame["Load"] == formatting.MISSING).all():
        frame = frame.drop(columns="Load")
    formats: dict[Any, Any] = dict.fromkeys(floats, formatting.significant)
    formats["Largest output error"] = formatting.significant
    formats["Output cosine"] = lambda value: formatting.significant(value, 6)
    return frame.style.format(formats, na_rep=formatting.MISSING)


def _interval(row: Row, time: formatting.Scale) -> str:
    low, high = row.get(LATENCY.low), row.get(LATENCY.high)
    return formatting.interval(low, high, time, value=row.get(LATENCY.key), unit=False)


def _against(row: Row) -> str:
    return ratios.words(ratios.Ratio(row.get(SPEED.key), row.get(SPEED.low), row.get(SPEED.high)))
