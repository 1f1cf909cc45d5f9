"""What a candidate's prediction rests on: trees, few rows, a calibration or the roofline, as far as rows near it support that."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from predictor.answering.candidates import Candidate
from predictor.artifact.artifact import Predictor
from predictor.artifact.calibrated import Calibrated
from predictor.artifact.calibrations import evidence_of
from predictor.features.dataset import Row
from predictor.features.table import Table
from predictor.features.traces import Trace
from predictor.general.kept import LEVELS, General
from predictor.learning.few_shot import Few, MeasuredDevice

__all__ = ["INTERVAL", "Base", "bases_of"]

INTERVAL = 0.8
UNSEEN_CATEGORY = 1.5
"""A correction measured on other categories of models is this much wider; a judgement, not a measurement."""
UNCOVERED = 1.5
"""An interval that no measurement supports is this much wider than the nearest that one does; a judgement, and said."""
UNBOUNDED = 10.0
"""An estimate of the general route whose width nothing tells may be as many times off; a judgement."""
PEAK_TOLD = 0.1
"""An effective peak that lies farther than this from the stated one, in log units, is worth a word."""
MOST_EVIDENCE = 20
_NORMAL_80 = 1.2816
_ROUTES = {"general": "kernels", "few": "few rows", "trees": "trees"}
"""How answers name the routes."""
_TOLD = {
    "interpolation": "this model was measured on other configurations",
    "new_architecture": "other models of its family were measured",
    "new_family": "no model of its family was measured; models with like operators were",
    "new_hardware": "no measurement of this device: not calibrated",
}


class Base(msgspec.Struct, frozen=True, kw_only=True):
    """How one candidate is predicted: by `trees`, by `few` rows, by the `general` route, or by the plain `roofline`.

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
    parts: tuple[tuple[float, Base], ...] = ()
    """Where several routes were corrected by rows of the device: the share and the base of each."""
    before: Base | None = None
    """What would be said without measurements of the device, whose interval is never narrower."""


def bases_of(
    trace: Trace, chosen: Sequence[Candidate], rows: Sequence[Row], table: Table, predictor: Predictor
) -> list[Base]:
    """Return the base of each candidate. Those of one software share it where as much trained near their batches."""
    why_not = predictor.card.coverage.why_not(trace, rows[0].mode)
    general = _GeneralBases(trace, predictor)
    supports = _Supports(predictor, general)
    existing: dict[tuple[object, ...], Base] = {}
    bases: list[Base] = []
    for item, row, launch_share in zip(chosen, rows, table.column("launch_share").tolist(), strict=True):
        key = (row.software, item.threads)
        base = existing.get(key)
        if base is None:
            base = existing[key] = _base(trace, item, predictor, why_not, row, general)
        bases.append(supports.at(base, item, row, launch_share))
    return bases


class _Supports:
    """Bases as far as rows near a question support them: batch, size of the items, and share of launches."""

    def __init__(self, predictor: Predictor, general: _GeneralBases) -> None:
        """Take what trained, and what the general route says of the model that is asked about."""
        self._general = general
        self._coverage = predictor.card.coverage
        self._predictor = predictor
        self._thin: dict[tuple[object, ...], str | None] = {}
        self._made: dict[tuple[int, str], Base] = {}
        self._octaves: dict[int, set[int]] = {}

    def at(self, base: Base, item: Candidate, row: Row, launch_share: float) -> Base:
        """Return the base for a row; equal reasons give the same object."""
        if base.before is not None:
            before = self.at(base.before, item, row, launch_share)
            if base.parts:
                return self._blended(base, before, row)
            return self._measured(base, before, row)
        if base.method == "general":
            # At another batch of the same software its doubts may be others.
            other = self._general.base(item, row) or base
            return self._kept(id(base), other.why, lambda: other)
        if base.method != "trees":
            return base
        outside = self._coverage.outside(row.platform, row.batch_size or 1, launch_share)
        thin = outside or self._too_few(row)
        if thin is None:
            return base
        general = self._general.base(item, row)
        if general is not None and general.covered:
            return self._kept(id(item.limits), f"{row.software} {row.threads} {general.why}", lambda: general)
        if outside is not None:
            return self._kept(0, outside, lambda: _roofline(self._predictor, outside))
        why = f"{base.why}; interval not covered by measurement: {thin}"
        least = _roofline_width(self._predictor)
        return self._kept(id(base), thin, lambda: replace(base, covered=False, least=least, why=why))

    def _measured(self, base: Base, before: Base, row: Row) -> Base:
        near = base.calibrated is None or self._shot_near(base.calibrated, row)
        made = self._kept(id(base), f"{id(before)} {near}", lambda: replace(base, before=before))
        if near:
            return made
        why = f"{base.why}; interval not covered by measurement: none of them near batch {row.batch_size}"
        return self._kept(id(made), why, lambda: replace(made, covered=False, why=why))

    def _blended(self, base: Base, before: Base, row: Row) -> Base:
        """Return a base of several routes in the shares that their errors near this batch give them."""
        routes = {part.method: part for _, part in base.parts}
        place = self._predictor.own_rows.routes(row.hardware, row.platform)

        def make() -> Base:
            shares = place.shares(row, routes)
            parts = [(share, self._measured(routes[name], before, row)) for name, share in shares.items()]
            share, first = max(parts, key=lambda part: part[0])
            if len(parts) == 1:
                return first
            others = ", ".join(f"{_ROUTES[part.method]} {rest:.0%}" for rest, part in parts if part is not first)
            return replace(
                first,
                calibrated=None,
                parts=tuple((share, replace(part, before=None)) for share, part in parts),
                evidence=tuple(dict.fromkeys(name for _, part in parts for name in part.evidence))[-MOST_EVIDENCE:],
                why=f"{first.why}; blended by the errors on rows of models left out: {_ROUTES[first.method]} {share:.0%}, {others}",
            )

        return self._kept(id(base), f"{id(before)} {row.batch_size}", make)

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

    def _kept(self, base: int, reason: str, make: Callable[[], Base]) -> Base:
        key = (base, reason)
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


def _base(
    trace: Trace, candidate: Candidate, predictor: Predictor, why_not: str | None, row: Row, route: _GeneralBases
) -> Base:
    """Return what a candidate's prediction rests on, whatever its batch is."""
    mode = row.mode
    unmeasured = _unmeasured(trace, candidate, predictor, why_not, row, route)
    few = predictor.card.few
    place = few.place(candidate.spec.id, candidate.platform, candidate.precision, mode) if few is not None else None
    coverage = predictor.card.coverage
    calibrated = predictor.calibrations.at(candidate.spec.id, candidate.platform) if mode == "inference" else None
    corrected: list[Base] = []
    own = predictor.own_rows.of(row)
    if own is not None:
        corrected.append(_own(own))
    if few is not None and place is not None and place.hardware == candidate.spec.id:
        corrected.append(_few(trace, candidate, few, place))
    if (
        calibrated is not None
        and why_not is None
        and coverage.near_software(candidate.platform, candidate.runtime, candidate.precision)
    ):
        corrected.append(_calibrated(calibrated))
    if len(corrected) == 1 or (corrected and own is None):
        # Without the errors of a common yardstick trees come before few rows.
        return replace(corrected[-1], before=unmeasured)
    if corrected:
        return replace(corrected[0], parts=tuple((0.0, base) for base in corrected), before=unmeasured)
    if few is not None and place is not None and unmeasured.method == "roofline":
        return _few(trace, candidate, few, place)
    return unmeasured


def _unmeasured(
    trace: Trace, candidate: Candidate, predictor: Predictor, why_not: str | None, row: Row, route: _GeneralBases
) -> Base:
    """Return what is said where nothing was measured on the device under this platform and precision."""
    coverage = predictor.card.coverage
    knows = coverage.knows_software(
        candidate.platform, candidate.runtime, candidate.precision, candidate.compiled, row.mode
    )
    general = route.base(candidate, row)
    if why_not is None and knows and coverage.knows_maker(candidate.spec):
        trees = _trees(trace, candidate, predictor)
        return trees if trees.covered or general is None or not general.covered else general
    if general is not None:
        return general
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


class _GeneralBases:
    """Bases of the general route for one model; what does not change with the batch is found once a device and software."""

    def __init__(self, trace: Trace, predictor: Predictor) -> None:
        """Take the model that is asked about."""
        self._trace, self._predictor = trace, predictor
        self._levels: dict[tuple[object, ...], str] = {}
        self._made: dict[tuple[object, ...], Base] = {}

    def base(self, candidate: Candidate, row: Row) -> Base | None:
        """Return the base of a row, None where the predictor has no such route or no row of this mode trained it."""
        general = self._predictor.card.general
        if general is None or row.mode not in general.modes:
            return None
        place = (row.software, row.mode)
        level = self._levels.get(place)
        if level is None:
            level = self._levels[place] = general.level(row, candidate.limits, self._trace)
        doubt = general.outside(row, candidate.limits)
        made = self._made.get((place, doubt))
        if made is None:
            made = self._made[place, doubt] = self._of(general, level, candidate, row, doubt)
        return made

    def _of(self, general: General, level: str, candidate: Candidate, row: Row, doubt: str | None) -> Base:
        width = general.reach(level, INTERVAL)
        if doubt is None and width is None:
            doubt = "too few such groups were left out to say how wide it is"
        why = general.why(level, candidate.limits)
        profile = None if self._predictor.general is None else self._predictor.general.profile(row)
        if profile is not None:
            arithmetic = (
                "" if profile.compute == 1.0 else f"{profile.compute:.2g} of the arithmetic in this precision and "
            )
            why += (
                f"; corrected by {profile.kernels} measured kernels of this device, which reaches {arithmetic}"
                f"{profile.traffic:.2g} of the bandwidth that kernels reach elsewhere"
            )
        reach = width or max(
            filter(None, (general.reach(name, INTERVAL) for name in LEVELS)), default=math.log(UNBOUNDED)
        )
        return Base(
            basis="predicted" if profile is None else "calibrated",
            method="general",
            evidence=() if profile is None else tuple(profile.evidence),
            width=reach if doubt is None else UNCOVERED * reach,
            covered=doubt is None,
            why=why if doubt is None else f"{why}; interval not covered by measurement: {doubt}",
            level=level,
        )


def _trees(trace: Trace, candidate: Candidate, predictor: Predictor) -> Base:
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
    return Base(
        basis="predicted",
        method="trees",
        width=width,
        covered=not doubts,
        why=f"{why}; interval not covered by measurement: {', '.join(doubts)}" if doubts else why,
        level=level,
        least=_roofline_width(predictor) if doubts else 0.0,
    )


def _few(trace: Trace, candidate: Candidate, few: Few, place: MeasuredDevice) -> Base:
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
    return Base(
        basis="calibrated" if level != "new_hardware" else "reference" if elsewhere else "predicted",
        method="few",
        width=width,
        covered=covered,
        why=text + ("; this device was not measured: not calibrated" if level == "new_hardware" else ""),
        evidence=tuple(place.evidence),
    )


def _own(item: Calibrated) -> Base:
    """The general route, corrected by rows of the device itself."""
    return replace(_calibrated(item, "predicted from its kernels"), method="general")


def _calibrated(item: Calibrated, how: str = "predicted") -> Base:
    models = len(set(item.shots.architecture.tolist()))
    text = f"{how}, corrected by {len(item.shots)} measurements of {models} model{'s' if models != 1 else ''} on this device"
    if abs(math.log(item.effective_peak)) > PEAK_TOLD:
        text += f", which reaches {item.effective_peak:.2g} of its stated peak"
    return Base(
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


def _roofline(predictor: Predictor, reason: str) -> Base:
    return Base(
        basis="roofline",
        method="roofline",
        width=_roofline_width(predictor),
        covered=False,
        why=f"estimate (specs only): the roofline at the share of it that the trained rows usually reach; interval not covered by measurement: {reason}",
    )
