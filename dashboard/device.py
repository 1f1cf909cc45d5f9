"""One hardware, arranged for a page: what the address asks, its figures, what was tried on it, and what is like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
import pandas as pd

from assay import numbers
from dashboard.address import Params, Read, one_of, position, text, understood
from dashboard.palette import badge
from domain.vocabulary import HARDWARE_KINDS, MODES

__all__ = [
    "KNOWN",
    "TABS",
    "Device",
    "above_table",
    "bandwidth",
    "best_table",
    "families_table",
    "figures",
    "listed",
    "over",
    "points_table",
    "prices_table",
    "read_device",
    "roofs",
    "sentence",
    "siblings_table",
    "sources_table",
    "spec_table",
    "standing",
]

Row = Mapping[str, Any]
TABS = ("roofline", "models", "siblings", "machines")
KNOWN = ("measured", "all")
"""What a list holds: what was measured on, or the catalogue too."""
_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "memory_bytes": ("Memory", numbers.memory),
    "memory_bandwidth_bytes_per_s": ("Bandwidth", lambda value: numbers.si(value, "B/s")),
    "cache_bytes": ("Last cache", numbers.memory),
    "power_w": ("Power", lambda value: numbers.si(value, "W")),
    "cores": ("Cores", numbers.count),
    "clock_hz": ("Clock", lambda value: numbers.si(value, "Hz")),
    "sustained_bandwidth_bytes_per_s": ("Bandwidth, reached", lambda value: numbers.si(value, "B/s")),
}  # fmt: skip
_ALWAYS = ("memory_bytes", "memory_bandwidth_bytes_per_s", "power_w")
"""Figures that are listed as unknown where nobody gave them."""
_SAME = 1.02
"""Roofs closer than this are drawn and named as one."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What the hardware page asks: one by id and which part of it, or a list by a search and filters."""

    id: str = ""
    tab: str = "roofline"
    search: str = ""
    kind: str = ""
    vendor: str = ""
    known: str = "measured"
    platform: str = ""
    precision: str = ""
    mode: str = ""
    as_of: int | None = None


_READERS = {
    "id": text, "tab": one_of(TABS), "search": text, "kind": one_of(HARDWARE_KINDS), "vendor": text,
    "known": one_of(KNOWN), "platform": text, "precision": text, "mode": one_of(MODES), "as_of": position,
}  # fmt: skip


def read_device(params: Params) -> Read:
    """Read a hardware page's parameters."""
    return understood(Device, params, _READERS)


def figures(row: Row) -> dict[str, Row]:
    """Return a hardware's figures by path (`peak_flops.fp16`), what a runner read of the machine before the catalogue's."""
    said = row.get("described_spec") or {}
    found: dict[str, Row] = {}
    for name in _FIGURES:
        figure = said.get(name) or row.get(name)
        if figure:
            found[name] = figure
    for table in ("peak_flops", "sustained_flops"):
        rates = {**(row.get(table) or {}), **(said.get(table) or {})}
        for precision, figure in sorted(rates.items(), key=lambda item: (-item[1]["value"], item[0])):
            found[f"{table}.{precision}"] = figure
    return found


def spec_table(row: Row) -> pd.DataFrame:
    """Return each figure with its unit and how it is known; what nobody gave is said to be unknown."""
    found = figures(row)
    rows = [
        (_words(name), _value(name, found.get(name)), str(found[name]["status"]) if name in found else "unknown")
        for name in [*_FIGURES, *(name for name in found if "." in name)]
        if name in found or name in _ALWAYS
    ]
    return pd.DataFrame(rows, columns=["Figure", "Value", "Known"])


def sources_table(row: Row) -> pd.DataFrame:
    """Return where each figure comes from: its formula or its source; an unverified one has none."""
    rows = [
        {
            "Figure": _words(name),
            "Value": _value(name, figure),
            "From": str(figure.get("formula") or figure.get("source") or "no document was at hand: unverified"),
        }
        for name, figure in figures(row).items()
    ]
    return pd.DataFrame(rows, columns=["Figure", "Value", "From"])


def _words(name: str) -> str:
    table, _, precision = name.partition(".")
    if not precision:
        return _FIGURES[table][0]
    return f"Peak {precision}" if table == "peak_flops" else f"{precision}, reached"


def _value(name: str, figure: Row | None) -> str:
    if figure is None:
        return numbers.MISSING
    table, _, precision = name.partition(".")
    if precision:
        return numbers.si(figure["value"], "op/s" if precision.startswith("int") else "FLOP/s")
    return _FIGURES[table][1](figure["value"])


def roofs(told: Row) -> list[dict[str, Any]]:
    """Return the roofs to draw: `words`, FLOP/s, and whether a probe reached it instead of a specification saying it.

    Precisions of one rate, within 2 %, are one roof. A rate that a probe reached is one of its own.
    """
    found: list[dict[str, Any]] = []
    for reached, rows in ((False, told["roofs"]), (True, told["reached"])):
        groups: list[list[Row]] = []
        for row in rows:
            if groups and groups[-1][0]["value"] / row["value"] < _SAME:
                groups[-1].append(row)
            else:
                groups.append([row])
        for group in groups:
            names = ", ".join(sorted(str(row["precision"]) for row in group))
            words = f"{names} {numbers.si(group[0]['value'], 'FLOP/s')}{' reached' if reached else ''}"
            found.append({"words": words, "flops_per_s": group[0]["value"], "reached": reached})
    return found


def bandwidth(told: Row) -> tuple[float, str] | None:
    """Return the bytes a second that feed the roof and their words; what a probe reached stands in for a missing one."""
    for key, more in (("bandwidth_bytes_per_s", ""), ("reached_bandwidth_bytes_per_s", " reached")):
        if told[key]:
            value = float(told[key]["value"])
            return value, f"{numbers.si(value, 'B/s')}{more}"
    return None


def sentence(told: Row, name: str) -> str:
    """Say how close to its limit the hardware was seen to run."""
    under = [point for point in told["points"] if not point["over"]]
    if not told["points"]:
        return f"{name}: nothing measured on it can be placed under a roof"
    if not under:
        return f"{name}: every point is over its roof"
    best = max(under, key=lambda point: point["share"])
    roof = numbers.si(best["roof_flops_per_s"], "FLOP/s")
    words = f"{point_name(best)} reaches {numbers.share(best['share'])} of its roof of {roof}"
    return f"{words} ({badge(best['basis'], best['origin'])})"


def point_name(point: Row) -> str:
    """Name a measured point in the order in which all pages do."""
    mode = " · training" if point["mode"] == "training" else ""
    return f"{point['model']} · {point['platform']} · {point['precision']} · batch {point['batch_size']}{mode}"


def standing(told: Row) -> str:
    """Say how many rows the marks stand for, and how many have no place for which reason."""
    marks, best, placed = len(told["points"]), told["best"], told["placed"]
    configurations = f"{numbers.count(placed)} measured configuration{'' if placed == 1 else 's'}"
    words = (
        f"{numbers.count(marks)} marks for the best of each model, platform, precision and mode, of {configurations}"
    )
    if best > marks:
        words += f"; those that would lie on each other are one mark ({numbers.count(best)} in all)"
    if told["left_out"]:
        why = ", ".join(f"{numbers.count(rows)} {reason}" for reason, rows in told["left_out"].items())
        words += f". No place under the roof: {why}"
    return f"{words}."


def over(told: Row) -> str:
    """Say over which limit how many points are, and what may be behind each."""
    by = told["above_by"]
    words = {
        "peak": "over the peak: the precision, the peak, the time or the trace is not what it says",
        "bandwidth": "over the bandwidth: operators were fused, or the data stayed in a cache",
    }
    return " · ".join(f"{numbers.count(by[limit])} {why}" for limit, why in words.items() if by.get(limit))


def above_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the points that are over their roof, with which limit."""
    return pd.DataFrame(
        [
            {
                "Configuration": point_name(row),
                "Of its roof": numbers.share(row["share"]),
                "Over the": row["over"],
                "Reached": numbers.si(row["flops_per_s"], "FLOP/s"),
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
            "Verdict": [str(row["verdict"] or numbers.MISSING) for row in ordered],
            "Marks for": pd.Series([row["stands_for"] for row in ordered], dtype="Int64"),
        }
    )


def best_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the fastest configuration of each category, with how much stands beside it."""
    return pd.DataFrame(
        [
            {
                "Category": row["category"],
                "Models": numbers.count(row["models"]),
                "Configurations": numbers.count(row["configurations"]),
                "Fastest": row["model"],
                "How": _how(row),
                "Throughput": _speed(row),
                "Latency": numbers.latency(row["latency_ms"], mean=bool(row["latency_is_mean"])),
                "n": numbers.count(row["n"]),
                "Basis": badge(row["basis"], row["origin"]),
            }
            for row in rows
        ]
    )


def _how(row: Row) -> str:
    batch = f"batch {row['batch_size']}" if row["batch_size"] is not None else "batch unknown"
    parts = [row["platform"], row["precision"] or "precision unknown", batch, row["mode"]]
    count = row.get("hardware_count") or 1
    return " · ".join([*(f"{count} devices" for _ in [0] if count > 1), *map(str, parts)])


def _speed(row: Row) -> str:
    if row["unit"] == "tokens/s":
        return f"{numbers.significant(row['throughput'])}\u202ftokens/s"
    return numbers.throughput(row["throughput"])


def families_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return what was tried by family and platform; shares are of the family's models."""
    return pd.DataFrame(
        {
            "Family": [str(row["family"] or "unknown") for row in rows],
            "Category": [str(row["category"] or numbers.MISSING) for row in rows],
            "Platform": [row["platform"] for row in rows],
            "Tried": [100 * row["tried_share"] for row in rows],
            "Of": [row["models"] for row in rows],
            "✓ verified": [row["verified"] for row in rows],
            "measured": [row["measured"] for row in rows],
            "✕ failed": [row["failed"] for row in rows],
            "Precisions": [", ".join(row["precisions"]) or numbers.MISSING for row in rows],
        }
    )


_ALIKE = {
    "architecture": "same architecture",
    "kind": "same kind, nearest bandwidth",
    "models": "most models in common",
}


def siblings_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return the hardware like this one: why, the ratios of figures, and how fast it is where both were measured."""
    return pd.DataFrame(
        [
            {
                "Hardware": row["id"],
                "Alike": _ALIKE.get(row["alike"], row["alike"]),
                "Peak": _ratio(row["peak_ratio"], row["peak_precision"]),
                "Bandwidth": numbers.factor(row["bandwidth_ratio"]),
                "Models measured": numbers.count(row["measured_models"]),
                "Shared models": numbers.count(row["shared_models"]),
                "Speed on what both ran": numbers.change(row["speed_ratio"]),
                "Shared configurations": numbers.count(row["shared_configurations"]),
            }
            for row in rows
        ]
    )


def _ratio(ratio: float | None, precision: str | None) -> str:
    return f"{numbers.factor(ratio)} {precision}" if ratio is not None else numbers.MISSING


def prices_table(rows: Sequence[Row]) -> pd.DataFrame:
    """Return what an hour costs, cheapest device first, with the date of each price and whether it is old."""
    return pd.DataFrame(
        [
            {
                "Machine": f"{row['provider']}:{row['instance']}" if row["instance"] else str(row["provider"]),
                "Devices": numbers.count(row["count"]),
                "Region": str(row["region"] or numbers.MISSING),
                "$ an hour": numbers.money(row["usd_per_hour"]),
                "$ a device": numbers.money(row["usd_per_device"]),
                "Kind": "spot" if row["spot"] else "on demand",
                "As of": f"{row['date'] or 'undated'}{' · stale' if row['stale'] else ''}",
            }
            for row in rows
        ]
    )


def listed(rows: Sequence[Row]) -> pd.DataFrame:
    """Return a list of hardware: what each is, and how much is known of it."""
    return pd.DataFrame(
        {
            "Hardware": [row["id"] for row in rows],
            "Name": [str(row.get("name") or numbers.MISSING) for row in rows],
            "Kind": [str(row.get("kind") or "unknown") for row in rows],
            "Vendor": [str(row.get("vendor") or "unknown") for row in rows],
            "Measurements": [row["measurements"] for row in rows],
            "Tests": [row["tests"] for row in rows],
            "Memory": [_value("memory_bytes", figures(row).get("memory_bytes")) for row in rows],
            "Peak fp32": [_value("peak_flops.fp32", figures(row).get("peak_flops.fp32")) for row in rows],
            "Known": [str(row["known"]) for row in rows],
        }
    )
