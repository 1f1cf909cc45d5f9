"""The view is the URL: every parameter has its name here, and nowhere else.

A question is read from a page's parameters and written back as parameters, as the body of an API request and
as the command that asks the same in a terminal. What a URL says that nobody understands is named, not dropped
in silence. Values in a URL are slugs, never labels.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

import msgspec

from domain.vocabulary import MODES

__all__ = [
    "BASES_SHOWN",
    "GROUPS",
    "LIVE_TARGETS",
    "METRIC_NAMES",
    "OBJECTIVES",
    "PERCENTILES",
    "SCALES",
    "Comparison",
    "Question",
    "Read",
    "Scores",
    "View",
    "command",
    "link",
    "parameters",
    "read_comparison",
    "read_question",
    "read_scores",
    "request",
    "verify_command",
]

OBJECTIVES = ("latency", "throughput", "memory", "cost", "energy")
PERCENTILES = ("p50", "p90", "p95", "p99")
BASES_SHOWN = ("auto", "measured", "all")
"""Evidence where there is any and estimates elsewhere; evidence alone; both."""
SCALES = ("auto", "log", "linear")
GROUPS = ("hardware", "family")
LIVE_TARGETS = ("latency", "memory", "ttft", "tpot", "energy")
METRIC_NAMES = ("throughput", "latency", "memory")
Params = Mapping[str, Sequence[str]]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the recommend page asks. `hw` is `all`, `own` or slugs; limits are in the units of their names."""

    model: str = ""
    mode: str = "inference"
    objective: str = "latency"
    pct: str = "p50"
    max_ms: float | None = None
    max_gb: float | None = None
    max_usd: float | None = None
    hw: tuple[str, ...] = ("all",)
    platform: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    batch: tuple[int, ...] = ()
    seq: int | None = None
    as_of: int | None = None
    top: int = 10


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What the compare page asks: one model on many devices, by one metric."""

    model: str = ""
    mode: str = "inference"
    metric: str = "throughput"
    scale: str = "auto"
    platform: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    batch: int | None = None
    basis: str = "auto"
    as_of: int | None = None


class Scores(msgspec.Struct, frozen=True, kw_only=True):
    """What the predictor page shows: an evaluation by name, errors by which groups, and which target's live accuracy."""

    split: str = ""
    group: str = "hardware"
    target: str = "latency"
    as_of: int | None = None


View = Question | Comparison | Scores


class Read(NamedTuple):
    """What a URL was understood to ask, and a sentence for each part that was not."""

    asked: Any
    dropped: list[str]


def read_question(params: Params) -> Read:
    """Read a recommend page's parameters."""
    return _read(Question, params, _QUESTION)


def read_comparison(params: Params) -> Read:
    """Read a compare page's parameters."""
    return _read(Comparison, params, _COMPARISON)


def read_scores(params: Params) -> Read:
    """Read a predictor page's parameters."""
    return _read(Scores, params, _SCORES)


def parameters(asked: View, *, everything: bool = False) -> dict[str, list[str]]:
    """Write a view as URL parameters; values that are the default are left out unless `everything`."""
    defaults = type(asked)()
    found: dict[str, list[str]] = {}
    for name in asked.__struct_fields__:
        value = getattr(asked, name)
        if value in (None, "", ()) or (value == getattr(defaults, name) and not everything):
            continue
        values = value if isinstance(value, tuple) else (value,)
        found[name] = [f"{item:g}" if isinstance(item, float) else str(item) for item in values]
    return found


def link(base: str, path: str, asked: View) -> str:
    """Return an address that says every value, so that it keeps its meaning when a default changes."""
    query = urlencode(parameters(asked, everything=True), doseq=True)
    return f"{base.rstrip('/')}/{path}?{query}"


def request(question: Question) -> dict[str, Any]:
    """Return the question as the API takes it: bytes, not GB; absent, not empty."""
    hardware: Any = question.hw[0] if question.hw in (("all",), ("own",)) else list(question.hw)
    asked = {
        "model": question.model,
        "mode": question.mode,
        "objective": question.objective,
        "percentile": question.pct,
        "max_latency_ms": question.max_ms,
        "max_memory_mb": None if question.max_gb is None else question.max_gb * 1000,
        "max_usd_per_hour": question.max_usd,
        "hardware": hardware,
        "platform": list(question.platform),
        "precision": list(question.precision),
        "batch_sizes": list(question.batch),
        "sequence_length": question.seq,
        "as_of": question.as_of,
        "top": question.top,
    }
    return {key: value for key, value in asked.items() if value is not None and value != []}


def command(question: Question) -> str:
    """Return the same question for a terminal, ready to paste."""
    defaults, words = Question(), ["assay", "recommend", question.model or "MODEL"]
    for name, flag in _FLAGS.items():
        value = getattr(question, name)
        if value == getattr(defaults, name) or value is None:
            continue
        if name == "max_gb":
            value = value * 1000
        if isinstance(value, tuple):
            value = ",".join(str(item) for item in value)
        words += [flag, f"{value:g}" if isinstance(value, float) else str(value)]
    return shlex.join(words)


def verify_command(model: str, row: Mapping[str, Any]) -> str:
    """Return the command that measures one answer on the machine that has the hardware."""
    words = ["assay", "bench", model]
    for key, flag in (("platform", "--platform"), ("precision", "--precision"), ("batch_size", "--batch-sizes")):
        if row.get(key) is not None:
            words += [flag, str(row[key])]
    if row.get("sequence_length") is not None:
        words += ["--sequence-lengths", str(row["sequence_length"])]
    return shlex.join(words)


Reader = Callable[[Sequence[str]], Any]

_FLAGS = {
    "mode": "--mode", "objective": "--objective", "pct": "--percentile", "max_ms": "--max-latency-ms",
    "max_gb": "--max-memory-mb", "max_usd": "--max-usd-per-hour", "hw": "--hardware", "platform": "--platform",
    "precision": "--precision", "batch": "--batch-sizes", "seq": "--sequence-length", "as_of": "--as-of",
    "top": "--top",
}  # fmt: skip


def _one_of(words: Iterable[str]) -> Reader:
    known = tuple(words)

    def read(values: Sequence[str]) -> str:
        if values[-1] not in known:
            raise ValueError(f"must be one of {', '.join(known)}")
        return values[-1]

    return read


def _positive(values: Sequence[str]) -> float:
    try:
        found = float(values[-1])
    except ValueError:
        found = math.nan
    if not (math.isfinite(found) and found > 0):
        raise ValueError("must be a number above zero")
    return found


def _whole(values: Sequence[str]) -> int:
    if not (values[-1].isascii() and values[-1].isdigit() and int(values[-1]) > 0):
        raise ValueError("must be a whole number above zero")
    return int(values[-1])


def _position(values: Sequence[str]) -> int:
    if not (values[-1].isascii() and values[-1].isdigit()):
        raise ValueError("must be a position of the log")
    return int(values[-1])


def _wholes(values: Sequence[str]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(_whole([part]) for value in values for part in value.split(",") if part))


def _slugs(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for value in values for part in value.split(",") if part.strip()))


def _text(values: Sequence[str]) -> str:
    return values[-1].strip()


_QUESTION: dict[str, Reader] = {
    "model": _text, "mode": _one_of(MODES), "objective": _one_of(OBJECTIVES), "pct": _one_of(PERCENTILES),
    "max_ms": _positive, "max_gb": _positive, "max_usd": _positive, "hw": _slugs, "platform": _slugs,
    "precision": _slugs, "batch": _wholes, "seq": _whole, "as_of": _position, "top": _whole,
}  # fmt: skip
_COMPARISON: dict[str, Reader] = {
    "model": _text, "mode": _one_of(MODES), "metric": _one_of(METRIC_NAMES), "scale": _one_of(SCALES), "platform": _slugs,
    "precision": _slugs, "batch": _whole, "basis": _one_of(BASES_SHOWN), "as_of": _position,
}  # fmt: skip


_SCORES: dict[str, Reader] = {
    "split": _text, "group": _one_of(GROUPS), "target": _one_of(LIVE_TARGETS), "as_of": _position,
}  # fmt: skip


def _read(shape: Callable[..., Any], params: Params, readers: Mapping[str, Reader]) -> Read:
    found: dict[str, Any] = {}
    dropped: list[str] = []
    for name, values in params.items():
        if name not in readers:
            dropped.append(f"{name} is not a parameter of this page")
            continue
        given = [value for value in values if value]
        if not given:
            continue
        try:
            found[name] = readers[name](given)
        except ValueError as problem:
            dropped.append(f"{name}={given[-1]} was left out: it {problem}")
    return Read(shape(**found), dropped)
