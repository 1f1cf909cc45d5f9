"""Events about alerts, for tests."""

from __future__ import annotations

import uuid
from typing import Any

from domain.events import ALERT_CHANGED, ALERT_RAISED, new_event

__all__ = ["alert_id", "change", "raised", "stated"]

_SOURCE = "urn:assay:service"


def alert_id(name: str) -> str:
    """Return the id of the alert that a test calls `name`."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, name))


def change(name: str, size: float, **members: Any) -> dict[str, Any]:
    """Return a change of a latency by `size`, a share; `members` replace its own."""
    return {
        "id": name, "alike": "same", "title": "acme/tiny inference batch 1 on acme-one cpu fp32 torch", "model": "acme/tiny",
        "hardware": "acme-one", "platform": "cpu", "precision": "fp32", "metric": "latency_p50_ms", "unit": "ms",
        "kind": "step", "state": "worse", "before": 1.0, "after": 1.0 + size, "change": size, "low": None, "high": None,
        "first": "e1", "last": "e2", "confirmed_by": "e3", **members,
    }  # fmt: skip


def raised(name: str, changes: list[dict[str, Any]], **data: Any) -> dict[str, Any]:
    """Return an event that raises or extends an alert."""
    about: dict[str, Any] = {"title": name, "direction": "worse", "kind": "performance", "position": 1}
    about |= {"alert": alert_id(name), "changes": changes, **data}
    return new_event(ALERT_RAISED, about, source=_SOURCE, subject=f"alert/{alert_id(name)}")


def stated(name: str, state: str, author: str, **data: Any) -> dict[str, Any]:
    """Return an event that gives an alert a state."""
    about = {"alert": alert_id(name), "state": state, "author": author, **data}
    return new_event(ALERT_CHANGED, about, source=_SOURCE, subject=f"alert/{alert_id(name)}")
