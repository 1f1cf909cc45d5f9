"""The best measurement of each device or of each model: how they are ordered, the headline, and the table of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from dashboard import evidence
from dashboard.ranking import completed
from dashboard.tables.result_table import Column
from presentation import formatting
from presentation.answer_words import short_name
from presentation.charts import LATENCY, THROUGHPUT
from presentation.loads import arrivals, batch_words, hardware_words
from presentation.palette import badge

__all__ = ["best_of_each", "columns", "how_known", "how_run", "same_work_first", "size_words", "speed_words"]

Row = Mapping[str, Any]
Subject = Literal["hardware", "model"]
_SIZES = {"sequence_length": "sequence length", "image_size": "image size"}
MEAN = "†"
"""It marks a mean where no median is known."""
_PER_SECOND = formatting.Scale("/s", 1.0)


def best_of_each(rows: Iterable[Row], of: Subject) -> list[dict[str, Any]]:
    """Return the fastest row of each subject and number of devices, the fastest for one device first.

    Rows without a throughput, invalid rows and simulated rows are left out.
    """
    usable = [
        completed(row)
        for row in rows
        if row.get(THROUGHPUT.key) and row.get("verdict") != "invalid" and row.get("origin") != "simulated"
    ]
    first: dict[tuple[str, int], dict[str, Any]] = {}
    for row in sorted(usable, key=_each, reverse=True):
        first.setdefault((str(row[of]), _count(row)), row)
    return list(first.values())


def same_work_first(rows: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows of the size that was measured on most devices, and the rows of other sizes, each in their order."""
    counts = Counter(map(_size, rows))
    common = max(counts, key=lambda size: counts[size], default=())
    return [row for row in rows if _size(row) == common], [row for row in rows if _size(row) != common]


def size_words(row: Row) -> str:
    """Return the size of an item, `sequence length 128`; empty where none is known."""
    return ", ".join(f"{words} {row[name]}" for name, words in _SIZES.items() if row.get(name) is not None)


def speed_words(row: Row) -> str:
    """Return a row's throughput with its interval, `40.1 items/s (39.9–40.6)`."""
    unit = str(row.get("unit") or "items/s")
    return formatting.Scale(unit, 1.0).show(*_speed(row))


def how_run(row: Row) -> str:
    """Return how a row was run: `cuda · int8 · batch 64`."""
    return " · ".join([str(row["platform"]), str(row.get("precision") or "precision unknown"), batch_words(row)])


def how_known(row: Row) -> str:
    """Return what a row rests on, with its samples or that there is no interval: `● measured, n 22`."""
    parts = [badge(row.get("basis"), row.get("origin"))]
    parts += [f"n {formatting.count(row['n'])}"] if row.get("n") is not None else []
    parts += ["no interval"] if row.get(THROUGHPUT.low) is None else []
    return ", ".join(parts)


def columns(rows: Sequence[Row], of: Subject) -> list[Column]:
    """Return the table of such rows: the name leads to its page, what a row rests on to the row itself."""
    page = {"hardware": "hardware", "model": "models"}[of]
    speeds = [_speed(row) for row in rows]
    return [
        Column(
            head=of.capitalize(),
            values=[_name(row, of) for row in rows],
            links=[evidence.about(page, str(row[of])) for row in rows],
        ),
        Column(
            head="Items/s",
            values=[value for value, _, _ in speeds],
            shown=[_rate(*speed) for speed in speeds],
            low=[low for _, low, _ in speeds],
            high=[high for _, _, high in speeds],
            help="Throughput, with the 95 % interval where one was measured",
        ),
        *_per_device(rows),
        *_latency(rows),
        Column(head="Precision", values=[row.get("precision") for row in rows]),
        Column(head="Batch", values=[row.get("batch_size") for row in rows]),
        *_loads(rows),
        *_sizes(rows),
        Column(head="Platform", values=[row.get("platform") for row in rows]),
        Column(
            head="Known",
            values=[badge(row.get("basis"), row.get("origin")) for row in rows],
            links=[evidence.path_of(row) for row in rows],
            help="How the figure is known; it leads to the measurement",
        ),
    ]


def _per_device(rows: Sequence[Row]) -> list[Column]:
    if all(_count(row) == 1 for row in rows):
        return []
    values = [_each(row) for row in rows]
    return [
        Column(
            head="Per device",
            values=values,
            shown=[_rate(value) for value in values],
            help="Throughput over the number of devices",
        )
    ]


def _latency(rows: Sequence[Row]) -> list[Column]:
    values = [row.get(LATENCY.key) for row in rows]
    if not any(value is not None for value in values):
        return []
    scale = formatting.latency_scale(values)
    means = [MEAN if row.get("latency_is_mean") and row.get(LATENCY.key) is not None else "" for row in rows]
    words = [formatting.significant(scale.of(value)) for value in values]
    return [
        Column(
            head=f"Latency {scale.unit}",
            values=values,
            shown=[f"{value} {mean}".strip() for value, mean in zip(words, means, strict=True)],
            help=f"Of one call; {MEAN} marks a mean where no median is known",
        )
    ]


def _sizes(rows: Sequence[Row]) -> list[Column]:
    """Return a column for each size in which the rows differ."""
    found = {name: [row.get(name) for row in rows] for name in _SIZES}
    return [
        Column(head=_SIZES[name].capitalize(), values=values) for name, values in found.items() if len(set(values)) > 1
    ]


def _loads(rows: Sequence[Row]) -> list[Column]:
    values = [arrivals(row) for row in rows]
    return [Column(head="Load", values=values)] if any(values) else []


def _name(row: Row, of: Subject) -> str:
    if of == "model":
        name, count = str(row["model"]), _count(row)
        return f"{name}, {count} devices" if count > 1 else name
    return hardware_words(row, short_name(str(row["hardware"]), row.get("hardware_count")))


def _rate(value: float, low: float | None = None, high: float | None = None) -> str:
    """Write a throughput without its unit, which the column's head says."""
    return _PER_SECOND.show(value, low, high).replace(_PER_SECOND.unit, "")


def _speed(row: Row) -> tuple[float, float | None, float | None]:
    return row[THROUGHPUT.key], row.get(THROUGHPUT.low), row.get(THROUGHPUT.high)


def _each(row: Row) -> float:
    """Return the throughput of one of the devices."""
    return float(row[THROUGHPUT.key]) / _count(row)


def _count(row: Row) -> int:
    return row.get("hardware_count") or 1


def _size(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in _SIZES)
