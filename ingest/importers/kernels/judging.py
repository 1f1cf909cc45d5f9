"""What is wrong with kernel timings: rows that physics does not allow, other units among them, and copied tables.

docs/importers.md lists the marks. A row is compared with the least work of its operator (`domain.performance.kernel_work`)
and the figures of the hardware catalogue; a device that the catalogue does not have is compared with its own rows only.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from domain.catalogues import hardware
from domain.performance.kernel_limits import Allowed, Marks, impossible
from domain.performance.kernel_work import Work, kernel_work
from ingest.importers.kernels.kernel_table import KernelTable

__all__ = ["Judge", "Marks"]

OFF = 300.0
"""So many times faster or slower than timings of like size: another unit, since kernels of like size differ by far less."""
FEW = 5
"""Fewer timings of like size have no middle to compare with."""
SLOW = 1000.0
"""A table whose typical large row takes so many times what the device needs at the least is in other units, or of another device."""
LARGE_MS = 0.1
"""Rows that take a device so long at the least are large: launches do not decide their time."""
COPIED_ROWS, COPIED_SHARE = 20, 0.5
"""So many rows, and such a share of a table, with the figures of another device are no chance."""
LONG_DIGITS = 6
"""Times with so many digits or more are not the same by chance."""
_USUAL_FLOPS, _USUAL_BYTES, _USUAL_LAUNCH_S = 1e13, 5e11, 5e-6


class _Seen(NamedTuple):
    """A table that was read before: its device's id and name, and a hash of each row."""

    device: str
    name: str | None
    rows: Any


class Judge:
    """Judges the tables of one file, which are compared with each other."""

    def __init__(self) -> None:
        self._seen: dict[bytes, list[_Seen]] = defaultdict(list)

    def judged(self, table: KernelTable) -> tuple[KernelTable, Marks]:
        """Return a table without the rows that stand under another name of its device, and its marks."""
        table, copied = self._compared(table)
        if not len(table.latency):
            return table, {}
        sizes = {name: values.astype(float) for name, values in table.sizes.items()}
        sizes |= {name: float(value) for name, value in (table.about.get("fixed") or {}).items() if _is_number(value)}
        about = table.about
        work = kernel_work(about["operator"], sizes, table.types, phase=about.get("phase"))
        marks = _units(table, work, sizes) | _physics(table, work)
        marks |= {name: ("suspect", reason, mask) for name, (reason, mask) in table.doubts.items()}
        if copied is not None:
            marks["same-figures"] = copied
        return table, {name: mark for name, mark in marks.items() if mark[2].any()}

    def _compared(self, table: KernelTable) -> tuple[KernelTable, tuple[str, str, Any] | None]:
        """Compare a table with those of the same software that came before it, and remember it."""
        import numpy as np

        about = table.about
        device, name = str(about["hardware"]["id"]), about.get("device_name")
        software = {key: value for key, value in about.items() if key not in ("hardware", "device_name", "method")}
        seen = self._seen[msgspec.json.encode(software)]
        rows, mark = _hashes(table), None
        for other in seen:
            if (other.device, other.name) == (device, name):
                continue  # What a source measured twice is a repeat.
            again = np.isin(rows, other.rows)
            many = again.sum() >= max(COPIED_ROWS, COPIED_SHARE * len(rows))
            if other.device == device:
                again &= many | _long(table.latency)
                if again.any():
                    mask = np.zeros(len(table.columns), bool)
                    mask[table.places[again]] = True
                    reason = f"the same row stands under {other.name!r}, another name of {device}"
                    table.columns.refuse(mask, "device", reason)
                    table, rows = table.taken(~again), rows[~again]
                    mark = None if mark is None else (*mark[:2], mark[2][~again])
            elif many:
                mark = ("suspect", f"the same figures stand under {other.device}: one of them was copied", again)
        seen.append(_Seen(device, name, rows))
        return table, mark


def _hashes(table: KernelTable) -> Any:
    """Return a number for what each row says."""
    import numpy as np

    with np.errstate(over="ignore"):
        mixed = table.latency.astype(np.float32).view(np.uint32).astype(np.uint64)
        for name in sorted({*table.sizes, *table.texts}):
            if name in table.sizes:
                values = table.sizes[name].astype(np.uint64)
            else:
                column = table.texts[name]
                crcs = np.array([*(zlib.crc32(value.encode()) for value in column.values), 0], np.uint64)
                values = crcs[column.codes]
            mixed = (mixed ^ (values + np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed ^= mixed >> np.uint64(29)
    return mixed


def _long(latency: Any) -> Any:
    """Return which times have so many digits that two clocks do not give the same by chance."""
    import numpy as np

    scale = 10.0 ** (LONG_DIGITS - 2 - np.floor(np.log10(latency)))
    shown = latency * scale
    return np.abs(shown - np.round(shown)) > 1e-3


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _units(table: KernelTable, work: Work | None, sizes: Mapping[str, Any]) -> Marks:
    """Mark rows that are hundreds of times off those that have about as much to do."""
    import numpy as np

    if work is None and table.about["operator"] == "collective":
        work = Work(0.0, 2.0 * sizes["elements"])
    if work is None:
        return {}  # How much there is to do, nobody can tell.
    usual = np.maximum(np.maximum(work.flops / _USUAL_FLOPS, work.bytes / _USUAL_BYTES), _USUAL_LAUNCH_S) * 1e3
    usual = np.broadcast_to(usual, table.latency.shape)
    ratio = np.log10(table.latency / usual)
    decades = np.floor(np.log10(usual))
    off = np.zeros(len(ratio), bool)
    for decade in np.unique(decades):
        among = decades == decade
        if among.sum() >= FEW:
            off |= among & (np.abs(ratio - np.median(ratio[among])) >= np.log10(OFF))
    reason = f"{OFF:g} times or more off the timings of like size beside it, as with seconds or microseconds among milliseconds"
    return {"mixed-units": ("invalid", reason, off)}


def _physics(table: KernelTable, work: Work | None) -> Marks:
    """Mark rows that are faster than the device's peak or memory allows, and tables that are far slower."""
    import numpy as np

    spec = hardware.find(table.about["hardware"]["id"])
    if spec is None or work is None:
        return {}
    seconds, peak = table.latency / 1e3, _peak(table, spec)
    rate = None if spec.memory_bandwidth_bytes_per_s is None else spec.memory_bandwidth_bytes_per_s.value
    cache = None if spec.cache_bytes is None else spec.cache_bytes.value
    marks = impossible(work, seconds, Allowed(spec.id, spec.kind, peak, rate, cache))
    least = np.zeros(len(seconds))
    if peak is not None:
        least = np.maximum(least, work.flops / peak)
    if rate is not None:
        least = np.maximum(least, work.bytes / rate)
    large = least * 1e3 >= LARGE_MS
    if large.sum() >= FEW and np.median(seconds[large] / least[large]) >= SLOW:
        reason = f"its larger rows take {SLOW:g} times or more what {spec.id} needs at the least: its times may be in another unit"
        marks["far-too-slow"] = ("suspect", reason, np.ones(len(seconds), bool))
    return marks


def _peak(table: KernelTable, spec: hardware.HardwareSpec) -> float | None:
    """Return the fastest arithmetic that the kernel may use; None where that is not known."""
    types = table.types
    if types is None or types.arithmetic is None:
        return None
    platform = table.about["execution"]["platform"]
    # Attention over a narrow cache may compute in the cache's type.
    figures = [spec.peak(precision, platform) for precision in {types.arithmetic, types.kv_cache} if precision]
    return max((figure.value for figure in figures if figure is not None), default=None)
