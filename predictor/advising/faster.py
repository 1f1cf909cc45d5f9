"""The one change that is predicted to gain most, how sure that is, and the command that checks it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

from msgspec.structs import replace

from domain.answers import Faster, FasterChange
from domain.catalogues import engines
from predictor.advising import changes as kinds
from predictor.advising.changes import Change, changes_of, has_trained
from predictor.answering.candidates import Candidate, candidates
from predictor.answering.command import command_of, predict_command, verify_command
from predictor.answering.constraints import SEEN, spread_of, throughput
from predictor.answering.context import AnswerContext
from predictor.answering.estimates import estimate
from predictor.answering.objective import TOLD_APART
from predictor.answering.option import Option
from predictor.answering.question import Question
from predictor.answering.ranked_entry import figures
from predictor.answering.recommendation import measured_options, unfit
from predictor.answering.serving_options import served_options

__all__ = ["GAIN", "SHARED", "faster"]

GAIN = 1.05
"""A change that is predicted to gain less is not worth its while."""
SHARED = {
    kinds.BATCH: 0.17,
    kinds.COMPILED: 0.18,
    kinds.PRECISION: 0.37,
    kinds.RUNTIME: 0.22,
}
"""Spread of the log of a predicted gain, where both sides are predicted by one method that learned from their software: a
model on a device errs alike on both, so that most of it cancels (`python -m research.change_errors`)."""
UNTRAINED = {kinds.BATCH: 0.27, kinds.PRECISION: 0.41}
"""The same where a maker's software never trained: of compilation and runtimes nothing can be said there."""
ENOUGH = 0.95
"""A smaller batch that has this share of the best one's throughput stands for it."""
LIKELY = 0.5
"""What runs with a smaller probability is not proposed."""
BITS = 4.0
"""Weights of fewer bits lose too much to be proposed by their speed."""
_NORMAL = NormalDist()
_REACH = _NORMAL.inv_cdf(0.9)


class _Gain(NamedTuple):
    """A change with both options, the ratio of their throughputs, and the spread of its log."""

    kind: str
    words: str
    option: Option
    ratio: float
    spread: float

    @property
    def probability(self) -> float:
        """How likely the change makes it faster at all."""
        return _NORMAL.cdf(math.log(self.ratio) / self.spread)


def faster(question: Question, context: AnswerContext) -> Faster | None:
    """Return what would make the one configuration of a question faster; None where it cannot be predicted.

    Gains are in items a second, on the same device: at the same batch that is how many times less time a call takes. A
    change is proposed where it is predicted to gain 5 % or more, with a probability of TOLD_APART that it gains at all.
    """
    gains = _served(question, context) if context.served is not None else _traced(question, context)
    if gains is None:
        return None
    worth = [gain for gain in gains if gain.ratio >= GAIN and gain.probability >= TOLD_APART]
    best = _best_of_each(worth)
    return Faster(
        best=_document(best[0], question, context) if best else None,
        others=[_document(gain, question, context) for gain in best[1:]],
        considered=len(gains),
        why=None if best else _why_none(gains),
    )


def _traced(question: Question, context: AnswerContext) -> list[_Gain] | None:
    if context.trace is None:
        return None
    base = next(iter(candidates(question, context.specs, context.predictor, [], context.trace)[0]), None)
    if base is None:
        return None
    mode = question.mode
    changes = changes_of(base, context, mode)
    chosen = [base, *(change.candidate for change in changes)]
    now, *options = estimate(
        context.trace, chosen, context.predictor, mode, context.sizes, question.percentile, context.siblings
    )
    seen = _measured(question, context, chosen)
    gains: list[_Gain] = []
    for change, option in zip(changes, options, strict=True):
        runs = option.chances is None or option.chances.runs >= LIKELY
        if unfit(change.candidate, option) is not None or not runs:
            continue
        measured, before = seen.get(_cell(option)), seen.get(_cell(now))
        if measured is not None and before is not None:
            gain = _gain(change.kind, change.words, before, measured, None)
        else:
            gain = _gain(change.kind, change.words, now, option, _shared(base, change, now, option, context, mode))
        if gain is not None:
            gains.append(gain)
    return gains


def _shared(
    base: Candidate, change: Change, now: Option, option: Option, context: AnswerContext, mode: str
) -> float | None:
    """Return the spread of the ratio where both are predicted by one method that learned from their software, else None."""
    if now.method == "roofline" or (now.method, now.basis) != (option.method, option.basis):
        return None
    trained = all(has_trained(item, context.predictor, mode) for item in (base, change.candidate))
    return (SHARED if trained else UNTRAINED).get(change.kind)


def _gain(kind: str, words: str, now: Option, option: Option, shared: float | None) -> _Gain | None:
    before, after = throughput(now), throughput(option)
    spreads = spread_of(now, before), spread_of(option, after)
    if not before.value or not after.value or spreads[0] is None or spreads[1] is None:
        return None
    apart = math.hypot(spreads[0], spreads[1])
    return _Gain(kind, words, option, after.value / before.value, max(min(apart, shared or apart), 1e-9))


def _measured(
    question: Question, context: AnswerContext, chosen: Sequence[Candidate]
) -> Mapping[tuple[object, ...], Option]:
    """Return what was measured of the configurations, by `_cell`."""
    wide = replace(
        question,
        platform=sorted({item.platform for item in chosen}),
        precision=sorted({item.precision for item in chosen}),
        batch_sizes=sorted({item.batch_size for item in chosen}),
        compiled="any",
        runtime=None,
    )
    hardware = chosen[0].spec.id
    return {_cell(option): option for option in measured_options(wide, context) if option.hardware == hardware}


def _cell(option: Option) -> tuple[object, ...]:
    runtime = (option.runtime or "").lower()
    return (option.platform, option.precision, option.batch_size, option.compiled, runtime, option.count)


def _served(question: Question, context: AnswerContext) -> list[_Gain] | None:
    """Return the gains of other weights and engines for requests to a language model, as many at once."""
    served = context.served
    assert served is not None
    now = next(iter(served_options(question, context, served, [])[0]), None)
    if now is None:
        return None
    spec = context.spec(now.hardware)
    engine = engines.find(now.runtime or "")
    if spec is None or engine is None:
        return []
    gains: list[_Gain] = []
    able = {*spec.platforms[now.platform], "fp16", "fp32", "int8"}
    for precision in engine.precisions:
        weights = engine.format(precision)
        if precision != now.precision and weights is not None and weights.arithmetic in able and weights.bits >= BITS:
            words = f"{precision} weights in place of {now.precision}"
            gains += _of_served(kinds.PRECISION, words, replace(question, precision=[precision]), context, now)
    for name, other in engines.catalogue().items():
        if name != engine.name and now.platform in other.platforms and other.format(now.precision) is not None:
            words = f"{name} in place of {engine.name}"
            gains += _of_served(kinds.RUNTIME, words, replace(question, runtime=name), context, now)
    return gains


def _of_served(kind: str, words: str, question: Question, context: AnswerContext, now: Option) -> list[_Gain]:
    assert context.served is not None
    option = next(
        (
            item
            for item in served_options(question, context, context.served, [])[0]
            if (item.hardware, item.platform, item.count) == (now.hardware, now.platform, now.count)
        ),
        None,
    )
    gain = None if option is None else _gain(kind, words, now, option, None)
    return [] if gain is None else [gain]


def _best_of_each(gains: Sequence[_Gain]) -> list[_Gain]:
    """Return the best change of each kind, the largest gain first; of batches the smallest that has nearly as much."""
    best: dict[str, _Gain] = {}
    for gain in sorted(gains, key=lambda item: (-item.ratio, item.words)):
        best.setdefault(gain.kind, gain)
    if kinds.BATCH in best:
        enough = ENOUGH * best[kinds.BATCH].ratio
        near = [gain for gain in gains if gain.kind == kinds.BATCH and gain.ratio >= enough]
        best[kinds.BATCH] = min(near, key=lambda item: item.option.batch_size or 0)
    return sorted(best.values(), key=lambda item: (-item.ratio, item.words))


def _why_none(gains: Sequence[_Gain]) -> str:
    if not gains:
        return "the device supports no other way to run it that has figures and fits its memory"
    nearest = max(gains, key=lambda item: (min(item.ratio, GAIN), item.probability))
    if nearest.ratio < GAIN:
        return f"none of {len(gains)} changes is predicted to gain {GAIN - 1:.0%} or more"
    return (
        f"none of {len(gains)} changes is surely faster: {nearest.words} is predicted to be {nearest.ratio:.2f} times as fast, "
        f"faster with a probability of {nearest.probability:.0%}"
    )


def _document(gain: _Gain, question: Question, context: AnswerContext) -> FasterChange:
    option = gain.option
    narrower = gain.kind == kinds.PRECISION
    reach = math.exp(_REACH * gain.spread)
    benched = context.served is None and _is_benched(option)
    own = option.hardware in context.own and benched
    return FasterChange(
        kind=gain.kind,
        change=gain.words,
        platform=option.platform,
        precision=option.precision,
        batch_size=option.batch_size,
        compiled=option.compiled,
        runtime=option.runtime,
        gain=float(f"{gain.ratio:.4g}"),
        gain_low=float(f"{gain.ratio / reach:.4g}"),
        gain_high=float(f"{gain.ratio * reach:.4g}"),
        probability=round(gain.probability, 4),
        latency_ms=figures(option.latency_ms),
        throughput_per_s=figures(option.throughput_per_s),
        basis=option.basis,
        command=command_of(context, option, question.mode) if own else predict_command(context, question, option),
        outputs_change=narrower,
        verify=verify_command(context, option, question.mode) if narrower and benched else None,
        output_error=context.errors.get((option.platform, option.precision)) if narrower else None,
        evidence=list(option.evidence) if option.basis in SEEN else [],
    )


def _is_benched(option: Option) -> bool:
    """Whether `assay bench` runs it: it knows torch, OpenVINO and ONNX Runtime."""
    return option.runtime not in ("tensorrt", "tensorflow", "qairt", "tflite")
