"""What was measured under a device's roofs, arranged for a page: the roofs to draw, sentences, and tables of points."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pandas as pd

from dashboard.best_measured import known_words
from domain.answers.device import Rate, Roofline, RooflinePoint
from presentation import formatting

__all__ = ["Roof", "above_table", "bandwidth", "over", "point_name", "points_table", "roofs", "sentence", "standing"]

_SAME = 1.02
"""Roofs closer than this are drawn and named as one."""
_CLOSE = 1.4
"""What a probe reached is stated in the words of a roof that is no farther than this: two lines would hide each other."""


class Roof(msgspec.Struct, frozen=True, kw_only=True):
    """A roof to draw: its words, its FLOP/s, and whether a probe reached it instead of a specification saying it."""

    words: str
    flops_per_s: float
    reached: bool


def roofs(document: Roofline) -> list[Roof]:
    """Return the roofs to draw.

    Precisions of one rate, within 2 %, are one roof. What a probe reached near a roof of its precision is stated in that
    one's words, and elsewhere a roof of its own.
    """
    reached = {rate.precision: rate.value for rate in document.reached}
    rows: list[Roof] = []
    for group in _alike(document.roofs):
        near = [reached.pop(name) for name in _names(group) if name in reached and _near(reached[name], group[0].value)]
        more = f", {formatting.si(max(near), 'FLOP/s')} reached" if near else ""
        rows.append(_roof(group, more, reached=False))
    left = [rate for rate in document.reached if rate.precision in reached]
    return rows + [_roof(group, " reached", reached=True) for group in _alike(left)]


def _alike(rates: Sequence[Rate]) -> list[list[Rate]]:
    """Return rates, highest first, in groups of about one value."""
    groups: list[list[Rate]] = []
    for rate in rates:
        if groups and groups[-1][0].value / rate.value < _SAME:
            groups[-1].append(rate)
        else:
            groups.append([rate])
    return groups


def _names(group: Sequence[Rate]) -> list[str]:
    return sorted(rate.precision for rate in group)


def _near(value: float, other: float) -> bool:
    return max(value, other) / min(value, other) < _CLOSE


def _roof(group: Sequence[Rate], more: str, *, reached: bool) -> Roof:
    words = f"{', '.join(_names(group))} {formatting.si(group[0].value, 'FLOP/s')}{more}"
    return Roof(words=words, flops_per_s=group[0].value, reached=reached)


def bandwidth(document: Roofline) -> tuple[float, str] | None:
    """Return the bytes a second that feed the roof and their words; what a probe reached stands in for a missing one."""
    sources = ((document.bandwidth_bytes_per_s, ""), (document.reached_bandwidth_bytes_per_s, " reached"))
    for figure, more in sources:
        if figure:
            return figure.value, f"{formatting.si(figure.value, 'B/s')}{more}"
    return None


def sentence(document: Roofline, name: str) -> str:
    """Say how close to its limit the hardware was seen to run."""
    under = [point for point in document.points if not point.over]
    if not document.points:
        return f"{name}: nothing measured on it can be placed under a roof"
    if not under:
        return f"{name}: every point is over its roof"
    best = max(under, key=lambda point: point.share)
    roof = formatting.si(best.roof_flops_per_s, "FLOP/s")
    words = f"{point_name(best)} reaches {formatting.share(best.share)} of its roof of {roof}"
    return f"{words} ({known_words(best.basis, best.origin)})"


def point_name(point: RooflinePoint) -> str:
    """Name a measured point in the order in which all pages do."""
    mode = " · training" if point.mode == "training" else ""
    return f"{point.model} · {point.platform} · {point.precision} · batch {point.batch_size}{mode}"


def standing(document: Roofline) -> str:
    """Say how many rows the marks stand for, and how many have no place for which reason."""
    marks, best, placed = len(document.points), document.best, document.placed
    sentences = []
    if marks:
        configurations = f"{formatting.count(placed)} measured configuration{'' if placed == 1 else 's'}"
        words = f"{formatting.count(marks)} mark{'' if marks == 1 else 's'} for the best of each model, platform, precision and mode"
        alike = (
            f"; those that would lie on each other are one mark ({formatting.count(best)} in all)"
            if best > marks
            else ""
        )
        sentences.append(f"{words}, of {configurations}{alike}.")
    if document.left_out:
        why = ", ".join(f"{formatting.count(rows)} {reason}" for reason, rows in document.left_out.items())
        sentences.append(f"No place under the roof: {why}.")
    return " ".join(sentences)


def over(document: Roofline) -> str:
    """Say over which limit how many points are, and what may be behind each."""
    by = document.above_by
    words = {
        "peak": "over the peak: the precision, the peak, the time or the trace is not what it says",
        "bandwidth": "over the bandwidth: operators were fused, or the data stayed in a cache",
    }
    return " · ".join(f"{formatting.count(by[limit])} {why}" for limit, why in words.items() if by.get(limit))


def above_table(rows: Sequence[RooflinePoint]) -> pd.DataFrame:
    """Return the points that are over their roof, with which limit."""
    return pd.DataFrame(
        [
            {
                "Configuration": point_name(row),
                "Of its roof, %": 100 * row.share,
                "Over the": row.over,
                "Reached GFLOP/s": row.flops_per_s / 1e9,
                "Known": known_words(row.basis, row.origin),
            }
            for row in rows
        ]
    )


def points_table(rows: Sequence[RooflinePoint]) -> pd.DataFrame:
    """Return the points as they are read, the nearest to its roof first."""
    ordered = sorted(rows, key=lambda row: -row.share)
    return pd.DataFrame(
        {
            "Model": [row.model for row in ordered],
            "Platform": [row.platform for row in ordered],
            "Precision": [row.precision for row in ordered],
            "Mode": [row.mode for row in ordered],
            "Batch": pd.Series([row.batch_size for row in ordered], dtype="Int64"),
            "Of its roof, %": [100 * row.share for row in ordered],
            "GFLOP/s": [row.flops_per_s / 1e9 for row in ordered],
            "FLOP per byte": [row.flop_per_byte for row in ordered],
            "Latency ms": [row.latency_ms for row in ordered],
            "n": pd.Series([row.n for row in ordered], dtype="Int64"),
            "Known": [known_words(row.basis, row.origin) for row in ordered],
            "Verdict": [str(row.verdict or formatting.MISSING) for row in ordered],
            "Marks for": pd.Series([row.stands_for for row in ordered], dtype="Int64"),
        }
    )
