"""Options for serving a language model: devices, precision and how many share it, with times, rate and memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from domain.answers import Exclusion
from domain.catalogues.hardware import HardwareSpec
from domain.catalogues.language_models import LanguageModel
from domain.vocabulary import WEIGHT_BITS
from predictor.answering.context import AnswerContext
from predictor.answering.exclusions import NO_ROOM
from predictor.answering.option import Option
from predictor.answering.question import Question
from predictor.answering.serving_context import Served
from predictor.features.dataset import Row
from predictor.llm_serving.deployment import Deployment, deployment_of
from predictor.llm_serving.needs import activations_bytes, language_model_needs
from predictor.llm_serving.physics import holding
from predictor.llm_serving.shipped import engine_of
from predictor.llm_serving.table import ServingConfigurations, asked
from predictor.memory.needs import Needs, usable_bytes

__all__ = ["served_options"]

INTERVAL = 0.8
SHARED_BY = (2, 4, 8)
"""Devices that are tried for a hint where one does not hold a model."""
SURE = 0.8
"""Requests are held at once where they fit with this probability."""
UNCOVERED = 1.5
"""An interval that no measurement supports is this much wider than the widest that one does; a judgement, and said."""
USUAL_PRECISIONS = ("bf16", "fp16", "fp32")
_ENGINES = {
    "cuda": "vllm",
    "rocm": "vllm",
    "xpu": "vllm",
    "hpu": "deepspeed",
    "cpu": "llama.cpp",
    "mps": "llama.cpp",
    "openvino": "openvino",
}
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
        count = question.count or context.counts.get(spec.id, 1)
        row, memory = _held(context, served, spec, platform, precision, count)
        if not memory.requests:
            detail = _too_much(memory, count)
            if count == 1:
                detail += _shared(context, served, spec, platform, precision)
            left = _left(spec.id, platform, precision, NO_ROOM, detail)
            excluded.append(msgspec.structs.replace(left, over=memory.peak / (memory.usable or math.inf)))
        elif (spec.id, platform, precision, row.count) not in seen:
            chosen.append((row, memory))
    made = asked([row for row, _ in chosen], {spec.id: spec for spec in context.specs}.get)
    there = set(made.index)
    detail = "peak or memory bandwidth at this precision is not known"
    excluded += [
        _left(row.hardware, row.platform, row.precision, "no specification", detail)
        for index, (row, _) in enumerate(chosen)
        if index not in there
    ]
    return _options([chosen[index] for index in made.index], made, served), excluded


def _cells(question: Question, context: AnswerContext) -> Iterator[tuple[HardwareSpec, str, str]]:
    for spec in context.specs:
        for platform in question.platform or _ENGINES:
            if platform in spec.platforms and platform in _ENGINES:
                for precision in question.precision or _usual(spec, platform):
                    yield spec, platform, precision


def _usual(spec: HardwareSpec, platform: str) -> tuple[str, ...]:
    """The first of the usual ones that the device computes in: 16 bits are alike, narrower ones change the outputs."""
    able = {*spec.platforms[platform], "fp32"}
    return next((name,) for name in USUAL_PRECISIONS if name in able)


def _row(context: AnswerContext, served: Served, spec: HardwareSpec, platform: str, precision: str, count: int) -> Row:
    engine, version = served.engines.get((spec.id, platform), (_ENGINES[platform], ""))
    if precision in WEIGHT_BITS:
        engine, version = "llama.cpp", ""
    newest = "" if served.card is None else served.card.newest_version.get(engine, "")
    return Row(
        model=served.model.id,
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


def _held(
    context: AnswerContext, served: Served, spec: HardwareSpec, platform: str, precision: str, count: int
) -> tuple[Row, _Memory]:
    """The configuration on so many devices, and what it needs of each."""
    row = _row(context, served, spec, platform, precision, count)
    spread = deployment_of(row, served.model.heads)
    assert not isinstance(spread, str)  # The row says all that a deployment needs.
    room = None if spec.memory_bytes is None else float(spec.memory_bytes.value)
    return row, _memory(served.model, spread, usable_bytes(room))


def _too_much(memory: _Memory, count: int) -> str:
    of = "one device" if count == 1 else f"each of {count} devices"
    return (
        f"{of} needs {memory.peak / 1e9:.3g} GB ({memory.low / 1e9:.3g} to {memory.high / 1e9:.3g}) for one request of "
        f"{(memory.usable or 0.0) / 1e9:.3g} GB that are usable"
    )


def _shared(context: AnswerContext, served: Served, spec: HardwareSpec, platform: str, precision: str) -> str:
    """How many devices would hold it together, as what to ask next."""
    if spec.kind == "cpu":
        return ""
    for count in SHARED_BY:
        if _held(context, served, spec, platform, precision, count)[1].requests:
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


def _options(kept: Sequence[tuple[Row, _Memory]], made: ServingConfigurations, served: Served) -> list[Option]:
    """One option a row of the table, in their order."""
    prior = {"tpot": made.table.prior, "ttft": made.first_s}
    records: dict[tuple[str, str], dict[str, Any]] = {}
    for row, _ in kept:
        if (row.hardware, row.platform) not in records:
            records[row.hardware, row.platform] = _basis(row, served)
    bases = [records[row.hardware, row.platform] for row, _ in kept]
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


def _basis(row: Row, served: Served) -> dict[str, Any]:
    """What a row's prediction rests on, in the words and figures of its option."""
    card = served.card
    if card is None:
        text = "physics of each part at full speed, nothing of serving is learned: it takes longer"
        return {"basis": "roofline", "covered": False, "why": text, "evidence": (), "widths": {}}
    widths: dict[str, tuple[float, float]] = {}
    covered, level = True, ""
    for target in served.fitted:
        level, here = card.level(target, row, served.model.architecture, served.model.family)
        # Where nothing as far was ever held out, it is said, and the farthest that was is made wider.
        plain, corrected = card.reach(target, level if here else "new_hardware", INTERVAL)
        covered = covered and here and plain is not None
        wider = 1.0 if here else UNCOVERED
        widths[target] = wider * (plain or math.inf), wider * (corrected or math.inf)
    events = served.events.get(row.hardware, ())
    text = f"{'calibrated by ' + str(len(events)) + ' served measurements of this device' if events else 'predicted'}: {_TOLD[level]}"
    if events and level == "new_hardware":
        text = f"predicted, corrected by {len(events)} served measurements of this device"
    if engine_of(row) not in card.engines["ttft"]:
        text += f"; no time to first token under {row.runtime} on {row.platform} trained"
    elif not covered:
        text += "; no held-out measurement lay as far: its interval is unchecked"
    return {
        "basis": "calibrated" if events else "predicted",
        "covered": covered,
        "why": text,
        "evidence": events[:5],
        "widths": widths,
    }


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
