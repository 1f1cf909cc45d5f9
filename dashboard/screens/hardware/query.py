"""What the Hardware page asks: a list, one device, its roofline, and what was tried on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashboard.service import KEPT, checked, client, kept

__all__ = ["listed", "one", "points", "roofline", "tried"]

DRAWN = [
    "model",
    "platform",
    "precision",
    "mode",
    "batch_size",
    "verdict",
    "origin",
    "runtime",
    "basis",
    "latency_ms",
    "latency_is_mean",
    "n",
    "flop_per_byte",
    "flops_per_s",
    "roof_flops_per_s",
    "share",
    "over",
    "stands_for",
]
"""What the picture and the tables say of a point."""


@kept(max_entries=KEPT)
def listed(position: int, limit: int, **filters: Any) -> list[dict[str, Any]]:
    """Return at most `limit` hardware at a position, what was measured most first; with `search` the best match first."""
    return [dict(row) for row in client().hardware(as_of=position, limit=limit, sort="measurements", **filters)]


@kept(max_entries=KEPT)
def one(name: str, position: int) -> dict[str, Any]:
    """Return what is known of a hardware, by any of its names, without the rows of what ran on it."""
    answer = client().one_hardware(name, as_of=position, compatibility=False)
    return dict(checked(dict(answer), "hardware")["hardware"])


@kept(max_entries=KEPT)
def roofline(name: str, position: int, **filters: Any) -> dict[str, Any]:
    """Return a hardware's roofs and the measured points under them, of each point what is drawn."""
    answer = client().roofline(name, as_of=position, members=DRAWN, **filters)
    return checked(dict(answer), "points", "roofs", "above")


def points(name: str, position: int, **filters: Any) -> Callable[[], list[dict[str, Any]]]:
    """Return what asks for the same points with everything that is known of each."""
    item = client()
    return lambda: [dict(point) for point in item.roofline(name, as_of=position, **filters)["points"]]


@kept(max_entries=KEPT)
def tried(name: str, position: int) -> dict[str, Any]:
    """Return what was tried on a hardware by family, the best of each category, and what stands beside it."""
    return checked(dict(client().tried(name, as_of=position)), "items", "best", "siblings")
