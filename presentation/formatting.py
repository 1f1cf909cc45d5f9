"""Numbers for people: one place that decides digits, units and signs for tables, charts and the terminal.

Three significant figures, four only beside an interval that supports them; trailing zeros are kept.
Missing is an em dash, a zero stands only where a zero was measured. Input is SI as stored (`latency_ms`,
`memory_bytes`, shares 0–1); the unit shown follows from the value, or from the median of a column.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import NamedTuple

__all__ = [
    "MISSING",
    "Scale",
    "age",
    "capacity",
    "change",
    "count",
    "date",
    "digest",
    "energy",
    "energy_scale",
    "factor",
    "interval",
    "latency",
    "latency_scale",
    "memory",
    "memory_scale",
    "money",
    "parameters",
    "percentile",
    "plain",
    "price_scale",
    "samples",
    "share",
    "si",
    "significant",
    "throughput",
    "throughput_scale",
    "when",
]

MISSING = "—"
SPACE = "\u202f"
"""Narrow and not breaking: a value never parts from its unit."""
DASH = "–"
MINUS = "−"


class Scale(NamedTuple):
    """A unit and what one of it is worth in the stored unit: `value / divisor` is shown before `unit`."""

    unit: str
    divisor: float

    def of(self, value: float | None) -> float | None:
        """Convert a stored value into this unit; missing stays missing."""
        return None if value is None else value / self.divisor

    def show(self, value: float | None, low: float | None = None, high: float | None = None) -> str:
        """Write a stored value, with its interval where both ends are known: `1.20 ms (1.19–1.21)`."""
        if not _known(value):
            return MISSING
        assert value is not None
        if not (_known(low) and _known(high)):
            return f"{significant(value / self.divisor)}{self._suffix}"
        assert low is not None
        assert high is not None
        ends = (low / self.divisor, high / self.divisor)
        decimals = _supported_decimals(value / self.divisor, *ends)
        shown = _fixed(value / self.divisor, decimals)
        return f"{shown}{self._suffix} ({_fixed(ends[0], decimals)}{DASH}{_fixed(ends[1], decimals)})"

    @property
    def _suffix(self) -> str:
        return self.unit if self.unit.startswith("/") else SPACE + self.unit


class _Price(Scale):
    """US dollars for a unit of work, with the sign before the amount."""

    def show(self, value: float | None, low: float | None = None, high: float | None = None) -> str:
        """Write a price, with its interval where both ends are known: `$0.142 / M calls (0.10–0.20)`."""
        if not _known(value):
            return MISSING
        amount, opened, ends = Scale("", 1.0).show(value, low, high).partition(" (")
        return f"${amount.rstrip(SPACE)}{self.unit.removeprefix('$')}{opened}{ends}"


MICROSECONDS, MILLISECONDS, SECONDS = Scale("µs", 1e-3), Scale("ms", 1.0), Scale("s", 1e3)
PER_SECOND, THOUSANDS, MILLIONS = Scale("/s", 1.0), Scale("k/s", 1e3), Scale("M/s", 1e6)
MILLIJOULES, JOULES, KILOJOULES = Scale("mJ", 1e-3), Scale("J", 1.0), Scale("kJ", 1e3)
KILOBYTES, MEGABYTES, GIGABYTES = Scale("kB", 1e3), Scale("MB", 1e6), Scale("GB", 1e9)


def latency_scale(values_ms: Iterable[float | None]) -> Scale:
    """Choose µs, ms or s for a whole column or axis, from its median."""
    middle = _median(values_ms)
    if middle is None:
        return MILLISECONDS
    return MICROSECONDS if middle < 0.1 else MILLISECONDS if middle < 1e4 else SECONDS


def throughput_scale(values_per_s: Iterable[float | None]) -> Scale:
    """Choose /s, k/s or M/s for a whole column or axis, from its median."""
    middle = _median(values_per_s)
    if middle is None or middle < 1e4:
        return PER_SECOND
    return THOUSANDS if middle < 1e6 else MILLIONS


def memory_scale(values_bytes: Iterable[float | None]) -> Scale:
    """Choose kB, MB (10⁶) or GB (10⁹) for a whole column or axis, from its median."""
    middle = _median(values_bytes)
    if middle is None:
        return MEGABYTES
    return KILOBYTES if middle < 1e6 else MEGABYTES if middle < 1e9 else GIGABYTES


def energy_scale(values_j: Iterable[float | None]) -> Scale:
    """Choose mJ, J or kJ for a whole column or axis, from its median."""
    middle = _median(values_j)
    if middle is None:
        return JOULES
    return MILLIJOULES if middle < 0.1 else JOULES if middle < 1e4 else KILOJOULES


def price_scale(unit: str) -> Scale:
    """Return how prices of a unit of work are written, with three figures: `$0.142 / M calls`; of no unit `$0.142`."""
    return _Price(f"$ / {unit}" if unit else "$", 1.0)


def latency(
    value_ms: float | None, low_ms: float | None = None, high_ms: float | None = None, *, mean: bool = False
) -> str:
    """Write a latency: `1.20 ms (1.19–1.21)`; a mean used in place of a percentile says `(mean)`."""
    text = latency_scale([value_ms]).show(value_ms, low_ms, high_ms)
    return f"{text} (mean)" if mean and text != MISSING else text


def throughput(value_per_s: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write items a second: `6,610/s`, `18.2 k/s`."""
    return throughput_scale([value_per_s]).show(value_per_s, low, high)


def memory(value_bytes: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a size in memory: `512 MB`, `1.20 GB`, with MB = 10⁶ bytes."""
    return memory_scale([value_bytes]).show(value_bytes, low, high)


def capacity(value_bytes: float | None) -> str:
    """Write the memory of a device as it is sold, `24 GB` for 24 × 2³⁰ bytes; other sizes as `memory` does."""
    if value_bytes is None or not _known(value_bytes):
        return MISSING
    # Small ones are sold in halves; a driver keeps a few MB of what was sold for itself.
    step = 2**29 if value_bytes < 8 * 2**30 else 2**30
    steps = value_bytes / step
    if value_bytes >= 2**30 and math.isclose(steps, round(steps), rel_tol=1e-3):
        return f"{round(steps) * step / 2**30:g}{SPACE}GB"
    return memory(value_bytes)


def parameters(value: float | None) -> str:
    """Write how many parameters a model has, as people say it: `7.2 B`, `109 M`."""
    if value is None or not _known(value):
        return MISSING
    size, letter = next(((size, letter) for size, letter in _COUNTS if value >= size), (1.0, ""))
    shown = value / size
    digits = significant(shown, 2 if shown < 9.95 else 3).removesuffix(".0")
    return f"{digits}{SPACE}{letter}".rstrip(SPACE)


def energy(value_j: float | None, low_j: float | None = None, high_j: float | None = None) -> str:
    """Write an energy: `0.420 J`, `35.0 mJ (34.0–36.1)`."""
    return energy_scale([value_j]).show(value_j, low_j, high_j)


def interval(
    low: float | None, high: float | None, scale: Scale = MILLISECONDS, *, value: float | None = None, unit: bool = True
) -> str:
    """Write an interval alone: `1.19–1.21 ms`; an em dash unless both ends are known.

    With the value that it belongs to, its digits are those that `Scale.show` would write.
    """
    if not (_known(low) and _known(high)):
        return MISSING
    assert low is not None
    assert high is not None
    ends = (low / scale.divisor, high / scale.divisor)
    decimals = _supported_decimals(max(ends) if value is None else value / scale.divisor, *ends)
    return f"{_fixed(ends[0], decimals)}{DASH}{_fixed(ends[1], decimals)}{scale._suffix if unit else ''}"


def share(value: float | None) -> str:
    """Write a share 0–1 as per cent with one decimal: `8.2 %`."""
    if not _known(value):
        return MISSING
    assert value is not None
    percent = value * 100
    if 0 < percent < 0.05:
        return f"< 0.1{SPACE}%"
    return f"{_fixed(percent, 1)}{SPACE}%"


def factor(ratio: float | None) -> str:
    """Write a ratio: `× 3.10`."""
    return MISSING if not _known(ratio) else f"×{SPACE}{significant(ratio)}"


def change(ratio: float | None, better: str = "faster", worse: str = "slower") -> str:
    """Write how much faster: `18 % faster`, from twice on `× 3.1 faster`; a ratio above 1 is the better one."""
    if not _known(ratio) or ratio is None or ratio <= 0:
        return MISSING
    word, size = (better, ratio) if ratio >= 1 else (worse, 1 / ratio)
    if size >= 2:
        return f"×{SPACE}{significant(size, 2)} {word}"
    percent = (ratio - 1) * 100
    if abs(percent) < 0.5:
        return "the same"
    return f"{_fixed(abs(percent), 0)}{SPACE}% {word}"


def money(usd: float | None) -> str:
    """Write dollars an hour with two decimals: `$2.49`."""
    return MISSING if not _known(usd) else f"${usd:,.2f}"


def si(value: float | None, unit: str) -> str:
    """Write a figure with the prefix of its size: `82.6 TFLOP/s`, `3.35 TB/s`, `2.60 GHz`."""
    if not _known(value) or value is None:
        return MISSING
    size, prefix = next(((size, prefix) for size, prefix in _PREFIXES if abs(value) >= size), (1.0, ""))
    return f"{significant(value / size)}{SPACE}{prefix}{unit}"


def count(value: float | None) -> str:
    """Write a whole number in full: `184,203`."""
    if not _known(value):
        return MISSING
    assert value is not None
    return f"{value:,.0f}".replace("-", MINUS)


def samples(n: int | None, runs: int | None = None) -> str:
    """Write how many samples, and runs where known, stand behind a number: `n 61 · 3 runs`."""
    parts = [f"n{SPACE}{count(n)}" if n is not None else f"n{SPACE}{MISSING}"]
    if runs is not None:
        parts.append(f"{count(runs)} run{'' if runs == 1 else 's'}")
    return " · ".join(parts)


def percentile(name: str, value_ms: float | None, n: int | None, needs: int) -> str:
    """Write a percentile, or what it lacks: `p95 — (needs 90, has 61)`."""
    if _known(value_ms):
        return f"{name} {latency(value_ms)}"
    return f"{name} {MISSING} (needs {count(needs)}, has {count(n or 0)})"


def date(moment: datetime | str | None, zone: tzinfo | None = None) -> str:
    """Write a moment out: `20 Nov 2026 14:05 CET`; UTC where no zone is given."""
    result = _moment(moment)
    if result is None:
        return MISSING
    local = result.astimezone(zone or UTC)
    return f"{local.day} {_MONTHS[local.month - 1]} {local.year} {local:%H:%M} {local.tzname()}"


def when(moment: datetime | str | None, zone: tzinfo | None = None) -> str:
    """Write out when something was measured: as `date`, but midnight of UTC, by which files say a day, as that day.

    It is the same day in every zone: `19 Jul 2022`.
    """
    result = _moment(moment)
    if result is None or result.astimezone(UTC).time() != time():
        return date(result, zone)
    day = result.astimezone(UTC)
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def age(moment: datetime | str | None, now: datetime) -> str:
    """Write how long ago, in one unit: `3 h ago`; what lies ahead of `now` is `just now`."""
    result = _moment(moment)
    if result is None:
        return MISSING
    seconds = (now - result).total_seconds()
    for limit, size, unit in _AGES:
        if seconds < limit:
            return "just now" if size == 0 else f"{int(seconds // size)}{SPACE}{unit} ago"
    return f"{int(seconds // timedelta(days=365).total_seconds())}{SPACE}y ago"


def digest(value: str | None, length: int = 7) -> str:
    """Shorten a hash to its first characters, without the name of its algorithm."""
    return MISSING if not value else value.rpartition(":")[2][:length]


def plain(text: str) -> str:
    """Replace the narrow space by an ordinary one, for terminals, logs and searching."""
    return text.replace(SPACE, " ")


def significant(value: float | None, digits: int = 3) -> str:
    """Write a value with so many significant figures, zeros kept: `1.20`, `6,610`; below 10⁻⁴ as `< 0.0001`."""
    if not _known(value):
        return MISSING
    assert value is not None
    if value == 0:
        return "0"
    if abs(value) < 1e-4:
        return "< 0.0001" if value > 0 else f"> {MINUS}0.0001"
    return _fixed(value, _decimals(value, digits))


_PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_COUNTS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "k"))
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_AGES = (
    (60.0, 0, ""),
    (3600.0, 60, "min"),
    (172800.0, 3600, "h"),
    (timedelta(days=730).total_seconds(), 86400, "d"),
)


def _known(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _median(values: Iterable[float | None]) -> float | None:
    matching_values = sorted(value for value in values if value is not None and math.isfinite(value))
    return matching_values[len(matching_values) // 2] if matching_values else None


def _decimals(value: float, digits: int) -> int:
    if value == 0:
        return digits - 1
    exponent = math.floor(math.log10(abs(value)))
    # 9.996 has one figure more before the point once it is rounded to three.
    exponent = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}")))) if exponent < 300 else exponent
    return digits - 1 - exponent


def _supported_decimals(value: float, low: float, high: float) -> int:
    """Return how many decimals an interval supports: between two and four figures of the value."""
    at_least, at_most = _decimals(value, 2), _decimals(value, 4)
    half = (high - low) / 2
    if half <= 0:
        return _decimals(value, 3)
    # Half of 1.19–1.21 is a hundredth, give or take what binary fractions lose.
    return max(at_least, min(at_most, -math.floor(math.log10(half) + 1e-9)))


def _fixed(value: float, decimals: int) -> str:
    rounded = round(value, decimals)
    text = f"{rounded:,.{max(decimals, 0)}f}"
    if rounded == 0:
        text = text.lstrip("-")
    return text.replace("-", MINUS)


def _moment(moment: datetime | str | None) -> datetime | None:
    if moment is None or moment == "":
        return None
    fromisoformat = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    return fromisoformat if fromisoformat.tzinfo else fromisoformat.replace(tzinfo=UTC)
