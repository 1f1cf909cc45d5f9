"""The view is the URL: a page's parameters are read into a struct and written back, and live nowhere else.

What a URL says that nobody understands is named, not dropped in silence. Values in a URL are slugs, never labels.
The Recommend page's parameters are in `dashboard.screens.recommend.question`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from domain.vocabulary import MODES

__all__ = [
    "BASES_SHOWN",
    "GROUPS",
    "KINDS",
    "LIVE_TARGETS",
    "METRIC_NAMES",
    "PARTS",
    "SCALES",
    "Comparison",
    "Params",
    "Read",
    "Reader",
    "Scores",
    "View",
    "link",
    "number",
    "one_of",
    "parameters",
    "position",
    "positive",
    "read_comparison",
    "read_scores",
    "slugs",
    "text",
    "understood",
    "whole",
    "wholes",
    "yes_or_no",
]

BASES_SHOWN = ("auto", "measured", "all")
"""Evidence where there is any and estimates elsewhere; evidence alone; both."""
SCALES = ("auto", "log", "linear")
PARTS = ("scores", "live", "decisions", "card")
GROUPS = ("hardware", "family")
LIVE_TARGETS = ("latency", "memory", "ttft", "tpot", "energy")
METRIC_NAMES = ("throughput", "latency", "memory", "speedup", "energy", "energy_token")
KINDS = ("hardware", "models", "modes", "precision", "batch")
"""What the compare page puts side by side: hardware for a model, models on a hardware, inference and training of a model,
its precisions on one hardware, its batch sizes."""
Params = Mapping[str, Sequence[str]]
Reader = Callable[[Sequence[str]], Any]
_LARGEST = 65536


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What the compare page asks: what is put side by side, of which model and on which hardware, by one metric.

    `model` and `hw` may name several, between commas (`hw` empty: all); `per_hw` shows the best configuration of each device
    alone. `length` is of the sequence.
    """

    what: str = "hardware"
    model: str = ""
    hw: str = ""
    mode: str = "inference"
    metric: str = "throughput"
    scale: str = "auto"
    platform: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    batch: int | None = None
    length: int | None = None
    basis: str = "auto"
    per_hw: bool = True
    as_of: int | None = None


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """What the predictor page shows: which part, an evaluation by name, errors by which groups, which target's live accuracy."""

    tab: str = "scores"
    split: str = ""
    group: str = "hardware"
    target: str = "latency"
    as_of: int | None = None


View = msgspec.Struct
"""What a page shows: its members are the parameters."""


class Read(NamedTuple):
    """What a URL was understood to ask, and a sentence for each part that was not."""

    asked: Any
    dropped: list[str]


def read_comparison(params: Params) -> Read:
    """Read a compare page's parameters."""
    return understood(Comparison, params, _COMPARISON)


def read_scores(params: Params) -> Read:
    """Read a predictor page's parameters."""
    return understood(Scores, params, _SCORES)


def parameters(view: View, *, everything: bool = False) -> dict[str, list[str]]:
    """Write a view as URL parameters; values that are the default are left out unless `everything`."""
    defaults = type(view)()
    names: dict[str, list[str]] = {}
    for name in view.__struct_fields__:
        value = getattr(view, name)
        if value in (None, "", ()) or (value == getattr(defaults, name) and not everything):
            continue
        values = value if isinstance(value, tuple) else (value,)
        names[name] = [_written(item) for item in values]
    return names


def link(base: str, path: str, view: View) -> str:
    """Return an address that says every value, so that it keeps its meaning when a default changes."""
    query = urlencode(parameters(view, everything=True), doseq=True)
    return f"{base.rstrip('/')}/{path}?{query}"


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, float) else str(value)


def number(value: float) -> str:
    """Write a number so that reading it gives the same one, without the digits that binary fractions add."""
    return f"{value:.15g}"


def one_of(words: Iterable[str]) -> Reader:
    """Return what reads one of these words. Like every reader it raises ValueError, which says what the value must be."""
    existing = tuple(words)

    def read(values: Sequence[str]) -> str:
        if values[-1] not in existing:
            raise ValueError(f"must be one of {', '.join(existing)}")
        return values[-1]

    return read


def positive(values: Sequence[str]) -> float:
    """Read a number above zero."""
    try:
        nan = float(values[-1])
    except ValueError:
        nan = math.nan
    if not (math.isfinite(nan) and nan > 0):
        raise ValueError("must be a number above zero")
    return nan


def whole(values: Sequence[str]) -> int:
    """Read a whole number above zero."""
    if not (values[-1].isascii() and values[-1].isdigit() and int(values[-1]) > 0):
        raise ValueError("must be a whole number above zero")
    return int(values[-1])


def position(values: Sequence[str]) -> int:
    """Read a position of the log."""
    if not (values[-1].isascii() and values[-1].isdigit()):
        raise ValueError("must be a position of the log")
    return int(values[-1])


def wholes(values: Sequence[str]) -> tuple[int, ...]:
    """Read whole numbers between commas; `1..64` are the powers of two from one to the other, both ends with them."""
    parts = [part.strip() for value in values for part in value.split(",") if part.strip()]
    return tuple(dict.fromkeys(size for part in parts for size in _sizes(part)))


def _sizes(part: str) -> list[int]:
    first, dots, last = part.partition("..")
    if not dots:
        return [whole([part])]
    low, high = whole([first]), whole([last])
    if low > high or high > _LARGEST:
        raise ValueError(f"must rise, to {_LARGEST} at most")
    return sorted({low, high, *(1 << power for power in range(high.bit_length()) if low <= 1 << power <= high)})


def yes_or_no(values: Sequence[str]) -> bool:
    """Read `yes` or `no`."""
    return bool(one_of(("yes", "no"))(values) == "yes")


def slugs(values: Sequence[str]) -> tuple[str, ...]:
    """Read words between commas, each once."""
    return tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


def text(values: Sequence[str]) -> str:
    """Read a text as it is."""
    return values[-1].strip()


_COMPARISON: dict[str, Reader] = {
    "what": one_of(KINDS),
    "model": text,
    "hw": text,
    "mode": one_of(MODES),
    "metric": one_of(METRIC_NAMES),
    "scale": one_of(SCALES),
    "platform": slugs,
    "precision": slugs,
    "batch": whole,
    "length": whole,
    "basis": one_of(BASES_SHOWN),
    "per_hw": yes_or_no,
    "as_of": position,
}


_SCORES: dict[str, Reader] = {
    "tab": one_of(PARTS),
    "split": text,
    "group": one_of(GROUPS),
    "target": one_of(LIVE_TARGETS),
    "as_of": position,
}


def understood(shape: Callable[..., Any], params: Params, readers: Mapping[str, Reader]) -> Read:
    """Read parameters into a view; what a reader refuses, or no reader is for, is named."""
    row: dict[str, Any] = {}
    dropped: list[str] = []
    for name, values in params.items():
        if name not in readers:
            dropped.append(f"{name} is not a parameter of this page")
            continue
        matching_values = [value for value in values if value]
        if not matching_values:
            continue
        try:
            row[name] = readers[name](matching_values)
        except ValueError as problem:
            dropped.append(f"{name}={matching_values[-1]} was left out: it {problem}")
    return Read(shape(**row), dropped)
