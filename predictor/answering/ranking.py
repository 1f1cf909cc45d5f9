"""From options to an order: what the constraints leave out, what is best, and what is as good."""

from __future__ import annotations

import math
from collections.abc import Sequence

from domain.vocabulary import BASES
from predictor.answering.candidates import Exclusion
from predictor.answering.option import Option
from predictor.answering.question import Question

__all__ = ["constrained", "ordered", "tied", "value_of"]

_LOWER = {"latency": True, "throughput": False, "cost": True, "energy": True, "memory": True}
_MISSING = {
    "cost": ("no price", "publish a price for this device, or import a price list"),
    "energy": ("no energy figure", "only measurements with a power meter say it"),
    "memory": ("no memory figure", "measure it there"),
    "latency": ("no latency at this percentile", "the samples do not support it; a longer run does"),
    "throughput": ("no throughput", "measure it there"),
}


def value_of(option: Option, objective: str) -> float | None:
    """Return the figure that the objective asks for; energy is per item."""
    if objective == "latency":
        return option.latency_ms
    if objective == "throughput":
        return option.throughput_per_s
    if objective == "cost":
        return option.usd_per_million
    if objective == "memory":
        return option.peak_memory_bytes
    return option.energy_j / option.batch_size if option.energy_j is not None and option.batch_size else None


def constrained(options: Sequence[Option], question: Question) -> tuple[list[Option], list[tuple[Option, Exclusion]]]:
    """Return the options that meet every constraint, and the others with the first rule that each breaks."""
    kept: list[Option] = []
    left: list[tuple[Option, Exclusion]] = []
    for option in options:
        broken = _broken(option, question)
        if broken is None:
            kept.append(option)
            continue
        rule, detail = broken
        left.append(
            (
                option,
                Exclusion(
                    hardware=option.hardware,
                    platform=option.platform,
                    precision=option.precision,
                    batch_size=option.batch_size,
                    rule=rule,
                    detail=detail,
                    evidence=option.evidence[:5],
                ),
            )
        )
    return kept, left


def _broken(option: Option, question: Question) -> tuple[str, str] | None:
    if value_of(option, question.objective) is None:
        return _MISSING[question.objective]
    checks = (
        ("max_latency_ms", question.max_latency_ms, option.latency_ms, False, "ms"),
        ("min_throughput_per_s", question.min_throughput_per_s, option.throughput_per_s, True, "items/s"),
        ("max_usd_per_hour", question.max_usd_per_hour, option.usd_per_hour, False, "USD/h"),
    )
    for name, limit, value, at_least, unit in checks:
        if limit is None:
            continue
        if value is None:
            return name, "the figure is not known"
        if (value < limit) if at_least else (value > limit):
            return name, f"{value:.4g} {unit} against {limit:g}"
    if question.max_memory_mb is not None:
        return _memory(option, question.max_memory_mb * 1e6)
    return None


def _memory(option: Option, limit: float) -> tuple[str, str] | None:
    known = option.peak_memory_bytes or option.memory_floor_bytes
    if known is None:
        return "max_memory_mb", "the memory need is not known"
    if known > limit:
        least = "" if option.peak_memory_bytes else "at least "
        return "max_memory_mb", f"{least}{known / 1e6:.4g} MB against {limit / 1e6:g}"
    return None


def cautious(option: Option, objective: str) -> float:
    """Return what an option is ranked by, smaller is better: the unfavourable end of what was not measured.

    A prediction that may be three times too fast must not stand above a measurement by its luckiest figure.
    """
    value = value_of(option, objective)
    if value is None:
        return math.inf
    slack = 1.0
    if option.basis not in ("measured", "imported") and objective in ("latency", "throughput", "cost"):
        slack = option.high_ms / option.latency_ms if option.high_ms and option.latency_ms else 10.0
    return value * slack if _LOWER[objective] else -value / slack


def ordered(options: Sequence[Option], objective: str) -> list[Option]:
    """Return the options best first; equal ones by evidence, then by name, so that the order is always the same."""
    return sorted(
        options,
        key=lambda one: (
            cautious(one, objective), BASES.index(one.basis), one.hardware, one.platform, one.precision,
            one.batch_size or 0, one.compiled, one.key or "",
        ),
    )  # fmt: skip


def tied(one: Option, other: Option, objective: str) -> bool:
    """Whether two options cannot be told apart: each lies within the other's interval."""
    if objective == "memory" or objective == "energy":
        return value_of(one, objective) == value_of(other, objective)
    first, second = (_span(option, objective) for option in (one, other))
    return first[0] <= second[1] <= first[2] and second[0] <= first[1] <= second[2]


def _span(option: Option, objective: str) -> tuple[float, float, float]:
    value = value_of(option, objective) or 0.0
    if not option.latency_ms or option.low_ms is None or option.high_ms is None:
        return value, value, value
    down, up = option.low_ms / option.latency_ms, option.high_ms / option.latency_ms
    return (value / up, value, value / down) if objective == "throughput" else (value * down, value, value * up)
