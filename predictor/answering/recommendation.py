"""The answer to a question, from what is known: measured options, predicted ones, constraints, order and reasons.

A pure function of its inputs: no clock, no reading. The same known facts and question give the same answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from domain.answers import (
    AtHand,
    Exclusion,
    Front,
    FrontOption,
    LeftOut,
    NextRun,
    RankedOption,
    Recommendation,
    Rung,
    Workload,
)
from predictor.answering.call_evidence import composed_options, rated
from predictor.answering.candidates import Candidate, candidates
from predictor.answering.command import command_of, first_command
from predictor.answering.constraints import SEEN, Constraint, constraints_of, memory
from predictor.answering.context import AnswerContext
from predictor.answering.estimates import INTERVAL, estimate
from predictor.answering.evidence import options_from_rows
from predictor.answering.exclusions import NO_ROOM, abstention, distance, merged, undecided, within_reach
from predictor.answering.objective import better, tied
from predictor.answering.option import Option
from predictor.answering.power_estimates import powered
from predictor.answering.question import BESIDE, Device, Question
from predictor.answering.ranked_entry import entry, figures, plain_cpu, slower_notes
from predictor.answering.ranking import (
    best_of_each,
    constrained,
    evidence_first,
    front_axes,
    ordered,
    picks_of,
    undominated,
)
from predictor.answering.serving_options import served_options
from predictor.failure_rates.odds import with_memory
from predictor.general.inputs import TRACED_RUNTIMES
from predictor.memory.needs import usable_bytes
from predictor.variants.evidence import variant_options, with_quality

__all__ = ["AnswerContext", "answer", "at_hand", "measured_options", "next_runs", "unfit"]

WORTH = 0.05
"""A run that changes the answer with a smaller probability is not suggested."""
MOST = 3
LOOKED_AT = 50
"""Options below that rank are too far from the first to be worth a run."""


def next_runs(
    question: Question, context: AnswerContext, ranked: Sequence[Option], excluded: Sequence[Exclusion]
) -> list[NextRun]:
    """Return at most three commands, each with why and the `probability` that it changes what stands first.

    The probability is None where a trace or samples are missing, without which nothing can be said.
    """
    rows: list[NextRun] = []
    if context.trace is None and context.served is None:
        rows.append(_run(f"assay bench {context.model}", "traces the model, so that it can be predicted", None))
    if question.percentile != "p50" and any(entry.rule == "no latency at this percentile" for entry in excluded):
        command = f"{first_command(context, question)} --percentile {question.percentile}"
        rows.append(_run(command, f"takes the samples that {question.percentile} needs", None))
    rows += _rivals(question, context, ranked)
    unique: dict[str, NextRun] = {}
    for item in rows:
        unique.setdefault(item.command, item)
    return list(unique.values())[:MOST]


def _rivals(question: Question, context: AnswerContext, ranked: Sequence[Option]) -> list[NextRun]:
    if not ranked:
        return []
    first = ranked[0]
    rivals: list[tuple[float | None, Option, str]] = []
    if first.basis not in SEEN:
        second = _other(first, ranked)
        chance = None if second is None else better(second, first, question.objective)
        rivals.append((chance, first, f"what stands first rests on {first.basis}"))
    for option in ranked[1:LOOKED_AT]:
        if option.basis in SEEN:
            continue
        chance = better(option, first, question.objective)
        if chance is not None and chance >= WORTH:
            rivals.append(
                (chance, option, f"{option.basis}, better than what stands first with a probability of {chance:.0%}")
            )
    # What stands first is measured first: all the others are compared with it.
    rivals.sort(key=lambda item: (item[1] is not first, -(item[0] or 0.0)))
    return [
        _run(
            command_of(context, option, question.mode),
            f"{why}; run {_where(context, option)}",
            None if chance is None else round(chance, 4),
        )
        for chance, option, why in rivals
    ]


def _other(first: Option, ranked: Sequence[Option]) -> Option | None:
    """The best on another device, platform or precision: another batch of the same is no other decision."""
    cell = (first.hardware, first.platform, first.precision)
    return next((item for item in ranked[1:] if (item.hardware, item.platform, item.precision) != cell), None)


def _where(context: AnswerContext, option: Option) -> str:
    return "it here" if option.hardware in context.own else f"it on {option.hardware}"


def _run(command: str, why: str, probability: float | None) -> NextRun:
    return NextRun(command=command, why=why, probability=probability)


def at_hand(question: Question, context: AnswerContext, ranked: Sequence[Option]) -> AtHand | None:
    """Return the name of the device to `use`, all that will do in their `order`, and those `left_out` with the reason.

    `ranked` is best first and meets what is asked. Devices of the same hardware share its options; of two that are as
    good the one that was named first comes first. None where no devices were given.
    """
    if not question.devices:
        return None
    values: list[tuple[int, Device, Option]] = []
    left: list[LeftOut] = []
    for device in question.devices:
        usable = [(rank, item) for rank, item in enumerate(ranked) if _drives(device, item, context)]
        fitting = [(rank, value) for rank, value in usable if _fits(device, value, question.confidence)]
        if fitting:
            values.append((fitting[0][0], device, fitting[0][1]))
        else:
            left.append(LeftOut(name=device.called, why=_why_not(device, usable)))
    values.sort(key=lambda item: item[0])
    return AtHand(
        use=values[0][1].called if values else None,
        order=[_rung(device, option, question, context) for _, device, option in values],
        left_out=left,
    )


def _drives(device: Device, option: Option, context: AnswerContext) -> bool:
    hardware = context.named.get(device.hardware.strip(), device.hardware.strip())
    return option.hardware == hardware and (not device.platforms or option.platform in device.platforms)


def _room(device: Device) -> Constraint | None:
    if device.free_memory_mb is None:
        return None
    return Constraint("free_memory_mb", device.free_memory_mb, "MB", memory)


def _held(
    options: Sequence[Option], question: Question, context: AnswerContext
) -> tuple[list[Option], list[tuple[Option, Exclusion]]]:
    """Return the options that a device at hand drives and has room for, with their chances there, and the others."""
    kept: list[Option] = []
    left: list[tuple[Option, Exclusion]] = []
    for option in options:
        drivers = [device for device in question.devices if _drives(device, option, context)]
        fitting = [device for device in drivers if _fits(device, option, question.confidence)]
        if fitting:
            kept.append(_on(fitting, option))
            continue
        rooms = [room for device in drivers if (room := _room(device)) is not None]
        tight = max(rooms, key=lambda room: room.limit, default=None)
        exclusion = Exclusion(
            hardware=option.hardware,
            platform=option.platform,
            precision=option.precision,
            batch_size=option.batch_size,
            rule="not at hand" if tight is None else tight.name,
            detail="no device at hand has this platform" if tight is None else tight.describe(option),
            evidence=option.evidence[:5],
            variant=option.variant.model if option.variant else None,
        )
        left.append((option, exclusion))
    return kept, left


def _on(devices: Sequence[Device], option: Option) -> Option:
    """Return the option with its chances on the roomiest of the devices."""
    rooms = [_room(device) for device in devices]
    if option.chances is None or None in rooms:
        return option
    fits = max(room.probability(option) or 0.0 for room in rooms if room is not None)
    beyond = max(option.chances.out_of_memory, 1 - fits)
    return msgspec.structs.replace(option, chances=with_memory(option.chances, beyond))


def _fits(device: Device, option: Option, confidence: float) -> bool:
    room = _room(device)
    if room is None:
        return True
    if option.basis in SEEN:
        return room.excess(option) == 1.0
    return (room.probability(option) or 0.0) >= confidence


def _why_not(device: Device, usable: Sequence[tuple[int, Option]]) -> str:
    room = _room(device)
    if usable and room is not None:
        return f"does not fit in what is free: {room.describe(usable[0][1])}"
    return "nothing that was asked for runs there, or nothing is known of it"


def _rung(device: Device, option: Option, question: Question, context: AnswerContext) -> Rung:
    return Rung(
        name=device.called,
        hardware=option.hardware,
        platform=option.platform,
        precision=option.precision,
        batch_size=option.batch_size,
        compiled=option.compiled,
        latency_ms=figures(option.latency_ms),
        latency_ms_low=figures(option.low_ms),
        latency_ms_high=figures(option.high_ms),
        basis=option.basis,
        configuration=option.configuration(context.model, question.mode, context.sizes),
        variant=option.variant.model if option.variant else None,
    )


UNFIT = 0.2
"""What runs out of memory with a higher probability is left out."""
FRONT_LIMIT = 200


def answer(question: Question, context: AnswerContext, identity: str) -> Recommendation:
    """Return the answer (docs/api.md); `identity` is its id."""
    constraints = constraints_of(question)
    measured = measured_options(question, context)
    predicted, excluded = _kept(question, context, measured)
    compressed = variant_options(
        context.variants, question, context.sizes, context.usual, _asked_for(question, context)
    )
    options = [*measured, *compressed, *predicted]
    parameters = None if context.trace is None else context.trace.parameters
    options = with_quality(options, context.model, context.variants, question, parameters)
    priced = rated(_rated(options, context), context.call)
    if context.energy is not None:
        priced = [powered(option, context) for option in priced]
    kept, left = constrained(priced, question)
    ranked = ordered(kept, question.objective)
    hand = at_hand(question, context, ranked)
    left = sorted(left, key=lambda pair: distance(pair[0], question, constraints))
    near = left
    if question.devices:
        ranked, full = _held(ranked, question, context)
        left = [*full, *left]
    met, every = len(ranked), ranked
    if question.per_hardware:
        ranked = best_of_each(ranked)
    ranked = evidence_first(ranked, question.objective, context.measured_on)
    excluded = [*(exclusion for _, exclusion in left), *excluded, *_without_figures(context, measured)]
    cpu = plain_cpu(measured)
    axes = front_axes(ranked)
    front = undominated(ranked, axes)
    best = {id(option) for option in front}
    rank_of = {id(option): place for place, option in enumerate(ranked, 1)}
    entries: list[RankedOption] = []
    for place, option in enumerate(ranked[: question.top]):
        same = place > 0 and tied(ranked[place - 1], option, question.objective)
        made = entry(
            option,
            context,
            question,
            place + 1,
            cpu,
            constraints,
            tied_with=(entries[-1].tied_with or entries[-1].rank) if same else None,
            on_front=id(option) in best,
            below=next(iter(ranked[place + 1 : place + 2]), None),
        )
        entries.append(made)
    doubt = undecided(question, context, ranked)

    def document(option: Option) -> RankedOption:
        place = rank_of.get(id(option), 0)
        return entry(option, context, question, place, cpu, constraints, on_front=id(option) in best)

    return Recommendation(
        id=identity,
        model=context.model,
        position=context.position,
        time=context.time,
        predictor=context.predictor.digest,
        interval=INTERVAL,
        question=question.identity(),
        workload=Workload(mode=question.mode, **context.sizes.stated()),
        call=context.call.document(),
        considered=len(priced),
        met=met,
        ranked=entries,
        picks=picks_of(every, next(iter(ranked), None), question.objective, document),
        front=Front(axes=list(axes), options=[_brief(item, rank_of[id(item)]) for item in front[:FRONT_LIMIT]]),
        at_hand=hand,
        excluded=merged(excluded),
        abstained=doubt if entries else abstention(question, context, left, excluded),
        within_reach=[] if entries else within_reach(question, near),
        suggestions=next_runs(question, context, ranked, excluded),
        notes=[*context.notes, *slower_notes(context, entries)],
    )


def _brief(option: Option, rank: int) -> FrontOption:
    return FrontOption(
        rank=rank,
        hardware=option.hardware,
        platform=option.platform,
        precision=option.precision,
        batch_size=option.batch_size,
        hardware_count=option.count,
        basis=option.basis,
        latency_ms=figures(option.latency_ms),
        latency_ms_low=figures(option.low_ms),
        latency_ms_high=figures(option.high_ms),
        throughput_per_s=figures(option.throughput_per_s),
        usd_per_million=figures(option.usd_per_million),
        variant=option.variant.model if option.variant else None,
    )


def measured_options(question: Question, context: AnswerContext) -> list[Option]:
    """Return the options of the model itself that somebody measured."""
    options = options_from_rows(
        context.rows, context.sizes, question.percentile, context.usual, unsaid=context.call.of_unsaid_rows
    )
    if context.call.composed and question.percentile == "p50" and question.mode == "inference":
        options += composed_options(context.parts, context.rows, context.call, context.model)
    return list(filter(_asked_for(question, context), options))


def _asked_for(question: Question, context: AnswerContext) -> Callable[[Option], bool]:
    devices = {*(spec.id for spec in context.specs), *context.unspecified}
    return lambda option: (
        (not context.restricted or option.hardware in devices)
        and (not question.platform or option.platform in question.platform)
        and (not question.precision or option.precision in question.precision)
        and (not question.batch_sizes or option.batch_size in question.batch_sizes or option.concurrency is not None)
        and question.compiled in ("any", "usual", option.compiled)
        and question.count in (None, option.count)
        and (question.runtime not in TRACED_RUNTIMES or option.runtime == question.runtime)
    )


def _kept(
    question: Question, context: AnswerContext, measured: Sequence[Option]
) -> tuple[list[Option], list[Exclusion]]:
    """Predict, or take what was predicted at this position for a question that differs in limits, order or prices alone."""
    if context.kept is None:
        return _predicted(question, context, measured)
    alike = msgspec.json.encode(msgspec.structs.replace(question, devices=question.devices[:0], **BESIDE))
    what = (alike, bool(question.devices), len(context.rows), len(context.parts), context.trace, context.predictor)
    return context.kept.lists(what, lambda: _predicted(question, context, measured))


def _predicted(
    question: Question, context: AnswerContext, measured: Sequence[Option]
) -> tuple[list[Option], list[Exclusion]]:
    """Predict what was not measured; leave out what failed, what does not fit and what has no figures."""
    if context.served is not None:
        return served_options(question, context, context.served, measured)
    if context.trace is None:
        return [], []
    covered = {
        (entry.hardware, entry.platform, entry.precision, entry.batch_size, entry.compiled) for entry in measured
    }
    everywhere = [(entry.platform, entry.precision, entry.batch_size) for entry in measured]
    result, excluded = candidates(question, context.specs, context.predictor, everywhere, context.trace)
    chosen: list[Candidate] = []
    for item in result:
        cell = item.cell
        failed = context.failures.get(cell[:3])
        if cell in covered:
            continue
        if failed is not None:
            excluded.append(_left(item, "failed", failed[0], batch=False, evidence=(failed[1],)))
            continue
        chosen.append(item)
    if question.percentile != "p50" and context.predictor.card.tails is None:
        detail = f"no measurement with the samples for {question.percentile} trained the predictor"
        return [], [*excluded, *(_left(entry, "no tail prediction", detail, batch=False) for entry in chosen)]
    options = estimate(
        context.trace, chosen, context.predictor, question.mode, context.sizes, question.percentile, context.siblings
    )
    fitting: list[Option] = []
    by_roofline: set[tuple[Any, ...]] = set()
    for item, option in zip(chosen, options, strict=True):
        if option.method == "roofline":
            # It does not know eager from compiled, so that one of them stands for both.
            if item.cell[:4] in by_roofline:
                continue
            by_roofline.add(item.cell[:4])
        why_not = unfit(item, option)
        if why_not is None:
            fitting.append(_side_by_side(option, question.count or context.counts.get(item.spec.id, 1)))
        else:
            excluded.append(_left(item, NO_ROOM, why_not, over=_over(item, option)))
    return fitting, excluded


def _left(
    candidate: Candidate,
    rule: str,
    detail: str,
    *,
    batch: bool = True,
    evidence: tuple[str, ...] = (),
    over: float | None = None,
) -> Exclusion:
    return Exclusion(
        hardware=candidate.spec.id,
        platform=candidate.platform,
        precision=candidate.precision,
        batch_size=candidate.batch_size if batch else None,
        rule=rule,
        detail=detail,
        evidence=evidence,
        over=over,
    )


def _over(candidate: Candidate, option: Option) -> float | None:
    need, room = option.peak_memory_bytes, usable_bytes(candidate.limits.memory_bytes)
    return need / room if need and room else None


def unfit(candidate: Candidate, option: Option) -> str | None:
    """Return why an option is left out for want of memory, None where it may fit."""
    need, low, high = option.peak_memory_bytes, option.memory_low_bytes, option.memory_high_bytes
    room = usable_bytes(candidate.limits.memory_bytes)
    if room is None or None in (need, low, high) or option.chances is None or option.chances.out_of_memory <= UNFIT:
        return None
    return (
        f"needs {_gb(need)} GB ({_gb(low)} to {_gb(high)}) of {_gb(room)} GB that are usable: runs out of memory with a "
        f"probability of {option.chances.out_of_memory:.0%}"
    )


def _gb(value: float | None) -> str:
    return f"{(value or 0.0) / 1e9:.3g}"


def _side_by_side(option: Option, count: int) -> Option:
    """Devices that work side by side on calls of their own: as many times the throughput, the same latency."""
    if count == 1:
        return option
    rate = option.throughput_per_s
    return msgspec.structs.replace(
        option,
        count=count,
        throughput_per_s=None if rate is None else rate * count,
        why=f"{option.why}; {count} of them side by side, each with calls of its own",
    )


def _without_figures(context: AnswerContext, measured: Sequence[Option]) -> list[Exclusion]:
    """Devices that are asked for, of which neither figures nor measurements of this model are known."""
    seen = {option.hardware for option in measured}
    return [
        Exclusion(
            hardware=name,
            platform=None,
            rule="no specification",
            detail="describe it with `assay detect --post`, or measure on it",
        )
        for name in context.unspecified
        if name not in seen
    ]


def _rated(options: Sequence[Option], context: AnswerContext) -> list[Option]:
    """What their devices cost and draw, from the prices and the data sheet."""
    specs = {spec.id: spec for spec in context.specs}
    documents: dict[tuple[str, int], dict[str, Any]] = {}
    for hardware, count in {(option.hardware, option.count) for option in options}:
        price, spec = context.prices.get(hardware), specs.get(hardware)
        hour = None if price is None else price.hour(count)
        power = None if spec is None or spec.power_w is None else float(spec.power_w.value)
        documents[hardware, count] = {
            "usd_per_hour": None if hour is None else hour.usd_per_hour,
            "hour": hour,
            "rated_power_w": None if power is None else power * count,
        }
    return [msgspec.structs.replace(option, **documents[option.hardware, option.count]) for option in options]
