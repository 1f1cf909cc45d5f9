"""The form of the Recommend page: its widgets are filled from the question and read back into one. A field adds a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from assay.client.row_types import Model
from dashboard import answers, menu
from dashboard.address import number, parameters
from dashboard.frame import escape, guarded
from dashboard.page_state import adopt, go, turn, widget
from dashboard.screens.recommend.question import COMPILED, OBJECTIVES, PERCENTILES, Question, read_question
from domain.calls import CALLS
from domain.catalogues import hardware
from domain.catalogues.search import matches, meant
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS
from presentation.answer_words import device_name, model_name

__all__ = ["REFUSED", "show_adding", "show_form"]

PAGE = "recommend"
NEAREST = 6
"""Models or devices that are offered for a name that is none."""
REFUSED = f"{PAGE} refused"
"""Where the form leaves the sentences on what it did not understand, for the run that follows."""
EVERYTHING, OWN = "all", "own"
MIXES = {"latency:0.5,cost:0.5": "latency and cost alike", "latency:0.5,energy:0.5": "latency and energy alike"}
LISTS = ("hw", "vendor", "platform", "precision", "region", "provider")
GENERATE = ("text_generation", "text_to_text", "multimodal")
SERVED = {
    "max_ttft": "First token within, ms",
    "max_tpot": "Each token within, ms",
    "min_tokens": "Tokens a second, at least",
    "input": "Tokens of the prompt",
    "output": "Tokens to generate",
    "concurrency": "Requests at a time",
}
"""What only a model that generates text has."""
SIZES = {
    "seq": ("Sequence length, tokens", ("embedding", "text_generation", "text_to_text", "multimodal")),
    "image": ("Image size, pixels", ("vision", "multimodal", "video", "diffusion")),
    "images": ("Images of a prompt", ("multimodal",)),
    "audio": ("Audio, seconds", ("audio",)),
    "frames": ("Frames of a clip", ("video",)),
    "steps": ("Steps of an image", ("diffusion",)),
}
LIMITS = {
    "max_ms": "Latency at most, ms",
    "max_usd": "Price at most, $/h",
    "max_gb": "Memory at most, GB",
    "min_per_s": "Items a second, at least",
    "max_w": "Rated power at most, W",
    "max_loss": "Quality loss at most, points",
    "max_mb": "Files at most, MB",
}
FIRST = {"model", "objective", "pct"}
BOUNDS = {*LIMITS, "max_ttft", "max_tpot", "min_tokens", "confidence"}
"""What stands in the form always, and what under Limits; the rest is of the work, the hardware and the prices."""
WHOLE = ("seq", "image", "images", "frames", "steps", "input", "output", "concurrency", "count")


def show_form(question: Question, position: int) -> None:
    """Show the form filled with the question; sent, it makes what it says the address."""
    models = answers.models(position)
    with st.form(PAGE, border=True):
        first = st.columns([4, 3, 2, 2], vertical_alignment="bottom")
        limits = _part("Limits", ":material/speed:", "limits")
        filters = _part("Work, hardware and prices", ":material/tune:", "filters")
        shown = _shown(question, _category(question.model, models))
        shown -= (set() if limits else BOUNDS) | (set() if filters else set(_values(question)) - BOUNDS - FIRST)
        adopt(PAGE, question, {name: value for name, value in _values(question).items() if name in shown})
        _first(first, question, models)
        if limits:
            with limits:
                _limits(shown)
        if filters:
            with filters:
                _filters(question, shown, position)
        with first[3]:
            sent = st.form_submit_button("Rank hardware", width="stretch")
    if sent:
        st.session_state[f"{PAGE} form"] = False
        with guarded("The question"):
            asked = _asked(question, shown)
            nearest = _nearest(asked.model, models)
            if nearest:
                _offer(asked, nearest)
                return
            go(PAGE, asked)
            st.rerun()


def _nearest(name: str, models: Sequence[Model]) -> list[str]:
    """Return the models that a name may mean, best first; none where it names one exactly, or is like none."""
    names = {row.id: row.aliases for row in models}
    if meant(name, names):
        return []
    return [match.id for match in matches(name, names)][:NEAREST]


def _offer(question: Question, nearest: Sequence[str]) -> None:
    """Offer the models that a part of a name, or a mistyped one, may mean; none is taken for it."""
    st.warning(f"No model is called “{escape(question.model)}”. Did you mean:", icon=":material/search_off:")
    with st.container(horizontal=True, key=f"{PAGE} nearest"):
        for name in nearest:
            params = parameters(msgspec.structs.replace(question, model=name))
            st.page_link(menu.page(PAGE), label=escape(name), query_params=dict(params))


def _part(words: str, icon: str, name: str) -> DeltaGenerator | None:
    """Offer a part of the form; return where its inputs stand once it was unfolded, for they keep what was typed when it is folded."""
    part = st.expander(words, icon=icon, key=widget(PAGE, name), on_change="rerun")
    made = widget(PAGE, f"{name} made")
    st.session_state[made] = st.session_state.get(made, False) or bool(part.open)
    return part if st.session_state[made] else None


def _first(columns: Sequence[DeltaGenerator], question: Question, models: Sequence[Model]) -> None:
    """Show what every question says."""
    with columns[0]:
        st.selectbox(
            "Model",
            _with([row.id for row in models], [question.model]),
            index=None,
            key=widget(PAGE, "model"),
            accept_new_options=True,
            placeholder="Type a part of its name, or a new id",
        )
    with columns[1]:
        st.selectbox(
            "Objective",
            _with([*OBJECTIVES, *MIXES], [question.objective]),
            key=widget(PAGE, "objective"),
            accept_new_options=True,
            format_func=lambda name: MIXES.get(name, name),
            help="One, or a mix that you type: latency:0.7,cost:0.3",
        )
    with columns[2]:
        st.selectbox("Percentile", PERCENTILES, key=widget(PAGE, "pct"), filter_mode=None)


def _category(model: str, models: Sequence[Model]) -> str | None:
    """What kind of model is meant, by its id, an alias or the id without its owner; None where nobody knows."""
    for row in models:
        if model in (row.id, *row.aliases, model_name(row.id)):
            return row.category
    return None


def _shown(question: Question, category: str | None) -> set[str]:
    """The members that have a widget: what a model cannot have is left out, unless the address says it."""
    unsaid = Question()
    apart = {name for name in (*SERVED, *SIZES) if getattr(question, name) == getattr(unsaid, name)}
    fitting = set(SERVED) if category is None or category in GENERATE else set()
    fitting |= {name for name, (_, kinds) in SIZES.items() if category is None or category in kinds}
    fitting |= {"output"} if category == "audio" else set()
    return {name for name in _values(question) if name not in apart or name in fitting}


def _values(question: Question) -> dict[str, Any]:
    """What each widget shows of the question; position, number of rows and added devices have none here."""
    plain = {name: getattr(question, name) for name in question.__struct_fields__}
    for name in ("as_of", "top", "add", "per_hw"):
        plain.pop(name)
    return plain | {
        "model": question.model or None,
        **{name: list(getattr(question, name)) for name in LISTS},
        "batch": ", ".join(str(size) for size in question.batch),
        "device": ", ".join(question.device),
    }


def _limits(shown: set[str]) -> None:
    names = {name: words for name, words in (LIMITS | SERVED).items() if name in shown and name not in WHOLE}
    _numbers(names)
    st.columns(3)[0].number_input(
        "Confidence",
        min_value=0.5,
        max_value=0.999999,
        step=0.05,
        key=widget(PAGE, "confidence"),
        format="%g",
        help="Probability with which an estimate must meet the limits; 0.5 goes by the estimate alone.",
    )


def _filters(question: Question, shown: set[str], position: int) -> None:
    devices = answers.hardware(position)
    row = st.columns(4)
    row[3].selectbox(
        "One call",
        CALLS,
        key=widget(PAGE, "call"),
        filter_mode=None,
        help="usual = as a user of the model means it: a transcription, an image; forward = a single pass",
    )
    row[0].selectbox("Mode", MODES, key=widget(PAGE, "mode"), filter_mode=None)
    row[1].text_input("Batch sizes", key=widget(PAGE, "batch"), placeholder="1, 8 or 1..64")
    row[2].selectbox("Compiled or eager", COMPILED, key=widget(PAGE, "compiled"), filter_mode=None)
    _numbers({name: words for name, (words, _) in SIZES.items() if name in shown})
    _numbers({name: words for name, words in SERVED.items() if name in shown and name in WHOLE})
    left, right = st.columns(2)
    _choice(
        left,
        "Hardware",
        "hw",
        [EVERYTHING, OWN, *(device.id for device in devices)],
        question,
        help="all = every device that is known; own = those that a runner of yours described; or type aws:g5.xlarge",
    )
    _choice(
        right,
        "Vendor",
        "vendor",
        sorted({device.vendor for device in devices if device.vendor}),
        question,
    )
    st.text_input(
        "Devices at hand, instead of hardware",
        key=widget(PAGE, "device"),
        placeholder="cuda:0=nvidia-l4@6000, cpu=intel-xeon-2c",
        help="A program's name for each, its hardware, and the MB that are free where you know: the answer says which to use now.",
    )
    # A pair a row: on a phone the fields stand in the order in which they are read here.
    left, right = st.columns(2)
    _choice(left, "Platform", "platform", PLATFORMS, question)
    _choice(right, "Precision", "precision", PRECISIONS, question)
    providers, regions = answers.markets(position)
    left, right = st.columns(2)
    _choice(left, "Provider of prices", "provider", providers, question)
    _choice(right, "Region of prices", "region", regions, question)
    left, right = st.columns(2, vertical_alignment="bottom")
    left.number_input("Devices side by side", min_value=1, value=None, step=1, key=widget(PAGE, "count"))
    right.checkbox("Spot prices too", key=widget(PAGE, "spot"), help="Cheaper, and taken away at any time.")


def _numbers(names: Mapping[str, str]) -> None:
    """Show number inputs in rows of three."""
    listed = list(names.items())
    for start in range(0, len(listed), 3):
        for column, (name, words) in zip(st.columns(3), listed[start : start + 3], strict=False):
            key = widget(PAGE, name)
            if name in WHOLE:
                column.number_input(words, min_value=1, value=None, step=1, key=key)
            else:
                column.number_input(words, min_value=0.0, value=None, key=key, format="%g")


def _choice(at: Any, words: str, name: str, options: Sequence[str], question: Question, **more: Any) -> None:
    at.multiselect(
        words,
        _with(options, getattr(question, name)),
        key=widget(PAGE, name),
        select_all=False,
        accept_new_options=True,
        placeholder="any",
        **more,
    )


def _asked(question: Question, shown: set[str]) -> Question:
    """Read the form; what it leaves empty is no limit, and what it does not show stays as the address has it."""
    state = {name: st.session_state.get(widget(PAGE, name)) for name in shown}
    state["hw"] = _hardware(state.get("hw") or [])
    for name in ("batch", "device"):
        state[name] = str(state.get(name) or "").replace(" ", "")
    words = {name: _words(value) for name, value in state.items() if value not in (None, "", [], 0)}
    request, refused = read_question(words)
    st.session_state[REFUSED] = refused
    kept = {name: getattr(question, name) for name in question.__struct_fields__ if name not in shown}
    filled: Question = msgspec.structs.replace(request, **kept)
    return filled


def _hardware(chosen: Sequence[str]) -> list[str]:
    slugs = [slug for slug in chosen if slug not in (EVERYTHING, OWN)]
    return slugs or [OWN if OWN in chosen else EVERYTHING]


def _words(value: Any) -> list[str]:
    if isinstance(value, bool):
        return ["yes" if value else "no"]
    if isinstance(value, list):
        return [str(item) for item in value]
    return [number(value) if isinstance(value, float) else str(value)]


def _with(options: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Return the options and what the address chose beside them, so that a link never loses a value."""
    return list(dict.fromkeys([*options, *(choice for choice in chosen if choice)]))


def show_adding(question: Question, position: int) -> None:
    """Show the field for a device's name; a name that is none is answered with those that it may mean."""
    typed = st.text_input(
        "Add a device",
        key=f"{PAGE} add {'|'.join(question.add)}",
        placeholder="Add a device, such as A10G",
        label_visibility="collapsed",
        icon=":material/add:",
    ).strip()
    if not typed:
        return
    slug, nearest = _device(typed, position)
    if slug is not None:
        turn(PAGE, _beside(question, slug))
    st.markdown(f":small[No device is called {escape(typed)}.{' Did you mean:' if nearest else ''}]")
    for near in nearest:
        if st.button(escape(device_name(near)), key=f"{PAGE} near {near}", type="tertiary"):
            turn(PAGE, _beside(question, near))


def _beside(question: Question, slug: str) -> Question:
    return msgspec.structs.replace(question, add=tuple(dict.fromkeys([*question.add, slug])))


def _device(typed: str, position: int) -> tuple[str | None, list[str]]:
    """Return the device that a text names exactly, else those that it may mean, the likeliest first."""
    spec = hardware.find(typed)
    if spec is not None:
        return spec.id, []
    names = {row.id: (*((row.name,) if row.name else ()), *row.aliases) for row in answers.hardware(position)}
    exact = meant(typed, names)
    if len(exact) == 1:
        return exact[0], []
    return None, [match.id for match in matches(typed, names)][:NEAREST]
