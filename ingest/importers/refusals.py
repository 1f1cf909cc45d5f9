"""What could not be taken, where it stood, why, and what to mend."""

from __future__ import annotations

import msgspec

__all__ = ["BadRow", "Refused"]


class Refused(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A row that could not be understood (`row` counts lines or records from 1), or a whole file (`row` None), and why.

    `format` is the importer that refused it. `content` is the smallest file of that format that holds the row alone: mend
    it where it stands in the file of rejects, and import that file with the format `rejects`.
    """

    path: str
    reason: str
    row: int | None = None
    field: str | None = None
    format: str | None = None
    content: str | None = None


class BadRow(Exception):
    """A field of a row that cannot be used; an importer raises it, and the row is refused with its reason."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
