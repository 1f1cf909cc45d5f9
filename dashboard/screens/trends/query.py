"""What the Trends page asks of the service, and what got worse over the last days."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dashboard.service import checked, client, kept
from domain.figures import FIGURES
from domain.history.history import HistoryReport

__all__ = ["ALERTS", "POINTS", "alerts_of", "figures_of", "lines", "regressions", "reports"]

POINTS = 500
"""Points of a line that cross, the newest; each line says how many there are."""


@kept(max_entries=32)
def lines(request: dict[str, Any], position: int) -> dict[str, Any]:
    """Return lines of a model by configuration, with `limit` the newest points of each, with `top` those with the most points."""
    return checked(dict(client().trends(as_of=position, **request)), "lines", "better")


ALERTS = 1000
"""Alerts that are looked through for those of a model."""


def figures_of(metric: str) -> tuple[str, ...]:
    """Return the figures whose histories a metric of this page has; none where nothing says which way is better."""
    names = ("latency_p50_ms", "latency_mean_ms") if metric == "latency_ms" else (metric,)
    return tuple(name for name in names if name in FIGURES and FIGURES[name].better != "neither")


@kept(max_entries=32)
def reports(
    model: str, alike: Sequence[str], figures: Sequence[str], origin: str, position: int
) -> list[HistoryReport]:
    """Return what was found in these histories of a model."""
    answer = client().regression_history(model=model, alike=alike, metric=figures, origins=[origin], as_of=position)
    return answer.reports


@kept(max_entries=16)
def alerts_of(model: str, position: int) -> dict[str, str]:
    """Return the ids of a model's alerts by their changes."""
    listed = client().alerts(model=model, limit=ALERTS, as_of=position).alerts
    return {change.id: alert.id for alert in reversed(listed) for change in alert.changes}


@kept(max_entries=16)
def regressions(days: float, position: int, limit: int = 100) -> dict[str, Any]:
    """Return what got worse in the last days before the newest event: `changes`, `turns`, `environments` and `counts`."""
    answer = client().regressions(days=days, as_of=position, limit=limit)
    return checked(dict(answer), "changes", "turns", "environments", "counts")
