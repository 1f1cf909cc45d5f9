"""Hardware: what is it, how fast do models run on it, how close to its limit, and what do we know of it?"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import answers, menu
from dashboard.best_measured import MeasuredRow, best_of_each
from dashboard.downloads import stem
from dashboard.frame import coded, downloads, dropped, escape, guarded, header, provenance, titled, to_paste
from dashboard.page_state import adopt, current, go, say, turn, widget
from dashboard.screens.hardware import query, words
from dashboard.screens.hardware.kernels_view import show_kernels
from dashboard.screens.hardware.parts_view import (
    show_answer,
    show_gaps,
    show_machines,
    show_models,
    show_siblings,
    show_specification,
)
from dashboard.screens.hardware.roofline_view import show_near_limits, show_roofline
from dashboard.screens.hardware.words import Device
from dashboard.tables.result_table import result_table
from domain.answers.device import HardwareProfile
from domain.errors import NotFound
from domain.vocabulary import HARDWARE_KINDS
from presentation import formatting
from presentation.answer_words import device_name

__all__ = ["show"]

PAGE = "hardware"
LISTED = 50
QUESTION = "What is it, and how fast do models run on it?"
TITLES = {
    "models": "By model",
    "roofline": "Limits",
    "kernels": "Kernels",
    "siblings": "Siblings",
    "specification": "Specification",
    "machines": "Machines",
}
ANY = ""
"""No filter."""


def show() -> None:
    """Show one hardware by id, or a list to find one in."""
    read = current(PAGE, words.read_device)
    request: Device = read.asked
    head = st.empty()
    with head.container():
        _head(request.id, device_name(request.id))
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


def _head(id_: str, name: str, facts: str = "") -> None:
    header(name or "Hardware", escape(facts) or QUESTION, slug=id_ if name != id_ else "")


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
    with st.container(key="answer"):
        first = f"The {LISTED} measured most; a search finds the others."
        st.caption(first if more else f"{formatting.count(len(shown))} found.")
        result_table(words.listed(shown, catalogue=not measured), key=f"{PAGE} list", words="Hardware that was found")
    downloads(query.listed_files(stem(PAGE, chosen.search, at), at, LISTED, measured=measured, **filters), PAGE)


def _list_bar(request: Device) -> Device:
    values = {name: getattr(request, name) for name in ("search", "kind", "vendor", "known")}
    adopt(PAGE, request, values)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        hint = "Part of a name or alias: rtx4090, epyc, M2"
        st.text_input("Search", key=widget(PAGE, "search"), placeholder=hint, label_visibility="collapsed")
        held = filter(None, (request.kind, request.vendor, "" if request.known == "measured" else request.known))
        with st.popover(" · ".join(["Filters", *held]), icon=":material/tune:", key=f"{PAGE} filters"):
            kinds = [ANY, *HARDWARE_KINDS]
            st.selectbox("Kind", kinds, key=widget(PAGE, "kind"), format_func=_any, filter_mode=None)
            st.text_input("Vendor", key=widget(PAGE, "vendor"), placeholder="nvidia, amd, intel, …")
            st.selectbox("Known", words.KNOWN, key=widget(PAGE, "known"), filter_mode=None)
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
    name = row.name or row.id
    titled(name, "Hardware")
    with head.container():
        _head(row.id, name, words.facts_line(row))
    with strip, st.container(horizontal=True, vertical_alignment="center"):
        _back(device)
        _provenance(st.container(width="content"), device, at, f"assay hardware show {row.id}")
        if st.button("What was never tried", key=f"{PAGE} gaps", type="tertiary", icon=":material/checklist:"):
            _never_tried(row.id, at)
    compared = query.compared(row.id, at)
    rows = best_of_each(compared, "model")
    show_answer(row, rows, cut=len(compared) >= query.MOST_CONFIGURATIONS)
    device = _tabs(device)
    with guarded(TITLES[device.tab]):
        _part(device, row, rows, at)


def _part(device: Device, row: HardwareProfile, rows: Sequence[MeasuredRow], at: int) -> None:
    if device.tab == "models":
        show_models(row, rows, at)
        show_near_limits(row, at)
    elif device.tab == "roofline":
        show_roofline(device, row, at)
    elif device.tab == "kernels":
        show_kernels(device, at)
    elif device.tab == "siblings":
        show_siblings(query.coverage(device.id, at), at)
    elif device.tab == "specification":
        show_specification(row)
    else:
        show_machines(row, at)


def _never_tried(name: str, at: int) -> None:
    def show() -> None:
        with guarded("What was never tried"):
            show_gaps(query.coverage(name, at), at)

    st.dialog("What was never tried", width="large")(show)()


def _unknown(device: Device, at: int, problem: NotFound) -> None:
    st.warning(f"**{coded(problem.detail)}**", icon=":material/search_off:")
    near = query.listed(at, 5, search=device.id)
    if near:
        st.caption("Did you mean")
        for row in near:
            st.page_link(menu.page(PAGE), label=escape(str(row.id)), query_params={"id": row.id})
    elif problem.remedy:
        st.caption(coded(problem.remedy))
    _back(device)


def _back(device: Device) -> None:
    if st.button("All hardware", key=f"{PAGE} back", icon=":material/arrow_back:", type="tertiary"):
        turn(PAGE, Device(as_of=device.as_of))


def _tabs(request: Device) -> Device:
    say(PAGE, request)
    values = {name: getattr(request, name) for name in ("tab", "platform", "precision", "mode", "operator")}
    adopt(PAGE, request, values)
    st.segmented_control(
        "Part",
        words.TABS,
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
