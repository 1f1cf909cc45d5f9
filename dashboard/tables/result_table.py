"""A table of results in the browser.

Every cell has a raw value, by which its column sorts, and words, which are shown. A name leads to its page in the same tab, an
interval is drawn beside its value, and a mix of verdicts as a bar. Arrow keys go from row to row, Enter opens one, and the table
is copied as text with tabs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import streamlit as st

from dashboard.frame import theme
from presentation import formatting
from presentation.palette import VERDICT_COLOURS

__all__ = ["Column", "columns_of", "filled", "result_table"]

Raw = str | float | None
_HERE = Path(__file__).parent
ROWS_AT_ONCE = 100
"""Rows that are drawn before the reader asks for the others."""

_component = st.components.v2.component(
    "assay.table",
    css=(_HERE / "table.css").read_text("utf-8"),
    js=(_HERE / "table.js").read_text("utf-8"),
    isolate_styles=False,
)


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """A column of a table: the raw values by which it sorts, and how they are shown.

    `shown` are the words of each cell (by default numbers with three figures), `links` where each leads. `low` and `high` draw an
    interval beside a number, `share` (0–1) how full something is. `parts` are counts by verdict, drawn as a bar. `help` is the head's
    tip.
    """

    head: str
    values: Sequence[Raw]
    shown: Sequence[str] | None = None
    links: Sequence[str | None] | None = None
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None
    share: Sequence[float | None] | None = None
    parts: Sequence[Mapping[str, int]] | None = None
    help: str = ""


def columns_of(
    frame: pd.DataFrame,
    *,
    links: Mapping[str, Sequence[str | None]] | None = None,
    tips: Mapping[str, str] | None = None,
) -> list[Column]:
    """Return the columns of a frame: numbers sort as numbers, whatever else as text; one without any value is left out."""
    return [
        Column(
            head=str(head),
            values=[_raw(value) for value in frame[head]],
            links=(links or {}).get(str(head)),
            help=(tips or {}).get(str(head), ""),
        )
        for head in frame
        if not frame[head].isna().all()
    ]


def filled(columns: Sequence[Column]) -> list[Column]:
    """Return the columns that have a value in any row."""
    return [column for column in columns if any(value is not None for value in column.values)]


def result_table(
    columns: Sequence[Column], *, key: str, words: str, height: int = 560, at_once: int = ROWS_AT_ONCE
) -> None:
    """Show a table; `words` name it, and the page scrolls within it where it is taller than `height` pixels.

    The first `at_once` rows are shown, the others when the reader asks for them.
    """
    shade = theme() or "light"
    _component(
        key=key,
        data={
            "words": words,
            "height": height,
            "atOnce": at_once,
            "missing": formatting.MISSING,
            "colours": VERDICT_COLOURS[shade],
            "columns": [_sent(column) for column in columns],
        },
        height="content",
    )


def _sent(column: Column) -> dict[str, Any]:
    values = [_raw(value) for value in column.values]
    numeric = any(isinstance(value, int | float) for value in values)
    shown = column.shown or [_words(value) for value in values]
    sent: dict[str, Any] = {
        "head": column.head,
        "help": column.help,
        "number": numeric,
        "values": values,
        "shown": list(shown),
    }
    for name in ("links", "low", "high", "share", "parts"):
        part = getattr(column, name)
        if part is not None:
            sent[name] = [dict(item) if isinstance(item, Mapping) else _raw(item) for item in part]
    return sent


def _words(value: Raw) -> str:
    if value is None:
        return formatting.MISSING
    if isinstance(value, str):
        return value
    return formatting.count(int(value)) if float(value).is_integer() else formatting.significant(value)


def _raw(value: Any) -> Any:
    """Return a value as JSON knows it; what is not a number is nothing."""
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, str | int | float | bool):
        return value
    return value.item() if hasattr(value, "item") else str(value)
