"""Models on one hardware: the best of each first, cut by the service."""

from __future__ import annotations

from typing import Any, NamedTuple

from dashboard.address import Comparison
from dashboard.pages.compare import query
from dashboard.pages.compare.words import MOST, distinguished
from dashboard.ranking import completed
from presentation.charts import ENERGY, LATENCY, TOKEN_ENERGY, Metric

__all__ = ["OnHardware", "find"]


class OnHardware(NamedTuple):
    """Rows that have the metric, best first; how many configurations the hardware has under these filters."""

    rows: list[dict[str, Any]]
    total: int


def find(comparison: Comparison, metric: Metric, position: int) -> OnHardware:
    """Return what was measured or imported on a hardware, at most a hundred configurations, the best of each model first."""
    answer = query.models(
        comparison.hw, comparison.mode, ",".join(comparison.platform) or None, ",".join(comparison.precision) or None, comparison.batch, MOST,
        metric.key if metric in (ENERGY, TOKEN_ENERGY) else LATENCY.key, position,
    )  # fmt: skip
    rows = [{**completed(row), "subject": row["model"]} for row in answer["rows"] if row.get(metric.key) is not None]
    rows.sort(key=lambda row: float(row[metric.key]), reverse=metric.better.startswith("larger"))
    return OnHardware(distinguished(rows), int(answer["total"]))
