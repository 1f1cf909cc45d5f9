"""The workload bar of Compare: metric, precision, batch, length, mode and software in one row, always visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import streamlit as st

from dashboard.address import BASES_SHOWN, METRIC_NAMES, SCALES, Comparison
from dashboard.page_state import go, widget
from dashboard.screens.compare import words
from dashboard.screens.compare.comparison_frame import PAGE
from domain.errors import AssayError
from domain.vocabulary import MODES, PLATFORMS, PRECISIONS
from presentation import charts

__all__ = ["BAR", "LISTS", "show", "values"]

BAR = {
    "hardware": ("metric", "batch", "length", "precision", "mode", "platform", "basis", "scale"),
    "models": ("metric", "batch", "length", "precision", "mode", "platform", "scale"),
    "modes": ("batch", "length", "precision", "platform"),
    "precision": ("batch", "length", "mode"),
    "batch": ("length", "precision", "mode", "platform", "basis"),
}
"""The parameters that have an input, by what is compared; the others keep what the address says."""
LISTS = ("platform", "precision")
_MORE = ("basis", "scale")
"""What stands behind a button: it changes what is drawn, never which work is compared."""
_WIDTHS = {"metric": 136, "batch": 92, "length": 92, "precision": 150, "mode": 112, "platform": 160}
"""Pixels: one row on a desk, three on a phone, and room for a chip with its cross."""
_BATCHES = tuple(1 << power for power in range(9))
_METRICS = {
    "throughput": "Throughput",
    "latency": "Latency",
    "memory": "Memory",
    "speedup": "vs plain CPU",
    "energy": "Energy an item",
    "energy_token": "Energy a token",
}
_ENERGIES = ("energy", "energy_token")
"""Metrics that are offered where a row has them: few devices show what they draw."""
_BASES = {"auto": "Where nothing was measured", "measured": "None", "all": "For everything"}


def values(comparison: Comparison) -> dict[str, Any]:
    """Return what each input shows of the view."""
    held = {name: getattr(comparison, name) for name in BAR[comparison.what]}
    return {name: list(value) if name in LISTS else value for name, value in held.items()}


def show(comparison: Comparison, position: int) -> None:
    """Show the inputs; what they say becomes the address."""
    shown = [name for name in BAR[comparison.what] if name not in _MORE]
    whole = _whole(comparison, position)
    if comparison.length is None and not whole.get("sequence_length"):
        shown.remove("length")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="xsmall", key="workload"):
        for name in shown:
            with st.container(width=_WIDTHS[name], key=f"workload-{name}"):
                _INPUTS[name](comparison, whole)
        more = [name for name in BAR[comparison.what] if name in _MORE]
        if more:
            with st.popover("More", icon=":material/tune:", key=f"{PAGE} more"):
                for name in more:
                    _INPUTS[name](comparison, whole)
    state = {name: st.session_state[widget(PAGE, name)] for name in (*shown, *more)}
    state |= {name: tuple(state[name] or ()) for name in LISTS if name in state}
    chosen = msgspec.structs.replace(comparison, **state)
    if chosen != comparison:
        go(PAGE, chosen)
        st.rerun()


def _whole(comparison: Comparison, position: int) -> Mapping[str, Any]:
    """Return what the first model's rows have, whatever the filters; nothing where that is not known before they are asked for."""
    models = words.models_of(comparison)
    if comparison.what not in ("hardware", "precision", "batch") or not models:
        return {}
    try:
        whole: Mapping[str, Any] = words.known(msgspec.structs.replace(comparison, model=models[0]), position)["whole"]
    except AssayError:
        return {}  # The page says why.
    return whole


def _sizes(whole: Mapping[str, Any], key: str, held: int | None, usual: Sequence[int] = ()) -> list[int]:
    """Return the sizes that were measured, the usual ones, and the one that the address says, rising."""
    seen = [item[key] for item in whole.get(key, ())]
    return sorted({*seen, *(usual if len(seen) < 2 else ()), *([held] if held else [])})


def _metric(comparison: Comparison, whole: Mapping[str, Any]) -> None:
    measured = whole.get("metrics", {})
    offered = [
        name
        for name in METRIC_NAMES
        if name == comparison.metric
        or (
            not (name == "speedup" and comparison.what == "models")
            and (name not in _ENERGIES or comparison.what == "models" or measured.get(charts.COMPARED[name].key))
        )
    ]
    st.selectbox("Metric", offered, key=widget(PAGE, "metric"), filter_mode=None, format_func=_METRICS.__getitem__)


def _batch(comparison: Comparison, whole: Mapping[str, Any]) -> None:
    sizes = _sizes(whole, "batch_size", comparison.batch, _BATCHES)
    st.selectbox("Batch", sizes, index=None, key=widget(PAGE, "batch"), placeholder="Best")


def _length(comparison: Comparison, whole: Mapping[str, Any]) -> None:
    sizes = _sizes(whole, "sequence_length", comparison.length)
    st.selectbox("Length", sizes, index=None, key=widget(PAGE, "length"), placeholder="Best")


def _some_of(label: str, name: str, options: Sequence[str]) -> Callable[[Comparison, Mapping[str, Any]], None]:
    def show(comparison: Comparison, whole: Mapping[str, Any]) -> None:
        seen = [item[name] for item in whole.get(name, ())]
        every = list(dict.fromkeys([*seen, *options, *getattr(comparison, name)]))
        st.multiselect(label, every, key=widget(PAGE, name), select_all=False, placeholder="Any")

    return show


def _one_of(
    label: str, name: str, options: Sequence[str], said: Callable[[str], str] = str
) -> Callable[[Comparison, Mapping[str, Any]], None]:
    return lambda _, __: (
        st.selectbox(label, options, key=widget(PAGE, name), filter_mode=None, format_func=said) and None
    )


_INPUTS: Mapping[str, Callable[[Comparison, Mapping[str, Any]], None]] = {
    "metric": _metric,
    "precision": _some_of("Precision", "precision", PRECISIONS),
    "batch": _batch,
    "length": _length,
    "mode": _one_of("Mode", "mode", MODES),
    "platform": _some_of("Software", "platform", PLATFORMS),
    "basis": _one_of("Estimates", "basis", BASES_SHOWN, _BASES.__getitem__),
    "scale": _one_of("Scale", "scale", SCALES),
}
