"""How often a measurement does the work of plain CPU: fp32, not compiled, at the same batch, lengths and load."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["baselines", "times_faster", "work_of"]

Row = Mapping[str, Any]
Work = tuple[Any, ...]
_WORK = ("mode", "batch_size", "sequence_length", "image_size", "concurrency", "arrival_rate_per_s")
_EVIDENCE = ("measured", "imported")


def work_of(row: Row) -> Work:
    """Return what a row did: two rows are put against each other only where it is the same."""
    return tuple(map(row.get, _WORK))


def baselines(rows: Iterable[Row]) -> dict[Work, Row]:
    """Return by work the first row of plain CPU among `rows`, the fastest where they are ordered so; estimates are none.

    Where no batch was said there is no work to compare.
    """
    baselines: dict[Work, Row] = {}
    for row in rows:
        plain = row.get("platform") == "cpu" and row.get("precision") == "fp32" and not row.get("compiled")
        if plain and row.get("basis") in _EVIDENCE and row.get("throughput_per_s") and row.get("batch_size"):
            baselines.setdefault(work_of(row), row)
    return baselines


def times_faster(row: Row, baseline: Row | None) -> float | None:
    """Return the ratio of the latencies, or of the throughputs where one is unknown; None without a baseline."""
    if baseline is None:
        return None
    if row.get("latency_ms") and baseline.get("latency_ms"):
        return float(baseline["latency_ms"] / row["latency_ms"])
    if row.get("throughput_per_s") and baseline.get("throughput_per_s"):
        return float(row["throughput_per_s"] / baseline["throughput_per_s"])
    return None
