"""Compare: how do these differ, and is the difference real?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

import msgspec
import streamlit as st

from dashboard import answers
from dashboard.address import BASES_SHOWN, KINDS, METRIC_NAMES, SCALES, Comparison, Params, read_comparison
from dashboard.frame import dropped, folded, guarded, header, titled, to_paste
from dashboard.page_state import adopt, current, go, widget
from dashboard.screens.compare import query, words
from domain.errors import AssayError
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS
from presentation import charts

__all__ = ["ahead", "show"]

PAGE = "compare"
WORDS = {
    "hardware": "Hardware for a model",
    "models": "Models on a hardware",
    "modes": "Training and inference",
    "precision": "Precisions",
    "batch": "Batch sizes",
}
QUESTIONS = {
    "hardware": "How does this model run on different hardware, and is the difference real?",
    "models": "Which models run how fast on this hardware, and is the difference real?",
    "modes": "How much longer does a step of training take than inference?",
    "precision": "How much faster and smaller is a lower precision here, and are its outputs still right?",
    "batch": "What does a larger batch bring, and where does it stop scaling?",
}
SHOWN = {
    "hardware": ("model", "hw", "metric", "basis", "scale", "mode", "platform", "precision", "batch"),
    "models": ("hw", "metric", "scale", "mode", "platform", "precision", "batch"),
    "modes": ("model", "hw", "platform", "precision", "batch"),
    "precision": ("model", "hw", "mode", "batch"),
    "batch": ("model", "hw", "basis", "mode", "platform", "precision"),
}
"""The parameters that have a widget, by what is compared; the others keep what the address says."""
LISTS = ("platform", "precision")
SEVERAL = "devices"
"""The widget of `hw` where it names several devices."""
ENERGIES = {"energy": "energy an item", "energy_token": "energy a token"}
"""Metrics that are offered where a row has them: few devices show what they draw."""
METRICS_ON_HARDWARE = tuple(name for name in METRIC_NAMES if name != "speedup")


def show() -> None:
    """Show one comparison: what differs between its rows first, then the numbers."""
    read = current(PAGE, read_comparison)
    comparison: Comparison = read.asked
    header("Compare", QUESTIONS[comparison.what])
    with guarded("The service"):
        position = answers.ready()["position"]
        dropped(read.dropped)
        adopt(PAGE, comparison, _values(comparison))
        _bar(comparison, position if comparison.as_of is None else comparison.as_of)
        subject = "hw" if comparison.what == "models" else "model"
        if getattr(comparison, subject):
            titled(getattr(comparison, subject), WORDS[comparison.what], "Compare")
            # Each kind is imported when it is first looked at.
            module = "ranked" if comparison.what in ("hardware", "models") else comparison.what
            import_module(f"dashboard.screens.compare.{module}_view").show(comparison, position)
        else:
            _nothing_chosen(subject, position)


def ahead(params: Params) -> None:
    """Ask what the page will ask for these parameters."""
    request: Comparison = read_comparison(params).asked
    if request.model and request.what == "hardware":
        words.known(request, answers.ready()["position"] if request.as_of is None else request.as_of)


def _nothing_chosen(subject: str, position: int) -> None:
    if any(row.measurements for row in answers.models(position)):
        st.info(f"Choose a {'hardware' if subject == 'hw' else 'model'} above.")
        return
    st.info("Nothing has been measured yet. Measure one model on this machine, or choose one above:")
    to_paste("assay bench bert-base-uncased --platform cpu,openvino")


def _values(comparison: Comparison) -> dict[str, Any]:
    """What each widget shows of the view."""
    values = {"what": comparison.what, **{name: getattr(comparison, name) for name in SHOWN[comparison.what]}}
    values |= {name: list(values[name]) for name in LISTS if name in values}
    values |= {name: values[name] or None for name in ("model", "hw") if name in values}
    if comparison.what == "hardware":
        del values["hw"]
        values[SEVERAL] = words.devices_of(comparison)
    return values


def _bar(comparison: Comparison, position: int) -> None:
    """Show the widgets of one kind of comparison; what they say becomes the address."""
    st.segmented_control(
        "What is compared",
        KINDS,
        key=widget(PAGE, "what"),
        format_func=lambda kind: WORDS[kind],
        required=True,
        label_visibility="collapsed",
    )
    shown = SHOWN[comparison.what]
    first: list[str] = [name for name in ("model", "hw", "metric", "basis") if name in shown]
    columns = st.columns([5 if name in ("model", "hw") else 3 for name in first], vertical_alignment="bottom")
    for name, column in zip(first, columns, strict=True):
        with column:
            _WIDGETS[name](comparison, position)
    rest: list[str] = [name for name in ("precision", "batch", "platform", "mode", "scale") if name in shown]

    def filters() -> None:
        for name, column in zip(rest, st.columns([2 if name in LISTS else 1 for name in rest]), strict=True):
            with column:
                _WIDGETS[name](comparison, position)

    for name in rest:
        # Streamlit forgets what a widget holds that is not shown, and the address would be read in its place.
        st.session_state[widget(PAGE, name)] = st.session_state[widget(PAGE, name)]
    held = sum(getattr(comparison, name) not in (getattr(Comparison(), name), None) for name in rest)
    folded(f"Filters ({held})" if held else "Filters", filters, key=f"{PAGE} filters", icon=":material/tune:")
    chosen = _chosen(comparison)
    if chosen != comparison:
        go(PAGE, chosen)
        st.rerun()


def _chosen(comparison: Comparison) -> Comparison:
    state = {name: st.session_state.get(widget(PAGE, name)) for name in ("what", *SHOWN[comparison.what])}
    state |= {name: tuple(state[name] or ()) for name in LISTS if name in state}
    if comparison.what == "hardware":
        devices = st.session_state.get(widget(PAGE, SEVERAL)) or []
        # The other kinds are about one device.
        state["hw"] = ",".join(devices if state["what"] == "hardware" else devices[:1])
    state |= {name: state[name] or "" for name in ("model", "hw") if name in state}
    if state["what"] == "models" and comparison.metric == "speedup":
        state["metric"] = Comparison().metric
    filled: Comparison = msgspec.structs.replace(comparison, **state)
    return filled


def _model(comparison: Comparison, position: int) -> None:
    existing = [row.id for row in answers.models(position)]
    st.selectbox(
        "Model",
        _with(existing, [comparison.model]),
        index=None,
        key=widget(PAGE, "model"),
        accept_new_options=True,
        placeholder="Type a part of its name",
    )


def _hardware(comparison: Comparison, position: int) -> None:
    if comparison.what == "hardware":
        existing = [row.id for row in sorted(answers.hardware(position), key=lambda row: -row.measurements)]
        st.multiselect(
            "Hardware",
            _with(existing, words.devices_of(comparison)),
            key=widget(PAGE, SEVERAL),
            accept_new_options=True,
            select_all=False,
            placeholder="All",
        )
        return
    every = comparison.what in ("modes", "batch")
    st.selectbox(
        "Hardware",
        _with(_devices(comparison, position), [comparison.hw]),
        index=None,
        key=widget(PAGE, "hw"),
        accept_new_options=True,
        placeholder="All that measured it" if every else "Type a part of its name",
    )


def _devices(request: Comparison, position: int) -> list[str]:
    """Return the hardware to choose from, most measured first: what ran the model, or everything that ran any."""
    if request.what == "models" or not request.model:
        hardware = sorted(answers.hardware(position), key=lambda row: -row.measurements)
        return [row.id for row in hardware if row.measurements]
    if request.what == "modes":
        rows = words.modes(request, position)["whole"]["hardware"]
    else:
        rows = query.of_model(request.model, request.mode, position, limit=0)["whole"]["hardware"]
    return list(dict.fromkeys(str(row["hardware"]) for row in rows))


def _metric(comparison: Comparison, position: int) -> None:
    names = METRICS_ON_HARDWARE if comparison.what == "models" else METRIC_NAMES
    offered = [
        name for name in names if name not in ENERGIES or name == comparison.metric or _has(comparison, position, name)
    ]
    st.selectbox("Metric", offered, key=widget(PAGE, "metric"), filter_mode=None, format_func=_metric_name)


def _metric_name(name: str) -> str:
    return ENERGIES.get(name, name)


def _has(request: Comparison, position: int, name: str) -> bool:
    """Whether a row of the model has the metric; on a hardware that is not known before its rows are asked for."""
    if request.what == "models" or not request.model:
        return request.what == "models"
    try:
        result = words.known(request, position)
    except AssayError:
        return False  # The page says why.
    return bool(result["whole"]["metrics"][charts.COMPARED[name].key])


def _one_of(words: str, name: str, options: Sequence[str]) -> Callable[[Comparison, int], None]:
    return lambda _, __: st.selectbox(words, options, key=widget(PAGE, name), filter_mode=None) and None


def _some_of(words: str, name: str, options: Sequence[str]) -> Callable[[Comparison, int], None]:
    def show(comparison: Comparison, _: int) -> None:
        st.multiselect(words, _with(options, getattr(comparison, name)), key=widget(PAGE, name), select_all=False)

    return show


def _batch(_: Comparison, __: int) -> None:
    st.number_input("Batch", min_value=1, step=1, value=None, key=widget(PAGE, "batch"))


_WIDGETS: Mapping[str, Callable[[Comparison, int], None]] = {
    "model": _model,
    "hw": _hardware,
    "metric": _metric,
    "scale": _one_of("Scale", "scale", SCALES),
    "basis": _one_of("Basis", "basis", BASES_SHOWN),
    "mode": _one_of("Mode", "mode", MODES),
    "platform": _some_of("Platform", "platform", PLATFORMS),
    "precision": _some_of("Precision", "precision", PRECISIONS),
    "batch": _batch,
}


def _with(options: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """Return the options and what the address chose beside them, so that a link never loses a value."""
    return list(dict.fromkeys([*options, *(choice for choice in chosen if choice)]))
