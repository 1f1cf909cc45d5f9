"""The best measurement of each device or of each model: how they are ordered, the headline, and the table of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, cast

from dashboard import evidence
from dashboard.ranking import completed
from dashboard.screens.recommend.words import RankedRow
from dashboard.tables.result_table import Column
from domain.vocabulary import NO_EVIDENCE
from presentation import formatting
from presentation.answer_words import evidence_words, short_name
from presentation.loads import arrivals, batch_words, hardware_words
from presentation.palette import basis_mark

__all__ = [
    "best_of_each",
    "columns",
    "how_known",
    "how_run",
    "known_words",
    "same_work_first",
    "size_words",
    "speed_words",
]

Subject = Literal["hardware", "model"]
_SIZES = ("sequence length", "image size")
"""What `_size` returns, in words."""
MEAN = "†"
"""It marks a mean where no median is known."""
_PER_SECOND = formatting.Scale("/s", 1.0)


class MeasuredRow(RankedRow, total=False):
    """A measured configuration; `unit` is that of its throughput, items a second where nothing is said."""

    model: str
    unit: str
    verdict: str | None
    sequence_length: int | None
    image_size: int | None


def best_of_each(rows: Iterable[Mapping[str, Any]], of: Subject) -> list[MeasuredRow]:
    """Return the fastest row of each subject and number of devices, the fastest for one device first.

    Rows without a throughput, invalid rows and simulated rows are left out.
    """
    usable = [
        cast("MeasuredRow", completed(row))
        for row in rows
        if row.get("throughput_per_s") and row.get("verdict") != "invalid" and row.get("origin") not in NO_EVIDENCE
    ]
    first: dict[tuple[str, int], MeasuredRow] = {}
    for row in sorted(usable, key=_each, reverse=True):
        first.setdefault((str(row[of]), _count(row)), row)
    return list(first.values())


def same_work_first(rows: Sequence[MeasuredRow]) -> tuple[list[MeasuredRow], list[MeasuredRow]]:
    """Return the rows of the size that was measured on most devices, and the rows of other sizes, each in their order."""
    counts = Counter(map(_size, rows))
    common = max(counts, key=lambda size: counts[size], default=())
    return [row for row in rows if _size(row) == common], [row for row in rows if _size(row) != common]


def size_words(row: MeasuredRow) -> str:
    """Return the size of an item, `sequence length 128`; empty where none is known."""
    return ", ".join(f"{words} {size}" for words, size in zip(_SIZES, _size(row), strict=True) if size is not None)


def speed_words(row: MeasuredRow) -> str:
    """Return a row's throughput with its interval, `40.1 items/s (39.9–40.6)`."""
    unit = str(row.get("unit") or "items/s")
    return _with_interval(formatting.Scale(unit, 1.0), *_speed(row))


def how_run(row: MeasuredRow) -> str:
    """Return how a row was run: `cuda · int8 · batch 64`."""
    return " · ".join([str(row["platform"]), _precision(row) or "precision unknown", batch_words(row)])


def known_words(basis: str | None, origin: str | None = None) -> str:
    """Return how a figure is known with its mark: `● measured`, `○ imported`, `▷ estimate`."""
    return f"{basis_mark(basis).glyph} {evidence_words(basis, origin)}"


def how_known(row: MeasuredRow) -> str:
    """Return how a row is known, with its samples or that there is no interval: `● measured, n 22`."""
    parts = [known_words(row.get("basis"), row.get("origin"))]
    parts += [f"n {formatting.count(row['n'])}"] if row.get("n") is not None else []
    parts += ["no interval"] if row.get("throughput_per_s_low") is None else []
    return ", ".join(parts)


def columns(rows: Sequence[MeasuredRow], of: Subject) -> list[Column]:
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
            head="Tokens/s" if any(row.get("unit") == "tokens/s" for row in rows) else "Items/s",
            values=[value for value, _, _ in speeds],
            shown=[_rate(*speed) for speed in speeds],
            low=[low for _, low, _ in speeds],
            high=[high for _, _, high in speeds],
            help="Throughput, with the 95 % interval where one was measured",
        ),
        *_per_device(rows),
        *_latency(rows),
        Column(head="Precision", values=[_precision(row) for row in rows]),
        *_batches(rows),
        *_sizes(rows),
        Column(head="Platform", values=[row.get("platform") for row in rows]),
        Column(
            head="Known",
            values=[known_words(row.get("basis"), row.get("origin")) for row in rows],
            links=[evidence.path_of(row) for row in rows],
            help="How the figure is known; it leads to the measurement",
        ),
    ]


def _per_device(rows: Sequence[MeasuredRow]) -> list[Column]:
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


def _latency(rows: Sequence[MeasuredRow]) -> list[Column]:
    values = [row.get("latency_ms") for row in rows]
    if not any(value is not None for value in values):
        return []
    scale = formatting.latency_scale(values)
    means = [MEAN if row.get("latency_is_mean") and row.get("latency_ms") is not None else "" for row in rows]
    words = [formatting.significant(scale.of(value)) for value in values]
    return [
        Column(
            head=f"Latency {scale.unit}",
            values=values,
            shown=[f"{value} {mean}".strip() for value, mean in zip(words, means, strict=True)],
            help=f"Of one call; {MEAN} marks a mean where no median is known",
        )
    ]


def _sizes(rows: Sequence[MeasuredRow]) -> list[Column]:
    """Return a column for each size in which the rows differ."""
    sizes = zip(_SIZES, zip(*map(_size, rows), strict=True), strict=True) if rows else ()
    return [Column(head=words.capitalize(), values=values) for words, values in sizes if len(set(values)) > 1]


def _batches(rows: Sequence[MeasuredRow]) -> list[Column]:
    """Return the batch and the load, whichever some row has."""
    batches, loads = [row.get("batch_size") for row in rows], [arrivals(row) for row in rows]
    columns = [Column(head="Load", values=loads)] if any(loads) else []
    return [Column(head="Batch", values=batches), *columns] if any(batches) or not columns else columns


def _precision(row: MeasuredRow) -> str | None:
    precision = row.get("precision")
    return None if precision == "unknown" else precision


def _name(row: MeasuredRow, of: Subject) -> str:
    if of == "model":
        name, count = str(row["model"]), _count(row)
        return f"{name}, {count} devices" if count > 1 else name
    return hardware_words(row, short_name(str(row["hardware"]), row.get("hardware_count")))


def _rate(value: float, low: float | None = None, high: float | None = None) -> str:
    """Write a throughput without its unit, which the column's head says."""
    return _with_interval(_PER_SECOND, value, low, high).replace(_PER_SECOND.unit, "")


def _with_interval(scale: formatting.Scale, value: float, low: float | None, high: float | None) -> str:
    """Write a value with its interval, and without one that is narrower than the figures shown."""
    words = scale.show(value, low, high)
    ends = words.partition(" (")[2].removesuffix(")").split(formatting.DASH)
    return scale.show(value) if len(ends) > 1 and ends[0] == ends[1] else words


def _speed(row: MeasuredRow) -> tuple[float, float | None, float | None]:
    return _rated(row), row.get("throughput_per_s_low"), row.get("throughput_per_s_high")


def _rated(row: MeasuredRow) -> float:
    value = row["throughput_per_s"]
    assert value is not None
    return value


def _each(row: MeasuredRow) -> float:
    """Return the throughput of one of the devices."""
    return _rated(row) / _count(row)


def _count(row: MeasuredRow) -> int:
    return row.get("hardware_count") or 1


def _size(row: MeasuredRow) -> tuple[int | None, ...]:
    return row.get("sequence_length"), row.get("image_size")
