"""The SQL of the projection, read once from the files beside this module."""

from __future__ import annotations

import re
from importlib.resources import files

__all__ = ["FOLD", "INSERTS", "SCHEMA_VERSION", "STANDING", "TABLES", "VIEWS", "select_list"]

SCHEMA_VERSION = 2
"""The contract of the views, for answers, exports, ETags and file names. What the tables are made by is compared by digest, not
by this. Columns may be added to a view under the same version; whoever removes one or gives it another type raises it."""

_OF = re.compile(r"^-- of: (.+)$", re.MULTILINE)
_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _blocks(name: str) -> dict[str, str]:
    """Return the statements of a file by the names above them, in the order of the file."""
    _, *pieces = _NAME.split(_text(name))
    return dict(zip(pieces[::2], (piece.strip().rstrip(";") for piece in pieces[1::2]), strict=True))


TABLES = _text("tables.sql")
"""Statements that make an empty projection."""
FOLD = _blocks("fold.sql")
"""Statements that turn a batch into rows, by name."""
INSERTS = {name: frozenset(match[1].split(", ")) for name, block in FOLD.items() if (match := _OF.search(block))}
"""Types of events of those statements that need no more than that such an event came: a new table is one more."""
STANDING = _blocks("aggregates.sql")
"""Statements that keep count of each subject, by name."""
VIEWS = _blocks("views.sql")
"""Stable views by name; each reads only tables and views above it, so that it can be asked as of a position."""


def select_list(view: str) -> dict[str, str]:
    """Return the expressions of a view's SELECT list by the names of its columns, in their order."""
    text, _, _ = VIEWS[view].removeprefix("SELECT").partition("\nFROM ")
    pieces: list[str] = []
    depth, quoted, begin = 0, False, 0
    for index, letter in enumerate(text):
        quoted ^= letter == "'"
        depth += 0 if quoted else (letter == "(") - (letter == ")")
        if letter == "," and not depth and not quoted:
            pieces.append(text[begin:index])
            begin = index + 1
    return {re.split(r"[\s.]", item.strip())[-1]: item.strip() for item in (*pieces, text[begin:])}
