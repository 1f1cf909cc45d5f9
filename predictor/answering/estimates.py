"""Predict candidates: the best base that covers each, its interval, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from domain.answers import Sizes
from predictor.answering.bases import INTERVAL, Base, bases_of
from predictor.answering.candidates import Candidate
from predictor.answering.memory_fit import roomed
from predictor.answering.option import SIZE_NAMES, Option
from predictor.artifact.artifact import Predictor
from predictor.artifact.calibrated import UNMEASURED_SHARE
from predictor.artifact.tails import Tails
from predictor.features.dataset import Row
from predictor.features.operators_route import asked
from predictor.features.table import Array, Table
from predictor.features.traces import Trace
from predictor.general.own_rows import width_factor
from predictor.general.question_rows import GeneralRoute
from predictor.learning.method import Prediction
from predictor.learning.siblings import Matched, Siblings

__all__ = ["INTERVAL", "estimate", "growing", "nested"]


def growing(latency: Array, cells: Sequence[Hashable], batch: Sequence[int], sure: NDArray[np.bool_]) -> Array:
    """Return the latencies such that within a cell none falls from a smaller to a larger batch.

    Falling ones move half-way each: up to the largest before, down to the smallest after. Where not all are `sure`
    (two methods met at some batch) those that are decide, and the others are kept between them.
    """
    members: dict[Hashable, list[int]] = {}
    for index in np.argsort(np.asarray(batch), kind="stable").tolist():
        members.setdefault(cells[index], []).append(index)
    array, tolist = latency.copy(), latency.tolist()
    for member in members.values():
        if all(tolist[before] <= tolist[after] for before, after in pairwise(member)):
            continue
        order, existing = np.array(member), sure[member]
        values = array[order]
        values[existing] = _ordered(values[existing])
        floor = np.maximum.accumulate(np.where(existing, values, -np.inf))
        ceiling = np.minimum.accumulate(np.where(existing, values, np.inf)[::-1])[::-1]
        values[~existing] = _ordered(np.clip(values, floor, ceiling)[~existing])
        array[order] = np.clip(values, floor, ceiling)
    return array


def _ordered(values: Array) -> Array:
    """Return the values without falls; what does not fall stays."""
    up, down = np.maximum.accumulate(values), np.minimum.accumulate(values[::-1])[::-1]
    return np.asarray(np.sqrt(up * down), dtype=np.float64)


def nested(options: Sequence[Option], cells: Sequence[Hashable]) -> list[Option]:
    """Return the options with the ends of their intervals as a covered interval at another batch of the same cell bounds them.

    More items never take less time: a call takes no longer than the upper end of a larger batch, and no less than the lower
    end of a smaller one. The upper end of an uncovered interval that is not half as wide as that bound becomes the bound.
    """
    result = list(options)
    members: dict[Hashable, list[int]] = {}
    for index, option in enumerate(options):
        if option.low_ms is not None and option.high_ms is not None:
            members.setdefault(cells[index], []).append(index)
    for member in members.values():
        if len(member) < 2:
            continue
        member.sort(key=lambda index: options[index].batch_size or 1)
        least, most = 0.0, math.inf
        highs: list[float] = []
        for index in reversed(member):
            option = options[index]
            most = min(most, option.high_ms or math.inf) if option.covered else most
            highs.append(most)
        for index, bound in zip(member, reversed(highs), strict=True):
            option = options[index]
            least = max(least, option.low_ms or 0.0) if option.covered else least
            low_ms, high_ms = max(least, option.low_ms or 0.0), option.high_ms or math.inf
            bounded = not option.covered and bound * (option.latency_ms or bound) <= high_ms**2
            high_ms = bound if bounded else min(bound, high_ms)
            why = (
                f"{option.why}; its upper end holds at a larger batch that measurements cover"
                if bounded
                else option.why
            )
            if (low_ms, high_ms, bounded) != (option.low_ms, option.high_ms, option.bounded):
                result[index] = replace(option, low_ms=low_ms, high_ms=high_ms, bounded=bounded, why=why)
    return result


TAILS_COVERED = 20
"""With fewer rows that have the percentile its spread is not called covered."""
HOST_LAUNCH_S = 80e-6
"""What a host takes to launch an operator in eager torch, at the most. NVIDIA's published latencies of five image models at batch 1
(DeepLearningExamples, ConvNets in PyTorch with autocast, on T4, V100 and A100) stay below it; a fast host takes a tenth."""


def estimate(
    trace: Trace,
    chosen: Sequence[Candidate],
    predictor: Predictor,
    mode: str,
    sizes: Sizes | None = None,
    percentile: str = "p50",
    siblings: Siblings | None = None,
) -> list[Option]:
    """Return one option a candidate, in their order; one pass over each method for all that it predicts.

    A percentile other than the median needs tails, which measured rows with enough samples teach: see `tailed`.
    `siblings` are the model's measurements on any device.
    """
    if not chosen:
        return []
    options, rows = _timed(trace, chosen, predictor, mode, sizes, siblings)
    larger = _larger(chosen, options)
    more = _timed(trace, larger, predictor, mode, sizes, siblings)[0] if larger else []
    options = nested([*options, *more], _cells([*chosen, *larger]))[: len(chosen)]
    options = roomed(options, trace, rows, chosen, predictor, INTERVAL)
    tails = predictor.card.tails
    if percentile == "p50" or tails is None:
        return options
    return [tailed(option, row, tails, percentile) for option, row in zip(options, rows, strict=True)]


def _larger(chosen: Sequence[Candidate], options: Sequence[Option]) -> list[Candidate]:
    """Return candidates at twice the batch for what may lie below the batches that trained: their intervals may bound it.

    Those are of cells where no batch is covered, and that are more than specifications.
    """
    cells = _cells(chosen)
    covered = {cell for cell, option in zip(cells, options, strict=True) if option.covered}
    largest: dict[int, Candidate] = {}
    for cell, item, option in zip(cells, chosen, options, strict=True):
        if cell in covered or option.method == "roofline":
            continue
        if cell not in largest or item.batch_size > largest[cell].batch_size:
            largest[cell] = item
    return [replace(item, batch_size=2 * item.batch_size) for item in largest.values()]


def _timed(
    trace: Trace,
    chosen: Sequence[Candidate],
    predictor: Predictor,
    mode: str,
    sizes: Sizes | None,
    siblings: Siblings | None,
) -> tuple[list[Option], list[Row]]:
    """Return one option a candidate, with its median alone, and the rows that were asked for."""
    stated = (
        {name: size for name, size in trace.sizes.items() if name in SIZE_NAMES} if sizes is None else sizes.stated()
    )
    cells = _cells(chosen)
    rows = _rows(trace, chosen, cells, mode, stated)
    table = asked(trace, rows, [item.limits for item in chosen])
    bases = bases_of(trace, chosen, rows, table, predictor)
    asking = np.array([_asks_general(base) for base in bases], dtype=np.bool_)
    general = GeneralRoute(table, predictor.general, siblings, asking)
    bases = _referenced(table, bases, predictor, siblings, general)
    everything = np.arange(len(bases), dtype=np.intp)
    residual, width = _predicted(table, bases, predictor, siblings, general, everything)
    sure = np.array([base.method != "roofline" for base in bases])
    latency = growing(table.prior * np.exp(residual) * 1e3, cells, [item.batch_size for item in chosen], sure)
    return _options(chosen, cells, bases, latency, width, _on_slow_hosts(table, chosen, bases)), rows


def tailed(option: Option, row: Row, tails: Tails, percentile: str) -> Option:
    """Return the option at a percentile of its calls: the median times its tail, with both spreads in the interval."""
    if option.latency_ms is None:
        return option
    tail = tails.of(row, option.latency_ms, percentile, INTERVAL)
    latency = option.latency_ms * tail.ratio
    low = high = None
    if option.low_ms is not None and option.high_ms is not None:
        middle = math.log(option.latency_ms)
        low = latency * math.exp(-math.hypot(middle - math.log(option.low_ms), math.log(tail.ratio / tail.low)))
        high = latency * math.exp(math.hypot(math.log(option.high_ms) - middle, math.log(tail.high / tail.ratio)))
    return replace(
        option,
        latency_ms=latency,
        low_ms=low,
        high_ms=high,
        covered=option.covered and tail.supporting >= TAILS_COVERED,
        bounded=option.bounded and tail.supporting >= TAILS_COVERED,
        why=f"{option.why}; {percentile} is {tail.ratio:.3g} times the median, from {tail.supporting} rows with the samples",
    )


def _cells(chosen: Sequence[Candidate]) -> list[int]:
    """Return a number for what of each candidate is not its batch."""
    numbers: dict[tuple[object, ...], int] = {}
    return [
        numbers.setdefault(
            (
                item.spec.id,
                item.platform,
                item.precision,
                item.runtime,
                item.runtime_version,
                item.compiled,
                item.layout,
                item.threads,
            ),
            len(numbers),
        )
        for item in chosen
    ]


def _rows(
    trace: Trace, chosen: Sequence[Candidate], cells: Sequence[int], mode: str, sizes: Mapping[str, Any]
) -> list[Row]:
    """Return the row that each candidate would be. What differs in batch alone is copied, which takes a third of the time."""
    made: dict[int, Row] = {}
    rows: list[Row] = []
    for item, cell in zip(chosen, cells, strict=True):
        like = made.get(cell)
        if like is None:
            like = made[cell] = Row(
                model=trace.model,
                hardware=item.spec.id,
                platform=item.platform,
                precision=item.precision,
                batch_size=item.batch_size,
                mode=mode,
                runtime=item.runtime,
                runtime_version=item.runtime_version,
                compiled=item.compiled,
                layout=item.layout,
                threads=item.threads,
                family=trace.family,
                category=trace.category,
                hardware_kind=item.spec.kind,
                **sizes,
            )
        rows.append(like if like.batch_size == item.batch_size else replace(like, batch_size=item.batch_size))
    return rows


def _referenced(
    table: Table, bases: Sequence[Base], predictor: Predictor, siblings: Siblings | None, general: GeneralRoute
) -> list[Base]:
    """On a device that neither trained nor was measured, start from the same model on a sibling device, if there is one."""
    if siblings is None:
        return list(bases)
    result = list(bases)
    hardware = predictor.card.coverage.hardware
    plain = _those(bases, lambda base: base.method == "roofline")
    new = np.array([row.hardware not in hardware for row in table.rows], dtype=np.bool_)
    trees = _those(bases, lambda base: base.method == "trees" and not base.evidence)
    here = np.concatenate([plain, trees[new[trees]]])
    if len(here):
        _refer(result, here, siblings.matched(table.take(here), predictor.base))
    far = _those(
        bases, lambda base: base.method == "general" and base.before is None and base.level.startswith("hardware")
    )
    if len(far) and (matched := general.siblings(far)) is not None:
        _refer(result, far, matched)
    return result


def _refer(bases: list[Base], here: NDArray[np.intp], matched: Matched) -> None:
    """Let those of the bases at these places that have a sibling start from it."""
    moved, unmoved = matched.residual_at(UNMEASURED_SHARE), matched.residual_at(0.0)
    for place, index in enumerate(here.tolist()):
        base = bases[index]
        if not matched.found[place]:
            continue
        says = {"roofline": "roofline says", "general": "sum of kernels says"}.get(base.method, "trees say")
        bases[index] = replace(
            base,
            basis="reference",
            residual=float((unmoved if base.method == "roofline" else moved)[place]),
            evidence=(matched.events[place],),
            # What the general route was off without a sibling bounds what it is off with one.
            covered=base.covered and base.method == "general",
            why=f"this model under the same software on a sibling device, moved by what the {says} of the two; this device "
            "was not measured: not calibrated",
        )


def _predicted(
    table: Table,
    bases: Sequence[Base],
    predictor: Predictor,
    siblings: Siblings | None,
    general: GeneralRoute,
    places: NDArray[np.intp],
) -> tuple[Array, Array]:
    """Return the log residual of each candidate about its roofline, and the half-width of its interval (NaN: none).

    `places` are those of the rows among the rows of `general`.
    """
    residual = np.full(len(bases), predictor.card.spreads["roofline"].centre)
    width = np.array([math.nan if base.width is None else base.width for base in bases])
    here = _those(bases, lambda base: base.method == "trees" and base.calibrated is None and not base.parts)
    if len(here):
        bare = predictor.base.predict(table.take(here))
        residual[here] = bare.residual
        levels = np.array([bases[index].level for index in here])
        for level in sorted(set(levels.tolist())):
            at = levels == level
            width[here[at]] *= predictor.difficulty(level, table.values[here[at]], bare.difficulty[at])
    for here, corrected in _corrected(table, bases, siblings, general, places):
        residual[here] = corrected.residual
        width[here] = math.nan if corrected.widths is None else corrected.widths[INTERVAL]
    here = _those(bases, lambda base: base.method == "general" and base.calibrated is None and not base.parts)
    if len(here) and predictor.general is not None:
        residual[here], values = general.of(places[here])
        levels = np.array([bases[index].level for index in here])
        for level in sorted(set(levels.tolist())):
            at = levels == level
            width[here[at]] *= predictor.general_difficulty(level, values[at])
    here = _those(bases, lambda base: base.method == "few" and not base.parts)
    if len(here) and predictor.card.few is not None:
        predict = predictor.card.few.model.predict(table.take(here))
        residual[here] = predict.residual
        width[here] *= predict.difficulty
    if any(base.parts for base in bases):
        _add_parts(residual, width, table, bases, predictor, siblings, general, places)
    for index, base in enumerate(bases):
        if base.residual is not None:
            residual[index] = base.residual
    width = np.maximum(width, [base.least for base in bases])
    here = _those(bases, lambda base: base.before is not None)
    if len(here):
        # Other devices with as many rows say how far such intervals miss what they promise.
        width[here] *= [
            width_factor(table.rows[index], INTERVAL) if _by_own_rows(bases[index]) else 1.0 for index in here
        ]
        before = [unmeasured for index in here if (unmeasured := bases[index].before) is not None]
        without = _predicted(table.take(here), before, predictor, siblings, general, places[here])[1]
        width[here] = np.fmin(width[here], without)
    return residual, width


def _corrected(
    table: Table, bases: Sequence[Base], siblings: Siblings | None, general: GeneralRoute, places: NDArray[np.intp]
) -> Iterator[tuple[NDArray[np.intp], Prediction]]:
    """Yield the rows that measured rows of their device correct, device by device, with what these make of them."""
    members: dict[int, list[int]] = {}
    for index, base in enumerate(bases):
        members.setdefault(id(base.calibrated), []).append(index)
    for each in members.values():
        first, here = bases[each[0]], np.array(each, dtype=np.intp)
        if first.calibrated is None:
            continue
        learned = matched = None
        if first.method == "general":
            learned, matched = Prediction.plain(general.of(places[here])[0]), general.siblings(places[here])
        yield here, first.calibrated.predict(table.take(here), siblings, learned, matched)


def _asks_general(base: Base) -> bool:
    """Say whether the general route has a part in what a base says, or in what bounds its interval."""
    if base.method == "general" or (base.before is not None and _asks_general(base.before)):
        return True
    return any(_asks_general(part) for _, part in base.parts)


def _by_own_rows(base: Base) -> bool:
    """Say whether the general route, corrected by rows of the device, has a share in a base."""
    return any(
        part.method == "general" and part.calibrated is not None for part in (base, *(part for _, part in base.parts))
    )


def _add_parts(
    residual: Array,
    width: Array,
    table: Table,
    bases: Sequence[Base],
    predictor: Predictor,
    siblings: Siblings | None,
    general: GeneralRoute,
    places: NDArray[np.intp],
) -> None:
    """Write residuals and half-widths of the bases that several routes make, each in its share."""
    parts = [(index, share, part) for index, base in enumerate(bases) for share, part in base.parts]
    here = np.array([index for index, _, _ in parts], dtype=np.intp)
    shares = np.array([share for _, share, _ in parts])
    each = _predicted(table.take(here), [part for _, _, part in parts], predictor, siblings, general, places[here])
    for figures, of_part in zip((residual, width), each, strict=True):
        figures[here] = 0.0
        np.add.at(figures, here, shares * of_part)


def _on_slow_hosts(table: Table, chosen: Sequence[Candidate], bases: Sequence[Base]) -> Array:
    """Return the milliseconds where a slow host launches each operator of eager torch; 0 where measurements say how fast it is."""
    launches_s = table.prior * table.column("launch_share")
    each_s = np.array([item.limits.launch_s for item in chosen])
    eager = np.array(
        [
            (item.spec.kind, item.runtime, item.compiled) == ("gpu", "torch", False)
            # Rows that were left out ran on the hosts of those that trained: they do not say how slow the next host is.
            and not (base.evidence or (base.covered and base.method != "general"))
            for item, base in zip(chosen, bases, strict=True)
        ],
        dtype=np.bool_,
    )
    return np.where(eager, (table.prior + launches_s * (HOST_LAUNCH_S / each_s - 1)) * 1e3, 0.0)


def _those(bases: Sequence[Base], chosen: Callable[[Base], bool]) -> np.ndarray:
    return np.array([index for index, base in enumerate(bases) if chosen(base)], dtype=np.intp)


def _options(
    chosen: Sequence[Candidate],
    cells: Sequence[int],
    bases: Sequence[Base],
    latency: Array,
    width: Array,
    slow_ms: Array,
) -> list[Option]:
    made: dict[tuple[int, int], Option] = {}
    options: list[Option] = []
    figures = zip(latency.tolist(), width.tolist(), slow_ms.tolist(), strict=True)
    for item, cell, base, (latency_ms, reach, slow) in zip(chosen, cells, bases, figures, strict=True):
        like = made.get((cell, id(base)))
        if like is None:
            like = made[cell, id(base)] = Option(
                hardware=item.spec.id,
                platform=item.platform,
                precision=item.precision,
                batch_size=None,
                basis=base.basis,
                latency_ms=None,
                covered=base.covered,
                runtime=item.runtime,
                runtime_version=item.runtime_version or None,
                compiled=item.compiled,
                layout=item.layout,
                evidence=base.evidence,
                why=base.why,
                method=base.method,
            )
        bounded = math.isfinite(reach)
        options.append(
            replace(
                like,
                batch_size=item.batch_size,
                latency_ms=latency_ms,
                low_ms=latency_ms * math.exp(-reach) if bounded else None,
                high_ms=max(latency_ms * math.exp(reach), slow) if bounded else None,
                slow_host=bounded and slow > latency_ms * math.exp(reach),
                throughput_per_s=item.batch_size / latency_ms * 1e3,
            )
        )
    return options
