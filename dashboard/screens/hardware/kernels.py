"""The kernels of a device, arranged for a page: the answer in a sentence, and tables of estimates and of points."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import pandas as pd

from domain.answers.kernels import DeviceKernels, KernelEstimate, KernelPoint
from presentation import formatting
from presentation.charts.kernels_chart import drawn_points
from presentation.kernel_names import sizes_words
from presentation.palette import badge

__all__ = ["estimates_table", "points_table", "sentence", "standing"]


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
            "Basis": [badge(row.basis) for row in rows],
            "Measured basis": [
                formatting.MISSING if item is None else badge(item.basis, item.origin) for item in measured
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
            "Basis": [badge(row.basis, row.origin) for row in ordered],
            "Verdict": [row.verdict or formatting.MISSING for row in ordered],
            "Marks for": pd.Series([row.stands_for for row in ordered], dtype="Int64"),
            "Event": [row.event_id for row in ordered],
        }
    )
