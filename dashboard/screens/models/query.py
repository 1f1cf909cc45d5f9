"""What the Models page asks: a list, one model, its ranking over hardware, its operators, and the coverage of its family."""

from __future__ import annotations

from typing import Any

from dashboard.service import KEPT, checked, client, kept

__all__ = ["family", "listed", "one", "operators", "predicted", "ranking"]


@kept(max_entries=KEPT)
def listed(position: int, limit: int, **filters: Any) -> list[dict[str, Any]]:
    """Return at most `limit` models at a position, what was measured most first; with `search` the best match first."""
    return [dict(row) for row in client().models(as_of=position, limit=limit, sort="measurements", **filters)]


@kept(max_entries=KEPT)
def one(name: str, position: int) -> dict[str, Any]:
    """Return what is known of one model, by any of its names."""
    return checked(dict(client().model(name, as_of=position)), "model", "sizes", "platforms", "best")


@kept(max_entries=KEPT)
def ranking(name: str, position: int, mode: str, objective: str, top: int) -> dict[str, Any]:
    """Return the best configuration of each hardware for a model, measured or predicted, best first."""
    question = {"mode": mode, "objective": objective, "top": top, "per_hardware": True, "hardware": "all"}
    return checked(dict(client().recommend(name, as_of=position, **question)), "ranked", "position")


@kept(max_entries=KEPT)
def operators(name: str, position: int, **question: Any) -> dict[str, Any]:
    """Return what the time of a call of a model goes into, operator by operator."""
    return checked(dict(client().operators(name, as_of=position, **question)), "operators", "basis")


@kept(max_entries=KEPT)
def predicted(name: str, position: int, **question: Any) -> dict[str, Any]:
    """Return the latency of one configuration, measured or predicted."""
    return checked(dict(client().predict(name, as_of=position, **question)), "latency_ms", "basis")


@kept(max_entries=KEPT)
def family(name: str, category: str | None, position: int) -> dict[str, Any]:
    """Return what was tried of a family on which platform, and the largest gaps of its category with commands."""
    return checked(dict(client().coverage(family=name, category=category, as_of=position)), "items", "gaps")
