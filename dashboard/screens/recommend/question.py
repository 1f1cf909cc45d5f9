"""The Recommend page's question: read from an address, a form or a command, and written as each of them and as a request."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from dashboard.address import (
    Params,
    Read,
    Reader,
    number,
    one_of,
    position,
    positive,
    slugs,
    text,
    understood,
    whole,
    wholes,
    yes_or_no,
)
from domain.calls import CALLS
from domain.vocabulary import MODES

__all__ = [
    "LIMITS",
    "OBJECTIVES",
    "PERCENTILES",
    "Question",
    "command",
    "from_command",
    "read_question",
    "request",
]

OBJECTIVES = ("latency", "throughput", "memory", "cost", "energy")
PERCENTILES = ("p50", "p90", "p95", "p99")
COMPILED = ("any", "compiled", "eager")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the page asks and how it shows the answer; limits are in the units of their names.

    `objective` is a name, or `latency:0.7,cost:0.3`. `hw` is `all`, `own`, slugs or instance types; `device` in its place are
    devices at hand, `cuda:0=nvidia-l4@6000` with a program's name and the free MB where they are known. `per_hw` shows the best
    configuration of each hardware alone. `add` are devices that the reader wants to see beside the answer, and no part of the
    question.
    """

    model: str = ""
    mode: str = "inference"
    objective: str = "latency"
    pct: str = "p50"
    max_ms: float | None = None
    max_ttft: float | None = None
    max_tpot: float | None = None
    min_per_s: float | None = None
    min_tokens: float | None = None
    max_gb: float | None = None
    max_w: float | None = None
    max_usd: float | None = None
    max_loss: float | None = None
    max_mb: float | None = None
    confidence: float = 0.8
    hw: tuple[str, ...] = ("all",)
    device: tuple[str, ...] = ()
    vendor: tuple[str, ...] = ()
    count: int | None = None
    platform: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()
    compiled: str = "any"
    batch: tuple[int, ...] = ()
    seq: int | None = None
    image: int | None = None
    images: int | None = None
    audio: float | None = None
    frames: int | None = None
    input: int | None = None
    output: int | None = None
    steps: int | None = None
    call: str = "usual"
    concurrency: int | None = None
    region: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    spot: bool = False
    per_hw: bool = True
    as_of: int | None = None
    top: int = 10
    add: tuple[str, ...] = ()


def _objective(values: Sequence[str]) -> str:
    """Read a name, or names with weights; a name alone among them weighs 1."""
    value = values[-1]
    if value in OBJECTIVES:
        return value
    weights = {}
    for part in value.split(","):
        name, colon, weight = part.strip().partition(":")
        if name not in OBJECTIVES or name in weights:
            raise ValueError(f"must be one of {', '.join(OBJECTIVES)}, or a mix such as latency:0.7,cost:0.3")
        weights[name] = positive([weight]) if colon else 1.0
    return ",".join(f"{name}:{number(weight)}" for name, weight in weights.items())


def _confidence(values: Sequence[str]) -> float:
    confidence = positive(values)
    if not 0.5 <= confidence < 1:
        raise ValueError("must be 0.5 or more and less than 1")
    return confidence


def _points(values: Sequence[str]) -> float:
    points = 0.0 if values[-1].strip() in ("0", "0.0") else positive(values)
    if points > 100:
        raise ValueError("must be 0 to 100 percentage points")
    return points


def _at_hand(values: Sequence[str]) -> tuple[str, ...]:
    """Read devices as the command line has them, between commas."""
    at_hand = slugs(values)
    for item in at_hand:
        free = _device(item).get("free_memory_mb", 1.0)
        if not _device(item)["hardware"] or not free > 0:
            raise ValueError("must be devices such as cuda:0=nvidia-l4, or cuda:0=nvidia-l4@6000 with the free MB")
    return at_hand


def _device(words: str) -> dict[str, Any]:
    """Return one device as the API takes it."""
    name, named, rest = words.partition("=")
    hardware, at, free = (rest if named else words).partition("@")
    row: dict[str, Any] = {"hardware": hardware.strip()}
    return row | ({"name": name.strip()} if named else {}) | ({"free_memory_mb": positive([free])} if at else {})


class _Member(NamedTuple):
    """How a member is read, what the API calls it, and its flag in a terminal where that is not the API's name."""

    read: Reader
    field: str
    flag: str = ""


_MEMBERS = {
    "model": _Member(text, "model"),
    "mode": _Member(one_of(MODES), "mode"),
    "objective": _Member(_objective, "objective"),
    "pct": _Member(one_of(PERCENTILES), "percentile"),
    "max_ms": _Member(positive, "max_latency_ms"),
    "max_ttft": _Member(positive, "max_ttft_ms"),
    "max_tpot": _Member(positive, "max_tpot_ms"),
    "min_per_s": _Member(positive, "min_throughput_per_s"),
    "min_tokens": _Member(positive, "min_tokens_per_s"),
    "max_gb": _Member(positive, "max_memory_mb"),
    "max_w": _Member(positive, "max_power_w"),
    "max_usd": _Member(positive, "max_usd_per_hour"),
    "max_loss": _Member(_points, "max_quality_loss_pt", "--max-quality-loss"),
    "max_mb": _Member(positive, "max_size_mb"),
    "confidence": _Member(_confidence, "confidence"),
    "hw": _Member(slugs, "hardware"),
    "device": _Member(_at_hand, "devices", "--device"),
    "vendor": _Member(slugs, "vendors", "--vendor"),
    "count": _Member(whole, "count"),
    "platform": _Member(slugs, "platform"),
    "precision": _Member(slugs, "precision"),
    "compiled": _Member(one_of(COMPILED), "compiled"),
    "batch": _Member(wholes, "batch_sizes"),
    "seq": _Member(whole, "sequence_length"),
    "image": _Member(whole, "image_size"),
    "images": _Member(whole, "images"),
    "audio": _Member(positive, "audio_seconds"),
    "frames": _Member(whole, "frames"),
    "input": _Member(whole, "input_tokens"),
    "output": _Member(whole, "output_tokens"),
    "steps": _Member(whole, "steps"),
    "call": _Member(one_of(CALLS), "call"),
    "concurrency": _Member(whole, "concurrency"),
    "region": _Member(slugs, "regions", "--region"),
    "provider": _Member(slugs, "providers", "--provider"),
    "spot": _Member(yes_or_no, "spot"),
    "per_hw": _Member(yes_or_no, "per_hardware"),
    "as_of": _Member(position, "as_of"),
    "top": _Member(whole, "top"),
}
LIMITS = {member.field: name for name, member in _MEMBERS.items() if name.startswith(("max_", "min_"))}
"""Members that bound an answer, by the names that answers have for them."""
_READERS = {name: member.read for name, member in _MEMBERS.items()} | {"add": slugs}
_FLAGS = {member.flag or f"--{member.field.replace('_', '-')}": name for name, member in _MEMBERS.items()}
_SWITCHES = {
    "--spot": ("spot", "yes"),
    "--all-configurations": ("per_hw", "no"),
    "--compiled": ("compiled", "compiled"),
    "--eager": ("compiled", "eager"),
}


def read_question(params: Params) -> Read:
    """Read the page's parameters."""
    return understood(Question, params, _READERS)


def request(question: Question) -> dict[str, Any]:
    """Return the question as the API takes it: MB, not GB; weights, not words; absent, not empty."""
    request: dict[str, Any] = {}
    for name, member in _MEMBERS.items():
        value = getattr(question, name)
        if value is None or value == ():
            continue
        request[member.field] = list(value) if isinstance(value, tuple) else value
    if question.hw in (("all",), ("own",)):
        request["hardware"] = question.hw[0]
    if question.device:
        request["devices"] = [_device(item) for item in question.device]
        # What is at hand stands in the place of what is known.
        request.pop("hardware")
    if question.max_gb is not None:
        request["max_memory_mb"] = _megabytes(question.max_gb)
    if ":" in question.objective:
        parts = [part.partition(":") for part in question.objective.split(",")]
        request["objective"] = {name: float(weight) for name, _, weight in parts}
    request["compiled"] = {"any": "any", "compiled": True, "eager": False}[question.compiled]
    return request


def command(question: Question) -> str:
    """Return the same question for a terminal, ready to paste."""
    defaults, words = Question(), ["assay", "recommend", question.model or "MODEL"]
    switched = [flag for flag, (name, value) in _SWITCHES.items() if _same(getattr(question, name), value)]
    for flag, name in _FLAGS.items():
        value = getattr(question, name)
        if name == "model" or flag in _SWITCHES or value is None or value == getattr(defaults, name):
            continue
        if name == "max_gb":
            value = _megabytes(value)
        if name == "device":
            words += [word for item in value for word in (flag, item)]
            continue
        if isinstance(value, tuple):
            value = ",".join(str(item) for item in value)
        words += [flag, number(value) if isinstance(value, float) else str(value)]
    return shlex.join(words + switched)


def from_command(line: str) -> Question | None:
    """Return the question that an `assay recommend` command asks; None for a command that this page cannot ask."""
    words = shlex.split(line)
    if words[:2] != ["assay", "recommend"] or len(words) < 3:
        return None
    values: dict[str, list[str]] = {"model": [words[2]]}
    rest = iter(words[3:])
    for flag in rest:
        if flag in _SWITCHES:
            name, value = _SWITCHES[flag]
        elif flag in _FLAGS:
            name, value = _FLAGS[flag], next(rest, "")
        else:
            return None
        values.setdefault(name, []).append(value)
    request, refused = read_question(values)
    if refused:
        return None
    question: Question = (
        request if request.max_gb is None else msgspec.structs.replace(request, max_gb=request.max_gb / 1000)
    )
    return question


def _same(value: Any, word: str) -> bool:
    return bool(value == {"yes": True, "no": False}.get(word, word))


def _megabytes(gigabytes: float) -> float:
    return round(gigabytes * 1000, 6)
