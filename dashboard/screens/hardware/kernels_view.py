"""The part Kernels of the hardware page: measured kernels under the roof, and what the model thinks of the standard ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
import streamlit as st

from dashboard.downloads import picture_files, stem, table_files
from dashboard.frame import basis_legend, chart, downloads, escape, folded, theme, to_paste
from dashboard.page_state import go, widget
from dashboard.screens.hardware import query
from dashboard.screens.hardware.kernels import estimates_table, points_table, sentence, standing
from dashboard.screens.hardware.words import Device
from domain.answers.kernels import DeviceKernels, KernelEstimate, KernelPoint
from domain.kernels import SIZES
from presentation import formatting
from presentation.charts.kernels_chart import kernels

__all__ = ["show_kernels"]

PAGE = "hardware"
MOST_TIMED = ""
"""No choice: what was timed most."""
NUMBER = st.column_config.NumberColumn


def show_kernels(request: Device, at: int) -> None:
    """Show the kernels of a device under one platform in one precision."""
    request = _bar(request, at)
    document = query.kernels(request.id, at, **_narrowed(request))
    if document.platform is None:
        st.info(
            "No kernel was timed on it, and its figures are not known. On the machine itself this times the standard ones:"
        )
        to_paste("assay calibrate")
        return
    answer = sentence(document)
    with st.container(key="answer"):
        st.markdown(f"**{escape(answer)}**")
    chart(kernels(document, theme=theme()), key=f"{PAGE} kernels picture", words=f"Kernels of {answer}")
    _legend(document)
    if not document.considered:
        st.caption("On the machine itself this times the standard kernels, and narrows every estimate of the device:")
        to_paste("assay calibrate")
    _estimates(document.estimates)
    if document.points:
        folded(
            f"All {formatting.count(len(document.points))} measured points as a table",
            partial(_points, document.points),
            key=f"{PAGE} kernel points folded",
        )
    _files(document, answer, at)


def _narrowed(request: Device) -> dict[str, str | None]:
    return {name: getattr(request, name) or None for name in ("platform", "precision", "operator")}


def _bar(request: Device, at: int) -> Device:
    """Offer what can be asked for; a platform or a precision of another part that has no kernels here is left out."""
    offered = query.kernels(request.id, at)
    choices = offered.choices
    platforms = list(dict.fromkeys(item.platform for item in choices))
    precisions = list(
        dict.fromkeys(item.precision for item in choices if request.platform in (MOST_TIMED, item.platform))
    )
    columns = st.columns(3)
    options = {"platform": platforms, "precision": precisions, "operator": list(SIZES)}
    for column, (name, existing) in zip(columns, options.items(), strict=True):
        key = widget(PAGE, name)
        if st.session_state.get(key) not in (MOST_TIMED, *existing):
            st.session_state[key] = MOST_TIMED
        column.selectbox(
            name.capitalize(),
            [MOST_TIMED, *existing],
            key=key,
            format_func=partial(_any, "any" if name == "operator" else "timed most" if offered.considered else "usual"),
            filter_mode=None,
        )
    chosen = msgspec.structs.replace(request, **{name: st.session_state[widget(PAGE, name)] for name in options})
    if chosen != request:
        go(PAGE, chosen)
        st.rerun()
    return chosen


def _any(words: str, value: str) -> str:
    return value or words


def _legend(document: DeviceKernels) -> None:
    bases = [*(row.basis for row in document.points), *(row.basis for row in document.estimates)]
    marks = [{"basis": basis} for basis in bases]
    bars = ["bars: 80 % intervals"] if any(row.latency_ms_low for row in document.estimates) else []
    floor = next((roof.floor_us for roof in document.roofs if roof.floor_us is not None), None)
    more = [f"smallest kernel {formatting.latency(floor / 1e3)}"] if floor is not None else []
    basis_legend(marks)
    parts = [" · ".join([*bars, *more]), standing(document), *document.notes]
    st.caption(escape(" ".join(f"{part.removesuffix('.')}." for part in parts if part)))


def _estimates(rows: Sequence[KernelEstimate]) -> None:
    if not rows:
        return
    st.markdown("**Standard kernels** :gray[estimated without the measurement beside them]")
    st.dataframe(
        estimates_table(rows),
        hide_index=True,
        key=f"{PAGE} kernel estimates",
        row_height=36,
        height=460,
        placeholder=formatting.MISSING,
        alt="Estimates of the standard kernels, with what was measured",
        column_config={
            "Kernel": st.column_config.Column(pinned=True, width=130),
            **{f"{name} µs": NUMBER(format="%.1f") for name in ("Estimate", "Low", "High", "Measured")},
            "Of its roof, %": NUMBER(format="%.1f"),
            "÷ estimate": NUMBER(format="%.2f"),
            "FLOP per byte": NUMBER(format="%.2f"),
        },
    )


def _points(rows: Sequence[KernelPoint]) -> None:
    st.dataframe(
        points_table(rows),
        hide_index=True,
        key=f"{PAGE} kernel points",
        row_height=36,
        height=400,
        placeholder=formatting.MISSING,
        alt="Measured kernels under the roof",
        column_config={
            "Operator": st.column_config.Column(pinned=True),
            "Time µs": NUMBER(format="%.1f"),
            "GFLOP/s": NUMBER(format="localized"),
            "GB/s": NUMBER(format="localized"),
            "FLOP per byte": NUMBER(format="%.2f"),
            "Of its roof, %": NUMBER(format="%.1f"),
        },
    )


def _files(document: DeviceKernels, answer: str, at: int) -> None:
    name = stem(PAGE, f"{document.hardware}_kernels", at)
    footer = f"position {formatting.count(at)} · {formatting.count(len(document.points))} marks, {len(document.estimates)} estimates"
    draw = partial(kernels, document, theme=theme(), picture=True)
    estimates = table_files(f"{name}_estimates", msgspec.to_builtins(document.estimates), as_of=at)
    points = table_files(f"{name}_points", msgspec.to_builtins(document.points), as_of=at)
    tables = [
        (f"{part}: {label}", name, media, make)
        for part, files in (("Estimates", estimates), ("Points", points))
        for label, name, media, make in files
    ]
    pictures = picture_files(name, draw, f"Kernels of {document.hardware}", answer=answer, footer=footer)
    downloads([*tables, *pictures], f"{PAGE} kernels")
