"""One hardware, arranged for a page: what the address asks, its figures, what was tried on it, and what is like it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pandas as pd

from dashboard.address import Params, Read, one_of, position, text, understood
from dashboard.best_measured import MeasuredRow, how_known, how_run, size_words, speed_words
from dashboard.evidence import about
from dashboard.tables.result_table import Column
from domain.answers.device import (
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
from presentation.answer_words import model_name

__all__ = [
    "KNOWN",
    "TABS",
    "Device",
    "environments_table",
    "facts_line",
    "families_columns",
    "figures",
    "headline",
    "listed",
    "prices_columns",
    "read_device",
    "siblings_columns",
    "sources_table",
    "spec_table",
]

TABS = ("models", "roofline", "kernels", "siblings", "specification", "machines")
KNOWN = ("measured", "all")
"""What a list holds: what was measured on, or the catalogue too."""
_FIGURES: dict[str, tuple[str, Callable[[float], str]]] = {
    "memory_bytes": ("Memory", formatting.capacity),
    "memory_bandwidth_bytes_per_s": ("Bandwidth", lambda value: formatting.si(value, "B/s")),
    "cache_bytes": ("Last cache", formatting.memory),
    "power_w": ("Power", lambda value: f"{value:g}\u202fW"),
    "cores": ("Cores", formatting.count),
    "clock_hz": ("Clock", lambda value: formatting.si(value, "Hz")),
    "sustained_bandwidth_bytes_per_s": ("Bandwidth, reached", lambda value: formatting.si(value, "B/s")),
}
KNOWN_AS = {"detected": "seen by a runner", "reported": "reported", "catalogued": "catalogue"}
_ALWAYS = ("memory_bytes", "memory_bandwidth_bytes_per_s", "power_w")
"""Figures that are listed as unknown where nobody gave them."""


class Device(msgspec.Struct, frozen=True, kw_only=True):
    """What the hardware page asks: one by id and which part of it, or a list by a search and filters."""

    id: str = ""
    tab: str = "models"
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


def facts_line(row: HardwareEntry) -> str:
    """Return what a hardware is in one line: its kind, architecture, year, memory, power, and how much was measured."""
    found = figures(row)
    kind = row.kind or "kind unknown"
    parts = [
        kind.upper() if kind in ("cpu", "gpu", "npu", "tpu") else kind,
        row.architecture or "",
        str(row.year or ""),
        *(_FIGURES[name][1](found[name].value) for name in ("memory_bytes", "power_w") if name in found),
        f"{formatting.count(row.measurements)} measurement{'' if row.measurements == 1 else 's'}",
    ]
    return " · ".join(filter(None, parts))


def headline(rows: Sequence[MeasuredRow], *, cut: bool = False) -> tuple[str, str]:
    """Say the best number of a hardware: its fastest model with the figure, then how it was run and is known.

    `cut` says that rows are the fastest of more.
    """
    best = rows[0]
    many = len({row["model"] for row in rows})
    size = f" at {size_words(best)}" if size_words(best) else ""
    first = (
        f"Fastest of {'at least ' if cut else ''}{formatting.count(many)} models"
        if many > 1
        else "The only model measured"
    )
    name = model_name(str(best["model"]))
    count = best.get("hardware_count") or 1
    devices = f" on {count} devices" if count > 1 else ""
    return f"{speed_words(best)} with {name}", f"{first}{size}{devices}: {how_run(best)} ({how_known(best)})"


def families_columns(rows: Sequence[FamilyCoverage]) -> list[Column]:
    """Return what was tried by family and platform; shares are of the family's models."""
    counts = {
        "Of": [row.models for row in rows],
        "✓ verified": [row.verified for row in rows],
        "measured": [row.measured for row in rows],
        "✕ failed": [row.failed for row in rows],
    }
    return [
        Column(head="Family", values=[str(row.family or "unknown") for row in rows]),
        Column(head="Platform", values=[row.platform for row in rows]),
        Column(
            head="Tried",
            values=[row.tried_share for row in rows],
            shown=[formatting.share(row.tried_share) for row in rows],
        ),
        *(Column(head=head, values=values) for head, values in counts.items()),
        Column(head="Never tried, for example", values=[", ".join(row.never_tried[:3]) or None for row in rows]),
        Column(head="Category", values=[row.category for row in rows]),
        Column(head="Precisions", values=[", ".join(row.precisions) or None for row in rows]),
    ]


_KIN = {
    "architecture": "same architecture",
    "kind": "same kind, nearest bandwidth",
    "models": "most models in common",
}


def siblings_columns(rows: Sequence[ComparedSibling]) -> list[Column]:
    """Return the hardware like this one: why, the ratios of figures, and how fast it is where both were measured."""
    return [
        Column(
            head="Hardware",
            values=[row.name or row.id for row in rows],
            links=[about("hardware", row.id) for row in rows],
        ),
        Column(head="Alike", values=[_KIN.get(row.alike, row.alike) for row in rows]),
        Column(
            head="Peak",
            values=[row.peak_ratio for row in rows],
            shown=[_ratio(row.peak_ratio, row.peak_precision) for row in rows],
        ),
        Column(
            head="Bandwidth",
            values=[row.bandwidth_ratio for row in rows],
            shown=[formatting.factor(row.bandwidth_ratio) for row in rows],
        ),
        Column(
            head="Speed",
            values=[row.speed_ratio for row in rows],
            shown=[formatting.change(row.speed_ratio) for row in rows],
        ),
        Column(head="Configurations", values=[row.shared_configurations for row in rows]),
        Column(head="Shared models", values=[row.shared_models for row in rows]),
        Column(head="Models", values=[row.measured_models for row in rows]),
    ]


def _ratio(ratio: float | None, precision: str | None) -> str:
    return f"{formatting.factor(ratio)} {precision}" if ratio is not None else formatting.MISSING


def prices_columns(rows: Sequence[Price]) -> list[Column]:
    """Return what an hour costs, cheapest device first, with the date of each price and whether it is old."""
    hours = [row.usd_per_hour for row in rows]
    devices = [row.usd_per_device for row in rows]
    return [
        Column(
            head="Machine",
            values=[f"{row.provider}:{row.instance}" if row.instance else str(row.provider) for row in rows],
        ),
        Column(head="$ a device", values=devices, shown=[formatting.money(value) for value in devices]),
        Column(head="$ an hour", values=hours, shown=[formatting.money(value) for value in hours]),
        Column(head="Devices", values=[row.count for row in rows]),
        Column(head="Region", values=[row.region for row in rows]),
        Column(head="Kind", values=["spot" if row.spot else "on demand" for row in rows]),
        Column(head="As of", values=[f"{row.date or 'undated'}{' · stale' if row.stale else ''}" for row in rows]),
    ]


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


def listed(rows: Sequence[HardwareEntry], *, catalogue: bool) -> list[Column]:
    """Return a list of hardware: what each is, and how much is known of it; of the whole `catalogue` also how it is known."""
    found = [figures(row) for row in rows]
    memory = [row["memory_bytes"].value if "memory_bytes" in row else None for row in found]
    peaks = [row["peak_flops.fp32"].value / 1e12 if "peak_flops.fp32" in row else None for row in found]
    columns = [
        Column(
            head="Hardware",
            values=[row.name or row.id for row in rows],
            links=[about("hardware", row.id) for row in rows],
        ),
        Column(head="Measurements", values=[row.measurements for row in rows]),
        Column(head="Tests", values=[row.tests for row in rows]),
        Column(
            head="Memory GB",
            values=memory,
            shown=[formatting.capacity(value).removesuffix(f"{formatting.SPACE}GB") for value in memory],
        ),
        Column(head="Peak fp32 TFLOP/s", values=peaks, shown=[formatting.significant(peak) for peak in peaks]),
        Column(head="Kind", values=[row.kind for row in rows]),
    ]
    if not catalogue:
        return columns
    known = [KNOWN_AS.get(row.known, row.known) for row in rows]
    return [*columns, Column(head="Vendor", values=[row.vendor for row in rows]), Column(head="Known", values=known)]
