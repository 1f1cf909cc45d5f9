"""Ways from a row to what it rests on: addresses of the pages that show an event, a model or a hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

from dashboard.tables.result_table import Column
from presentation.answer_words import evidence_words

__all__ = ["about", "path_of", "row_path", "source_column"]


def row_path(event: str) -> str:
    """Return the address of the page that shows one measurement."""
    return f"runs?row={quote(event)}"


def path_of(row: Mapping[str, Any]) -> str | None:
    """Return the address of the first measurement that a row rests on; None for what rests on none."""
    events = row.get("evidence") or []
    # An estimate rests on many: the first of them would pass for the row itself.
    if not events or row.get("basis") not in ("measured", "imported"):
        return None
    return row_path(str(events[0]))


def about(page: str, name: str) -> str:
    """Return the address of the page on a model or a hardware."""
    return f"{page}?{urlencode({'id': name}, safe='/')}"


def source_column(rows: Sequence[Mapping[str, Any]]) -> Column:
    """Return the column that says what each row rests on, and leads there."""
    words = [evidence_words(row.get("basis"), row.get("origin")) for row in rows]
    return Column(head="Source", values=words, links=[path_of(row) for row in rows])
