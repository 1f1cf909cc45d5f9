"""Precisions of one model on one hardware: how much faster and smaller than fp32, and whether the outputs are still right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dashboard import evidence, ratios
from dashboard.differences import EVIDENCE
from dashboard.ranking import completed
from dashboard.screens.compare import query
from dashboard.tables.result_table import Column, filled
from dashboard.work import Work, estimated, most_frequent, most_measured, work_of
from presentation import formatting, loads
from presentation.answer_words import device_name, evidence_words, software_names
from presentation.charts import LATENCY, MEMORY, Metric, Row, name_of

__all__ = ["LESS_MEMORY", "SPEED", "Precisions", "beside_fp32", "columns", "find", "output_check", "sentence"]

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
_CELL = ("hardware", "hardware_count", "platform", "compiled", "concurrency", "arrival_rate_per_s")
_METHOD = (*_CELL, "software")
"""What a row has to share with the fp32 that it stands beside: in other software or under another load a call takes another time."""


class Precisions(NamedTuple):
    """Rows of one model on some hardware at one batch and work, and why none is predicted where none is."""

    rows: list[dict[str, Any]]
    batch: int
    unpredicted: str | None
    other_work: int
    """Rows of the hardware that were left out because they did other work."""
    slower: list[Row]
    """Precisions that are slower than fp32 at this batch and length."""


def find(
    model: str, hardware: Sequence[str], mode: str, batch: int | None, length: int | None, position: int
) -> Precisions:
    """Return what was measured, at the batch and length asked for or the most frequent ones, and estimates of what was not."""
    known = query.of_model(model, mode, position, hardware=",".join(hardware))
    seen = known["rows"]
    of_length = [row for row in seen if length in (None, row.get("sequence_length"))]
    size = batch or most_frequent(of_length, "batch_size") or 1
    at_size = [row for row in of_length if row.get("batch_size") == size]
    work = Work(length) if length else most_measured(at_size or seen)
    measured = [completed(row) for row in at_size if work_of(row) == work]
    document = estimated(model, hardware, mode, [size], work, position)
    checks = {_verified(row): row.get("output_error") for row in (*document.rows, *document.measured)}
    existing = {(*_method(row, _CELL), row["precision"]) for row in measured}
    guessed = [row for row in document.rows if (*_method(row, _CELL), row["precision"]) not in existing]
    rows = [
        {**row, "output_error": row.get("output_error") or checks.get(_verified(row))} for row in (*measured, *guessed)
    ]
    slower = [
        item
        for item in known.get("slower_precisions") or ()
        if item["batch_size"] == size and length in (None, item["sequence_length"])
    ]
    return Precisions(_fastest(beside_fp32(rows)), size, document.unpredicted, len(seen) - len(measured), slower)


def _fastest(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return of rows of one name the fastest; they are by rising latency."""
    first: dict[str, dict[str, Any]] = {}
    for row in rows:
        first.setdefault(row["named"], row)
    return list(first.values())


def beside_fp32(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Add to each row its speed and memory over fp32 on the same platform, compiled alike, under the same load; evidence is preferred."""
    rows = [{**row, "software": _software(row)} for row in rows]
    baselines: dict[Any, Row] = {}
    of_cell: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: row.get("basis") not in EVIDENCE):
        if row.get("precision") == "fp32":
            baselines.setdefault(_method(row), row)
            of_cell.setdefault(_method(row, _CELL), row)
    result = []
    for row in rows:
        base = baselines.get(_method(row), {})
        if row.get("basis") not in EVIDENCE:
            base = of_cell.get(_method(row, _CELL), {})
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
    several = len({row.get("hardware") for row in result}) > 1
    names = software_names((row.get("platform"), row.get("software"), row.get("browser")) for row in result)
    named = [{**row, "named": _named(row, name, device=several)} for row, name in zip(result, names, strict=True)]
    return sorted(
        named, key=lambda row: (str(row.get("hardware")), str(row.get("platform")), row[LATENCY.key] or float("inf"))
    )


def _verified(row: Row) -> tuple[Any, ...]:
    return row["hardware"], row["platform"], row["precision"]


def _software(row: Row) -> str:
    """The runtime without its version, and the browser."""
    return " ".join(filter(None, [str(row.get("runtime") or "").partition(" ")[0], row.get("browser")]))


def _named(row: Row, software: str | None, *, device: bool) -> str:
    words = [device_name(str(row["hardware"]))] * device
    words += [str(row.get("platform")), software or ""]
    words += [str(row.get("precision")), *["compiled"] * bool(row.get("compiled"))]
    return " · ".join(filter(None, [*words, loads.arrivals(row)]))


def _method(row: Row, keys: Sequence[str] = _METHOD) -> tuple[Any, ...]:
    return tuple(row.get(key) or False for key in keys)


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
        return "Nothing was measured in fp32 here to compare with"
    measured = [row for row in compared if row.get("basis") in EVIDENCE]
    best = max(measured or compared, key=lambda row: row[SPEED.key])
    ratio = ratios.Ratio(best[SPEED.key], best.get(SPEED.low), best.get(SPEED.high))
    devices = {row.get("hardware") for row in rows}
    device = device_name(str(best["hardware"])) if len(devices) > 1 else None
    where = " · ".join(filter(None, [device, str(best["platform"]), loads.arrivals(best)]))
    parts = [f"{best['precision']} on {where}: {_speed_words(ratio)}"]
    if best.get(LESS_MEMORY.key):
        parts.append(f"{formatting.share(best[LESS_MEMORY.key])} of its memory")
    return f"{', '.join(parts)} ({evidence_words(best.get('basis'), best.get('origin'))}); outputs {output_check(best)}"


def _speed_words(ratio: ratios.Ratio) -> str:
    if ratio.low is not None and ratio.high is not None and ratio.low <= 1 <= ratio.high:
        return "too close to call against fp32"
    return f"{formatting.change(ratio.value)} than fp32"


def columns(rows: Sequence[Row]) -> list[Column]:
    """Return each precision with its speed and memory over fp32, whether its outputs are right, and its latency."""
    ratio = [ratios.Ratio(row.get(SPEED.key), row.get(SPEED.low), row.get(SPEED.high)) for row in rows]
    errors = [row.get("output_error") or {} for row in rows]
    latency = [[row.get(key) for row in rows] for key in LATENCY[:3]]
    time, size = LATENCY.scale(latency[0]), MEMORY.scale([row.get(MEMORY.key) for row in rows])
    memory = [row.get(MEMORY.key) for row in rows]
    less = [row.get(LESS_MEMORY.key) for row in rows]
    drawn = [
        Column(
            head="Precision",
            values=[str(row["named"]) for row in rows],
            links=[evidence.about("hardware", str(row["hardware"])) for row in rows],
        ),
        Column(
            head="Speed over fp32",
            values=[each.value for each in ratio],
            shown=[formatting.factor(each.value) for each in ratio],
            low=[each.low for each in ratio],
            high=[each.high for each in ratio],
        ),
        Column(head="Against fp32", values=[ratios.words(each) for each in ratio]),
        Column(
            head="Outputs", values=[output_check(row) for row in rows], help="Beside fp32 on the CPU, by assay verify"
        ),
        Column(
            head="Latency",
            values=latency[0],
            shown=[time.show(*each) for each in zip(*latency, strict=True)],
        ),
        Column(head="Memory", values=memory, shown=[size.show(value) for value in memory]),
        Column(head="Memory over fp32", values=less, shown=[formatting.factor(value) for value in less]),
        Column(
            head="Output cosine",
            values=[error.get("cosine") for error in errors],
            shown=[formatting.significant(error.get("cosine"), 6) for error in errors],
        ),
        Column(head="Largest output error", values=[error.get("max_absolute") for error in errors]),
        Column(head="n", values=[row.get("n") for row in rows]),
        evidence.source_column(rows),
        Column(head="Verdict", values=[row.get("verdict") for row in rows]),
    ]
    return filled(drawn)
