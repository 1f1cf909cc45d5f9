"""Runs: what was measured, can I trust it, and is one running now?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assay.client.row_types import Run
from dashboard import answers, beginning
from dashboard.downloads import stem, table_files
from dashboard.frame import (
    downloads,
    dropped,
    escape,
    guarded,
    header,
    places,
    provenance,
    zone,
)
from dashboard.page_state import adopt, current, go, turn, widget
from dashboard.screens.runs import query as asking
from dashboard.screens.runs import run_view
from dashboard.screens.runs import words as runs
from dashboard.screens.runs.live_view import live
from dashboard.screens.runs.query import RunPage
from dashboard.screens.runs.words import Runs, read_runs
from dashboard.service import SentRows
from dashboard.tables.result_table import result_table
from presentation import formatting, run_progress

__all__ = ["show"]

PAGE = "runs"
PAGE_RUNS = 30
QUESTION = "What was measured, can I trust it, and is one running now?"
FILTERS = {"kind": "Kind", "origin": "Origin", "hw": "Hardware", "outcome": "Outcome"}
_CHOICES = {"hw": "hardware"}


def show() -> None:
    """Show runs newest first, or the one that the address names, by itself or by a row of it."""
    read = current(PAGE, read_runs)
    request: Runs = read.asked
    head = st.empty()
    with head.container():
        header("Run" if request.run or request.row else "Runs", QUESTION, slug=request.run)
    with guarded("The service"):
        position = answers.ready()["position"]
        dropped(read.dropped)
        at = position if request.as_of is None else request.as_of
        strip = st.container()
        if request.run or request.row:
            with guarded("The run"):
                run_view.show(request, at, head, strip)
        else:
            _list(request, at, strip)


def _list(request: Runs, at: int, strip: DeltaGenerator) -> None:
    result = asking.listed(at, **runs.asked_of_list(request, PAGE_RUNS))
    with strip:
        provenance(
            PAGE,
            f"position {formatting.count(at)}",
            msgspec.structs.replace(request, as_of=at),
            terminal=_terminal(request),
        )
    if not any(result.choices.values()):
        beginning.show("Nothing was run yet. Begin with one of these:")
        return
    with st.container(key="answer"):
        found = runs.finding(result, datetime.now(UTC)) if result.runs.items else runs.nothing_of(request)
        st.subheader(escape(found), anchor=False)
    if request.as_of is None and "unfinished" in result.choices["outcome"]:
        live(at)
    _bar(request, result.choices)
    if result.runs.items:
        _found(request, at, result)
    elif st.button("Show all runs", key=f"{PAGE} reset"):
        turn(PAGE, Runs(as_of=request.as_of))


def _terminal(runs: Runs) -> str:
    named = {"--kind": runs.kind, "--origin": runs.origin, "--hardware": runs.hw, "--outcome": runs.outcome}
    return " ".join(["assay runs list", *(f"{flag} {value}" for flag, value in named.items() if value)])


def _bar(runs: Runs, choices: Mapping[str, Sequence[str]]) -> None:
    adopt(PAGE, runs, {name: getattr(runs, name) or None for name in FILTERS})
    columns = places(*[2] * len(FILTERS))
    for column, (name, label) in zip(columns, FILTERS.items(), strict=True):
        choice = choices[_CHOICES.get(name, name)]
        value = getattr(runs, name)
        options = list(dict.fromkeys([*choice, *([value] if value else [])]))
        column.selectbox(label, options, index=None, key=widget(PAGE, name), placeholder="any")
    state = {name: st.session_state.get(widget(PAGE, name)) or "" for name in FILTERS}
    if state != {name: getattr(runs, name) for name in FILTERS}:
        go(PAGE, Runs(as_of=runs.as_of, **state))
        st.rerun()


def _found(request: Runs, at: int, page: RunPage) -> None:
    columns = runs.listed(page.runs.items, datetime.now(UTC), zone())
    result_table(columns, key=f"{PAGE} table", words="Runs, newest first", height=1160)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if request.cursor and st.button("Newest", icon=":material/first_page:", key=f"{PAGE} newest"):
            turn(PAGE, msgspec.structs.replace(request, cursor=""))
        following = page.runs.next_cursor
        if following and st.button("Older", icon=":material/chevron_right:", key=f"{PAGE} older"):
            turn(PAGE, msgspec.structs.replace(request, cursor=following))
        _downloads(request, at, page.runs)


def _downloads(request: Runs, at: int, page: SentRows[Run]) -> None:
    states = [run_progress.state(run, datetime.now(UTC)).word for run in page.items]
    flat = [{**msgspec.json.decode(sent), "state": word} for sent, word in zip(page.sent, states, strict=True)]
    downloads(table_files(stem(PAGE, request.hw or request.kind, at), flat, as_of=at), PAGE)
