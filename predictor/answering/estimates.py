"""Predict candidates: the best base that covers each, its interval, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from domain.answers import Sizes
from predictor.answering.candidates import Candidate
from predictor.answering.memory_fit import roomed
from predictor.answering.option import SIZE_NAMES, Option
from predictor.artifact.artifact import Predictor
from predictor.artifact.calibrated import UNMEASURED_SHARE, Calibrated
from predictor.artifact.calibrations import evidence_of
from predictor.artifact.tails import Tails
from predictor.features.dataset import Row
from predictor.features.operators_route import asked
from predictor.features.table import Array, Table
from predictor.features.traces import Trace
from predictor.learning.few_shot import Few, MeasuredDevice
from predictor.learning.siblings import Siblings

__all__ = ["INTERVAL", "estimate", "growing"]


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


INTERVAL = 0.8
UNSEEN_CATEGORY = 1.5
"""A correction measured on other categories of models is this much wider; a judgement, not a measurement."""
UNCOVERED = 1.5
"""An interval that no measurement supports is this much wider than the nearest that one does; a judgement, and said."""
PEAK_TOLD = 0.1
"""An effective peak that lies farther than this from the stated one, in log units, is worth a word."""
TAILS_COVERED = 20
"""With fewer rows that have the percentile its spread is not called covered."""
HOST_LAUNCH_S = 80e-6
"""What a host takes to launch an operator in eager torch, at the most. NVIDIA's published latencies of five image models at batch 1
(DeepLearningExamples, ConvNets in PyTorch with autocast, on T4, V100 and A100) stay below it; a fast host takes a tenth."""
_NORMAL_80 = 1.2816
_TOLD = {
    "interpolation": "this model was measured on other configurations",
    "new_architecture": "other models of its family were measured",
    "new_family": "no model of its family was measured; models with like operators were",
    "new_hardware": "no measurement of this device: not calibrated",
}


class _Base(msgspec.Struct, frozen=True, kw_only=True):
    """How one candidate is predicted: by `trees`, by `few` rows, or by the plain `roofline`.

    `width` is None where the method says for each row how wide its interval is, and where nothing does.
    """

    basis: str
    method: str
    width: float | None
    covered: bool
    why: str
    calibrated: Calibrated | None = None
    residual: float | None = None
    """The log residual itself, where it was measured on a sibling device."""
    evidence: tuple[str, ...] = ()
    level: str = ""
    """How far the trees extrapolate: see `conformal.LEVELS`."""
    least: float = 0.0
    """The half-width is at least this: no measurement supports a narrower one."""
    before: _Base | None = None
    """What would be said without measurements of the device, whose interval is never narrower."""


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
    stated = (
        {name: size for name, size in trace.sizes.items() if name in SIZE_NAMES} if sizes is None else sizes.stated()
    )
    cells = _cells(chosen)
    rows = _rows(trace, chosen, cells, mode, stated)
    table = asked(trace, rows, [item.limits for item in chosen])
    bases = _referenced(table, _bases(trace, chosen, rows, table, predictor), predictor, siblings)
    residual, width = _predicted(table, bases, predictor, siblings)
    sure = np.array([base.method != "roofline" for base in bases])
    latency = growing(table.prior * np.exp(residual) * 1e3, cells, [item.batch_size for item in chosen], sure)
    options = _options(chosen, cells, bases, latency, width, _on_slow_hosts(table, chosen, bases))
    options = roomed(options, trace, rows, chosen, predictor, INTERVAL)
    tails = predictor.card.tails
    if percentile == "p50" or tails is None:
        return options
    return [tailed(option, row, tails, percentile) for option, row in zip(options, rows, strict=True)]


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


def _bases(
    trace: Trace, chosen: Sequence[Candidate], rows: Sequence[Row], table: Table, predictor: Predictor
) -> list[_Base]:
    """Return the base of each candidate. Those of one software share it where as much trained near their batches."""
    why_not = predictor.card.coverage.why_not(trace, rows[0].mode)
    supports = _Supports(predictor)
    existing: dict[tuple[object, ...], _Base] = {}
    bases: list[_Base] = []
    for item, row, launch_share in zip(chosen, rows, table.column("launch_share").tolist(), strict=True):
        key = (row.software, item.threads)
        base = existing.get(key)
        if base is None:
            base = existing[key] = _base(trace, item, predictor, why_not, row.mode)
        bases.append(supports.at(base, row, launch_share))
    return bases


class _Supports:
    """Bases as far as rows near a question support them: batch, size of the items, and share of launches."""

    def __init__(self, predictor: Predictor) -> None:
        """Take what trained."""
        self._coverage = predictor.card.coverage
        self._predictor = predictor
        self._thin: dict[tuple[object, ...], str | None] = {}
        self._made: dict[tuple[int, str], _Base] = {}
        self._octaves: dict[int, set[int]] = {}

    def at(self, base: _Base, row: Row, launch_share: float) -> _Base:
        """Return the base for a row; equal reasons give the same object."""
        if base.before is not None:
            base = self._measured(base, self.at(base.before, row, launch_share), row)
        if base.method != "trees" or base.calibrated is not None:
            return base
        outside = self._coverage.outside(row.platform, row.batch_size or 1, launch_share)
        if outside is not None:
            return self._kept(0, outside, lambda: _roofline(self._predictor, outside))
        thin = self._too_few(row)
        if thin is None:
            return base
        why = f"{base.why}; interval not covered by measurement: {thin}"
        least = _roofline_width(self._predictor)
        return self._kept(id(base), thin, lambda: replace(base, covered=False, least=least, why=why))

    def _measured(self, base: _Base, before: _Base, row: Row) -> _Base:
        near = base.calibrated is None or self._shot_near(base.calibrated, row)
        made = self._kept(id(base), f"{id(before)} {near}", lambda: replace(base, before=before))
        if near:
            return made
        why = f"{base.why}; interval not covered by measurement: none of them near batch {row.batch_size}"
        return self._kept(id(made), why, lambda: replace(made, covered=False, why=why))

    def _shot_near(self, calibrated: Calibrated, row: Row) -> bool:
        octaves = self._octaves.get(id(calibrated))
        if octaves is None:
            octaves = {round(math.log2(shot.batch_size or 1)) for shot in calibrated.shots.rows}
            self._octaves[id(calibrated)] = octaves
        here = round(math.log2(row.batch_size or 1))
        return any(abs(octave - here) <= 1 for octave in octaves)

    def _too_few(self, row: Row) -> str | None:
        key = (row.platform, row.runtime, row.precision, row.compiled, row.batch_size)
        if key not in self._thin:
            self._thin[key] = self._coverage.thin(row)
        return self._thin[key]

    def _kept(self, base: int, reason: str, make: Callable[[], _Base]) -> _Base:
        key = (base, reason)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _base(trace: Trace, candidate: Candidate, predictor: Predictor, why_not: str | None, mode: str) -> _Base:
    """Return what a candidate's prediction rests on, whatever its batch is."""
    unmeasured = _unmeasured(trace, candidate, predictor, why_not, mode)
    few = predictor.card.few
    place = few.place(candidate.spec.id, candidate.platform, candidate.precision, mode) if few is not None else None
    calibrated = predictor.calibrations.at(candidate.spec.id, candidate.platform) if mode == "inference" else None
    coverage = predictor.card.coverage
    calibrated = predictor.calibrations.at(candidate.spec.id, candidate.platform) if mode == "inference" else None
    if (
        calibrated is not None
        and why_not is None
        and coverage.near_software(candidate.platform, candidate.runtime, candidate.precision)
    ):
        return replace(_calibrated(calibrated), before=unmeasured)
    if few is not None and place is not None:
        if place.hardware == candidate.spec.id:
            return replace(_few(trace, candidate, few, place), before=unmeasured)
        if unmeasured.method != "trees":
            return _few(trace, candidate, few, place)
    return unmeasured


def _unmeasured(trace: Trace, candidate: Candidate, predictor: Predictor, why_not: str | None, mode: str) -> _Base:
    """Return what is said where nothing was measured on the device under this platform and precision."""
    coverage = predictor.card.coverage
    knows = coverage.knows_software(
        candidate.platform, candidate.runtime, candidate.precision, candidate.compiled, mode
    )
    if why_not is None and knows and coverage.knows_maker(candidate.spec):
        return _trees(trace, candidate, predictor)
    if why_not is not None:
        return _roofline(predictor, why_not)
    if not knows:
        return _roofline(
            predictor,
            f"no {candidate.runtime} rows on {candidate.platform} in {candidate.precision} trained the predictor",
        )
    return _roofline(
        predictor, f"no {candidate.spec.vendor or 'such'} {candidate.spec.kind or 'device'} trained the predictor"
    )


def _trees(trace: Trace, candidate: Candidate, predictor: Predictor) -> _Base:
    coverage = predictor.card.coverage
    level = coverage.level(trace) if candidate.spec.id in coverage.hardware else "new_hardware"
    width = predictor.card.widths.of(level, INTERVAL)
    why, doubts = f"predicted: {_TOLD[level]}", []
    if width is None:
        doubts.append("no rows were held out as far")
    if level == "new_hardware" and coverage.level(trace) == "new_family":
        doubts.append("its family is new as well")
    if level == "new_hardware" and not coverage.knows_like(candidate.spec):
        doubts.append(f"no {candidate.spec.architecture or 'such'} device with memory as fast trained")
    return _Base(
        basis="predicted",
        method="trees",
        width=width,
        covered=not doubts,
        why=f"{why}; interval not covered by measurement: {', '.join(doubts)}" if doubts else why,
        level=level,
        least=_roofline_width(predictor) if doubts else 0.0,
    )


def _few(trace: Trace, candidate: Candidate, few: Few, place: MeasuredDevice) -> _Base:
    """Few rows: of this device it is calibrated, of this model on another device a reference, else a prediction."""
    level = few.level(candidate.spec.id, place, trace.architecture, trace.family)
    measured = few.widths.of(level, INTERVAL)
    covered = measured is not None and level != "new_hardware" and trace.category in place.categories
    width = measured or UNCOVERED * (few.widths.of("new_family", INTERVAL) or _NORMAL_80 * few.model.usual)
    if trace.category not in place.categories:
        width *= UNSEEN_CATEGORY
    elsewhere = level == "new_hardware" and trace.architecture in place.architectures
    text = f"from {place.rows} measurements in this precision on {place.hardware}"
    if level != "new_hardware":
        text += f": {_TOLD[level]}"
    if trace.category not in place.categories:
        text += f"; none of them {trace.category or 'of this category'}"
    return _Base(
        basis="calibrated" if level != "new_hardware" else "reference" if elsewhere else "predicted",
        method="few",
        width=width,
        covered=covered,
        why=text + ("; this device was not measured: not calibrated" if level == "new_hardware" else ""),
        evidence=tuple(place.evidence),
    )


def _calibrated(item: Calibrated) -> _Base:
    models = len(set(item.shots.architecture.tolist()))
    text = f"predicted, corrected by {len(item.shots)} measurements of {models} model{'s' if models != 1 else ''} on this device"
    if abs(math.log(item.effective_peak)) > PEAK_TOLD:
        text += f", which reaches {item.effective_peak:.2g} of its stated peak"
    return _Base(
        basis="calibrated",
        method="trees",
        calibrated=item,
        width=None,
        covered=models > 1,
        why=text,
        evidence=tuple(evidence_of(item.shots.rows)),
    )


def _roofline_width(predictor: Predictor) -> float:
    spread = predictor.card.spreads["roofline"]
    return UNCOVERED * _NORMAL_80 * math.hypot(spread.between, spread.within)


def _roofline(predictor: Predictor, reason: str) -> _Base:
    return _Base(
        basis="roofline",
        method="roofline",
        width=_roofline_width(predictor),
        covered=False,
        why=f"roofline, at the share of it that the trained rows usually reach; interval not covered by measurement: {reason}",
    )


def _referenced(table: Table, bases: Sequence[_Base], predictor: Predictor, siblings: Siblings | None) -> list[_Base]:
    """On a device that neither trained nor was measured, start from the same model on a sibling device, if there is one."""
    hardware = predictor.card.coverage.hardware
    here = np.array(
        [
            index
            for index, base in enumerate(bases)
            if base.method == "roofline"
            or (base.method == "trees" and base.calibrated is None and table.rows[index].hardware not in hardware)
        ],
        dtype=np.intp,
    )
    if siblings is None or not len(here):
        return list(bases)
    matched = siblings.matched(table.take(here), predictor.base)
    result = list(bases)
    by_trees, by_roofline = matched.residual_at(UNMEASURED_SHARE), matched.residual_at(0.0)
    for place, index in enumerate(here.tolist()):
        if matched.found[place]:
            residual = by_roofline if bases[index].method == "roofline" else by_trees
            result[index] = replace(
                bases[index],
                basis="reference",
                residual=float(residual[place]),
                evidence=(matched.events[place],),
                covered=False,
                why="this model under the same software on a sibling device, moved by what the "
                f"{'roofline says' if bases[index].method == 'roofline' else 'trees say'} of the two; this device was not "
                "measured: not calibrated",
            )
    return result


def _predicted(
    table: Table, bases: Sequence[_Base], predictor: Predictor, siblings: Siblings | None
) -> tuple[Array, Array]:
    """Return the log residual of each candidate about its roofline, and the half-width of its interval (NaN: none)."""
    residual = np.full(len(bases), predictor.card.spreads["roofline"].centre)
    width = np.array([math.nan if base.width is None else base.width for base in bases])
    here = _those(bases, lambda base: base.method == "trees" and base.calibrated is None)
    if len(here):
        bare = predictor.base.predict(table.take(here))
        residual[here] = bare.residual
        levels = np.array([bases[index].level for index in here])
        for level in np.unique(levels).tolist():
            at = levels == level
            width[here[at]] *= predictor.difficulty(level, table.values[here[at]], bare.difficulty[at])
    for item in {id(base.calibrated): base.calibrated for base in bases if base.calibrated is not None}.values():
        here = np.array([index for index, base in enumerate(bases) if base.calibrated is item], dtype=np.intp)
        predict = item.predict(table.take(here), siblings)
        residual[here] = predict.residual
        width[here] = math.nan if predict.widths is None else predict.widths[INTERVAL]
    here = _those(bases, lambda base: base.method == "few")
    if len(here) and predictor.card.few is not None:
        predict = predictor.card.few.model.predict(table.take(here))
        residual[here] = predict.residual
        width[here] *= predict.difficulty
    for index, base in enumerate(bases):
        if base.residual is not None:
            residual[index] = base.residual
    width = np.maximum(width, [base.least for base in bases])
    here = _those(bases, lambda base: base.before is not None)
    if len(here):
        before = [unmeasured for index in here if (unmeasured := bases[index].before) is not None]
        width[here] = np.fmin(width[here], _predicted(table.take(here), before, predictor, siblings)[1])
    return residual, width


def _on_slow_hosts(table: Table, chosen: Sequence[Candidate], bases: Sequence[_Base]) -> Array:
    """Return the milliseconds where a slow host launches each operator of eager torch; 0 where measurements say how fast it is."""
    launches_s = table.prior * table.column("launch_share")
    each_s = np.array([item.limits.launch_s for item in chosen])
    eager = np.array(
        [
            (item.spec.kind, item.runtime, item.compiled) == ("gpu", "torch", False)
            and not (base.covered or base.evidence)
            for item, base in zip(chosen, bases, strict=True)
        ],
        dtype=np.bool_,
    )
    return np.where(eager, (table.prior + launches_s * (HOST_LAUNCH_S / each_s - 1)) * 1e3, 0.0)


def _those(bases: Sequence[_Base], chosen: Callable[[_Base], bool]) -> np.ndarray:
    return np.array([index for index, base in enumerate(bases) if chosen(base)], dtype=np.intp)


def _options(
    chosen: Sequence[Candidate],
    cells: Sequence[int],
    bases: Sequence[_Base],
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
