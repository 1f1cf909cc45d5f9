"""Models: what is it, where does it run and how fast, and what do we not know of it?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import answers, menu
from dashboard.downloads import sent_files, stem
from dashboard.frame import coded, downloads, dropped, escape, guarded, header, places, provenance, titled, to_paste
from dashboard.page_state import adopt, current, go, say, turn, widget
from dashboard.screens.models import query, words
from dashboard.screens.models.operators_view import show_operators
from dashboard.screens.models.parts_view import show_about, show_coverage, show_ranking, show_tests
from dashboard.screens.models.words import Model
from domain.answers.model_profile import ModelIdentity
from domain.errors import NotFound
from domain.vocabulary import CATEGORIES
from presentation import formatting

__all__ = ["show"]

PAGE = "models"
LISTED = 50
QUESTION = "What is it, where does it run and how fast, and what do we not know of it?"
TITLES = {
    "about": "About",
    "hardware": "Ranking",
    "operators": "Operators",
    "tests": "Where it runs",
    "coverage": "Gaps",
}
COUNT = st.column_config.NumberColumn(format="localized")


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


def _head(name: str) -> None:
    owner, _, title = name.rpartition("/")
    header(title or "Models", QUESTION, slug=name if owner else "")


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
    first = f"The {LISTED} that were measured most; a search finds the others."
    st.caption(first if more else f"{formatting.count(len(shown))} found. Choose a row, or a name below, to open it.")
    picked = st.dataframe(
        words.listed(shown),
        hide_index=True,
        key=f"{PAGE} list",
        row_height=36,
        on_select="rerun",
        selection_mode="single-row",
        height="content" if len(shown) <= 15 else 560,
        alt="Models that were found",
        column_config={"Model": st.column_config.Column(pinned=True), "Measurements": COUNT, "Tests": COUNT},
        column_order=None if chosen.search else [name for name in words.listed([]).columns if name != "Found by"],
    )
    _open([row.id for row in shown], picked["selection"]["rows"], chosen)
    downloads(sent_files(stem(PAGE, chosen.search, at), sent.sent[:LISTED], as_of=at), PAGE)


def _open(ids: Sequence[str], rows: Sequence[int], chosen: Model) -> None:
    """Open what a row or a name chooses; the name is there for those who use no mouse."""
    named = st.selectbox("Open", ids, index=None, key=f"{PAGE} open", placeholder="Name of the model")
    name = ids[rows[0]] if rows else named
    if name:
        turn(PAGE, Model(id=name, as_of=chosen.as_of))


def _list_bar(model: Model) -> Model:
    values = {name: getattr(model, name) for name in ("search", "category", "family", "known")}
    adopt(PAGE, model, values)
    first = places(4, 2, 2, 2)
    hint = "Part of a name: bert, llama 8b, resnet50"
    first[0].text_input("Search", key=widget(PAGE, "search"), placeholder=hint)
    first[1].selectbox(
        "Category",
        ["", *CATEGORIES],
        key=widget(PAGE, "category"),
        format_func=lambda value: value or "any",
        filter_mode=None,
    )
    first[2].text_input("Family", key=widget(PAGE, "family"), placeholder="bert, resnet, …")
    first[3].selectbox("Known", words.KNOWN, key=widget(PAGE, "known"), filter_mode=None)
    state: dict[str, Any] = {name: (st.session_state[widget(PAGE, name)] or "").strip() for name in values}
    chosen = Model(as_of=model.as_of, **state)
    if chosen != model:
        go(PAGE, chosen)
        st.rerun()
    return chosen


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
    model = _tabs(msgspec.structs.replace(model, id=row.id))
    _provenance(strip, model, at, f"assay model show {row.id}")
    titled(row.id, "Models")
    with head.container():
        _head(row.id)
    st.caption(_identity(row))
    with guarded(TITLES[model.tab]):
        if model.tab == "about":
            show_about(document, at)
        elif model.tab == "hardware":
            show_ranking(model, at)
        elif model.tab == "operators":
            show_operators(model, document, at)
        elif model.tab == "tests":
            show_tests(document, at)
        else:
            show_coverage(document, at)


def _identity(row: ModelIdentity) -> str:
    parts = [str(row.category or "category unknown").replace("_", " "), row.family or "family unknown"]
    size = row.parameters or row.parameters_about
    parts += [f"{formatting.parameters(size)} parameters"] if size else []
    counts = {"measurement": row.measurements, "test": row.tests, "trace": row.traces}
    parts += [f"{formatting.count(count)} {noun}{'' if count == 1 else 's'}" for noun, count in counts.items()]
    return escape(" · ".join(parts))


def _unknown(model: Model, at: int, problem: NotFound) -> None:
    st.warning(f"**{coded(problem.detail)}**", icon=":material/search_off:")
    near = query.listed(at, 5, search=model.id).items
    if near:
        st.caption("Did you mean")
        for row in near:
            st.page_link(menu.page(PAGE), label=escape(row.id), query_params={"id": row.id})
    elif problem.remedy:
        st.caption(coded(problem.remedy))
    if st.button("All models", key=f"{PAGE} back", icon=":material/arrow_back:"):
        turn(PAGE, Model(as_of=model.as_of))


def _tabs(model: Model) -> Model:
    say(PAGE, model)
    adopt(PAGE, model, {"tab": model.tab})
    with st.container(horizontal=True, vertical_alignment="center"):
        if st.button("All models", key=f"{PAGE} back", icon=":material/arrow_back:", type="tertiary"):
            turn(PAGE, Model(as_of=model.as_of))
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
