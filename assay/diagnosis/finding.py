"""One thing that was looked at, how it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import msgspec

__all__ = ["Finding", "fine", "note", "problem"]

Level = Literal["ok", "note", "problem"]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """`found` is what is the case; `remedy` what to do, "" where nothing; `mend` does it, where that is safe."""

    part: str
    level: Level
    found: str
    remedy: str = ""
    mend: Callable[[], object] | None = None

    def document(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "part": self.part,
            "ok": self.level != "problem",
            "level": self.level,
            "found": self.found,
            "remedy": self.remedy,
            "fixable": self.mend is not None,
        }


def fine(part: str, text: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(part=part, level="ok", found=text)


def note(part: str, text: str, remedy: str) -> Finding:
    """Return a finding that may be as it is."""
    return Finding(part=part, level="note", found=text, remedy=remedy)


def problem(part: str, text: str, remedy: str, mend: Callable[[], object] | None = None) -> Finding:
    """Return a finding that should not stay."""
    return Finding(part=part, level="problem", found=text, remedy=remedy, mend=mend)
