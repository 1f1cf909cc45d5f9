"""What the overview asks: counts by the service, never rows."""

from __future__ import annotations

from typing import Any

from dashboard.service import checked, client, kept

__all__ = ["at_a_glance", "gaps"]


@kept(max_entries=4)
def at_a_glance(position: int) -> dict[str, Any]:
    """Return coverage by family and platform, freshness by day, and what fails most."""
    return checked(dict(client().overview(as_of=position)), "cells", "days", "failing")


@kept(max_entries=4)
def gaps(position: int) -> list[dict[str, Any]]:
    """Return the largest gaps of the catalogue, each with a command that begins to fill it."""
    return [dict(row) for row in client().gaps(as_of=position)]
