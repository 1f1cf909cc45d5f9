"""The answer to a question, from what is known: measured options, predicted ones, constraints, order and reasons.

A pure function of its inputs: no clock, no reading. The same known facts and question give the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from domain.hardware import HardwareSpec
from domain.roofline import Limits, limits_of
from predictor.answering.candidates import Candidate, Exclusion, candidates
from predictor.answering.estimates import INTERVAL, estimate
from predictor.answering.evidence import options_from_rows
from predictor.answering.option import BENCH_FLAGS, Option, Sizes
from predictor.answering.question import Question
from predictor.answering.ranking import constrained, ordered, tied, value_of
from predictor.explaining.entries import explained, placed
from predictor.explaining.explanation import Explanation
from predictor.learning.artifact import Predictor
from predictor.learning.siblings import Siblings
from predictor.learning.traces import Trace
from predictor.outcome.shares import Chances

__all__ = ["Known", "answer", "entry", "explanation_of"]


STALE_DAYS = 180
"""Drivers and libraries move on: an older measurement still counts, and says that it is old."""


class Known(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is known at a position: rows of the model, its trace, devices, failures, prices and the predictor.

    `failures` maps (hardware, platform, precision) to (what happened, event id) where nothing ever ran; `prices` maps a
    device to US dollars an hour for one of it.
    """

    model: str
    position: int
    time: str | None
    rows: Sequence[Mapping[str, Any]]
    trace: Trace | None
    sizes: Sizes
    specs: Sequence[HardwareSpec]
    unspecified: Sequence[str]
    restricted: bool
    failures: Mapping[tuple[str, str, str], tuple[str, str]]
    prices: Mapping[str, float]
    own: Sequence[str]
    predictor: Predictor
    notes: Sequence[str] = ()
    siblings: Siblings | None = None


def answer(question: Question, known: Known, identity: str) -> dict[str, Any]:
    """Return the answer's document (design, section 7); `identity` is its id."""
    measured = _measured(question, known)
    predicted, excluded = _predicted(question, known, measured)
    priced = [_priced(option, known.prices) for option in (*measured, *predicted)]
    kept, left = constrained(priced, question)
    ranked = ordered(kept, question.objective)
    left = sorted(left, key=lambda pair: _distance(pair[0], question))
    excluded = [*(exclusion for _, exclusion in left), *excluded, *_without_figures(known, measured)]
    cpu = _plain_cpu(measured)
    entries: list[dict[str, Any]] = []
    for option in ranked[: question.top]:
        above = ranked[len(entries) - 1] if entries else None
        same = above is not None and tied(above, option, question.objective)
        made = entry(option, known, question.mode, len(entries) + 1, cpu)
        made["tied_with"] = (entries[-1]["tied_with"] or entries[-1]["rank"]) if same else None
        entries.append(made)
    return {
        "id": identity,
        "model": known.model,
        "position": known.position,
        "time": known.time,
        "predictor": known.predictor.digest,
        "interval": INTERVAL,
        "question": question.identity(),
        "workload": {"mode": question.mode, **known.sizes.stated()},
        "considered": len(priced),
        "met": len(ranked),
        "ranked": entries,
        "excluded": _merged(excluded),
        "abstained": None if entries else _abstained(question, known, left, excluded),
        "suggestions": _suggestions(question, known, ranked, excluded),
        "notes": list(known.notes),
    }


def _measured(question: Question, known: Known) -> list[Option]:
    devices = {*(spec.id for spec in known.specs), *known.unspecified}
    options = options_from_rows(known.rows, known.sizes, question.percentile)
    return [
        option
        for option in options
        if (not known.restricted or option.hardware in devices)
        and (not question.platform or option.platform in question.platform)
        and (not question.precision or option.precision in question.precision)
        and (not question.batch_sizes or option.batch_size in question.batch_sizes)
    ]


def _predicted(question: Question, known: Known, measured: Sequence[Option]) -> tuple[list[Option], list[Exclusion]]:
    """Predict what was not measured; leave out what failed, what does not fit and what has no figures."""
    if known.trace is None:
        return [], []
    covered = {(one.hardware, one.platform, one.precision, one.batch_size) for one in measured}
    everywhere = [(one.platform, one.precision, one.batch_size) for one in measured]
    found, excluded = candidates(question, known.specs, known.predictor, everywhere)
    chosen: list[Candidate] = []
    for one in found:
        failed = known.failures.get(one.cell[:3])
        if one.cell in covered:
            continue
        if failed is not None:
            excluded.append(
                Exclusion(
                    hardware=one.spec.id,
                    platform=one.platform,
                    precision=one.precision,
                    rule="failed",
                    detail=failed[0],
                    evidence=(failed[1],),
                )
            )
            continue
        chosen.append(one)
    if question.percentile != "p50" and known.predictor.card.tails is None:
        excluded.extend(
            Exclusion(
                hardware=one.spec.id,
                platform=one.platform,
                precision=one.precision,
                rule="no tail prediction",
                detail=f"no measurement with the samples for {question.percentile} trained the predictor",
            )
            for one in chosen
        )
        return [], excluded
    options = estimate(
        known.trace, chosen, known.predictor, question.mode, known.sizes, question.percentile, known.siblings
    )
    fitting: list[Option] = []
    for one, option in zip(chosen, options, strict=True):
        need, room = option.memory_floor_bytes, one.limits.memory_bytes
        if need is not None and room is not None and need > room:
            excluded.append(
                Exclusion(
                    hardware=one.spec.id,
                    platform=one.platform,
                    precision=one.precision,
                    batch_size=one.batch_size,
                    rule="does not fit in memory",
                    detail=f"needs at least {need / 1e9:.3g} GB of {room / 1e9:.3g} GB",
                )
            )
        else:
            fitting.append(option)
    return fitting, excluded


def _without_figures(known: Known, measured: Sequence[Option]) -> list[Exclusion]:
    """Devices that are asked for, of which neither figures nor measurements of this model are known."""
    seen = {option.hardware for option in measured}
    return [
        Exclusion(
            hardware=name,
            platform=None,
            rule="no specification",
            detail="describe it with `assay detect --post`, or measure on it",
        )
        for name in known.unspecified
        if name not in seen
    ]


def _priced(option: Option, prices: Mapping[str, float]) -> Option:
    price = prices.get(option.hardware)
    return option if price is None else msgspec.structs.replace(option, usd_per_hour=price * option.count)


def _plain_cpu(measured: Sequence[Option]) -> dict[int | None, float]:
    """The fastest plain fp32 CPU measurement at each batch size, in ms."""
    best: dict[int | None, float] = {}
    for option in measured:
        if option.platform == "cpu" and option.precision == "fp32" and option.latency_ms is not None:
            best[option.batch_size] = min(best.get(option.batch_size, option.latency_ms), option.latency_ms)
    return best


def entry(option: Option, known: Known, mode: str, rank: int, cpu: Mapping[int | None, float]) -> dict[str, Any]:
    """Return one ranked entry."""
    reference = cpu.get(option.batch_size)
    age = _age_days(option, known)
    told = {
        "rank": rank,
        "configuration": option.configuration(known.model, mode, known.sizes),
        "hardware": option.hardware,
        "hardware_count": option.count,
        "platform": option.platform,
        "precision": option.precision,
        "batch_size": option.batch_size,
        **known.sizes.stated(),
        "runtime": option.runtime,
        "runtime_version": option.runtime_version,
        "compiled": option.compiled,
        "layout": option.layout,
        "basis": option.basis,
        "origin": option.origin,
        "latency_ms": _figures(option.latency_ms),
        "latency_ms_low": _figures(option.low_ms),
        "latency_ms_high": _figures(option.high_ms),
        "latency_is_mean": option.is_mean,
        "interval_covered": option.covered,
        "throughput_per_s": _figures(option.throughput_per_s),
        "peak_memory_bytes": _whole(option.peak_memory_bytes),
        "memory_low_bytes": _whole(option.memory_low_bytes),
        "memory_high_bytes": _whole(option.memory_high_bytes),
        "memory_floor_bytes": _whole(option.memory_floor_bytes),
        "energy_j": _figures(option.energy_j),
        "chances": None if option.chances is None else _rounded(option.chances),
        "usd_per_hour": _figures(option.usd_per_hour),
        "usd_per_million": _figures(option.usd_per_million),
        "speedup_over_cpu": _figures(reference / option.latency_ms) if reference and option.latency_ms else None,
        "n": option.n,
        "runs": option.runs or None,
        "verdict": option.verdict,
        "age_days": age,
        "stale": age is not None and age > STALE_DAYS,
        "method": option.method,
        "evidence": list(option.evidence),
        "why": option.why + (f"; {age} days old, so measure again" if age is not None and age > STALE_DAYS else ""),
        "command": _command(known, option.platform, option.precision, option.batch_size),
    }
    limits = _limits(told, known)
    reasons = placed(told, known.trace, limits, mode) if known.trace is not None and limits is not None else None
    return {
        **told,
        "bottleneck": None if reasons is None else reasons.bottleneck,
        "explanation": None if reasons is None else reasons.brief(),
    }


def _age_days(option: Option, known: Known) -> int | None:
    """How old a measurement was at the position of the answer; None where either moment is unknown."""
    if option.measured_at is None or known.time is None:
        return None
    return max(0, (datetime.fromisoformat(known.time) - option.measured_at).days)


def explanation_of(told: Mapping[str, Any], known: Known, mode: str) -> Explanation | None:
    """Return what an entry's latency is made of; None where the model has no trace or the device no figures."""
    limits = _limits(told, known)
    if known.trace is None or limits is None:
        return None
    return explained(told, known.trace, limits, known.predictor, mode)


def _limits(told: Mapping[str, Any], known: Known) -> Limits | None:
    spec = next((one for one in known.specs if one.id == told["hardware"]), None)
    return None if spec is None else limits_of(spec, told["precision"], told["platform"])


def _command(known: Known, platform: str, precision: str, batch_size: int | None) -> str:
    words = ["assay bench", known.model, "--platform", platform, "--precision", precision]
    if batch_size is not None:
        words += ["--batch-sizes", str(batch_size)]
    for name, value in known.sizes.stated().items():
        words += [BENCH_FLAGS[name], str(value)]
    return " ".join(words)


def _figures(value: float | None) -> float | None:
    """Six significant digits: more would promise what no measurement holds, and differ between machines."""
    return None if value is None else float(f"{value:.6g}")


def _rounded(chances: Chances) -> dict[str, Any]:
    told = msgspec.to_builtins(chances)
    return {name: round(value, 4) if isinstance(value, float) else value for name, value in told.items()}


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _merged(excluded: Sequence[Exclusion]) -> list[dict[str, Any]]:
    """One entry a device, platform and rule; the detail is that of the closest, which comes first."""
    merged: dict[tuple[str, str | None, str], dict[str, Any]] = {}
    for one in excluded:
        key = (one.hardware, one.platform, one.rule)
        found = merged.setdefault(
            key,
            {
                "hardware": one.hardware,
                "platform": one.platform,
                "rule": one.rule,
                "detail": one.detail,
                "precisions": [],
                "batch_sizes": [],
                "evidence": [],
            },
        )
        for name, value in (("precisions", one.precision), ("batch_sizes", one.batch_size)):
            if value is not None and value not in found[name]:
                found[name].append(value)
        found["evidence"] += [event for event in one.evidence if event not in found["evidence"]][:5]
    for found in merged.values():
        found["precisions"].sort()
        found["batch_sizes"].sort()
    return [merged[key] for key in sorted(merged, key=lambda key: (key[2], key[0], key[1] or ""))]


def _distance(option: Option, question: Question) -> float:
    """How many times over the constraints an option is at worst; what has no figure is farthest."""
    ratios = [1.0]
    for limit, value in (
        (question.max_latency_ms, option.latency_ms),
        (question.max_usd_per_hour, option.usd_per_hour),
        (
            None if question.max_memory_mb is None else question.max_memory_mb * 1e6,
            option.peak_memory_bytes or option.memory_floor_bytes,
        ),
    ):
        if limit is not None:
            ratios.append(float("inf") if value is None else value / limit)
    if question.min_throughput_per_s is not None:
        rate = option.throughput_per_s
        ratios.append(float("inf") if not rate else question.min_throughput_per_s / rate)
    if value_of(option, question.objective) is None:
        ratios.append(float("inf"))
    return max(ratios)


def _abstained(
    question: Question, known: Known, left: Sequence[tuple[Option, Exclusion]], excluded: Sequence[Exclusion]
) -> str:
    reachable = [(option, why) for option, why in left if _distance(option, question) < float("inf")]
    if reachable:
        option, why = reachable[0]
        return (
            f"Nothing meets {why.rule}. The closest is {option.platform} {option.precision} at batch {option.batch_size} "
            f"on {option.hardware} ({why.detail}; {_distance(option, question):.3g} times over; {option.basis})."
        )
    if question.hardware == "own" and not known.own:
        return "No hardware of yours is known. Run `assay detect --post` or `assay bench` on it first."
    if excluded:
        rules = sorted({one.rule for one in excluded})
        return f"Every configuration is left out ({', '.join(rules)}). Measure first: {_first_command(known, question)}"
    if known.trace is None:
        return (
            "Nothing of this model was measured on what is asked, and without an operator trace nothing can be "
            f"predicted. Measure first: {_first_command(known, question)}"
        )
    return (
        f"No device that is asked for runs this platform or precision. Measure first: {_first_command(known, question)}"
    )


def _first_command(known: Known, question: Question) -> str:
    platform = question.platform[0] if question.platform else "cpu"
    precision = question.precision[0] if question.precision else "fp32"
    return _command(known, platform, precision, question.batch_sizes[0] if question.batch_sizes else 1)


def _suggestions(
    question: Question, known: Known, ranked: Sequence[Option], excluded: Sequence[Exclusion]
) -> list[dict[str, str]]:
    """Return the runs that would sharpen the answer most: first what stands at the top unmeasured."""
    found: list[dict[str, str]] = []
    if known.trace is None:
        found.append({"command": f"assay bench {known.model}", "why": "traces the model, so that it can be predicted"})
    if question.percentile != "p50" and any(one.rule == "no latency at this percentile" for one in excluded):
        command = f"{_first_command(known, question)} --percentile {question.percentile}"
        found.append({"command": command, "why": f"takes the samples that {question.percentile} needs"})
    for option in ranked[: question.top]:
        if option.basis in ("measured", "imported"):
            continue
        where = "here" if option.hardware in known.own else f"on {option.hardware}"
        rank = ranked.index(option) + 1
        found.append(
            {
                "command": _command(known, option.platform, option.precision, option.batch_size),
                "why": f"rank {rank} rests on {option.basis}; run {where} it would be measured",
            }
        )
    unique = {one["command"]: one for one in reversed(found)}
    return [one for one in found if unique[one["command"]] is one][:3]
