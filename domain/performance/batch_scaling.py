"""Lines of one model over the batch: rows that differ in nothing but the batch, of each batch the fastest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

__all__ = ["grouped", "most_batches", "most_frequent_work"]

Row = TypeVar("Row", bound=Mapping[str, Any])
_METHOD = (
    "hardware",
    "hardware_count",
    "platform",
    "precision",
    "compiled",
    "runtime",
    "runtime_version",
    "threads",
    "scenario",
    "concurrency",
    "arrival_rate_per_s",
)
_EVIDENCE = ("measured", "imported")
_WORK = ("sequence_length", "image_size")


def most_frequent_work(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the sizes beside the batch that most rows have; without rows, none."""
    counted = Counter(tuple(row.get(key) for key in _WORK) for row in rows)
    return dict(zip(_WORK, counted.most_common(1)[0][0] if counted else (None, None), strict=True))


def grouped(rows: Sequence[Row]) -> list[list[Row]]:
    """Return the rows by how they were run, each line by rising batch; of one batch the one with the least latency."""
    result: dict[Any, dict[int, Row]] = {}
    for row in sorted(rows, key=lambda row: float(row["latency_ms"])):
        result.setdefault(tuple(row.get(key) for key in _METHOD), {}).setdefault(row["batch_size"], row)
    return [[points[batch] for batch in sorted(points)] for points in result.values()]


def most_batches(lines: Sequence[list[Row]], most: int) -> list[list[Row]]:
    """Return the lines with most batches that were measured, of those alike the ones with most throughput."""

    def weight(points: Sequence[Row]) -> tuple[int, float]:
        evidence = sum(point.get("basis") in _EVIDENCE for point in points)
        return -evidence, -max(float(point.get("throughput_per_s") or 0) for point in points)

    return sorted(lines, key=weight)[:most]
