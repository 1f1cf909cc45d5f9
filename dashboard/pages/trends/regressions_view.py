"""What got worse over the last days: the Trends page before a model is chosen."""

from __future__ import annotations

import msgspec
import pandas as pd
import streamlit as st

from dashboard import regressions
from dashboard.downloads import stem, table_files
from dashboard.frame import downloads, escape, zone
from dashboard.page_state import go, widget
from dashboard.pages.trends import query as asking
from dashboard.pages.trends.words import Trend
from presentation import formatting

__all__ = ["show_worse"]

PAGE = "trends"
_SPANS = (1.0, 7.0, 30.0, 90.0)
_RUN = st.column_config.LinkColumn(display_text=r"run=(.{1,28})", help="On the page Runs")


def show_worse(trend: Trend, at: int) -> None:
    """Show what is worse than it was some days before the newest event, each with a link to its history and its run."""
    spans = [*_SPANS, *([trend.days] if trend.days not in _SPANS else [])]
    days = st.segmented_control(
        "Over the last", spans, key=widget(PAGE, "days"), format_func=regressions.span_words, required=True
    )
    if days != trend.days:
        go(PAGE, msgspec.structs.replace(trend, days=days))
        st.rerun()
    result = asking.regressions(trend.days, at)
    with st.container(key="answer"):
        st.subheader(escape(regressions.sentence(result, trend.days)), anchor=False)
    if not result["compared"]:
        st.caption(
            "A change needs a measurement before that time and one after it. Choose a model above to see its whole history."
        )
        return
    rows = regressions.lines(result, zone())
    if rows:
        st.dataframe(
            pd.DataFrame(rows).dropna(axis="columns", how="all"), hide_index=True, key=f"{PAGE} worse", row_height=36,
            placeholder=formatting.MISSING, height="content" if len(rows) <= 12 else 470, alt="What got worse",
            column_config={"Over time": st.column_config.LinkColumn(display_text="open"), "Run": _RUN},
        )  # fmt: skip
        st.caption(
            "Beyond 10 % with the 95 % intervals apart, the worst first. Choose a model above to see its history."
        )
        downloads(
            table_files(stem(PAGE, "worse", at), [*result["changes"], *result["turns"]], as_of=at), f"{PAGE} worse"
        )
