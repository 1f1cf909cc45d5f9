"""What every kind of comparison has: where it comes from, ways to its subjects, and what differs before any number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import streamlit as st

from dashboard import differences, evidence
from dashboard.address import Comparison
from dashboard.frame import escape, provenance, to_paste
from dashboard.page_state import go
from presentation import formatting

__all__ = ["PAGE", "differs", "evidence_columns", "nothing", "strip"]

PAGE = "compare"
MOST_LINKS = 4


def strip(comparison: Comparison, at: int, models: Sequence[str], hardware: Sequence[str]) -> None:
    """Say at which position the numbers stand, and lead to the pages of what is compared."""
    provenance(PAGE, f"position {formatting.count(at)}", msgspec.structs.replace(comparison, as_of=at))
    links = [
        f"[{escape(name)}]({evidence.about(page, name)})"
        for page, names in (("models", models), ("hardware", hardware))
        for name in list(dict.fromkeys(names))[:MOST_LINKS]
    ]
    if links:
        st.markdown(f":small[Pages on {' · '.join(links)}]")


def differs(rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str] = differences.FIELDS) -> None:
    """Name what all rows share, and what they do not, method first."""
    result = differences.find(rows, fields)
    lines = []
    if result.same:
        lines.append("**Same for all** " + " · ".join(f"{escape(f)} {escape(v)}" for f, v in result.same.items()))
    for field, values in result.differs:
        counted = " · ".join(f"{escape(value)} :gray[({formatting.count(rows)})]" for value, rows in values[:6])
        rest = f" · {formatting.count(len(values) - 6)} more" if len(values) > 6 else ""
        lines.append(f"**{escape(field)} differs** {counted}{rest}")
    if not result.differs:
        lines.append("Nothing that was recorded differs.")
    with st.container(border=True, key="differences"):
        st.markdown("  \n".join(lines))


def evidence_columns(*heads: str) -> dict[str, Any]:
    """Return the columns that lead to the page of a measurement."""
    return {head: st.column_config.LinkColumn(display_text="open", width="small") for head in heads or ("Evidence",)}


def nothing(comparison: Comparison, sentence: str, command: str | None, value: int = 0) -> None:
    """Say why there is nothing: the filters, which one click takes away, or that nothing is known, and what would help."""
    if value:
        st.info(f"The filters leave none of {formatting.count(value)} rows. Reset them to see all.")
        if st.button("Reset filters", key=f"{PAGE} reset"):
            go(
                PAGE,
                Comparison(what=comparison.what, model=comparison.model, hw=comparison.hw, metric=comparison.metric),
            )
            st.rerun()
        return
    st.info(sentence)
    if command:
        to_paste(command)
