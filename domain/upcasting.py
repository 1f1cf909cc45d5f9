"""Upcasters: how the data of an old version of an event becomes that of the next.

An event is never rewritten. Its data are brought to the newest version whenever they are read typed or projected, one
version at a time, by pure functions: the same data in, the same data out, no clock, no look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["UPCASTERS", "Upcaster", "Upcasters", "newest", "upcast"]

Data = dict[str, Any]
Upcaster = Callable[[Data], Data]
Upcasters = Mapping[str, tuple[str, Upcaster]]
"""Old type → the type one version on, and the function from the one's data to the other's."""

UPCASTERS: Upcasters = {}
"""Every step that this version knows. A step that was released is never changed: `tests/golden` holds what it must give."""


def newest(type_: str, upcasters: Upcasters = UPCASTERS) -> str:
    """Return the type that the chain of upcasters ends with; a type without one is its own."""
    seen = {type_}
    while type_ in upcasters:
        type_ = upcasters[type_][0]
        if type_ in seen:
            raise ValueError(f"the upcasters go round in a circle at {type_}")
        seen.add(type_)
    return type_


def upcast(type_: str, data: Data, upcasters: Upcasters = UPCASTERS) -> tuple[str, Data]:
    """Return (type, data) in the newest version; `data` itself is left as it is.

    What an upcaster raises, KeyError or TypeError for data that never passed the gate, goes through.
    """
    newest(type_, upcasters)
    while type_ in upcasters:
        type_, step = upcasters[type_]
        data = step(dict(data))
    return type_, data
