"""The part Kernels of the hardware page: measured kernels under the roof, and what the model thinks of the standard ones."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from statistics import median

import msgspec
import pandas as pd
import streamlit as st

from dashboard.best_measured import known_words
from dashboard.downloads import picture_files, stem, table_files
from dashboard.evidence import row_path
from dashboard.frame import basis_legend, chart, downloads, escape, folded, places, theme, to_paste
from dashboard.page_state import go, widget
from dashboard.screens.hardware import query
from dashboard.screens.hardware.words import Device
from dashboard.tables.result_table import columns_of, result_table
from domain.answers.kernels import DeviceKernels, KernelEstimate, KernelPoint
from domain.kernels import SIZES
from presentation import formatting
from presentation.charts.kernels_chart import drawn_points, kernels
from presentation.kernel_names import sizes_words

__all__ = ["estimates_table", "points_table", "sentence", "show_kernels", "standing"]


def sentence(document: DeviceKernels) -> str:
    """Say how estimates and measurements agree, or what stands there alone."""
    where = f"{document.hardware} · {document.platform} · {document.precision}"
    pairs = [item.measured for item in document.estimates if item.measured is not None]
    if not document.estimates:
        return f"{where}: {formatting.count(document.placed)} measured kernels, and no estimates"
    if not pairs:
        seen = (
            f"{formatting.count(document.placed)} measured kernels, none of them standard"
            if document.placed
            else "no kernel was measured"
        )
        return f"{where}: {seen}; {_counted(len(document.estimates), 'estimate')}"
    judged = [item for item in pairs if item.within is not None]
    held = f", {sum(1 for item in judged if item.within)} of {len(judged)} within the 80 % interval" if judged else ""
    off = median(abs(item.ratio - 1) for item in pairs)
    count = f"{len(pairs)} of {len(document.estimates)} standard kernels were measured"
    return f"{where}: {count}{held}; the median lies {formatting.share(off)} off its estimate"


def standing(document: DeviceKernels) -> str:
    """Say how many timings the marks stand for, and how many have no place for which reason."""
    sentences: list[str] = []
    if document.considered:
        marks, placed = len(document.points), document.placed
        sentences.append(
            f"{_counted(marks, 'mark')} for {_counted(placed, 'kernel')}, a sample of "
            f"{formatting.count(document.considered)} timings in the log."
        )
    if document.left_out:
        why = ", ".join(f"{formatting.count(rows)} {reason}" for reason, rows in document.left_out.items())
        sentences.append(f"No place under the roof: {why}.")
    below = len(document.points) - len(drawn_points(document))
    if below:
        sentences.append(f"{_counted(below, 'mark')} of tiny kernels below the picture: see the table.")
    if document.above_count:
        sentences.append(
            f"{formatting.count(document.above_count)} over the roof, ringed: data stayed in a cache, or a convolution took fewer multiplications."
        )
    return " ".join(sentences)


def _counted(number: int, noun: str) -> str:
    return f"{formatting.count(number)} {noun}{'' if number == 1 else 's'}"


def estimates_table(rows: Sequence[KernelEstimate]) -> pd.DataFrame:
    """Return the standard kernels, each with its estimate, the interval and what was measured, in microseconds."""
    measured = [row.measured for row in rows]
    within = {True: "✓ inside", False: "✕ outside", None: formatting.MISSING}
    return pd.DataFrame(
        {
            "Kernel": [row.id for row in rows],
            "Sizes": [f"{row.operator} {sizes_words(row.operator, row.sizes)}" for row in rows],
            "Estimate µs": [row.latency_ms * 1e3 for row in rows],
            "Low µs": pd.Series([_us(row.latency_ms_low) for row in rows], dtype="Float64"),
            "High µs": pd.Series([_us(row.latency_ms_high) for row in rows], dtype="Float64"),
            "Measured µs": pd.Series(
                [None if item is None else item.latency_ms * 1e3 for item in measured], dtype="Float64"
            ),
            "÷ estimate": pd.Series([None if item is None else item.ratio for item in measured], dtype="Float64"),
            "Interval": [formatting.MISSING if item is None else within[item.within] for item in measured],
            "Known": [known_words(row.basis) for row in rows],
            "Measured is": [
                formatting.MISSING if item is None else known_words(item.basis, item.origin) for item in measured
            ],
            "Of its roof, %": [100 * row.share for row in rows],
            "FLOP per byte": [row.flop_per_byte for row in rows],
            "Launch": [row.launch for row in rows],
        }
    )


def _us(value_ms: float | None) -> float | None:
    return None if value_ms is None else value_ms * 1e3


def points_table(rows: Sequence[KernelPoint]) -> pd.DataFrame:
    """Return the measured points, the nearest to its roof first."""
    ordered = sorted(rows, key=lambda row: -row.share)
    return pd.DataFrame(
        {
            "Operator": [row.operator for row in ordered],
            "Name": [row.name or formatting.MISSING for row in ordered],
            "Sizes": [sizes_words(row.operator, row.sizes) for row in ordered],
            "Time µs": [row.latency_ms * 1e3 for row in ordered],
            "GFLOP/s": [row.flops_per_s / 1e9 for row in ordered],
            "GB/s": [row.bytes_per_s / 1e9 for row in ordered],
            "FLOP per byte": [row.flop_per_byte for row in ordered],
            "Of its roof, %": [100 * row.share for row in ordered],
            "Over the": [row.over or formatting.MISSING for row in ordered],
            "Runtime": [row.runtime or formatting.MISSING for row in ordered],
            "Known": [known_words(row.basis, row.origin) for row in ordered],
            "Verdict": [row.verdict or formatting.MISSING for row in ordered],
            "Marks for": pd.Series([row.stands_for for row in ordered], dtype="Int64"),
            "Event": [row.event_id for row in ordered],
        }
    )


PAGE = "hardware"
MOST_TIMED = ""
"""No choice: what was timed most."""


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
    columns = places(3, 3, 4)
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
    words = "Estimates of the standard kernels, with what was measured"
    result_table(columns_of(estimates_table(rows)), key=f"{PAGE} kernel estimates", words=words, height=460)


def _points(rows: Sequence[KernelPoint]) -> None:
    frame = points_table(rows)
    links = {"Event": [row_path(event) for event in frame["Event"]]}
    words = "Measured kernels under the roof"
    result_table(columns_of(frame, links=links), key=f"{PAGE} kernel points", words=words, height=400)


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
