"""Operations: is the service keeping up? For operators."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import msgspec
import streamlit as st

from dashboard import sign_in
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import (
    Download,
    chart,
    coded,
    downloads,
    dropped,
    escape,
    folded,
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
from dashboard.tables.result_table import columns_of, result_table
from domain.answers.operations import Day, Health
from presentation import formatting
from presentation.charts import day_chart
from presentation.delivery_words import delivery_table, endpoint_table

__all__ = ["show"]

PAGE = "operations"


def show() -> None:
    """Say to operators how the service stands and offer the details, and say to others that the page is theirs."""
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
        with st.container(horizontal=True, vertical_alignment="center"):
            if st.button("Refresh", icon=":material/refresh:", type="tertiary", key=f"{PAGE} refresh"):
                operator_data.forget()
                st.rerun()
            provenance(PAGE, words, read.asked)
        with st.container(key="answer"):
            _standing(operations.standing(health))
        if health.dead_letters:
            with guarded("What could not be read"):
                _letters(health, read.asked)
        day = None
        with guarded("What operators are told"):
            day = operator_data.day()
        if day is not None:
            for name, show in _PARTS.items():
                folded(name, partial(_part, name, show, day), key=f"{PAGE} part {name}")


def _standing(standing: operations.Standing) -> None:
    """Say how the service stands in one line: green where all is well."""
    shown, icon = _LINES[standing.state]
    shown(coded(" ".join(part for part in (standing.words, standing.remedy) if part)), icon=icon)


def _part(name: str, show: Callable[[Day], None], day: Day) -> None:
    with guarded(name):
        show(day)


def _day(day: Day) -> None:
    steps, minutes = msgspec.to_builtins(day.throughput), msgspec.to_builtins(day.lag)
    answer = operations.took(day.throughput, day.step_s)
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
    st.subheader("Events that could not be read", anchor=False)
    letters = operator_data.letters(health.position)
    st.caption(operations.set_aside(health.dead_letters or 0, letters))
    links = [f"operations?event={quote(letter.event)}" for letter in letters]
    columns = columns_of(operations.letter_table(letters, zone()), links={"Type": links})
    result_table(columns, key=f"{PAGE} letters", words="Events that could not be read")
    st.caption("After an upgrade that understands them, `assay rebuild` reads them.")
    if request.event:
        st.markdown(f"**{escape(request.event)}** as it was sent:")
        st.json(operator_data.event(request.event), expanded=2)


def _tokens(day: Day) -> None:
    tokens = operator_data.tokens()
    if not tokens:
        st.caption("None was ever made: the service is open to programs of this machine. This makes one:")
        to_paste("assay token create admin --scope admin")
        return
    table = operations.token_table(tokens, day.token_uses, day.now, zone())
    result_table(columns_of(table), key=f"{PAGE} tokens", words="Tokens without their secrets")
    st.caption(operations.used_words(day, zone()))


def _shared(_: Day) -> None:
    bundles, held = operator_data.shared(), operator_data.held_rows()
    if not bundles:
        st.caption("Nobody's bundle was added. This adds one:")
        to_paste("assay data add theirs.assay.ndjson.gz")
        return
    result_table(
        columns_of(operations.bundle_table(bundles, zone())),
        key=f"{PAGE} bundles",
        words="Bundles of shared measurements",
    )
    if held:
        rows = "1 row is" if len(held) == 1 else f"{formatting.count(len(held))} rows are"
        st.caption(f"{rows} held back and count nowhere. This releases one:")
        to_paste(f'assay data quarantine release {held[0].event_id} --reason "why"')
        result_table(
            columns_of(operations.held_table(held)), key=f"{PAGE} held", words="Shared rows that are held back"
        )


def _peers(_: Day) -> None:
    peers = operator_data.peers()
    if not peers:
        st.caption("No other service is a peer. This adds one, whose measurements are pulled into this log:")
        to_paste("assay peer add https://lab.example.org --sources 'urn:lab:*'")
        return
    table = operations.peer_table(peers, zone())
    result_table(columns_of(table), key=f"{PAGE} peers", words="Other services whose events are pulled")
    st.caption("This brings what they have now:")
    to_paste("assay peer pull")


def _served(_: Day) -> None:
    served = operator_data.deliveries()
    if not served.endpoints and not served.items:
        st.caption(
            "No model is served from here. This serves one, and compares what it delivers with what was promised:"
        )
        to_paste("assay endpoint serve bert-base-uncased")
        return
    plain_table(endpoint_table(served), hide_index=True, border="horizontal", alt="Served models")
    st.markdown("**Promise against delivery**, the newest first")
    if served.items:
        plain_table(
            delivery_table(served.items, zone()), hide_index=True, border="horizontal", alt="What was delivered"
        )
    else:
        st.caption("Nothing was delivered yet, or nothing was compared with a promise.")


def _browser_devices(_: Day) -> None:
    links, devices = operator_data.browser_links(), operator_data.browser_devices()
    if not links and not devices:
        st.caption("No page has sent a result. This makes a link that lets any phone or laptop measure:")
        to_paste("assay browser link bert-base-uncased")
        return
    if links:
        result_table(
            columns_of(operations.link_table(links, zone())),
            key=f"{PAGE} browser links",
            words="Links to measure in a browser",
        )
    if not devices:
        st.caption("No page of these links has sent a result.")
        return
    result_table(
        columns_of(operations.device_table(devices, zone())),
        key=f"{PAGE} browser devices",
        words="Devices whose pages sent results",
    )
    waiting = next((device.device for device in devices if not device.accepted), None)
    if waiting:
        st.caption(
            "Rows of a device that is not accepted are shown, and count in no answer and no training. This accepts one:"
        )
        to_paste(f'assay browser accept {waiting} --reason "why"')


def _archive(day: Day) -> None:
    if day.archive:
        columns = columns_of(operations.archive_table(day.archive, zone()))
        result_table(columns, key=f"{PAGE} archive", words="Segments of the archive")
    else:
        st.caption("Nothing is archived. `assay archive write` moves closed positions into Parquet files.")


def _settings(day: Day) -> None:
    columns = columns_of(operations.setting_table(day, operator_data.server(), zone()))
    result_table(columns, key=f"{PAGE} settings", words="Build and settings")


_PARTS: dict[str, Callable[[Day], None]] = {
    "The last 24 hours": _day,
    "Served models": _served,
    "Tokens": _tokens,
    "Shared measurements": _shared,
    "Peers": _peers,
    "Devices with a browser": _browser_devices,
    "Archive": _archive,
    "Build and settings": _settings,
}
_LINES: dict[str, tuple[Callable[..., Any], str]] = {
    "well": (st.success, ":material/check_circle:"),
    "busy": (st.info, ":material/hourglass_top:"),
    "wrong": (st.error, ":material/error:"),
}
"""How a standing is shown, and its icon."""
