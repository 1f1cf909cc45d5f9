"""One entry of a ranked answer: an option with its figures, how likely it meets what was asked, and why it stands there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from domain.answers import Chances, MemoryParts, Met, RankedOption
from domain.comparison.slower_precisions import slower_precisions
from domain.performance.roofline import Limits, limits_of
from predictor.answering.command import command_of
from predictor.answering.constraints import SEEN, Constraint
from predictor.answering.context import AnswerContext
from predictor.answering.objective import Objective, better, figure_of, tied
from predictor.answering.option import Option
from predictor.answering.question import Question
from predictor.answering.ranking import has_evidence
from predictor.choosing.chance import chance_of_all
from predictor.explaining.entries import explained, placed
from predictor.explaining.explanation import Explanation
from predictor.failure_rates.cases import ENDS

__all__ = ["compared", "entry", "explanation_of", "figures", "meeting", "plain_cpu", "slower_notes"]

MOST_SLOWER = 3
STALE_DAYS = 180
"""Drivers and libraries move on: an older measurement still counts, and says that it is old."""
_WORDS = {
    "latency": "latency",
    "throughput": "throughput",
    "cost": "cost",
    "energy": "energy an item",
    "memory": "memory",
}


def entry(
    option: Option,
    context: AnswerContext,
    question: Question,
    rank: int,
    cpu: Mapping[int | None, float],
    constraints: Sequence[Constraint] = (),
    *,
    tied_with: int | None = None,
    on_front: bool = False,
    below: Option | None = None,
) -> RankedOption:
    """Return one ranked entry; `cpu` maps a batch size to the latency of plain fp32 on a CPU, in ms.

    `below` is the option that stands after it.
    """
    mode = question.mode
    reference = cpu.get(option.batch_size)
    age = _age_days(option, context)
    stale = age is not None and age > STALE_DAYS
    energy = figure_of(option, "energy")
    document = RankedOption(
        **context.sizes.stated(),
        rank=rank,
        configuration=option.configuration(context.model, mode, context.sizes),
        hardware=option.hardware,
        hardware_count=option.count,
        platform=option.platform,
        precision=option.precision,
        batch_size=option.batch_size,
        concurrency=option.concurrency,
        runtime=option.runtime,
        runtime_version=option.runtime_version,
        browser=option.browser,
        browser_version=option.browser_version,
        compiled=option.compiled,
        layout=option.layout,
        basis=option.basis,
        origin=option.origin,
        latency_ms=figures(option.latency_ms),
        latency_ms_low=figures(option.low_ms),
        latency_ms_high=figures(option.high_ms),
        latency_is_mean=option.is_mean,
        interval_covered=option.covered,
        throughput_per_s=figures(option.throughput_per_s),
        ttft_ms=figures(option.ttft_ms),
        ttft_ms_low=figures(option.ttft_low_ms),
        ttft_ms_high=figures(option.ttft_high_ms),
        tpot_ms=figures(option.tpot_ms),
        tpot_ms_low=figures(option.tpot_low_ms),
        tpot_ms_high=figures(option.tpot_high_ms),
        tokens_per_s=figures(option.tokens_per_s),
        tokens_per_s_low=figures(option.tokens_low_per_s),
        tokens_per_s_high=figures(option.tokens_high_per_s),
        realtime_factor=figures(option.realtime_factor),
        peak_memory_bytes=_whole(option.peak_memory_bytes),
        memory_low_bytes=_whole(option.memory_low_bytes),
        memory_high_bytes=_whole(option.memory_high_bytes),
        memory_floor_bytes=_whole(option.memory_floor_bytes),
        memory_parts=_memory_parts(option),
        offloaded_layers=option.offloaded_layers,
        host_memory_bytes=_whole(option.host_memory_bytes),
        energy_j=figures(option.energy_j),
        energy_j_low=figures(option.energy_low_j),
        energy_j_high=figures(option.energy_high_j),
        energy_per_item_j=figures(energy.value),
        energy_per_item_j_low=figures(energy.low),
        energy_per_item_j_high=figures(energy.high),
        energy_basis=option.energy_basis,
        energy_verdict=option.energy_verdict,
        power_w=figures(option.power_w),
        rated_power_w=figures(option.rated_power_w),
        chances=None if option.chances is None else _rounded(option.chances),
        meets=meeting(option, constraints),
        meets_all=_all_met(option, constraints),
        output_error=context.errors.get((option.platform, option.precision)),
        usd_per_hour=figures(option.usd_per_hour),
        usd_per_million=figures(option.usd_per_million),
        price=None if option.hour is None else option.hour.document(),
        speedup_over_cpu=figures(reference / option.latency_ms) if reference and option.latency_ms else None,
        n=option.n,
        runs=option.runs or None,
        verdict=option.verdict,
        age_days=age,
        stale=stale,
        method=option.method,
        evidence=list(option.evidence),
        why=option.why + (f"; {age} days old, so measure again" if stale else ""),
        command=command_of(context, option, mode),
        tied_with=tied_with,
        on_front=on_front,
        why_above_next=compared(option, below, question.objective),
        variant=option.variant,
        quality=None if option.variant else option.quality,
    )
    limits = _limits(document, context)
    if context.trace is None or limits is None:
        return document
    reasons = placed(document, context.trace, limits, mode)
    if reasons is None:
        return document
    return msgspec.structs.replace(document, bottleneck=reasons.bottleneck, explanation=reasons.brief())


def _memory_parts(option: Option) -> MemoryParts:
    parts = (option.weights_bytes, option.kv_cache_bytes, option.activations_bytes)
    peak = option.peak_memory_bytes
    existing = sum(part for part in parts if part is not None)
    rest = peak - existing if peak is not None and any(part is not None for part in parts) else None
    return MemoryParts(
        weights_bytes=_whole(option.weights_bytes),
        kv_cache_bytes=_whole(option.kv_cache_bytes),
        activations_bytes=_whole(option.activations_bytes),
        # Where fewer bytes were measured than weights and activations have, the runtime shares some with them.
        runtime_bytes=None if rest is None else max(0, round(rest)),
    )


def meeting(option: Option, constraints: Sequence[Constraint]) -> list[Met]:
    """Return for each limit the figure, and the probability that it is met; None where it is not known."""
    rows = []
    for constraint in constraints:
        chance, figure = constraint.probability(option), constraint.of(option)
        rows.append(
            Met(
                constraint=constraint.name,
                limit=constraint.limit,
                value=figures(figure.value),
                probability=None if chance is None else round(chance, 4),
                exact=figure.exact,
            )
        )
    return rows


def _all_met(option: Option, constraints: Sequence[Constraint]) -> float | None:
    chance = chance_of_all([constraint.probability(option) for constraint in constraints])
    return None if chance is None else round(chance, 4)


def compared(option: Option, below: Option | None, objective: Objective) -> str | None:
    """Return why an option stands above the next, in words with figures; None where there is no next."""
    if below is None:
        return None
    chance = better(option, below, objective)
    sure = "" if chance is None else f" (better with a probability of {chance:.0%})"
    if tied(option, below, objective):
        return f"as good as the next, within what is known{sure}"
    names = (objective,) if isinstance(objective, str) else tuple(objective)
    said = [difference for name in names if (difference := _difference(option, below, name))]
    if not said:
        order = f"; {option.basis} stands before {below.basis}" if option.basis != below.basis else ""
        return f"the same {' and '.join(_WORDS[name] for name in names)} as the next{sure}{order}"
    text = ""
    if has_evidence(option) and not has_evidence(below):
        text = "; an estimate that no measurement supports stands first only where it is surely better"
    elif not _ahead(option, below, names):
        if option.basis != below.basis:
            text = f"; {below.basis} figures are taken at their unfavourable end"
        elif len(names) == 1:
            text = "; both are taken at their unfavourable end"
    return f"{' and '.join(said)} than the next{sure}{text}"


def _ahead(option: Option, below: Option, names: Sequence[str]) -> bool:
    pairs = [(name, figure_of(option, name).value or 0.0, figure_of(below, name).value or 0.0) for name in names]
    return all(value >= other if name == "throughput" else value <= other for name, value, other in pairs)


def _difference(option: Option, below: Option, name: str) -> str | None:
    value, other = figure_of(option, name).value, figure_of(below, name).value
    if not value or not other or value == other:
        return None
    ratio = value / other
    if abs(ratio - 1) < 0.005:
        return None
    if 0.5 < ratio < 2:
        return f"{abs(ratio - 1):.0%} {'more' if ratio > 1 else 'less'} {_WORDS[name]}"
    return f"{max(ratio, 1 / ratio):.3g} times {'more' if ratio > 1 else 'less'} {_WORDS[name]}"


def plain_cpu(measured: Sequence[Option]) -> dict[int | None, float]:
    """Return the fastest plain fp32 CPU measurement at each batch size, in ms."""
    best: dict[int | None, float] = {}
    for option in measured:
        if option.platform == "cpu" and option.precision == "fp32" and option.latency_ms is not None:
            best[option.batch_size] = min(best.get(option.batch_size, option.latency_ms), option.latency_ms)
    return best


def _age_days(option: Option, context: AnswerContext) -> int | None:
    """How old a measurement was at the position of the answer; None where either moment is unknown."""
    if option.measured_at is None or context.time is None:
        return None
    return max(0, (datetime.fromisoformat(context.time) - option.measured_at).days)


def slower_notes(context: AnswerContext, ranked: Sequence[RankedOption]) -> list[str]:
    """Say which precisions are slower than fp32 on the devices and platforms of the answer, the worst first."""
    shown = {(entry.hardware, entry.platform) for entry in ranked if entry.basis in SEEN}
    rows = [row for row in context.rows if (row["hardware_id"], row["platform"]) in shown]
    sizes = context.sizes.stated()
    rows = [row for row in rows if all(row.get(name) in (None, value) for name, value in sizes.items())]
    devices = {hardware for hardware, _ in shown}
    return [
        f"{item.hardware}: {item.sentence}" if len(devices) > 1 else item.sentence
        for item in slower_precisions(rows)[:MOST_SLOWER]
    ]


def explanation_of(document: RankedOption, context: AnswerContext, mode: str) -> Explanation | None:
    """Return what an entry's latency is made of; None where the model has no trace or the device no figures."""
    limits = _limits(document, context)
    if context.trace is None or limits is None:
        return None
    return explained(document, context.trace, limits, context.predictor, mode)


def _limits(document: RankedOption, context: AnswerContext) -> Limits | None:
    spec = context.spec(document.hardware)
    return None if spec is None else limits_of(spec, document.precision, document.platform)


def figures(value: float | None) -> float | None:
    """Six significant digits: more would promise what no measurement holds, and differ between machines."""
    return None if value is None else float(f"{value:.6g}")


def _rounded(chances: Chances) -> Chances:
    ends = {name: round(getattr(chances, name), 4) for name in ENDS}
    return msgspec.structs.replace(chances, **ends)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)
