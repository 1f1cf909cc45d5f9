"""One run: how far it came, its rows, what failed, what was tested, and in which environment."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import msgspec
import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assay.client.row_types import Run
from dashboard.downloads import sent_files, stem
from dashboard.frame import downloads, escape, guarded, provenance, titled, to_paste, zone
from dashboard.page_state import adopt, go, turn, widget
from dashboard.screens.runs import query as asking
from dashboard.screens.runs import row_view
from dashboard.screens.runs import words as runs
from dashboard.screens.runs.live_view import live
from dashboard.screens.runs.query import OneRun
from dashboard.screens.runs.words import Runs
from dashboard.service import SentRows
from domain.answers.run import LoggedEvent, MeasuredRow, PreviousRun, RowReason, TriedRow
from presentation import formatting, run_progress

__all__ = ["show"]

PAGE = "runs"
PAGE_ROWS = 50
NAMES = {"row": "Row", "rows": "Rows", "failures": "Failures", "tests": "Tests", "environment": "Environment"}


def show(request: Runs, at: int, strip: DeltaGenerator) -> None:
    """Show the run that is named, or the one that the row named is of."""
    event = asking.event(request.row) if request.row else None
    run_id = request.run or (event and event.run_id) or ""
    if st.button("All runs", icon=":material/arrow_back:", type="tertiary", key=f"{PAGE} back"):
        turn(PAGE, Runs(as_of=request.as_of))
    result = asking.one(run_id, at)
    run = result.run
    with strip:
        fixed = msgspec.structs.replace(request, run=run_id, as_of=at)
        words = (
            f"position {formatting.count(at)} · run {run_id} · {run_progress.source_words(run.source, run.attestation)}"
        )
        provenance(PAGE, words, fixed, terminal=f"assay runs show {run_id} --samples")
    titled(f"{runs.heading(run)} {run_id[:13]}", "Runs")
    _head(run)
    if request.as_of is None and not run.outcome:
        live(at, run_id)
    request = msgspec.structs.replace(request, run=run_id)
    tab = _tab(request, run)
    with guarded(NAMES[tab]):
        _shown(request, at, result, event, tab)


def _head(run: Run) -> None:
    now = datetime.now(UTC)
    if why := run.retracted_because:
        st.error(
            f"This run was taken back: {escape(why)}. Its rows are in no answer and in no training.",
            icon=":material/undo:",
        )
    sentence = runs.sentence(run, now)
    with st.container(key="answer"):
        st.subheader(escape(sentence), anchor=False)
    begun = run.started_at
    parts = [f"{'began' if begun else 'came'} {formatting.when(begun or run.recorded_at, zone())}"]
    if (took := run_progress.duration(run)) != formatting.MISSING:
        parts.append(f"took {took}")
    if run.models:
        parts.append(f"{formatting.count(run.models)} models" if run.models != 1 else "1 model")
        parts.append(", ".join(run.platforms or []))
    if (refused := (run.failed or 0) - (run.rows_failed or 0)) > 0 and run.kind == "import":
        parts.append(f"{formatting.count(refused)} rows of the file were refused")
    parts += [words for words in (run.reference, run.licence) if words]
    if run.reason:
        parts.append(f"ended because {run.reason}")
    st.caption(escape(" · ".join(parts)))


def _tab(request: Runs, run: Run) -> str:
    """Offer the parts of a run; a row that the address names comes first, else the first part that has something."""
    there = [name for name in runs.TABS if name != "row" or request.row]
    counts = _counts(run)
    filled = (name for name, count in counts.items() if count)
    chosen = request.tab if request.tab in there else "row" if request.row else next(filled, "rows")
    adopt(PAGE, request, {"tab": chosen})
    shown = st.segmented_control(
        "Part of the run",
        there,
        key=widget(PAGE, "tab"),
        format_func=lambda name: f"{NAMES[name]} ({formatting.count(counts[name])})" if name in counts else NAMES[name],
        label_visibility="collapsed",
        required=True,
    )
    if shown and shown != chosen:
        go(PAGE, msgspec.structs.replace(request, tab=shown, cursor=""))
        st.rerun()
    return chosen


def _counts(run: Run) -> dict[str, int | None]:
    return {"rows": run.rows, "failures": run.rows_failed, "tests": run.rows_tested}


def _shown(runs: Runs, at: int, row: OneRun, event: LoggedEvent | None, tab: str) -> None:
    run = row.run
    if tab == "row" and event is not None:
        row_view.show(event, row, at)
    elif tab == "rows":
        _doubts(row.reasons)
        _rows(runs, at, run)
    elif tab in ("failures", "tests"):
        _outcomes(runs, at, run, tab)
    else:
        _environment(row)


def _doubts(reasons: Sequence[RowReason]) -> None:
    if reasons:
        said = [f"- {escape(reason.reason)} :gray[({formatting.count(reason.rows)})]" for reason in reasons]
        counted = "1 reason" if len(reasons) == 1 else f"{len(reasons)} reasons"
        with st.expander(f"Why rows are not valid: {counted}", icon=":material/warning:"):
            st.markdown("\n".join(said))


def _rows(request: Runs, at: int, run: Run) -> None:
    page = asking.rows(run.run_id, request.cursor or None, PAGE_ROWS, at)
    if not page.items:
        st.info("No row of this run is in the tables." + (" They were taken back." if run.rows_retracted else ""))
        return
    _table(request, at, page, runs.measured(page.items), "rows")


def _outcomes(request: Runs, at: int, run: Run, tab: str) -> None:
    page = asking.outcomes(tab, run.run_id, request.cursor or None, PAGE_ROWS, at)
    if page.items:
        _table(request, at, page, runs.failures(page.items), tab)
    elif tab == "failures":
        st.info("Nothing failed in this run.")
    else:
        st.info("Nothing was tested in this run. This compares outputs with those of the processor in fp32:")
        to_paste("assay verify MODEL")


def _table(
    request: Runs, at: int, page: SentRows[MeasuredRow] | SentRows[TriedRow], table: pd.DataFrame, tab: str
) -> None:
    """Show one page of facts; a click, or a choice by name, opens one."""
    items = page.items
    chosen = st.dataframe(
        table,
        hide_index=True,
        row_height=36,
        key=f"{PAGE} {tab} {at} {request.cursor}",
        placeholder=formatting.MISSING,
        height="content" if len(items) <= 12 else 470,
        on_select="rerun",
        selection_mode="single-row",
        column_config={"Model": st.column_config.Column(pinned=True)},
        alt=f"{NAMES[tab]} of the run",
    )
    picked = [items[at].event_id for at in chosen["selection"]["rows"]]
    named = {row.event_id: runs.named(row) for row in items}
    with st.container(horizontal=True, vertical_alignment="bottom"):
        typed = st.selectbox(
            "Open one",
            list(named),
            index=None,
            key=f"{PAGE} open {tab}",
            format_func=lambda entry: named[entry],
            placeholder="one of these",
            width=420,
        )
        if request.cursor and st.button("First", icon=":material/first_page:", key=f"{PAGE} first {tab}"):
            turn(PAGE, msgspec.structs.replace(request, cursor=""))
        following = page.next_cursor
        if following and st.button("Next", icon=":material/chevron_right:", key=f"{PAGE} next {tab}"):
            turn(PAGE, msgspec.structs.replace(request, cursor=following))
        downloads(sent_files(stem("run", f"{request.run[:8]}_{tab}", at), page.sent, as_of=at), f"{PAGE} {tab}")
    for item in [*picked, *([typed] if typed else [])]:
        turn(PAGE, Runs(run=request.run, row=item, as_of=request.as_of))


def _environment(row: OneRun) -> None:
    now, before, run = row.environment, row.previous, row.run
    if now is None:
        st.info("No environment is known of this run: only our runner tells it.")
    else:
        _differences(row.differs, before)
        table = runs.environment(now, row.differs)
        st.dataframe(table, hide_index=True, row_height=36, height="content", alt="The environment of the run")
        st.caption("To copy:")
        names = ("fingerprint", *runs.KEPT_FIELDS, "libraries")
        named = {name: value for name in names if (value := getattr(now, name))}
        st.code(json.dumps(named, indent=1, ensure_ascii=False), language="json", height=180)
    with st.expander("The event that began the run", icon=":material/data_object:"):
        st.json(bytes(asking.event(run.event_id).sent).decode(), expanded=2)


def _differences(differs: Collection[str] | None, before: PreviousRun | None) -> None:
    if before is None:
        st.markdown("No earlier run is known on any of its devices.")
        return
    text = f"the run before on this machine ({formatting.date(before.started_at, zone())})"
    if differs is None:
        st.markdown(f"The environment of {text} is not known.")
    elif differs:
        st.markdown(f"**Differs from {text}:** {escape(', '.join(differs))}.")
    else:
        st.markdown(f"The environment is that of {text}.")
