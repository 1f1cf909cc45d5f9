"""What was measured under a device's roofs, arranged for a page: the roofs to draw, sentences, and tables of points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from presentation import formatting
from presentation.palette import badge

__all__ = ["above_table", "bandwidth", "over", "point_name", "points_table", "roofs", "sentence", "standing"]

Row = Mapping[str, Any]
_SAME = 1.02
"""Roofs closer than this are drawn and named as one."""
_CLOSE = 1.4
"""What a probe reached is stated in the words of a roof that is no farther than this: two lines would hide each other."""


def roofs(document: Row) -> list[dict[str, Any]]:
    """Return the roofs to draw: `words`, FLOP/s, and whether a probe reached it instead of a specification saying it.

    Precisions of one rate, within 2 %, are one roof. What a probe reached near a roof of its precision is stated in that
    one's words, and elsewhere a roof of its own.
    """
    reached = {str(row["precision"]): float(row["value"]) for row in document["reached"]}
    rows: list[dict[str, Any]] = []
    for group in _alike(document["roofs"]):
        near = [
            reached.pop(name) for name in _names(group) if name in reached and _near(reached[name], group[0]["value"])
        ]
        more = f", {formatting.si(max(near), 'FLOP/s')} reached" if near else ""
        rows.append(_roof(group, more, reached=False))
    left = [row for row in document["reached"] if str(row["precision"]) in reached]
    return rows + [_roof(group, " reached", reached=True) for group in _alike(left)]


def _alike(rows: Sequence[Row]) -> list[list[Row]]:
    """Return rows, highest first, in groups of one rate."""
    groups: list[list[Row]] = []
    for row in rows:
        if groups and groups[-1][0]["value"] / row["value"] < _SAME:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups


def _names(group: Sequence[Row]) -> list[str]:
    return sorted(str(row["precision"]) for row in group)


def _near(value: float, other: float) -> bool:
    return max(value, other) / min(value, other) < _CLOSE


def _roof(group: Sequence[Row], more: str, *, reached: bool) -> dict[str, Any]:
    words = f"{', '.join(_names(group))} {formatting.si(group[0]['value'], 'FLOP/s')}{more}"
    return {"words": words, "flops_per_s": group[0]["value"], "reached": reached}


def bandwidth(row: Row) -> tuple[float, str] | None:
    """Return the bytes a second that feed the roof and their words; what a probe reached stands in for a missing one."""
    for key, more in (("bandwidth_bytes_per_s", ""), ("reached_bandwidth_bytes_per_s", " reached")):
        if row[key]:
            value = float(row[key]["value"])
            return value, f"{formatting.si(value, 'B/s')}{more}"
    return None


def sentence(row: Row, name: str) -> str:
    """Say how close to its limit the hardware was seen to run."""
    under = [point for point in row["points"] if not point["over"]]
    if not row["points"]:
        return f"{name}: nothing measured on it can be placed under a roof"
    if not under:
        return f"{name}: every point is over its roof"
    best = max(under, key=lambda point: point["share"])
    roof = formatting.si(best["roof_flops_per_s"], "FLOP/s")
    words = f"{point_name(best)} reaches {formatting.share(best['share'])} of its roof of {roof}"
    return f"{words} ({badge(best['basis'], best['origin'])})"


def point_name(point: Row) -> str:
    """Name a measured point in the order in which all pages do."""
    mode = " · training" if point["mode"] == "training" else ""
    return f"{point['model']} · {point['platform']} · {point['precision']} · batch {point['batch_size']}{mode}"


def standing(row: Row) -> str:
    """Say how many rows the marks stand for, and how many have no place for which reason."""
    marks, best, placed = len(row["points"]), row["best"], row["placed"]
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
    if row["left_out"]:
        why = ", ".join(f"{formatting.count(rows)} {reason}" for reason, rows in row["left_out"].items())
        sentences.append(f"No place under the roof: {why}.")
    return " ".join(sentences)


def over(row: Row) -> str:
    """Say over which limit how many points are, and what may be behind each."""
    by = row["above_by"]
    words = {
        "peak": "over the peak: the precision, the peak, the time or the trace is not what it says",
        "bandwidth": "over the bandwidth: operators were fused, or the data stayed in a cache",
    }
    return " · ".join(f"{formatting.count(by[limit])} {why}" for limit, why in words.items() if by.get(limit))


def above_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the points that are over their roof, with which limit."""
    return pd.DataFrame(
        [
            {
                "Configuration": point_name(row),
                "Of its roof": formatting.share(row["share"]),
                "Over the": row["over"],
                "Reached": formatting.si(row["flops_per_s"], "FLOP/s"),
                "Basis": badge(row["basis"], row["origin"]),
            }
            for row in rows
        ]
    )


def points_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the points as they are read, the nearest to its roof first."""
    ordered = sorted(rows, key=lambda row: -row["share"])
    return pd.DataFrame(
        {
            "Model": [row["model"] for row in ordered],
            "Platform": [row["platform"] for row in ordered],
            "Precision": [row["precision"] for row in ordered],
            "Mode": [row["mode"] for row in ordered],
            "Batch": pd.Series([row["batch_size"] for row in ordered], dtype="Int64"),
            "Of its roof, %": [100 * row["share"] for row in ordered],
            "GFLOP/s": [row["flops_per_s"] / 1e9 for row in ordered],
            "FLOP per byte": [row["flop_per_byte"] for row in ordered],
            "Latency ms": [row["latency_ms"] for row in ordered],
            "n": pd.Series([row["n"] for row in ordered], dtype="Int64"),
            "Basis": [badge(row["basis"], row["origin"]) for row in ordered],
            "Verdict": [str(row["verdict"] or formatting.MISSING) for row in ordered],
            "Marks for": pd.Series([row["stands_for"] for row in ordered], dtype="Int64"),
        }
    )
