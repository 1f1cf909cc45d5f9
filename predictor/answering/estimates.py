"""Predict candidates: the best base that covers each, its correction, its interval, and what it rests on."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from domain.roofline import memory_estimate
from predictor.answering.candidates import Candidate
from predictor.answering.option import Option
from predictor.learning.artifact import Predictor
from predictor.learning.calibration import Calibration
from predictor.learning.features import FEATURES, Features, Software, version_number
from predictor.learning.operators import features_of_many
from predictor.learning.traces import Trace

__all__ = ["INTERVAL", "estimate"]

INTERVAL = 0.8
UNSEEN_CATEGORY = 1.5
"""A calibration measured on other categories of models is this much wider; a judgement, not a measurement."""
UNCOVERED = 1.5
"""The plain roofline's width is that of its training residuals times this; a judgement, and said to be not covered."""
_NORMAL_80 = 1.2816


class _Base(msgspec.Struct, frozen=True, kw_only=True):
    """How one candidate is predicted."""

    basis: str
    uses_trees: bool
    calibration: Calibration | None
    width: float | None
    covered: bool
    why: str


def estimate(trace: Trace, chosen: Sequence[Candidate], predictor: Predictor, mode: str) -> list[Option]:
    """Return one option a candidate, in their order; one pass over the trees for all of them."""
    if not chosen:
        return []
    software = [
        Software(
            batch_size=one.batch_size,
            compiled=one.compiled,
            runtime_version=version_number(one.runtime_version),
            cpu=one.platform == "cpu",
            training=mode == "training",
        )
        for one in chosen
    ]
    features = features_of_many([trace] * len(chosen), [one.limits for one in chosen], software)
    bases = _bases(trace, chosen, features, predictor, mode)
    log_residual = _residuals(features, bases, predictor)
    latency = features.prior_s * np.exp(log_residual) * 1e3
    return [
        _option(trace, one, base, float(latency[index]), predictor, mode)
        for index, (one, base) in enumerate(zip(chosen, bases, strict=True))
    ]


def _bases(
    trace: Trace, chosen: Sequence[Candidate], features: Features, predictor: Predictor, mode: str
) -> list[_Base]:
    """Return the base of each candidate; those that differ in batch alone share it, but where the batch did not train."""
    coverage = predictor.card.coverage
    why_not = coverage.why_not(trace, mode)
    known: dict[tuple[str, str, str], _Base] = {}
    bases: list[_Base] = []
    launch_shares = features.values[:, FEATURES.index("launch_share")].tolist()
    for one, launch_share in zip(chosen, launch_shares, strict=True):
        cell = one.cell[:3]
        if cell not in known:
            known[cell] = _base(trace, one, predictor, why_not, mode)
        base = known[cell]
        if base.uses_trees and base.calibration is None:
            outside = coverage.outside(one.platform, one.batch_size, launch_share)
            base = base if outside is None else _roofline(predictor, outside)
        bases.append(base)
    return bases


def _base(trace: Trace, one: Candidate, predictor: Predictor, why_not: str | None, mode: str) -> _Base:
    coverage = predictor.card.coverage
    if one.calibrations and mode == "inference":
        return _calibrated(trace, one.calibrations, why_not)
    if why_not is not None:
        return _roofline(predictor, why_not)
    if not coverage.knows_software(one.platform, one.runtime, one.precision, one.compiled):
        return _roofline(predictor, f"no {one.runtime} rows on {one.platform} in {one.precision} trained the predictor")
    if not coverage.knows_maker(one.spec):
        return _roofline(predictor, f"no {one.spec.vendor or 'such'} {one.spec.kind or 'device'} trained the predictor")
    level = coverage.level(trace) if one.spec.id in coverage.hardware else "new_hardware"
    width = predictor.card.widths.of(level, INTERVAL)
    told = {
        "interpolation": "this model was measured on other configurations",
        "new_architecture": "other models of its family were measured",
        "new_family": "no model of its family was measured; models with like operators were",
        "new_hardware": "no measurement of this device: not calibrated",
    }[level]
    # A new family on a new device is farther than either alone, and no width of ours was measured there.
    covered = width is not None and not (level == "new_hardware" and coverage.level(trace) == "new_family")
    return _Base(
        basis="predicted", uses_trees=True, calibration=None, width=width, covered=covered, why=f"predicted: {told}"
    )


def _calibrated(trace: Trace, calibrations: Sequence[Calibration], why_not: str | None) -> _Base:
    """Trees where they know the model; else whichever base erred less on the models left out."""
    by_base = {one.base: one for one in calibrations}
    if "trees" in by_base and why_not is None:
        one = by_base["trees"]
    else:
        one = min(calibrations, key=lambda each: (each.error if each.models > 1 else math.inf, each.base))
    width = one.widths[str(INTERVAL)]
    told = (
        f"{'predicted' if one.base == 'trees' else 'roofline'}, corrected by {one.rows} measurements of {one.models} "
    )
    told += f"model{'s' if one.models != 1 else ''} on this device"
    known = trace.category in one.categories
    if not known:
        told += f", none of them {trace.category or 'of this category'}"
    return _Base(
        basis="calibrated",
        uses_trees=one.base == "trees",
        calibration=one,
        width=width if known else width * UNSEEN_CATEGORY,
        # Coverage after a few shots was measured for trees alone; what corrects a bare roofline was never scored.
        covered=known and one.models > 1 and one.base == "trees",
        why=told,
    )


def _roofline(predictor: Predictor, reason: str) -> _Base:
    spread = predictor.card.spreads["roofline"]
    return _Base(
        basis="roofline",
        uses_trees=False,
        calibration=None,
        width=UNCOVERED * _NORMAL_80 * math.hypot(spread.between, spread.within),
        covered=False,
        why=f"roofline, at the share of it that the trained rows usually reach; interval not covered by measurement: {reason}",
    )


def _residuals(features: Features, bases: Sequence[_Base], predictor: Predictor) -> np.ndarray:
    residual = np.zeros(len(bases))
    asked = np.array([base.uses_trees for base in bases], dtype=bool)
    residual[asked] = predictor.trees.predict(features.values[asked])
    balance = features.values[:, FEATURES.index("balance")]
    centre = predictor.card.spreads["roofline"].centre
    for index, base in enumerate(bases):
        if base.calibration is not None:
            residual[index] += float(base.calibration.fit.correction(balance[index]))
        elif not base.uses_trees:
            residual[index] += centre
    return residual


def _option(trace: Trace, one: Candidate, base: _Base, latency_ms: float, predictor: Predictor, mode: str) -> Option:
    memory = memory_estimate(trace.totals, precision=one.precision, batch_size=one.batch_size, mode=mode)
    overhead = predictor.card.memory.get(f"{one.platform}/{one.runtime}")
    floor = None if memory is None else memory.total_bytes
    return Option(
        hardware=one.spec.id,
        platform=one.platform,
        precision=one.precision,
        batch_size=one.batch_size,
        basis=base.basis,
        latency_ms=latency_ms,
        low_ms=None if base.width is None else latency_ms * math.exp(-base.width),
        high_ms=None if base.width is None else latency_ms * math.exp(base.width),
        covered=base.covered,
        throughput_per_s=one.batch_size / latency_ms * 1e3,
        peak_memory_bytes=None if floor is None or overhead is None else max(floor, floor + overhead.offset_bytes),
        memory_floor_bytes=floor,
        runtime=one.runtime,
        runtime_version=one.runtime_version or None,
        compiled=one.compiled,
        evidence=tuple(base.calibration.evidence) if base.calibration is not None else (),
        why=base.why,
    )
