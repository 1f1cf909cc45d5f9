"""What the Trends page asks of the service, and what got worse over the last days."""

from __future__ import annotations

from typing import Any

from dashboard.service import checked, client, kept

__all__ = ["POINTS", "lines", "regressions"]

POINTS = 500
"""Points of a line that cross, the newest; each line says how many there are."""


@kept(max_entries=32)
def lines(request: dict[str, Any], position: int) -> dict[str, Any]:
    """Return lines of a model by configuration, with `limit` the newest points of each, with `top` those with the most points."""
    return checked(dict(client().trends(as_of=position, **request)), "lines", "better")


@kept(max_entries=16)
def regressions(days: float, position: int, limit: int = 100) -> dict[str, Any]:
    """Return what got worse in the last days before the newest event: `changes`, `turns`, `environments` and `counts`."""
    answer = client().regressions(days=days, as_of=position, limit=limit)
    return checked(dict(answer), "changes", "turns", "environments", "counts")
