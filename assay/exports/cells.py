"""Cells of CSV that no spreadsheet takes for a formula, and back."""

from __future__ import annotations

from typing import Any

__all__ = ["FORMULA", "defused", "restored"]

FORMULA = "=+-@\t\r"
"""A text that begins with one of these is run by spreadsheets."""


def defused(column: Any) -> Any:
    """Return an Arrow array of texts with an apostrophe before each that a spreadsheet would run, or that has one.

    A text that begins with apostrophes and then such a sign gets one more, so that `restored` gives back every text.
    """
    import pyarrow.compute as compute

    return compute.replace_substring_regex(column, pattern=r"^('*[=+\-@\t\r])", replacement=r"'\1")


def restored(text: str) -> str:
    """Return a cell's text as it was before `defused`."""
    bare = text.lstrip("'")
    return text[1:] if text.startswith("'") and bare[:1] and bare[0] in FORMULA else text
