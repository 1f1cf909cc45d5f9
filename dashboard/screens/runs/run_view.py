"""One run: how far it came, its rows, what failed, what was tested, and in which environment."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assay.client.row_types import Run
from dashboard.downloads import sent_files, stem
from dashboard.frame import downloads, escape, folded, guarded, header, provenance, titled, to_paste, zone
from dashboard.page_state import adopt, go, say, turn, widget
from dashboard.screens.runs import query as asking
from dashboard.screens.runs import row_view
from dashboard.screens.runs import words as runs
from dashboard.screens.runs.live_view import live
from dashboard.screens.runs.query import OneRun
from dashboard.screens.runs.words import Runs
from dashboard.service import SentRows
from dashboard.tables.result_table import Column, result_table
from domain.answers.run import LoggedEvent, MeasuredRow, PreviousRun, RowReason, TriedRow
from presentation import formatting, run_progress
from presentation.answer_words import model_name

__all__ = ["show"]

PAGE = "runs"
PAGE_ROWS = 200
MOST_REASONS = 3
NAMES = {"row": "Row", "rows": "Rows", "failures": "Failures", "tests": "Tests", "environment": "Environment"}


def show(request: Runs, at: int, head: DeltaGenerator, strip: DeltaGenerator) -> None:
    """Show the run that is named, or the one that the row named is of; its name goes into the place `head`."""
    event = asking.event(request.row) if request.row else None
    run_id = request.run or (event and event.run_id) or ""
    result = asking.one(run_id, at)
    run = result.run
    say(PAGE, request)
    name = runs.heading(run)
    with head.container():
        if event and event.fact:
            header(model_name(event.fact.model.id), f"One row of {escape(name)}: can I trust it?", slug=event.id)
        else:
            header(f"{name[:1].upper()}{name[1:]}", "What happened, and can I trust it?", slug=run_id)
    with strip:
        fixed = msgspec.structs.replace(request, run=run_id, as_of=at)
        words = f"position {formatting.count(at)} · run {run_id} · {run_progress.source_words(run.source, run.attestation, run.peer)}"
        with st.container(horizontal=True, vertical_alignment="center"):
            if st.button("All runs", icon=":material/arrow_back:", type="tertiary", key=f"{PAGE} back"):
                turn(PAGE, Runs(as_of=request.as_of))
            provenance(PAGE, words, fixed, terminal=f"assay runs show {run_id} --samples")
    titled(f"{name} {run_id[:13]}", "Runs")
    request = msgspec.structs.replace(request, run=run_id)
    if not request.row:
        _head(run, at, result.reasons)
    if request.as_of is None and not run.outcome:
        live(at, run_id)
    tab = _tab(request, run)
    with guarded(NAMES[tab]):
        _shown(request, at, result, event, tab)


def _head(run: Run, at: int, reasons: Sequence[RowReason]) -> None:
    """Say what happened, why rows are doubted, and what mends it."""
    now = datetime.now(UTC)
    if why := run.retracted_because:
        st.error(
            f"This run was taken back: {escape(why)}. Its rows are in no answer and in no training.",
            icon=":material/undo:",
        )
    with st.container(key="answer"):
        st.subheader(escape(runs.sentence(run, now)), anchor=False)
        if reasons:
            st.markdown("\n".join(_reason(reason) for reason in reasons[:MOST_REASONS]))
    if len(reasons) > MOST_REASONS:
        further = reasons[MOST_REASONS:]
        counted = "1 more reason" if len(further) == 1 else f"{len(further)} more reasons"
        more = "\n".join(_reason(reason) for reason in further)
        folded(counted, lambda: st.markdown(more) and None, key=f"{PAGE} reasons")
    with guarded("What mends it"):
        doubted = asking.rows(run.run_id, None, PAGE_ROWS, at, doubtful=True).items if _doubtful(run) else []
        failed = asking.outcomes("failures", run.run_id, None, PAGE_ROWS, at).items if run.rows_failed else []
        if mends := runs.mending(run, doubted, failed, now):
            st.markdown(escape(mends.words))
            to_paste(mends.command)
    st.caption(escape(_circumstances(run)))


def _reason(reason: RowReason) -> str:
    rows = "1 row" if reason.rows == 1 else f"{formatting.count(reason.rows)} rows"
    return f"- {escape(reason.reason)} :gray[({rows})]"


def _circumstances(run: Run) -> str:
    begun = run.started_at
    parts = [f"{'began' if begun else 'added'} {formatting.when(begun or run.recorded_at, zone())}"]
    if (took := run_progress.duration(run)) != formatting.MISSING:
        parts.append(f"took {took}")
    if run.models:
        parts.append(f"{formatting.count(run.models)} models" if run.models != 1 else "1 model")
        parts.append(", ".join(run.platforms or []))
    parts += [words for words in (run.reference, run.licence) if words]
    if run.reason:
        parts.append(f"ended because {run.reason}")
    return " · ".join(parts)


def _doubtful(run: Run) -> int:
    return (run.rows_suspect or 0) + (run.rows_invalid or 0)


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
        _rows(runs, at, run)
    elif tab in ("failures", "tests"):
        _outcomes(runs, at, run, tab)
    else:
        _environment(row)


def _rows(request: Runs, at: int, run: Run) -> None:
    """Show the rows that are suspect or invalid first, and all where the reader asks for them."""
    doubted = _doubtful(run)
    doubtful = bool(doubted) and request.rows != "all"
    if doubted and doubted != run.rows:
        doubtful = _share(request, doubted, run.rows or 0, doubtful=doubtful)
    page = asking.rows(run.run_id, request.cursor or None, PAGE_ROWS, at, doubtful=doubtful)
    if not page.items:
        st.info("No row of this run is in the tables." + (" They were taken back." if run.rows_retracted else ""))
        return
    _table(request, at, page, runs.measured(page.items), "rows")


def _share(request: Runs, doubted: int, total: int, *, doubtful: bool) -> bool:
    """Let the reader choose between the doubtful rows and all; return whether the doubtful ones are chosen."""
    counts = dict(zip(runs.SHARES, (doubted, total), strict=True))
    chosen = runs.SHARES[0] if doubtful else runs.SHARES[1]
    adopt(PAGE, request, {"rows": chosen})
    shown = st.segmented_control(
        "Rows",
        runs.SHARES,
        key=widget(PAGE, "rows"),
        format_func=lambda name: f"{name.capitalize()} ({formatting.count(counts[name])})",
        label_visibility="collapsed",
        required=True,
    )
    if shown and shown != chosen:
        go(PAGE, msgspec.structs.replace(request, rows=shown, tab="rows", cursor=""))
        st.rerun()
    return doubtful


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
    request: Runs, at: int, page: SentRows[MeasuredRow] | SentRows[TriedRow], columns: Sequence[Column], tab: str
) -> None:
    """Show one page of facts; the name of each leads to it."""
    result_table(columns, key=f"{PAGE} table {tab}", words=f"{NAMES[tab]} of the run", height=900)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if request.cursor and st.button("First", icon=":material/first_page:", key=f"{PAGE} first {tab}"):
            turn(PAGE, msgspec.structs.replace(request, cursor=""))
        following = page.next_cursor
        if following and st.button("Next", icon=":material/chevron_right:", key=f"{PAGE} next {tab}"):
            turn(PAGE, msgspec.structs.replace(request, cursor=following))
        downloads(sent_files(stem("run", f"{request.run[:8]}_{tab}", at), page.sent, as_of=at), f"{PAGE} {tab}")


def _environment(row: OneRun) -> None:
    now, before, run = row.environment, row.previous, row.run
    if now is None:
        st.info("No environment is known of this run: only our runner tells it.")
    else:
        _differences(row.differs, before)
        result_table(
            runs.environment(now, row.differs), key=f"{PAGE} table environment", words="The environment of the run"
        )
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
