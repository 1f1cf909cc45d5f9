"""Hardware: what is it, how close to its limit does it run, and what do we know of it?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import answers, menu
from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import (
    basis_legend,
    chart,
    coded,
    downloads,
    dropped,
    escape,
    folded,
    guarded,
    header,
    places,
    plain_table,
    provenance,
    theme,
    titled,
    to_paste,
)
from dashboard.page_state import adopt, current, go, say, turn, widget
from dashboard.screens.hardware import query, words
from dashboard.screens.hardware import roofline as roofs
from dashboard.screens.hardware import words as device
from dashboard.screens.hardware.kernels_view import show_kernels
from dashboard.screens.hardware.words import Device
from domain.answers.device import HardwareCoverage, HardwareProfile, Roofline, RooflinePoint
from domain.errors import NotFound
from domain.vocabulary import HARDWARE_KINDS, MODES
from presentation import formatting
from presentation.answer_words import device_name
from presentation.charts.roofline_chart import roofline

__all__ = ["show", "show_machines"]

MOST = 50


def show_machines(row: HardwareProfile, at: int) -> None:
    """Show what an hour costs, in which environments it was seen, and which names mean it."""
    _prices(row, at)
    _environments(row, at)
    _names(row)


def _prices(row: HardwareProfile, at: int) -> None:
    st.markdown("**Prices**")
    prices = row.prices
    if not prices:
        st.caption("No price is known. This adds one:")
        to_paste(f"assay price add {row.id} --usd-per-hour 1.20")
        return
    stale = sum(1 for price in prices if price.stale)
    text = f"{formatting.count(len(prices))} price{'' if len(prices) == 1 else 's'}, cheapest device first"
    old = f"; {formatting.count(stale)} stale: older than 90 days, or undated" if stale else ""
    st.caption(text + old)
    st.dataframe(
        words.prices_table(prices),
        hide_index=True,
        key="hardware prices",
        row_height=36,
        height="content" if len(prices) <= 10 else 400,
        alt=f"Prices of {row.id}",
        column_config={"Machine": st.column_config.Column(pinned=True)},
    )
    downloads(
        table_files(stem("hardware", f"{row.id}_prices", at), msgspec.to_builtins(prices), as_of=at), "hardware prices"
    )


def _environments(row: HardwareProfile, at: int) -> None:
    st.markdown("**Environments it was seen in**")
    seen = row.environments
    if not seen:
        st.caption("None was recorded.")
        return
    st.dataframe(
        words.environments_table(seen[-MOST:]),
        hide_index=True,
        key="hardware environments",
        row_height=36,
        height="content" if len(seen) <= 10 else 400,
        placeholder=formatting.MISSING,
        alt=f"Environments of {row.id}",
        column_config={"Fingerprint": st.column_config.Column(pinned=True)},
    )
    if len(seen) > MOST:
        st.caption(f"The newest {MOST} of {formatting.count(len(seen))}.")
    downloads(
        table_files(stem("hardware", f"{row.id}_environments", at), msgspec.to_builtins(seen), as_of=at),
        "hardware environments",
    )


def _names(row: HardwareProfile) -> None:
    st.markdown("**Other names**")
    st.caption(escape(", ".join(row.aliases) or "none"))
    for item in row.merged:
        why = f" ({item.reason})" if item.reason else ""
        st.caption(escape(f"{item.alias} means it, declared at position {formatting.count(item.position)}{why}"))


PAGE = "hardware"
LISTED = 50
QUESTION = "What is it, how close to its limit does it run, and what do we know of it?"
TITLES = {
    "roofline": "Roofline",
    "kernels": "Kernels",
    "models": "Models",
    "siblings": "Siblings",
    "machines": "Machines",
}
NUMBER = st.column_config.NumberColumn
COUNT = NUMBER(format="localized")
ANY = ""
"""No filter."""


def show() -> None:
    """Show one hardware by id, or a list to find one in."""
    read = current(PAGE, device.read_device)
    request: Device = read.asked
    head = st.empty()
    with head.container():
        name = device_name(request.id) if request.id else "Hardware"
        header(name, QUESTION, slug=request.id if name != request.id else "")
    with guarded("The service"):
        position = answers.ready()["position"]
        dropped(read.dropped)
        strip = st.container()
        at = position if request.as_of is None else request.as_of
        if request.id:
            with guarded(request.id):
                _one(request, at, head, strip)
        else:
            _list(request, at, strip)


def _provenance(strip: DeltaGenerator, device: Device, at: int, terminal: str) -> None:
    with strip:
        provenance(
            PAGE, f"position {formatting.count(at)}", msgspec.structs.replace(device, as_of=at), terminal=terminal
        )


def _list(request: Device, at: int, strip: DeltaGenerator) -> None:
    chosen = _list_bar(request)
    _provenance(strip, chosen, at, f"assay hardware list{f' --kind {chosen.kind}' if chosen.kind else ''}")
    filters = {name: getattr(chosen, name) or None for name in ("kind", "vendor", "search")}
    measured = chosen.known == "measured"
    rows = query.listed(at, LISTED + 1, measured=measured, **filters)
    if not rows:
        _none(chosen, at)
        return
    shown, more = rows[:LISTED], len(rows) > LISTED
    count = f"The {LISTED} that were measured most; a search finds the others." if more else None
    st.caption(count or f"{formatting.count(len(shown))} found. Choose a row, or a name below, to open it.")
    picked = st.dataframe(
        device.listed(shown),
        hide_index=True,
        key=f"{PAGE} list",
        row_height=36,
        on_select="rerun",
        selection_mode="single-row",
        height="content" if len(shown) <= 15 else 560,
        alt="Hardware that was found",
        column_config={"Hardware": st.column_config.Column(pinned=True), "Measurements": COUNT},
    )
    _open([str(row.id) for row in shown], picked["selection"]["rows"], chosen)
    downloads(query.listed_files(stem(PAGE, chosen.search, at), at, LISTED, measured=measured, **filters), PAGE)


def _open(ids: Sequence[str], rows: Sequence[int], chosen: Device) -> None:
    """Open what a row or a name chooses; the name is there for those who use no mouse."""
    named = st.selectbox("Open", ids, index=None, key=f"{PAGE} open", placeholder="Name of the hardware")
    name = ids[rows[0]] if rows else named
    if name:
        turn(PAGE, Device(id=name, as_of=chosen.as_of))


def _list_bar(request: Device) -> Device:
    values = {name: getattr(request, name) for name in ("search", "kind", "vendor", "known")}
    adopt(PAGE, request, values)
    first = places(4, 2, 2, 2)
    first[0].text_input("Search", key=widget(PAGE, "search"), placeholder="Part of a name or alias: rtx4090, epyc, M2")
    kinds = [ANY, *HARDWARE_KINDS]
    first[1].selectbox("Kind", kinds, key=widget(PAGE, "kind"), format_func=_any, filter_mode=None)
    first[2].text_input("Vendor", key=widget(PAGE, "vendor"), placeholder="nvidia, amd, intel, …")
    first[3].selectbox("Known", device.KNOWN, key=widget(PAGE, "known"), filter_mode=None)
    state = {name: st.session_state[widget(PAGE, name)] or "" for name in values}
    chosen = Device(as_of=request.as_of, **{**state, "vendor": state["vendor"].strip().lower()})
    if chosen != request:
        go(PAGE, chosen)
        st.rerun()
    return chosen


def _any(value: str) -> str:
    return value or "any"


def _none(chosen: Device, at: int) -> None:
    if chosen.known == "measured" and query.listed(at, 1, **({"search": chosen.search} if chosen.search else {})):
        st.info("Nothing of it was measured. The catalogue has more:")
        if st.button("Show what is known of all hardware", key=f"{PAGE} all"):
            turn(PAGE, Device(search=chosen.search, known="all", as_of=chosen.as_of))
        return
    st.info("No hardware fits. This tells the service what this machine is:")
    to_paste("assay bench bert-base-uncased")


def _one(device: Device, at: int, head: DeltaGenerator, strip: DeltaGenerator) -> None:
    try:
        row = query.profile(device.id, at)
    except NotFound as problem:
        _unknown(device, at, problem)
        return
    device = msgspec.structs.replace(device, id=str(row.id))
    device = _tabs(device)
    _provenance(strip, device, at, f"assay hardware show {row.id}")
    name = row.name or row.id
    titled(name, "Hardware")
    with head.container():
        header(name, QUESTION, slug=row.id if name != row.id else "")
    st.caption(_identity(row))
    if device.tab == "roofline":
        left, right = st.columns([1, 2], gap="large")
        with right, guarded("The roofline"):
            _roofline(device, row, at)
        with left:
            _spec(row)
    elif device.tab == "kernels":
        with guarded("The kernels"):
            show_kernels(device, at)
    elif device.tab == "models":
        with guarded("What was tried"):
            _models(query.coverage(device.id, at), at)
    elif device.tab == "siblings":
        with guarded("The siblings"):
            _siblings(device, query.coverage(device.id, at), at)
    else:
        show_machines(row, at)


def _identity(row: HardwareProfile) -> str:
    existing = {
        "detected": "seen by a runner",
        "reported": "reported by others",
        "catalogued": "from the catalogue only",
    }
    parts = [row.kind or "kind unknown", row.vendor or "vendor unknown"]
    parts += [str(part) for part in (row.architecture, row.year) if part]
    memory = device.figures(row).get("memory_bytes")
    parts += [formatting.capacity(memory.value)] if memory else []
    parts += [existing.get(row.known, row.known), f"{formatting.count(row.measurements)} measurements"]
    names = list(dict.fromkeys([*row.aliases, *(item.alias for item in row.merged)]))
    if names:
        parts.append(f"also called {', '.join(names[:6])}")
    return escape(" · ".join(map(str, parts)))


def _unknown(device: Device, at: int, problem: NotFound) -> None:
    st.warning(f"**{coded(problem.detail)}**", icon=":material/search_off:")
    near = query.listed(at, 5, search=device.id)
    if near:
        st.caption("Did you mean")
        for row in near:
            st.page_link(menu.page(PAGE), label=escape(str(row.id)), query_params={"id": row.id})
    elif problem.remedy:
        st.caption(coded(problem.remedy))
    if st.button("All hardware", key=f"{PAGE} back", icon=":material/arrow_back:"):
        turn(PAGE, Device(as_of=device.as_of))


def _tabs(request: Device) -> Device:
    say(PAGE, request)
    values = {name: getattr(request, name) for name in ("tab", "platform", "precision", "mode", "operator")}
    adopt(PAGE, request, values)
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("All hardware", key=f"{PAGE} back", icon=":material/arrow_back:", type="tertiary"):
            turn(PAGE, Device(as_of=request.as_of))
        st.segmented_control(
            "Part",
            device.TABS,
            key=widget(PAGE, "tab"),
            required=True,
            format_func=TITLES.__getitem__,
            label_visibility="collapsed",
        )
    chosen = msgspec.structs.replace(request, tab=st.session_state[widget(PAGE, "tab")] or request.tab)
    if chosen != request:
        go(PAGE, chosen)
        st.rerun()
    return chosen


def _spec(row: HardwareProfile) -> None:
    plain_table(device.spec_table(row), hide_index=True, border="horizontal", alt=f"Specification of {row.id}")
    folded("Where the figures come from", partial(_sources, row), key=f"{PAGE} sources")


def _sources(row: HardwareProfile) -> None:
    plain_table(device.sources_table(row), hide_index=True, border="horizontal", alt="Sources of the specification")
    st.caption(
        "sourced: read in a publisher's document · derived: computed by the formula · unverified: generally known, no "
        "document at hand · measured: read from a machine or reached there · unknown: nobody said"
    )


def _roofline(device: Device, row: HardwareProfile, at: int) -> None:
    device = _points_bar(device, row)
    document = query.roofline(device.id, at, **_narrowed(device))
    sentence = roofs.sentence(document, device.id)
    with st.container(key="answer"):
        st.markdown(f"**{escape(sentence)}**")
    if not document.roofs:
        st.info("Its peak is not known, so there is no roof to draw. A runner on the machine finds it:")
        to_paste("assay detect")
        return
    lines, feed, shade = roofs.roofs(document), roofs.bandwidth(document), theme()
    points, drawn_roofs = msgspec.to_builtins(document.points), msgspec.to_builtins(lines)
    drawn = roofline(points, drawn_roofs, feed, theme=shade)
    chart(drawn, key=f"{PAGE} picture", words=f"Roofline of {device.id}: {sentence}")
    if feed is None:
        st.caption("Its bandwidth is not known: only the flat part of the roof can be drawn.")
    if document.points:
        basis_legend(points)
    st.caption(escape(roofs.standing(document)) or "Nothing was measured on it.")
    _check(document)
    _points(device, document, sentence, at)


def _narrowed(device: Device) -> dict[str, str | None]:
    return {name: getattr(device, name) or None for name in ("platform", "precision", "mode")}


def _points_bar(request: Device, row: HardwareProfile) -> Device:
    described = row.described_platforms or ()
    platforms = [item.platform for item in described if item.available] or list(row.platforms or {})
    rates = [name.partition(".")[2] for name in device.figures(row) if name.startswith("peak_flops.")]
    columns = st.columns(3)
    offered = {"platform": platforms, "precision": sorted({*rates, "amp-fp16", "amp-bf16"}), "mode": list(MODES)}
    for column, (name, options) in zip(columns, offered.items(), strict=True):
        held = getattr(request, name)
        among = list(dict.fromkeys([ANY, *options, held]))
        column.selectbox(name.capitalize(), among, key=widget(PAGE, name), format_func=_any, filter_mode=None)
    chosen = msgspec.structs.replace(request, **{name: st.session_state[widget(PAGE, name)] for name in offered})
    if chosen != request:
        go(PAGE, chosen)
        st.rerun()
    return chosen


def _check(document: Roofline) -> None:
    if not document.above_count:
        return
    st.markdown(f"**Check these** :gray[{formatting.count(document.above_count)} over their roof, ringed above]")
    st.dataframe(
        roofs.above_table(document.above),
        hide_index=True,
        key=f"{PAGE} above",
        row_height=36,
        height="content" if len(document.above) <= 6 else 250,
        alt="Points over their roof",
        column_config={"Configuration": st.column_config.Column(pinned=True)},
    )
    first = f" The table has the first {len(document.above)}." if len(document.above) < document.above_count else ""
    st.caption(f"{roofs.over(document)}.{first}")


def _points(device: Device, document: Roofline, sentence: str, at: int) -> None:
    rows = document.points
    if not rows:
        return
    folded(f"All {formatting.count(len(rows))} points as a table", partial(_table, rows), key=f"{PAGE} folded")
    points, lines = msgspec.to_builtins(rows), msgspec.to_builtins(roofs.roofs(document))
    feed, shade = roofs.bandwidth(document), theme()
    footer = f"position {formatting.count(at)} · {formatting.count(len(rows))} marks for {formatting.count(document.placed)} rows"

    draw = partial(roofline, points, lines, feed, theme=shade, picture=True)
    name = stem(PAGE, device.id, at)
    pictures = picture_files(name, draw, f"Roofline of {device.id}", answer=sentence, footer=footer)
    downloads([*query.points_files(name, device.id, at, **_narrowed(device)), *pictures], PAGE)


def _table(rows: Sequence[RooflinePoint]) -> None:
    st.dataframe(
        roofs.points_table(rows),
        hide_index=True,
        key=f"{PAGE} points",
        row_height=36,
        height=400,
        placeholder=formatting.MISSING,
        alt="Points of the roofline",
        column_config={
            "Model": st.column_config.Column(pinned=True),
            "Of its roof, %": NUMBER(format="%.1f"),
            "GFLOP/s": NUMBER(format="localized"),
            "FLOP per byte": NUMBER(format="%.2f"),
            "Latency ms": NUMBER(format="%.3f"),
            "n": NUMBER(format="localized"),
        },
    )


def _models(document: HardwareCoverage, at: int) -> None:
    if not document.items:
        st.info("Nothing was tried on it. On the machine itself this measures a small set:")
        to_paste("assay bench --models-set small")
        return
    tried, families = formatting.count(document.families_tried), formatting.count(document.families)
    st.markdown(f"**{tried} of {families} families of models were tried on it**")
    if document.best:
        st.markdown("Fastest measured of each category")
        st.dataframe(
            device.best_table(document.best),
            hide_index=True,
            key=f"{PAGE} best",
            row_height=36,
            height="content",
            alt="Fastest configuration of each category",
            column_config={"Category": st.column_config.Column(pinned=True)},
        )
        st.caption("Different models: a category's fastest is the lightest work, not the best fit.")
        _links("models", [row.model for row in document.best])
        request = {"what": "models", "hw": document.hardware}
        st.page_link(menu.page("compare"), label="All models measured on it, side by side", query_params=request)
    st.markdown("What was tried, by family")
    shown = document.items
    st.dataframe(
        device.families_table(shown),
        hide_index=True,
        key=f"{PAGE} families",
        row_height=36,
        height="content" if len(shown) <= 12 else 460,
        alt="Coverage by family",
        column_config={
            "Family": st.column_config.Column(pinned=True),
            "Tried": st.column_config.ProgressColumn("Tried, %", format="%.0f", min_value=0, max_value=100),
        },
    )
    if document.next_cursor:
        st.caption(f"The {formatting.count(len(shown))} rows with the most models tried.")
    downloads(
        table_files(stem(PAGE, f"{document.hardware}_families", at), msgspec.to_builtins(shown), as_of=at),
        f"{PAGE} families",
    )


def _links(page: str, names: Sequence[str]) -> None:
    with st.container(horizontal=True):
        for name in dict.fromkeys(names):
            st.page_link(menu.page(page), label=escape(name), query_params={"id": name})


def _siblings(request: Device, document: HardwareCoverage, at: int) -> None:
    rows = document.siblings
    if not rows:
        st.info("Nothing of its kind is in the catalogue, and no other hardware ran its models.")
        return
    st.dataframe(
        device.siblings_table(rows),
        hide_index=True,
        key=f"{PAGE} siblings",
        row_height=36,
        height="content",
        alt=f"Hardware like {request.id}",
        column_config={"Hardware": st.column_config.Column(pinned=True)},
    )
    st.caption(
        "× is the other's figure over this one's. Speed is the median over configurations measured on both: the same model, "
        "work, batch and precision; software may differ."
    )
    _links(PAGE, [str(row.id) for row in rows])
    downloads(
        table_files(stem(PAGE, f"{request.id}_siblings", at), msgspec.to_builtins(rows), as_of=at), f"{PAGE} siblings"
    )
