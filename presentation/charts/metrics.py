"""What a chart shows of a row: which metric, and under which name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from presentation import formatting, loads

__all__ = [
    "COMPARED",
    "COST",
    "ENERGY",
    "LATENCY",
    "MEMORY",
    "METRICS",
    "SPEEDUP",
    "THROUGHPUT",
    "TOKEN_ENERGY",
    "Metric",
    "Row",
    "name_of",
]

Row = Mapping[str, Any]


class Metric(NamedTuple):
    """One thing that a chart shows: its key in a row, the keys of its interval, its words and its direction."""

    key: str
    low: str
    high: str
    title: str
    scale: Callable[[Sequence[float | None]], formatting.Scale]
    better: str


LATENCY = Metric(
    "latency_ms", "latency_ms_low", "latency_ms_high", "Latency", formatting.latency_scale, "smaller is better"
)
THROUGHPUT = Metric(
    "throughput_per_s",
    "throughput_per_s_low",
    "throughput_per_s_high",
    "Throughput",
    formatting.throughput_scale,
    "larger is better",
)
MEMORY = Metric(
    "peak_memory_bytes",
    "peak_memory_bytes_low",
    "peak_memory_bytes_high",
    "Peak memory",
    formatting.memory_scale,
    "smaller is better",
)
COST = Metric(
    "usd_per_million",
    "usd_per_million_low",
    "usd_per_million_high",
    "Cost of a million items",
    lambda _: formatting.Scale("$", 1.0),
    "smaller is better",
)
ENERGY = Metric(
    "energy_per_item_j",
    "energy_per_item_j_low",
    "energy_per_item_j_high",
    "Energy of an item",
    formatting.energy_scale,
    "smaller is better",
)
TOKEN_ENERGY = Metric(
    "energy_per_token_j",
    "energy_per_token_j_low",
    "energy_per_token_j_high",
    "Energy of a token",
    formatting.energy_scale,
    "smaller is better",
)
SPEEDUP = Metric(
    "speedup_over_cpu",
    "speedup_over_cpu_low",
    "speedup_over_cpu_high",
    "Speed against plain CPU",
    lambda _: formatting.Scale("×", 1.0),
    "larger is better",
)
METRICS = {"latency": LATENCY, "throughput": THROUGHPUT, "memory": MEMORY, "cost": COST, "energy": ENERGY}
COMPARED = {**METRICS, "speedup": SPEEDUP, "energy_token": TOKEN_ENERGY}
"""What rows are compared by: the same, the ratio of two of them, and what only generation has."""


def name_of(row: Row) -> str:
    """Name one option in the order in which all pages do: hardware, platform, precision, batch.

    Where models are put side by side, a row carries its model as `subject`, which stands in the place of the hardware; a
    row that is shown under a shorter name carries that as `named`. What else tells it from a row of the same name
    follows, where a row carries it as `distinct`.
    """
    if row.get("named"):
        return str(row["named"])
    parts = [
        str(row.get("subject") or loads.hardware_words(row, str(row.get("hardware") or "unknown hardware"))),
        str(row.get("platform") or "unknown platform"),
    ]
    parts.append(str(row["precision"]) if row.get("precision") else "precision unknown")
    # What is served batches as it likes: the load tells one option from another.
    parts.append(loads.batch_words(row))
    if row.get("distinct"):
        parts.append(str(row["distinct"]))
    return " · ".join(parts)
