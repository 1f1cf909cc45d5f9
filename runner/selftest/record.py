"""One check of a self-test, as a child reports it and an event tells it."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Check"]


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: passed, failed, or skipped where this machine does not have what it needs; and what was seen."""

    name: str
    outcome: str
    said: str
    figures: dict[str, Any] = {}
