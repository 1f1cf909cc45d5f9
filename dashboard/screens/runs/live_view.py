"""What is under way: runs that began, have not ended and were heard of lately, as bars that move by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import streamlit as st

from assay.client.row_types import Run
from dashboard import answers
from dashboard.frame import escape, guarded
from dashboard.screens.runs import query as asking
from dashboard.screens.runs import words as runs
from presentation import formatting, run_progress

__all__ = ["live"]

EVERY_S = 5
SHOWN = 5


def live(position: int, run_id: str | None = None) -> None:
    """Show the runs under way, or one of them, anew every five seconds; nothing where none is.

    What came since makes the page run again, so that its rows are never behind its bars. Call it once a page.
    """
    under_way = _under_way(position, run_id)
    if under_way:
        st.fragment(_bars, run_every=EVERY_S)(run_id, _mark(under_way))


def _under_way(position: int, run_id: str | None) -> list[Run]:
    now = datetime.now(UTC)
    matching_live = [run for run in asking.live(position) if run_progress.state(run, now).live]
    return [run for run in matching_live if run_id in (None, run.run_id)]


def _mark(rows: Sequence[Run]) -> list[tuple[str, int]]:
    return [(run.run_id, run_progress.done(run)) for run in rows]


def _bars(run_id: str | None, shown: list[tuple[str, int]]) -> None:
    with guarded("What is under way"):
        under_way = _under_way(answers.ready()["position"], run_id)
        if _mark(under_way) != shown:
            st.rerun()
        with st.container(border=True, key="live"):
            for run in under_way[:SHOWN]:
                _bar(run, alone=run_id is not None)
            if len(under_way) > SHOWN:
                st.caption(f"{formatting.count(len(under_way) - SHOWN)} more are under way.")


def _bar(run: Run, *, alone: bool) -> None:
    now = datetime.now(UTC)
    heard = (now - (run_progress.heard(run) or now)).total_seconds()
    ago = (
        f"last heard of {formatting.count(heard)} s ago"
        if heard < 90
        else f"silent for {formatting.count(heard // 60)} min"
    )
    words = f"{ago} · under way for {run_progress.duration(run, now)}"
    if not alone:
        words = f"**{escape(runs.heading(run))}** is running: {escape(run_progress.length(run))} · {words}"
    share = run_progress.progress(run)
    if share is None:
        st.markdown(words)
    else:
        st.progress(share, text=words)
