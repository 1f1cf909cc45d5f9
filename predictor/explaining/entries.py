"""Why an entry of an answer is as fast as it says."""

from __future__ import annotations

import msgspec
import numpy as np

from domain.answers import RankedOption
from domain.performance.roofline import Limits, Roofline, roofline
from predictor.artifact.artifact import Predictor
from predictor.explaining.contributions import attribution_of
from predictor.explaining.explanation import (
    CALIBRATION,
    SIBLING,
    USUAL,
    Explanation,
    explain,
    explain_kernels,
    explain_shares,
)
from predictor.explaining.groups import grouped, kind_of
from predictor.explaining.kernels import KernelSum, kernel_sum
from predictor.features.coordinates import WIDE
from predictor.features.dataset import Row
from predictor.features.operators_route import asked
from predictor.features.traces import Trace
from predictor.features.work import TERMS
from predictor.learning.blend import wide

__all__ = ["explained", "placed"]

ALIKE = "like work that was measured"
"""What the costs and neighbours of the same software say beyond the trees."""
RUNTIME = "runtime beyond its kernels"
"""What published rows of the same software take beyond the sum of their kernels and launches (below 0: it fuses some)."""
BEYOND = "beyond the roofline"
"""All that a latency takes more than the roofline, where nothing says why: a measurement does not."""


def placed(entry: RankedOption, trace: Trace, limits: Limits, mode: str) -> Explanation | None:
    """Return an entry's latency as its roofline and what lies beyond it, or None where it has no latency.

    Ten entries take half a millisecond; to say what lies beyond takes two of each.
    """
    floor = _floor(entry, trace, limits, mode)
    return None if floor is None or entry.latency_ms is None else explain(entry.latency_ms, floor, {}, rest=BEYOND)


def explained(entry: RankedOption, trace: Trace, limits: Limits, predictor: Predictor, mode: str) -> Explanation | None:
    """Return the parts of an entry's latency (`predictor.answering.ranked_entry.entry`), or None where it has none.

    How they were found depends on the entry's method: of trees the contributions of features, of few rows the kinds of
    work, of the general route its kernels, of the plain roofline and of a measurement no more than how far from the roofline they are.
    """
    floor = _floor(entry, trace, limits, mode)
    if floor is None or entry.latency_ms is None:
        return None
    row = _row(entry, trace, mode)
    kernels = None
    if predictor.card.kernels is not None:
        profile = None if predictor.general is None else predictor.general.profile(row)
        kernels = kernel_sum(trace, row, limits, predictor.card.kernels, profile)
    made = _by_method(entry, trace, limits, predictor, row, floor, kernels)
    return msgspec.structs.replace(made, kernels=kernels)


def _by_method(
    entry: RankedOption,
    trace: Trace,
    limits: Limits,
    predictor: Predictor,
    row: Row,
    floor: Roofline,
    kernels: KernelSum | None,
) -> Explanation:
    method, latency_ms = entry.method, entry.latency_ms
    assert latency_ms is not None
    if method == "trees":
        rest = _rest(entry, CALIBRATION if entry.basis == "calibrated" else ALIKE)
        return explain(latency_ms, floor, _by_trees(trace, limits, predictor, row), rest=rest)
    if method == "few" and predictor.card.few is not None:
        shares = predictor.card.few.model.shares(asked(trace, [row], [limits]))[0]
        kinds: dict[str, float] = {}
        for term, share in zip(TERMS, shares.tolist(), strict=True):
            kinds[kind_of(term)] = kinds.get(kind_of(term), 0.0) + share
        return explain_shares(latency_ms, floor, kinds)
    if method == "general" and kernels is not None:
        return explain_kernels(latency_ms, floor, kernels, rest=_rest(entry, RUNTIME))
    rest = BEYOND if method is None else _rest(entry, USUAL)
    return explain(latency_ms, floor, {}, rest=rest)


def _floor(entry: RankedOption, trace: Trace, limits: Limits, mode: str) -> Roofline | None:
    if entry.latency_ms is None or entry.batch_size is None:
        return None
    # A traced training step has its passes in it.
    traced = "inference" if trace.phase == "training" else mode
    return roofline(trace.operators, limits, batch_size=entry.batch_size, mode=traced)


def _by_trees(trace: Trace, limits: Limits, predictor: Predictor, row: Row) -> dict[str, float]:
    """Return what the trees add to the roofline, by group of features."""
    table = asked(trace, [row], [limits])
    base, parts = attribution_of(predictor.base.trees).of(np.asarray(wide(table)[0], dtype=np.float64))
    return {USUAL: base, **grouped(WIDE, parts.tolist())}


def _rest(entry: RankedOption, usual: str) -> str:
    return SIBLING if entry.basis == "reference" else usual


def _row(entry: RankedOption, trace: Trace, mode: str) -> Row:
    return Row(
        model=trace.model,
        hardware=entry.hardware,
        platform=entry.platform,
        precision=entry.precision,
        batch_size=entry.batch_size,
        mode=mode,
        runtime=entry.runtime or "",
        runtime_version=entry.runtime_version or "",
        compiled=bool(entry.compiled),
        layout=entry.layout,
        family=trace.family,
        category=trace.category,
        **entry.stated(),
    )
