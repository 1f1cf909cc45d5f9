"""Models: what is it, where does it run and how fast, and what do we not know of it?"""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import answers, menu
from dashboard.best_measured import MeasuredRow, best_of_each, same_work_first
from dashboard.downloads import sent_files, stem
from dashboard.frame import coded, downloads, dropped, escape, guarded, header, provenance, titled, to_paste
from dashboard.page_state import adopt, current, go, say, turn, widget
from dashboard.screens.models import query, words
from dashboard.screens.models.operators_view import show_operators
from dashboard.screens.models.parts_view import (
    show_about,
    show_answer,
    show_coverage,
    show_measured,
    show_ranking,
    show_ranks,
    show_tests,
    show_variants,
)
from dashboard.screens.models.words import Model
from dashboard.tables.result_table import result_table
from domain.answers.model_profile import ModelProfile
from domain.errors import AssayError, NotFound
from domain.vocabulary import CATEGORIES
from presentation import formatting

__all__ = ["show"]

logger = logging.getLogger("assay.dashboard")

PAGE = "models"
LISTED, MOST_SERVED = 50, 100
QUESTION = "What is it, where does it run, and how fast?"
TITLES = {
    "hardware": "By hardware",
    "estimates": "Estimates",
    "operators": "Operators",
    "tests": "Platforms",
    "about": "About",
}


def show() -> None:
    """Show one model by id, or a list to find one in."""
    read = current(PAGE, words.read_model)
    model: Model = read.asked
    head = st.empty()
    with head.container():
        _head(model.id)
    with guarded("The service"):
        position = answers.ready()["position"]
        dropped(read.dropped)
        strip = st.container()
        at = position if model.as_of is None else model.as_of
        if model.id:
            with guarded(model.id):
                _one(model, at, head, strip)
        else:
            _list(model, at, strip)


def _head(name: str, facts: str = "") -> None:
    owner, _, title = name.rpartition("/")
    header(title or "Models", escape(facts) or QUESTION, slug=name if owner else "")


def _provenance(strip: DeltaGenerator, model: Model, at: int, terminal: str) -> None:
    with strip:
        provenance(
            PAGE, f"position {formatting.count(at)}", msgspec.structs.replace(model, as_of=at), terminal=terminal
        )


def _list(model: Model, at: int, strip: DeltaGenerator) -> None:
    chosen = _list_bar(model)
    search = f" --search {chosen.search}" if chosen.search else ""
    _provenance(strip, chosen, at, f"assay model list --known{search}")
    filters = {name: getattr(chosen, name) or None for name in ("category", "family", "search")}
    sent = query.listed(at, LISTED + 1, measured=chosen.known == "measured", **filters)
    rows = sent.items
    if not rows:
        _none(chosen, at)
        return
    shown, more = rows[:LISTED], len(rows) > LISTED
    with st.container(key="answer"):
        first = f"The {LISTED} measured most; a search finds the others."
        st.caption(first if more else f"{formatting.count(len(shown))} found.")
        result_table(words.listed(shown, found=bool(chosen.search)), key=f"{PAGE} list", words="Models that were found")
    downloads(sent_files(stem(PAGE, chosen.search, at), sent.sent[:LISTED], as_of=at), PAGE)


def _list_bar(model: Model) -> Model:
    values = {name: getattr(model, name) for name in ("search", "category", "family", "known")}
    adopt(PAGE, model, values)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.text_input(
            "Search",
            key=widget(PAGE, "search"),
            placeholder="Part of a name: bert, llama 8b, resnet50",
            label_visibility="collapsed",
        )
        held = filter(None, (model.category, model.family, "" if model.known == "measured" else model.known))
        with st.popover(" · ".join(["Filters", *held]), icon=":material/tune:", key=f"{PAGE} filters"):
            st.selectbox(
                "Category", ["", *CATEGORIES], key=widget(PAGE, "category"), format_func=_any, filter_mode=None
            )
            st.text_input("Family", key=widget(PAGE, "family"), placeholder="bert, resnet, …")
            st.selectbox("Known", words.KNOWN, key=widget(PAGE, "known"), filter_mode=None)
    state: dict[str, Any] = {name: (st.session_state[widget(PAGE, name)] or "").strip() for name in values}
    chosen = Model(as_of=model.as_of, **state)
    if chosen != model:
        go(PAGE, chosen)
        st.rerun()
    return chosen


def _any(value: str) -> str:
    return value or "any"


def _none(chosen: Model, at: int) -> None:
    if chosen.known == "measured" and query.listed(at, 1, search=chosen.search or None).items:
        st.info("Nothing of it was measured. The catalogue has more:")
        if st.button("Show all models that are known", key=f"{PAGE} all"):
            turn(PAGE, msgspec.structs.replace(chosen, known="all"))
        return
    st.info("No model fits. A model of your own is measured by its folder or its id:")
    to_paste("assay bench ./my-checkpoint")


def _one(model: Model, at: int, head: DeltaGenerator, strip: DeltaGenerator) -> None:
    try:
        document = query.one(model.id, at)
    except NotFound as problem:
        _unknown(model, at, problem)
        return
    row = document.model
    model = msgspec.structs.replace(model, id=row.id)
    titled(row.id, "Models")
    with head.container():
        _head(row.id, words.facts_line(row))
    with strip, st.container(horizontal=True, vertical_alignment="center"):
        _back(model)
        _provenance(st.container(width="content"), model, at, f"assay model show {row.id}")
        if st.button("What was never tried", key=f"{PAGE} gaps", type="tertiary", icon=":material/checklist:"):
            _never_tried(document, at)
    rows = _measured(document, at)
    show_answer(document, rows)
    model = _tabs(model)
    with guarded(TITLES[model.tab]):
        if model.tab == "hardware":
            show_measured(document, rows, at)
            show_variants(row.id, at)
            show_ranks(document, at)
        elif model.tab == "estimates":
            show_ranking(model, at)
        elif model.tab == "operators":
            show_operators(model, same_work_first(rows)[0], at)
        elif model.tab == "tests":
            show_tests(document, at)
        else:
            show_about(document)


def _measured(document: ModelProfile, at: int) -> list[MeasuredRow]:
    """Return the fastest row of each device; of what is only served, by its tokens."""
    name = document.model.id
    rows = best_of_each(query.compared(name, at), "hardware")
    if rows or not document.model.measurements:
        return rows
    try:
        served = words.served_rows(query.ranking(name, at, "inference", "throughput", MOST_SERVED))
    except AssayError as problem:
        logger.info("No ranking of %s: %s", name, problem)
        served = []
    return served or words.noted_rows(document)


def _never_tried(document: ModelProfile, at: int) -> None:
    def show() -> None:
        with guarded("What was never tried"):
            show_coverage(document, at)

    st.dialog("What was never tried", width="large")(show)()


def _unknown(model: Model, at: int, problem: NotFound) -> None:
    st.warning(f"**{coded(problem.detail)}**", icon=":material/search_off:")
    near = query.listed(at, 5, search=model.id).items
    if near:
        st.caption("Did you mean")
        for row in near:
            st.page_link(menu.page(PAGE), label=escape(row.id), query_params={"id": row.id})
    elif problem.remedy:
        st.caption(coded(problem.remedy))
    _back(model)


def _back(model: Model) -> None:
    if st.button("All models", key=f"{PAGE} back", icon=":material/arrow_back:", type="tertiary"):
        turn(PAGE, Model(as_of=model.as_of))


def _tabs(model: Model) -> Model:
    say(PAGE, model)
    adopt(PAGE, model, {"tab": model.tab})
    st.segmented_control(
        "Part",
        words.TABS,
        key=widget(PAGE, "tab"),
        required=True,
        format_func=TITLES.__getitem__,
        label_visibility="collapsed",
    )
    chosen = msgspec.structs.replace(model, tab=st.session_state[widget(PAGE, "tab")] or model.tab)
    if chosen != model:
        go(PAGE, chosen)
        st.rerun()
    return chosen
