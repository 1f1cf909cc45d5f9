"""What the Compatibility page asks of the service."""

from __future__ import annotations

from typing import Any

from dashboard.service import checked, client, kept

__all__ = ["cells", "claims", "matrix", "measured"]

MOST_CELLS = 1000


@kept(max_entries=64)
def matrix(request: dict[str, Any], position: int) -> dict[str, Any]:
    """Return one page of the matrix: rows with their cells as `items`, and the totals of all that match."""
    answer = client().compatibility_matrix(as_of=position, **request)
    return checked(dict(answer), "items", "total", "platforms", "cells")


@kept(max_entries=64)
def cells(request: dict[str, Any], position: int) -> list[dict[str, Any]]:
    """Return what was seen of some models on a platform, one row a precision; a thousand at most."""
    return [dict(row) for row in client().compatibility(as_of=position, limit=MOST_CELLS, **request)]


@kept(max_entries=64)
def claims(platform: str, position: int) -> list[dict[str, Any]]:
    """Return what documents claim of a platform, beside what was seen."""
    return [dict(row) for row in client().claims(platform=platform, as_of=position)]


@kept(max_entries=64)
def measured(model: str, platform: str, hardware: str | None, position: int) -> list[dict[str, Any]]:
    """Return the best measurement of each configuration of a model on a platform, fastest an item first."""
    answer = client().compare_hardware(model, platform=platform, hardware=hardware, as_of=position)
    return list(checked(dict(answer), "rows")["rows"])
