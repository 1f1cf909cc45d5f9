"""One hardware, arranged for a page: what the address asks, its figures, what was tried on it, and what is like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pandas as pd

from dashboard.address import Params, Read, one_of, position, text, understood
from domain.answers.device import (
    BestOfCategory,
    ComparedSibling,
    Environment,
    FamilyCoverage,
    HardwareEntry,
    Price,
    SpecFigure,
)
from domain.kernels import SIZES
from domain.vocabulary import HARDWARE_KINDS, MODES
from presentation import formatting
from presentation.palette import badge

__all__ = [
    "KNOWN",
    "TABS",
    "Device",
    "best_table",
    "environments_table",
    "families_table",
    "figures",
    "listed",
    "prices_table",
    "read_device",
    "siblings_table",
    "sources_table",
    "spec_table",
]

TABS = ("roofline", "kernels", "models", "siblings", "machines")
KNOWN = ("measured", "all")
"""What a list holds: what was measured on, or the catalogue too."""
_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "memory_bytes": ("Memory", formatting.capacity),
    "memory_bandwidth_bytes_per_s": ("Bandwidth", lambda value: formatting.si(value, "B/s")),
    "cache_bytes": ("Last cache", formatting.memory),
    "power_w": ("Power", lambda value: formatting.si(value, "W")),
    "cores": ("Cores", formatting.count),
    "clock_hz": ("Clock", lambda value: formatting.si(value, "Hz")),
    "sustained_bandwidth_bytes_per_s": ("Bandwidth, reached", lambda value: formatting.si(value, "B/s")),
}
_ALWAYS = ("memory_bytes", "memory_bandwidth_bytes_per_s", "power_w")
"""Figures that are listed as unknown where nobody gave them."""


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
    operator: str = ""
    as_of: int | None = None


_READERS = {
    "id": text,
    "tab": one_of(TABS),
    "search": text,
    "kind": one_of(HARDWARE_KINDS),
    "vendor": text,
    "known": one_of(KNOWN),
    "platform": text,
    "precision": text,
    "mode": one_of(MODES),
    "operator": one_of(tuple(SIZES)),
    "as_of": position,
}


def read_device(params: Params) -> Read:
    """Read a hardware page's parameters."""
    return understood(Device, params, _READERS)


def figures(row: HardwareEntry) -> dict[str, SpecFigure]:
    """Return a hardware's figures by path (`peak_flops.fp16`), what a runner read of the machine before the catalogue's."""
    described = row.described_spec
    rows: dict[str, SpecFigure] = {}
    for name in _FIGURES:
        figure: SpecFigure | None = getattr(described, name, None) or getattr(row, name)
        if figure:
            rows[name] = figure
    rates = {
        "peak_flops": {**row.peak_flops, **(described.peak_flops if described else {})},
        "sustained_flops": {**row.sustained_flops, **(described.sustained_flops if described else {})},
    }
    for table, by_precision in rates.items():
        for precision, figure in sorted(by_precision.items(), key=lambda item: (-item[1].value, item[0])):
            rows[f"{table}.{precision}"] = figure
    return rows


def spec_table(row: HardwareEntry) -> pd.DataFrame:
    """Return each figure with its unit and how it is known; what nobody gave is said to be unknown."""
    result = figures(row)
    rows = [
        (_words(name), _value(name, result.get(name)), result[name].status if name in result else "unknown")
        for name in [*_FIGURES, *(name for name in result if "." in name)]
        if name in result or name in _ALWAYS
    ]
    return pd.DataFrame(rows, columns=["Figure", "Value", "Known"])


def sources_table(row: HardwareEntry) -> pd.DataFrame:
    """Return where each figure comes from: its formula or its source; an unverified one has none."""
    rows = [
        {
            "Figure": _words(name),
            "Value": _value(name, figure),
            "From": figure.formula or figure.source or "no document was at hand: unverified",
        }
        for name, figure in figures(row).items()
    ]
    return pd.DataFrame(rows, columns=["Figure", "Value", "From"])


def _words(name: str) -> str:
    table, _, precision = name.partition(".")
    if not precision:
        return _FIGURES[table][0]
    return f"Peak {precision}" if table == "peak_flops" else f"{precision}, reached"


def _value(name: str, figure: SpecFigure | None) -> str:
    if figure is None:
        return formatting.MISSING
    table, _, precision = name.partition(".")
    if precision:
        return formatting.si(figure.value, "op/s" if precision.startswith("int") else "FLOP/s")
    return _FIGURES[table][1](figure.value)


def best_table(rows: Sequence[BestOfCategory]) -> pd.DataFrame:
    """Return the fastest configuration of each category, with how much stands beside it."""
    return pd.DataFrame(
        [
            {
                "Category": str(row.category).replace("_", " "),
                "Fastest": row.model,
                "Throughput": _speed(row),
                "How": _how(row),
                "n": formatting.count(row.n),
                "Basis": badge(row.basis, row.origin),
                "Latency": formatting.latency(row.latency_ms, mean=bool(row.latency_is_mean)),
                "Of models": formatting.count(row.models),
                "Configurations": formatting.count(row.configurations),
            }
            for row in rows
        ]
    )


def _how(row: BestOfCategory) -> str:
    batch = f"batch {row.batch_size}" if row.batch_size is not None else "batch unknown"
    parts = [row.platform, row.precision or "precision unknown", batch, row.mode]
    count = row.hardware_count or 1
    return " · ".join([*(f"{count} devices" for _ in [0] if count > 1), *map(str, parts)])


def _speed(row: BestOfCategory) -> str:
    if row.unit == "tokens/s":
        return f"{formatting.significant(row.throughput)}\u202ftokens/s"
    return formatting.throughput(row.throughput)


def families_table(rows: Sequence[FamilyCoverage]) -> pd.DataFrame:
    """Return what was tried by family and platform; shares are of the family's models."""
    return pd.DataFrame(
        {
            "Family": [str(row.family or "unknown") for row in rows],
            "Category": [str(row.category or formatting.MISSING) for row in rows],
            "Platform": [row.platform for row in rows],
            "Tried": [100 * row.tried_share for row in rows],
            "Of": [row.models for row in rows],
            "✓ verified": [row.verified for row in rows],
            "measured": [row.measured for row in rows],
            "✕ failed": [row.failed for row in rows],
            "Precisions": [", ".join(row.precisions) or formatting.MISSING for row in rows],
        }
    )


_KIN = {
    "architecture": "same architecture",
    "kind": "same kind, nearest bandwidth",
    "models": "most models in common",
}


def siblings_table(rows: Sequence[ComparedSibling]) -> pd.DataFrame:
    """Return the hardware like this one: why, the ratios of figures, and how fast it is where both were measured."""
    return pd.DataFrame(
        [
            {
                "Hardware": row.id,
                "Alike": _KIN.get(row.alike, row.alike),
                "Peak": _ratio(row.peak_ratio, row.peak_precision),
                "Bandwidth": formatting.factor(row.bandwidth_ratio),
                "Models measured": formatting.count(row.measured_models),
                "Shared models": formatting.count(row.shared_models),
                "Speed on what both ran": formatting.change(row.speed_ratio),
                "Configurations": formatting.count(row.shared_configurations),
            }
            for row in rows
        ]
    )


def _ratio(ratio: float | None, precision: str | None) -> str:
    return f"{formatting.factor(ratio)} {precision}" if ratio is not None else formatting.MISSING


def prices_table(rows: Sequence[Price]) -> pd.DataFrame:
    """Return what an hour costs, cheapest device first, with the date of each price and whether it is old."""
    return pd.DataFrame(
        [
            {
                "Machine": f"{row.provider}:{row.instance}" if row.instance else str(row.provider),
                "Devices": formatting.count(row.count),
                "Region": str(row.region or formatting.MISSING),
                "$ an hour": formatting.money(row.usd_per_hour),
                "$ a device": formatting.money(row.usd_per_device),
                "Kind": "spot" if row.spot else "on demand",
                "As of": f"{row.date or 'undated'}{' · stale' if row.stale else ''}",
            }
            for row in rows
        ]
    )


_SAID = {"os": "System", "kernel": "Kernel", "driver": "Driver", "python": "Python", "cpu": "CPU", "machine": "Machine"}


def environments_table(rows: Sequence[Environment]) -> pd.DataFrame:
    """Return the environments that hardware was seen in, newest first; what none of them says has no column."""
    frame = pd.DataFrame(
        [
            {
                "Fingerprint": row.fingerprint,
                "Libraries": ", ".join(f"{name} {version}" for name, version in _libraries(row).items()) or None,
                **{title: getattr(row, key) for key, title in _SAID.items()},
            }
            for row in reversed(rows)
        ]
    )
    return frame.dropna(axis="columns", how="all")


def _libraries(row: Environment) -> Mapping[str, str | None]:
    libraries = row.libraries
    if isinstance(libraries, str):
        return msgspec.json.decode(libraries, type=dict[str, str | None])
    return libraries or {}


def listed(rows: Sequence[HardwareEntry]) -> pd.DataFrame:
    """Return a list of hardware: what each is, and how much is known of it."""
    return pd.DataFrame(
        {
            "Hardware": [row.id for row in rows],
            "Name": [str(row.name or formatting.MISSING) for row in rows],
            "Kind": [str(row.kind or "unknown") for row in rows],
            "Vendor": [str(row.vendor or "unknown") for row in rows],
            "Measurements": [row.measurements for row in rows],
            "Tests": [row.tests for row in rows],
            "Memory": [_value("memory_bytes", figures(row).get("memory_bytes")) for row in rows],
            "Peak fp32": [_value("peak_flops.fp32", figures(row).get("peak_flops.fp32")) for row in rows],
            "Known": [str(row.known) for row in rows],
        }
    )
