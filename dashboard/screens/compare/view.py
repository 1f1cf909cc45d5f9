"""Compare: how do these differ, and is the difference real?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import msgspec
import streamlit as st

from dashboard import answers, chips
from dashboard.address import Comparison, Params, read_comparison
from dashboard.frame import dropped, escape, guarded, header, titled, to_paste
from dashboard.page_state import adopt, current, go, turn, widget
from dashboard.screens.compare import subjects, words, workload_bar
from dashboard.screens.compare.comparison_frame import PAGE, Places
from presentation.answer_words import device_name, model_name, short_name

__all__ = ["ahead", "show"]

VIEWS = {
    "hardware": "Side by side",
    "modes": "Training",
    "precision": "Precision",
    "batch": "Batch",
}
QUESTIONS = {
    "hardware": "How do these differ, and is the difference real?",
    "models": "Which models run how fast here, and is the difference real?",
    "modes": "How much longer does a step of training take than inference?",
    "precision": "How much does a lower precision bring, and are its outputs still right?",
    "batch": "What does a larger batch bring, and where does it stop scaling?",
}
TYPED = f"{PAGE} typed"
UNKNOWN = f"{PAGE} unknown"
_NAMED_IN_TITLE = 3
Key = tuple[str, str]


def show() -> None:
    """Show one comparison: its subjects as chips, the answer in a sentence, the workload, then the rows."""
    read = current(PAGE, read_comparison)
    comparison = subjects.of_subjects(read.asked)
    slug = comparison.model or comparison.hw
    header(
        _title(comparison), QUESTIONS[comparison.what], slug="" if "," in slug or slug == _title(comparison) else slug
    )
    with guarded("The service"):
        position = answers.ready()["position"]
        at = position if comparison.as_of is None else comparison.as_of
        dropped(read.dropped)
        adopt(PAGE, comparison, {"what": _view_of(comparison), **workload_bar.values(comparison)})
        strip = st.container(horizontal=True, vertical_alignment="center", gap="small", key="strip")
        with strip:
            _subjects(comparison, at)
        _offers(comparison)
        if not (comparison.model or comparison.hw):
            _nothing_chosen(at)
            return
        titled(_title(comparison), "Compare")
        _views(comparison)
        answer = st.container(key="answer")
        workload_bar.show(comparison, at)
        if comparison.what not in subjects.SIDE_BY_SIDE and not comparison.model:
            answer.info("Add a model above.")
            return
        # Each kind is imported when it is first looked at.
        kind = "ranked" if comparison.what in subjects.SIDE_BY_SIDE else comparison.what
        module = import_module(f".{kind}_view", __package__)
        module.show(_for_one_model(comparison), at, Places(answer, strip))


def ahead(params: Params) -> None:
    """Ask what the page will ask for these parameters."""
    request = subjects.of_subjects(read_comparison(params).asked)
    models = words.models_of(request)
    if models and request.what == "hardware":
        at = answers.ready()["position"] if request.as_of is None else request.as_of
        words.known(msgspec.structs.replace(request, model=models[0]), at)


def _for_one_model(comparison: Comparison) -> Comparison:
    """Return the comparison as a kind takes it: all but those side by side are of one model."""
    models = words.models_of(comparison)
    if comparison.what in subjects.SIDE_BY_SIDE or len(models) < 2:
        return comparison
    st.caption(f"This view is of one model: {escape(models[0])}. Side by side shows all.")
    return msgspec.structs.replace(comparison, model=models[0])


def _title(comparison: Comparison) -> str:
    models = [model_name(name) for name in words.models_of(comparison)]
    named = words.devices_of(comparison)
    devices = (
        [short_name(name) for name in named] if models or len(named) > 1 else [device_name(name) for name in named]
    )
    if len(devices) > _NAMED_IN_TITLE:
        devices = [f"{len(devices)} devices"]
    if len(models) > _NAMED_IN_TITLE:
        models = [f"{len(models)} models"]
    parts = [" vs ".join(names) for names in (models, devices) if names]
    return " on ".join(parts) or "Compare"


def _subjects(comparison: Comparison, at: int) -> None:
    """Show what is compared as chips, and the box that adds to it."""
    shown: dict[str, Key] = {}
    for name in words.models_of(comparison):
        shown[model_name(name) if model_name(name) not in shown else name] = ("model", name)
    for name in words.devices_of(comparison):
        shown[device_name(name) if device_name(name) not in shown else name] = ("hw", name)
    taken = chips.removed(shown, key=PAGE, label="What is compared (tap one to remove it)")
    if taken:
        turn(PAGE, _without(comparison, taken))
    known = subjects.names(at)
    devices = sorted(answers.hardware(at), key=lambda row: -row.measurements)
    existing: list[Any] = [*(row.id for row in answers.models(at)), *(row.id for row in devices)]
    st.selectbox(
        "Add a model, hardware or workload",
        existing,
        index=None,
        key=TYPED,
        accept_new_options=True,
        label_visibility="collapsed",
        placeholder="Add: BERT-base, L4 vs A10G, fp16, batch 8",
        on_change=_add,
        args=(comparison, known),
        width=330,
    )


def _add(comparison: Comparison, known: subjects.Names) -> None:
    """Add what was typed or chosen to the address; keep what it does not name, for its offers."""
    text = st.session_state.pop(TYPED, None) or ""
    typed = subjects.read(text, known)
    st.session_state[UNKNOWN] = typed.unknown
    go(PAGE, subjects.with_typed(comparison, typed))
    st.session_state.pop(f"{PAGE} adopted", None)


def _without(comparison: Comparison, taken: list[Key]) -> Comparison:
    models = [name for name in words.models_of(comparison) if ("model", name) not in taken]
    devices = [name for name in words.devices_of(comparison) if ("hw", name) not in taken]
    what = "hardware" if comparison.what == "models" else comparison.what
    return subjects.of_subjects(
        msgspec.structs.replace(comparison, what=what, model=",".join(models), hw=",".join(devices))
    )


def _offers(comparison: Comparison) -> None:
    """Offer what a part of a name, or a mistyped one, may mean: it is never taken for a name."""
    for text, models, hardware in st.session_state.get(UNKNOWN, ()):
        found: list[Key] = [*(("model", name) for name in models), *(("hw", name) for name in hardware)]
        with st.container(horizontal=True, vertical_alignment="center", key=f"{PAGE} offers {text}"):
            st.markdown(f"Nothing is called “{escape(text)}”." + (" Did you mean:" if found else ""), width="content")
            for kind, name in found:
                if st.button(escape(name), key=f"{PAGE} offer {kind} {name}", type="tertiary"):
                    st.session_state[UNKNOWN] = ()
                    turn(PAGE, subjects.with_typed(comparison, _one(kind, name)))
            if not models and "/" in text and st.button("Add it as a model", key=f"{PAGE} as it is {text}"):
                st.session_state[UNKNOWN] = ()
                turn(PAGE, subjects.with_typed(comparison, _one("model", text)))


def _one(kind: str, name: str) -> subjects.Typed:
    return subjects.Typed(models=(name,)) if kind == "model" else subjects.Typed(hardware=(name,))


def _views(comparison: Comparison) -> None:
    """Offer the ways to look at the subjects."""
    view = st.segmented_control(
        "View",
        VIEWS,
        key=widget(PAGE, "what"),
        format_func=VIEWS.__getitem__,
        required=True,
        label_visibility="collapsed",
    )
    if view != _view_of(comparison):
        turn(PAGE, subjects.of_subjects(msgspec.structs.replace(comparison, what=view)))


def _view_of(comparison: Comparison) -> str:
    return "hardware" if comparison.what == "models" else comparison.what


def _nothing_chosen(at: int) -> None:
    with st.container(key="answer"):
        if any(row.measurements for row in answers.models(at)):
            st.info("Add models and hardware above: all in one line if you like.")
            return
        st.info("Nothing has been measured yet. Measure one model on this machine, or add one above:")
        to_paste("assay bench bert-base-uncased --platform cpu,openvino")
