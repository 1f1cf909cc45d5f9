"""A newcomer beside the predictor in force: both predict what neither has seen, and the newcomer must not be worse.

What is held out are the newest rows that the one in force was not trained on, and of those first the ones by which an
answer was scored. The newcomer is trained without them for the comparison, and with them afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.artifact import Card
from predictor.features.dataset import Row

__all__ = ["Comparison", "PredictedLatency", "ScoredCase", "compared", "held_out", "learnt_by", "uncompared"]

SHARE = 0.2
"""Of the rows that may be held out, so that the newcomer keeps most of what it has to learn from."""
MOST = 300
"""Rows that are compared; a prediction takes milliseconds."""
ROWS = 20
MODELS = 5
"""With fewer, what differs between the two is chance."""
DRAWS = 2000
CERTAIN = 0.95


class PredictedLatency(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted latency in ms with its 80 % interval."""

    value: float
    low: float | None = None
    high: float | None = None


class ScoredCase(msgspec.Struct, frozen=True, kw_only=True):
    """What was measured of a configuration, and what the two say of it, in ms."""

    model: str
    measured: float
    old: PredictedLatency
    new: PredictedLatency


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the newcomer is taken, why, and the scores of both.

    `difference` is the mean over models of |ln(predicted ÷ measured)|, newcomer less the one in force; it lies between
    `low` and `high` in 90 of 100 draws of the models. Worse is what is above 0 in 95 of 100.
    """

    accepted: bool
    reason: str
    old: str
    rows: int = 0
    models: int = 0
    scores: dict[str, dict[str, float | None]] = {}
    difference: float | None = None
    low: float | None = None
    high: float | None = None

    def document(self) -> dict[str, Any]:
        """Return what the event of the training says of the comparison beside `accepted` and `reason`."""
        document: dict[str, Any] = msgspec.to_builtins(self)
        return {name: value for name, value in document.items() if name not in ("accepted", "reason")}


def held_out(rows: Sequence[Row], old: Card, scored: Collection[str] = (), learnt: Collection[str] = ()) -> list[Row]:
    """Return the rows to compare on: the newest that the predictor of this card has not seen, at most a fifth of all.

    `scored` are ids of measurements by which answers were scored; they come first. The predictor that ships with Assay, on
    which every other is built, has learnt from published results, which an import brings into a log too: imported rows
    are no test of its trees. It has learnt from the measurements whose ids are `learnt` as well.
    """
    unseen = [row for row in rows if not _seen(row, old, learnt)]
    by_age = sorted(unseen, key=lambda row: (row.event_id in scored, row.position), reverse=True)
    return by_age[: min(MOST, int(len(rows) * SHARE))]


def learnt_by(shipped: Card) -> frozenset[str]:
    """Return the ids of the measurements that the shipped predictor has learnt from."""
    return frozenset(shipped.few.events if shipped.few is not None else ())


def _seen(row: Row, old: Card, learnt: Collection[str]) -> bool:
    if row.position <= old.position or row.event_id in learnt:
        return True
    return row.origin != "measured" and old.trees_from == "shipped"


def uncompared(reason: str, old: str) -> Comparison:
    """Return that the newcomer is taken without a comparison, and why."""
    return Comparison(accepted=True, reason=reason, old=old)


def compared(cases: Sequence[ScoredCase], old: str) -> Comparison:
    """Return whether the newcomer is not worse than `old` by more than noise. The same cases give the same answer."""
    models = sorted({case.model for case in cases})
    if len(cases) < ROWS or len(models) < MODELS:
        return uncompared(
            f"accepted without a comparison: {len(cases)} rows of {len(models)} models that neither has seen can be "
            f"predicted by both, and {ROWS} rows of {MODELS} are needed",
            old,
        )
    names = np.array([case.model for case in cases])
    errors = {
        side: np.array([abs(np.log(getattr(case, side).value / case.measured)) for case in cases])
        for side in ("old", "new")
    }
    by_model = np.array([float(np.mean((errors["new"] - errors["old"])[names == name])) for name in models])
    draws = np.random.default_rng(0).integers(0, len(models), (DRAWS, len(models)))
    low, high = np.quantile(by_model[draws].mean(axis=1), [1 - CERTAIN, CERTAIN]).tolist()
    worse = low > 0
    old_error, new_error = (float(np.mean([errors[side][names == name].mean() for name in models])) for side in errors)
    verb = "rejected: worse than" if worse else "accepted: not worse than"
    return Comparison(
        accepted=not worse,
        reason=f"{verb} the one in force on {len(cases)} rows of {len(models)} models that neither has seen "
        f"(mean error {new_error:.1%} against {old_error:.1%} in log terms)",
        old=old,
        rows=len(cases),
        models=len(models),
        scores={side: _scores(cases, side) for side in ("old", "new")},
        difference=round(float(by_model.mean()), 6),
        low=round(low, 6),
        high=round(high, 6),
    )


def _scores(cases: Sequence[ScoredCase], side: str) -> dict[str, float | None]:
    values: list[PredictedLatency] = [getattr(case, side) for case in cases]
    measured = np.array([case.measured for case in cases])
    errors = np.abs(np.array([item.value for item in values]) / measured - 1)
    inside = [
        item.low <= case.measured <= item.high
        for item, case in zip(values, cases, strict=True)
        if item.low is not None and item.high is not None
    ]
    return {
        "mape": round(float(errors.mean()), 6),
        "median_ape": round(float(np.median(errors)), 6),
        "within_10": round(float(np.mean(errors <= 0.1)), 6),
        "coverage_80": round(float(np.mean(inside)), 6) if inside else None,
    }
