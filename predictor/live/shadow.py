"""A newcomer beside the predictor in force: both predict models that the newcomer has not seen, and it must not be worse.

Whole models are held out: of those first the ones by which an answer was scored, then the newest that the one in force has
not learnt from. The newcomer is trained without them for the comparison, and with them afterwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.artifact import Card
from predictor.features.dataset import Row

__all__ = ["Comparison", "Fold", "PredictedLatency", "ScoredCase", "compared", "folds", "learnt_by"]

SHARE = 0.2
"""Of the rows, so that the newcomer keeps most of what it has to learn from."""
MOST = 300
"""Rows that are compared; a prediction takes milliseconds."""
MODELS = 2
"""One model alone does not tell a better predictor from luck."""
SMALL = 2000
"""Up to so many rows a training takes seconds: each model is held out once, in FOLDS trainings."""
FOLDS = 5
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


class Fold(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that are predicted, and the models whose rows neither side is shown; `seen` says that the old one learnt from them."""

    rows: list[Row]
    models: frozenset[str]
    seen: bool


def folds(rows: Sequence[Row], old: Card, scored: Collection[str] = (), learnt: Collection[str] = ()) -> list[Fold]:
    """Return what to hold out, whole models; nothing where there are fewer than two.

    Models with rows that the predictor of this card has not seen are taken, all models where there are fewer than two of
    those: the comparison then favours the one in force. `scored` are ids of measurements by which answers were scored;
    their models come first. The predictor that ships with Assay has learnt from published results, which an import
    brings into a log too, and from the measurements whose ids are `learnt`.
    """
    every = _by_model(rows)
    unseen = _by_model([row for row in rows if not _seen(row, old, learnt)])
    seen = len(unseen) < MODELS
    chosen = every if seen else unseen
    if len(chosen) < MODELS:
        return []
    newest = {name: max((row.event_id in scored, row.position) for row in held) for name, held in chosen.items()}
    names = sorted(chosen, key=lambda name: newest[name], reverse=True)
    if len(rows) <= SMALL:
        groups = [names[number::FOLDS] for number in range(min(FOLDS, len(names)))]
    else:
        limit, count = len(rows) * SHARE, 0
        while count < len(names) // 2 and sum(len(every[name]) for name in names[:count]) < min(limit, MOST * FOLDS):
            count += 1
        groups = [names[: max(count, 1)]]
    each = max(1, MOST // sum(map(len, groups)))
    return [
        Fold(
            rows=[row for name in group for row in sorted(chosen[name], key=_newest_first)[:each]],
            models=frozenset(group),
            seen=seen,
        )
        for group in groups
    ]


def _by_model(rows: Sequence[Row]) -> dict[str, list[Row]]:
    by_model: dict[str, list[Row]] = {}
    for row in rows:
        by_model.setdefault(row.model, []).append(row)
    return by_model


def _newest_first(row: Row) -> int:
    return -row.position


def learnt_by(shipped: Card) -> frozenset[str]:
    """Return the ids of the measurements that the shipped predictor has learnt from."""
    return frozenset(shipped.few.events if shipped.few is not None else ())


def _seen(row: Row, old: Card, learnt: Collection[str]) -> bool:
    if row.position <= old.position or row.event_id in learnt:
        return True
    return row.origin != "measured" and old.trees_from == "shipped"


def compared(cases: Sequence[ScoredCase], old: str, *, seen: bool = False) -> Comparison:
    """Return whether the newcomer is not worse than `old` by more than noise. The same cases give the same answer.

    Too little to compare on does not let it answer. `seen` says that the old one has learnt from these models.
    """
    models = sorted({case.model for case in cases})
    if len(models) < MODELS:
        return Comparison(
            accepted=False,
            reason=f"kept, and does not answer: both can predict {len(cases)} rows of {len(models)} models, and at least "
            f"{MODELS} models are needed to compare them",
            old=old,
            rows=len(cases),
            models=len(models),
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
        reason=f"{verb} the one in force on {len(cases)} rows of {len(models)} models that {'the one in force has learnt from' if seen else 'neither has seen'} "
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
