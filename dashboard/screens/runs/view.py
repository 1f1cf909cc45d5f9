"""Runs: what was measured, can I trust it, and is one running now?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import altair as alt
import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assay.client.row_types import Run
from dashboard import answers
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import (
    chart,
    downloads,
    dropped,
    escape,
    guarded,
    header,
    places,
    provenance,
    theme,
    to_paste,
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
from presentation import formatting, run_progress
from presentation.charts.verdict_chart import verdict_mix

__all__ = ["show"]

PAGE = "runs"
PAGE_RUNS = 15
FILTERS = {"kind": "Kind", "origin": "Origin", "hw": "Hardware", "outcome": "Outcome"}
_CHOICES = {"hw": "hardware"}


def show() -> None:
    """Show runs newest first, or the one that the address names, by itself or by a row of it."""
    header("Runs", "What was measured, can I trust it, and is one running now?")
    with guarded("The service"):
        position = answers.ready()["position"]
        read = current(PAGE, read_runs)
        dropped(read.dropped)
        runs: Runs = read.asked
        at = position if runs.as_of is None else runs.as_of
        strip = st.container()
        if runs.run or runs.row:
            with guarded("The run"):
                run_view.show(runs, at, strip)
        else:
            _list(runs, at, strip)


def _list(request: Runs, at: int, strip: DeltaGenerator) -> None:
    result = asking.listed(at, **runs.asked_of_list(request, PAGE_RUNS))
    with strip:
        provenance(
            PAGE,
            f"position {formatting.count(at)}",
            msgspec.structs.replace(request, as_of=at),
            terminal=_terminal(request),
        )
    if request.as_of is None and "unfinished" in result.choices["outcome"]:
        live(at)
    _bar(request, result.choices)
    if result.runs.items:
        _found(request, at, result)
    else:
        _nothing(request, result)


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
    items, now = page.runs.items, datetime.now(UTC)
    sentence = runs.finding(page, now)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
    mixed = runs.mix(items, now, zone())
    bars = msgspec.to_builtins(mixed)
    chart(verdict_mix(bars, theme=theme()), key=f"{PAGE} picture", words=f"Rows of each run by verdict. {sentence}")
    chosen = st.dataframe(
        runs.listed(items, now, zone()),
        hide_index=True,
        row_height=36,
        key=f"{PAGE} table {at} {request.cursor}",
        placeholder=formatting.MISSING,
        height="content",
        on_select="rerun",
        selection_mode="single-row",
        column_config=_columns(),
        alt="Runs, newest first",
    )
    if rows := chosen["selection"]["rows"]:
        turn(PAGE, Runs(run=items[rows[0]].run_id, as_of=request.as_of))
    _pages(request, page.runs)
    _downloads(request, at, page.runs, mixed, sentence)


def _columns() -> dict[str, Any]:
    counts = ("Rows", "Valid", "Suspect", "Invalid", "Failed", "Tests", "Models", "Planned")
    shown = {name: st.column_config.NumberColumn(format="localized") for name in counts}
    return {"Run": st.column_config.Column(width=260), **shown}


def _pages(request: Runs, page: SentRows[Run]) -> None:
    """Offer one run of the table by name, the newest runs, and those before these."""
    named = {
        run.run_id: f"{runs.heading(run)}, {formatting.when(run.started_at or run.recorded_at, zone())}"
        for run in page.items
    }
    with st.container(horizontal=True, vertical_alignment="bottom"):
        chosen = st.selectbox(
            "Open a run",
            list(named),
            index=None,
            format_func=lambda item: f"{named[item]} · {item}",
            key=f"{PAGE} open",
            placeholder="one of these",
            width=420,
        )
        if request.cursor and st.button("Newest", icon=":material/first_page:", key=f"{PAGE} newest"):
            turn(PAGE, msgspec.structs.replace(request, cursor=""))
        following = page.next_cursor
        if following and st.button("Older", icon=":material/chevron_right:", key=f"{PAGE} older"):
            turn(PAGE, msgspec.structs.replace(request, cursor=following))
    if chosen:
        turn(PAGE, Runs(run=chosen, as_of=request.as_of))


def _downloads(request: Runs, at: int, page: SentRows[Run], mixed: Sequence[runs.RunBar], sentence: str) -> None:
    name, shade = stem(PAGE, request.hw or request.kind, at), theme()
    footer = f"position {formatting.count(at)} · {formatting.count(len(page.items))} runs"
    states = [run_progress.state(run, datetime.now(UTC)).word for run in page.items]
    flat = [{**msgspec.json.decode(sent), "state": word} for sent, word in zip(page.sent, states, strict=True)]
    bars = msgspec.to_builtins(mixed)

    def draw() -> alt.LayerChart:
        return verdict_mix(bars, theme=shade, picture=True)

    downloads(
        [
            *table_files(name, flat, as_of=at),
            *picture_files(name, draw, "Rows of each run by verdict", answer=sentence, footer=footer),
        ],
        PAGE,
    )


def _nothing(runs: Runs, page: RunPage) -> None:
    if any(page.choices.values()):
        join = ", ".join(
            f"{label.lower()} {escape(getattr(runs, name))}" for name, label in FILTERS.items() if getattr(runs, name)
        )
        st.info(f"No run is of {join or 'that kind'}.")
        if st.button("Show all runs", key=f"{PAGE} reset"):
            turn(PAGE, Runs(as_of=runs.as_of))
        return
    st.info("Nothing was run yet. This measures one model on this machine and shows it here as it goes:")
    to_paste("assay bench bert-base-uncased")
