"""Operations: is the service keeping up? For operators."""

from __future__ import annotations

import msgspec
import pandas as pd
import streamlit as st

from dashboard import sign_in
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import (
    Download,
    chart,
    downloads,
    dropped,
    escape,
    guarded,
    header,
    plain_table,
    provenance,
    theme,
    to_paste,
    zone,
)
from dashboard.page_state import current, go
from dashboard.screens.operations import query as operator_data
from dashboard.screens.operations import words as operations
from dashboard.screens.operations.words import Operations, read_operations
from domain.answers.operations import Day, Health
from presentation import formatting
from presentation.charts import day_chart

__all__ = ["show"]

PAGE = "operations"


def show() -> None:
    """Show lag, throughput, dead letters, tokens, archive and settings to operators, and say to others that it is theirs."""
    header("Operations", "Is the service keeping up?")
    reader = sign_in.reader()
    if reader.role != "operator":
        st.info(
            f"This page is for operators; {escape(reader.name)} is signed in as a viewer."
            if reader.signed_in
            else "This page is for operators. Here nobody signs in, so it is shown on this machine's own address only."
        )
        return
    with guarded("The service"):
        health = operator_data.health()
        read = current(PAGE, read_operations)
        dropped(read.dropped)
        go(PAGE, read.asked)
        words = (
            f"position {formatting.count(health.position)} · as it is now, read every {operator_data.FRESH_S} s at most"
        )
        provenance(PAGE, words, read.asked)
        if st.button("Refresh", icon=":material/refresh:", key=f"{PAGE} refresh"):
            operator_data.forget()
            st.rerun()
        with st.container(key="answer"):
            st.subheader(escape(operations.sentence(health)), anchor=False)
        tiles, day = st.container(), None
        with guarded("What operators are told"):
            day = operator_data.day()
        with tiles:
            _tiles(health, day)
        if day is not None:
            with guarded("The last 24 hours"):
                _day(day)
        with guarded("Dead letters"):
            _letters(health, read.asked)
        if day is not None:
            with guarded("Tokens"):
                _tokens(day)
            with guarded("The archive"):
                _archive(day)


def _tiles(health: Health, day: Day | None) -> None:
    tiles = st.grid(4, min_column_width=150, key="tiles")
    archived = health.archive.last_position if health.archive else None
    hourly = operations.per_second(day.throughput, day.step_s, 3600 // day.step_s) if day else None
    running = "stopped" if health.error else "rebuilding" if health.building else "keeps up"
    tiles.metric("Lag, events", formatting.count(health.lag_events), border=True)
    tiles.metric("Events a second, last hour", formatting.significant(hourly), border=True)
    tiles.metric("Projector", running, border=True)
    tiles.metric("Archived up to position", formatting.count(archived), border=True)


def _day(day: Day) -> None:
    steps, minutes = msgspec.to_builtins(day.throughput), msgspec.to_builtins(day.lag)
    st.subheader("The last 24 hours", anchor=False)
    answer = operations.took(day.throughput)
    st.markdown(f"**Throughput.** {answer}")
    chart(
        day_chart.throughput(steps, day.step_s, zone=zone(), theme=theme()),
        key=f"{PAGE} throughput",
        words=f"Events a second in steps of ten minutes. {answer}",
    )
    lag = operations.behind(day.lag, day.build.began, day.now, zone())
    st.markdown(f"**Lag, smaller is better.** {escape(lag)}")
    chart(
        day_chart.lag(minutes, steps, day.step_s, zone=zone(), theme=theme()),
        key=f"{PAGE} lag",
        words=f"Events that the tables were behind, minute by minute. {lag}",
    )
    st.caption("Lag is kept in memory, for a day: what was before the service began is not known, and not drawn.")
    _day_files(day, answer, lag)


def _day_files(day: Day, throughput_words: str, lag_words: str) -> None:
    position, shade, where = day.position, theme(), zone()
    steps, minutes, step_s = msgspec.to_builtins(day.throughput), msgspec.to_builtins(day.lag), day.step_s
    footer = f"position {formatting.count(position)} · {formatting.date(day.now, where)}"
    name, lag = stem(PAGE, "throughput", position), stem(PAGE, "lag", position)
    both: list[tuple[str, list[Download]]] = [
        (
            "Throughput",
            table_files(name, steps, as_of=position)
            + picture_files(
                name,
                lambda: day_chart.throughput(steps, step_s, zone=where, theme=shade, picture=True),
                "Events that the log took",
                answer=throughput_words,
                footer=footer,
            ),
        ),
        (
            "Lag",
            table_files(lag, minutes, as_of=position)
            + picture_files(
                lag,
                lambda: day_chart.lag(minutes, steps, step_s, zone=where, theme=shade, picture=True),
                "How far the tables were behind the log",
                answer=lag_words,
                footer=footer,
            ),
        ),
    ]
    named = [(f"{what}: {label}", file, media, make) for what, files in both for label, file, media, make in files]
    downloads(named, PAGE)


def _letters(health: Health, request: Operations) -> None:
    st.subheader("Dead letters", anchor=False)
    if not health.dead_letters:
        st.caption("None: every event of the log could be projected.")
    else:
        letters = operator_data.letters(health.position)
        st.caption(operations.set_aside(health.dead_letters, letters))
        _table(operations.letter_table(letters, zone()), "letters", "Events that could not be projected")
        events = dict.fromkeys([*(letter.event for letter in letters), *([request.event] if request.event else [])])
        identifiers = list(events)
        chosen = st.selectbox(
            "Show an event as it was sent",
            identifiers,
            index=identifiers.index(request.event) if request.event else None,
            placeholder="Choose its id",
            key=f"{PAGE} event",
        )
        if (chosen or "") != request.event:
            go(PAGE, Operations(event=chosen or ""))
            st.rerun()
        st.caption("After an upgrade that understands them, `assay rebuild` projects them.")
    if request.event:
        st.json(operator_data.event(request.event), expanded=2)


def _tokens(day: Day) -> None:
    st.subheader("Tokens", anchor=False)
    tokens = operator_data.tokens()
    if not tokens:
        st.caption("None was ever made: the service is open to programs of this machine. This makes one:")
        to_paste("assay token create admin --scope admin")
        return
    table = operations.token_table(tokens, day.token_uses, day.now, zone())
    _table(table, "tokens", "Tokens without their secrets")
    st.caption(operations.used_words(day, zone()))


def _archive(day: Day) -> None:
    st.subheader("Archive", anchor=False)
    if day.archive:
        _table(operations.archive_table(day.archive, zone()), "archive", "Segments of the archive")
    else:
        st.caption("Nothing is archived. `assay archive write` moves closed positions into Parquet files.")
    st.subheader("Build and settings", anchor=False)
    plain_table(operations.setting_table(day, operator_data.server(), zone()), hide_index=True)


def _table(table: pd.DataFrame, key: str, alt: str) -> None:
    st.dataframe(
        table,
        hide_index=True,
        key=f"{PAGE} {key}",
        row_height=36,
        placeholder=formatting.MISSING,
        alt=alt,
        height="content" if len(table) <= 12 else 460,
    )
