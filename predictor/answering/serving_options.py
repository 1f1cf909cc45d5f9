"""Options for serving a language model: devices, precision and how many share it, with times, rate and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from domain.answers import Exclusion
from domain.catalogues import engines
from domain.catalogues.hardware import HardwareSpec
from domain.catalogues.language_models import LanguageModel
from domain.performance.roofline import limits_of
from predictor.answering.candidates import UNSUPPORTED, Candidate
from predictor.answering.context import AnswerContext
from predictor.answering.exclusions import NO_ROOM
from predictor.answering.offload_options import offload_engine, offloaded, would_offload
from predictor.answering.option import Option
from predictor.answering.question import Question
from predictor.answering.serving_context import Served
from predictor.features.dataset import Row
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.efficiency import UsualShares, shares_of
from predictor.llm_serving.needs import activations_bytes, language_model_needs
from predictor.llm_serving.physics import holding
from predictor.llm_serving.shipped import Serving, engine_of
from predictor.llm_serving.table import ServingConfigurations, asked
from predictor.memory.needs import Needs, usable_bytes

__all__ = ["served_candidates", "served_options"]

INTERVAL = 0.8
SHARED_BY = (2, 4, 8)
"""Devices that are tried for a hint where one does not hold a model."""
SURE = 0.8
"""Requests are held at once where they fit with this probability."""
UNCOVERED = 1.5
"""An interval that no measurement supports is this much wider than the widest that one does; a judgement, and said."""
USUAL_PRECISIONS = ("bf16", "fp16", "fp32")
_TOLD = {
    "interpolation": "this model was measured under other loads or on other devices",
    "new_architecture": "other models of its family were measured",
    "new_family": "models of other families were measured",
    "new_hardware": "this device was not measured: not calibrated",
}


class _Memory(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on each device; `requests` of those asked for are held at once, 0 where the device does not hold one.

    `peak`, `low` and `high` are what the requests that are held need, or one where none is; `usable` is what there is.
    """

    weights_bytes: float
    kv_cache_bytes: float
    activations_bytes: float
    requests: int
    peak: float
    low: float
    high: float
    usable: float | None

    @property
    def total_bytes(self) -> float:
        return self.weights_bytes + self.kv_cache_bytes + self.activations_bytes


def served_options(
    question: Question, context: AnswerContext, served: Served, measured: Sequence[Option]
) -> tuple[list[Option], list[Exclusion]]:
    """Return one option a device, platform and precision that was not measured, and what was left out.

    An option has one device, or as many as the question or its machine has, which share the model. Latency is that of a whole request, throughput is in requests a second.
    """
    excluded: list[Exclusion] = []
    chosen: list[tuple[Row, _Memory]] = []
    parted: list[Option] = []
    seen = {(item.hardware, item.platform, item.precision, item.count) for item in measured}
    for spec, platform, precision in _cells(question, context):
        failed = context.failures.get((spec.id, platform, precision))
        if failed is not None:
            excluded.append(_left(spec.id, platform, precision, "failed", failed[0], (failed[1],)))
            continue
        if question.percentile != "p50":
            detail = f"what is learned of serving is medians, not {question.percentile}"
            excluded.append(_left(spec.id, platform, precision, "no tail prediction", detail))
            continue
        software = _software(question, served, spec, platform, precision)
        if isinstance(software, str):
            excluded.append(_left(spec.id, platform, precision, UNSUPPORTED, software))
            continue
        count = question.count or context.counts.get(spec.id, 1)
        row = _row(context, served, spec, platform, precision, count, software)
        memory = _held(served, spec, row)
        if not memory.requests:
            split = offloaded(question, served, spec, row) if question.offload else None
            if split is not None:
                parted.append(split)
                continue
            detail = _too_much(memory, count)
            if count == 1:
                detail += _shared(served, spec, row) + would_offload(question, context, served, spec, row)
            left = _left(spec.id, platform, precision, NO_ROOM, detail)
            excluded.append(msgspec.structs.replace(left, over=memory.peak / (memory.usable or math.inf)))
        elif (spec.id, platform, precision, row.count) not in seen:
            chosen.append((row, memory))
    specs = {spec.id: spec for spec in context.specs}
    made = asked([row for row, _ in chosen], specs.get, lambda _: served.model)
    there = set(made.index)
    detail = "peak or memory bandwidth at this precision is not known"
    excluded += [
        _left(row.hardware, row.platform, row.precision, "no specification", detail)
        for index, (row, _) in enumerate(chosen)
        if index not in there
    ]
    return [*_options([chosen[index] for index in made.index], made, served, specs), *parted], excluded


def served_candidates(
    question: Question, context: AnswerContext, served: Served
) -> tuple[list[Candidate], list[Exclusion]]:
    """Return what could serve the model, with the engine of each, and what no engine runs."""
    result: list[Candidate] = []
    excluded: list[Exclusion] = []
    for spec, platform, precision in _cells(question, context, every=True):
        software = _software(question, served, spec, platform, precision)
        # Of narrow weights no peak is tabled; what fits depends on none.
        limits = limits_of(spec, precision, platform) or limits_of(spec, "fp32", platform)
        if isinstance(software, str):
            excluded.append(_left(spec.id, platform, precision, UNSUPPORTED, software))
        elif limits is not None:
            result.append(
                Candidate(
                    spec=spec,
                    limits=limits,
                    platform=platform,
                    precision=precision,
                    batch_size=1,
                    runtime=software[0],
                    compiled=False,
                    runtime_version=software[1],
                )
            )
    return result, excluded


def _cells(
    question: Question, context: AnswerContext, *, every: bool = False
) -> Iterator[tuple[HardwareSpec, str, str]]:
    """What is asked about: devices on the platforms that an engine runs on, which is the one of the question where it names one.

    Where no precision is named it is the usual one, or `every` one that the device computes in and that is as exact.
    """
    engine = None if question.runtime is None else engines.find(question.runtime)
    drivable = engine.platforms if engine is not None else engines.platforms()
    for spec in context.specs:
        for platform in question.platform or engines.platforms():
            named = isinstance(question.hardware, list)
            if platform in spec.platforms and (platform in drivable or (named and platform in question.platform)):
                for precision in question.precision or _usual(spec, platform, every=every):
                    yield spec, platform, precision


def _usual(spec: HardwareSpec, platform: str, *, every: bool) -> tuple[str, ...]:
    """The first of the usual ones that the device computes in: 16 bits are alike, narrower ones change the outputs."""
    able = {*spec.platforms[platform], "fp32"}
    usual = tuple(name for name in USUAL_PRECISIONS if name in able)
    return usual if every else usual[:1]


def _software(
    question: Question, served: Served, spec: HardwareSpec, platform: str, precision: str
) -> tuple[str, str] | str:
    """The engine and its version, or why there is none: that of the question, of most rows there, else the usual one."""
    if question.runtime is not None:
        engine = engines.find(question.runtime)
        assert engine is not None  # The question is checked.
        if platform not in engine.platforms:
            return f"{engine.name} runs on {', '.join(engine.platforms)}, not on {platform}"
        if engine.format(precision) is None:
            return f"{engine.name} does not run {precision}; it runs {_listed(engine.precisions)}"
        return engine.name, ""
    there = served.engines.get((spec.id, platform))
    known = None if there is None else engines.find(there[0])
    if there is not None and not question.offload and (known is None or known.format(precision) is not None):
        return there
    usual = offload_engine(platform, precision) if question.offload else None
    usual = usual or engines.usual(platform, precision)
    return f"no engine is known that runs {precision} on {platform}" if usual is None else (usual.name, "")


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")


def _row(
    context: AnswerContext,
    served: Served,
    spec: HardwareSpec,
    platform: str,
    precision: str,
    count: int,
    software: tuple[str, str],
) -> Row:
    engine, version = software
    newest = "" if served.card is None else served.card.newest_version.get(engine, "")
    return Row(
        model=served.name,
        hardware=spec.id,
        platform=platform,
        precision=precision,
        batch_size=None,
        scenario="serving",
        input_tokens=context.sizes.input_tokens,
        output_tokens=context.sizes.output_tokens,
        concurrency=served.concurrency,
        runtime=engine,
        runtime_version=version or newest,
        hardware_kind=spec.kind,
        count=count,
    )


def _held(served: Served, spec: HardwareSpec, row: Row) -> _Memory:
    """What a configuration needs of each of its devices."""
    spread = deployment_of(row, served.model.heads, mixture=bool(served.model.experts))
    assert not isinstance(spread, str)  # The row says all that a deployment needs.
    room = None if spec.memory_bytes is None else float(spec.memory_bytes.value)
    return _memory(served.model, spread, usable_bytes(room))


def _too_much(memory: _Memory, count: int) -> str:
    of = "one device" if count == 1 else f"each of {count} devices"
    return (
        f"{of} needs {memory.peak / 1e9:.3g} GB ({memory.low / 1e9:.3g} to {memory.high / 1e9:.3g}) for one request of "
        f"{(memory.usable or 0.0) / 1e9:.3g} GB that are usable"
    )


def _shared(served: Served, spec: HardwareSpec, row: Row) -> str:
    """How many devices would hold it together, as what to ask next."""
    if spec.kind == "cpu":
        return ""
    for count in SHARED_BY:
        if _held(served, spec, msgspec.structs.replace(row, count=count)).requests:
            return f"; {count} devices that share the model hold it: count {count}"
    return f"; {SHARED_BY[-1]} devices that share the model do not hold it either"


def _memory(model: LanguageModel, spread: Deployment, usable: float | None) -> _Memory:
    tokens = spread.input_tokens + spread.output_tokens
    held = holding(model, spread.decode, spread.storage, tokens)
    activations = activations_bytes(model, spread.input_tokens * spread.requests, spread.prefill.tensor)
    wanted = max(1, math.ceil(spread.requests / spread.decode.data))
    room = math.inf if usable is None else usable

    def needs(requests: int) -> Needs:
        return language_model_needs(held.weights_bytes, [requests * held.sequence_bytes], activations, room)

    within = _most(lambda requests: bool(needs(requests).fits[0] >= SURE), wanted)
    needed = needs(max(within, 1))
    return _Memory(
        weights_bytes=held.weights_bytes,
        kv_cache_bytes=max(within, 1) * held.sequence_bytes,
        activations_bytes=activations,
        requests=int(min(within * spread.decode.data, spread.requests)),
        peak=float(needed.expected[0]),
        low=float(needed.low[0]),
        high=float(needed.high[0]),
        usable=usable,
    )


def _most(fits: Callable[[int], bool], wanted: int) -> int:
    """The most up to what is wanted that fits, where less fits too; 0 for none."""
    if fits(wanted):
        return wanted
    low, high = 0, wanted
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _options(
    kept: Sequence[tuple[Row, _Memory]],
    made: ServingConfigurations,
    served: Served,
    specs: Mapping[str, HardwareSpec],
) -> list[Option]:
    """One option a row of the table, in their order."""
    prior = {"tpot": made.table.prior, "ttft": made.first_s}
    records: dict[tuple[str, ...], dict[str, Any]] = {}
    for row, _ in kept:
        if _place(row) not in records:
            records[_place(row)] = _basis(row, served, specs[row.hardware])
    bases = [records[_place(row)] for row, _ in kept]
    seconds, widths = dict(prior), {target: np.full(len(kept), math.nan) for target in prior}
    for target, fitted in served.fitted.items():
        predicted = fitted.predict(made.table)
        seconds[target] = prior[target] * np.exp(predicted.residual)
        plain, corrected = np.array([base["widths"][target] for base in bases]).reshape(-1, 2).T
        few = fitted.neighbours is not None
        widths[target] = np.minimum(plain, corrected * predicted.difficulty) if few else plain
    return [
        _option(
            row,
            base,
            memory,
            {target: (float(seconds[target][index]), float(widths[target][index])) for target in prior},
        )
        for index, ((row, memory), base) in enumerate(zip(kept, bases, strict=True))
    ]


def _place(row: Row) -> tuple[str, ...]:
    return row.hardware, row.platform, row.precision, row.runtime


def _basis(row: Row, served: Served, spec: HardwareSpec) -> dict[str, Any]:
    """What a row's prediction rests on, in the words and figures of its option."""
    card = served.card
    if card is None:
        text = "physics of each part at full speed, nothing of serving is learned: it takes longer"
        return {"basis": "roofline", "covered": False, "why": text, "evidence": (), "widths": {}}
    spread = deployment_of(row, served.model.heads, mixture=bool(served.model.experts))
    assert not isinstance(spread, str)
    shares = shares_of(row, spread.storage, spec)
    widths: dict[str, tuple[float, float]] = {}
    covered, level, by_shares = True, "", False
    for target in served.fitted:
        level, here = card.level(target, row, served.model.architecture, served.model.family)
        # Where nothing as far was ever held out, it is said, and the farthest that was is made wider.
        plain, corrected = card.reach(target, level if here else "new_hardware", INTERVAL)
        covered = covered and here and plain is not None
        wider = 1.0 if here else UNCOVERED
        if shares is not None and not card.trained(target, row):
            by_shares = True
            plain = shares.width(target)
        widths[target] = wider * (plain or math.inf), wider * (corrected or math.inf)
    events = served.events.get(row.hardware, ())
    return {
        "basis": "calibrated" if events else "predicted",
        "covered": covered,
        "why": _why(row, card, level, events, shares if by_shares else None, covered=covered),
        "evidence": events[:5],
        "widths": widths,
    }


def _why(
    row: Row, card: Serving, level: str, events: Sequence[str], shares: UsualShares | None, *, covered: bool
) -> str:
    """What a prediction rests on, in words."""
    how = f"calibrated by {len(events)} served measurements of this device" if events else "predicted"
    if events and level == "new_hardware":
        how = f"predicted, corrected by {len(events)} served measurements of this device"
    if shares is not None:
        return (
            f"{how} under {row.runtime}, of which nothing in {row.precision} on {row.platform} trained: it usually reaches "
            f"{shares.decode.value:.0%} of the bandwidth for tokens and {shares.prefill.value:.0%} of the peak for prompts "
            f"({shares.source})"
        )
    text = f"{how} under {row.runtime}" + ("" if events and level == "new_hardware" else f": {_TOLD[level]}")
    if engine_of(row) not in card.engines["ttft"]:
        text += f"; no time to first token under {row.runtime} on {row.platform} trained"
    elif not covered:
        text += "; no held-out measurement lay as far: its interval is unchecked"
    return text


def _option(row: Row, base: dict[str, Any], memory: _Memory, times: dict[str, tuple[float, float]]) -> Option:
    first, each = ([_bound(*times[name], sign) for sign in (0, -1, 1)] for name in ("ttft", "tpot"))
    steps, requests = (row.output_tokens or 1) - 1, row.concurrency or 1
    whole = [
        None if item is None or other is None else item + steps * other for item, other in zip(first, each, strict=True)
    ]
    rate = [None if item is None else requests * (row.output_tokens or 1) / item * 1e3 for item in whole]
    why = base["why"]
    if row.count > 1:
        why += f"; {row.count} devices share the model"
    if memory.requests < requests:
        why += f"; memory holds {memory.requests} of {requests} requests at once, the others wait"
    return Option(
        hardware=row.hardware,
        platform=row.platform,
        precision=row.precision,
        batch_size=None,
        basis=base["basis"],
        latency_ms=whole[0],
        low_ms=whole[1],
        high_ms=whole[2],
        covered=base["covered"],
        throughput_per_s=requests / (whole[0] or math.nan) * 1e3,
        ttft_ms=first[0],
        ttft_low_ms=first[1],
        ttft_high_ms=first[2],
        tpot_ms=each[0],
        tpot_low_ms=each[1],
        tpot_high_ms=each[2],
        tokens_per_s=rate[0],
        tokens_low_per_s=rate[2],
        tokens_high_per_s=rate[1],
        concurrency=requests,
        peak_memory_bytes=memory.peak,
        memory_low_bytes=memory.low,
        memory_high_bytes=memory.high,
        memory_floor_bytes=memory.total_bytes,
        weights_bytes=memory.weights_bytes,
        kv_cache_bytes=memory.kv_cache_bytes,
        activations_bytes=memory.activations_bytes,
        runtime=row.runtime,
        runtime_version=row.runtime_version or None,
        count=row.count,
        evidence=base["evidence"],
        why=why,
        method="serving",
    )


def _bound(seconds: float, width: float, sign: int) -> float | None:
    """Milliseconds at one end of the interval, or of the figure itself; None where there is no interval."""
    if sign and not math.isfinite(width):
        return None
    return seconds * math.exp(sign * width if sign else 0.0) * 1e3


def _left(
    hardware: str, platform: str, precision: str, rule: str, detail: str, evidence: tuple[str, ...] = ()
) -> Exclusion:
    return Exclusion(
        hardware=hardware, platform=platform, precision=precision, rule=rule, detail=detail, evidence=evidence
    )
