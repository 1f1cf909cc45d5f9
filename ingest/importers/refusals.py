"""What could not be taken, where it stood, why, and what to mend."""

from __future__ import annotations

import re

import msgspec

__all__ = ["CONTENT_CHARACTERS", "BadRow", "Refused", "writable"]

CONTENT_CHARACTERS = 1 << 20
"""Longer contents are left out of a refusal: nobody mends a row of that length in a file of rejects."""
_UNWRITABLE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


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


def writable(refused: Refused) -> Refused:
    """Return the refusal as it can be written as JSON and shown on a terminal, whatever the file held."""
    content = refused.content
    if content is not None and len(content) > CONTENT_CHARACTERS:
        content = None
    return Refused(
        path=_line(refused.path),
        reason=_line(refused.reason),
        row=refused.row,
        field=None if refused.field is None else _line(refused.field),
        format=refused.format,
        content=None if content is None else _UNWRITABLE.sub("\ufffd", content),
    )


def _line(text: str) -> str:
    shown = _UNWRITABLE.sub("\ufffd", _CONTROL.sub(" ", text))
    return shown if len(shown) <= 500 else shown[:499] + "…"
