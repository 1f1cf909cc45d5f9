"""How good choices were: how many met what was asked, what those cost too much, and how often the best was found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.choosing.work import Need, Work

__all__ = ["Outcome", "judged", "regrets", "scores"]

TIED = 1e-9


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one choice. `overspend` is cost ÷ that of the cheapest measured choice that meets the need − 1, null
    where the choice did not meet it; the hits say whether a cheapest machine was ranked first, or among the first three.
    `exact` says whether the very deployment, not only its machine, meets the need.
    """

    model: str
    met: bool
    exact: bool
    overspend: float | None
    top_1: bool
    top_3: bool


def judged(work: Work, need: Need, chosen: int, ranked: Sequence[int]) -> Outcome:
    """Return what came of choosing a load, as LLM-Pilot judges it (Lazuka et al., SC'24).

    The machines meet the need when their copies, each under the highest concurrency that was measured within the
    limits on such a machine, serve all users. `ranked` holds one load a machine, best first.
    """
    copies = work.copies(need.users)[chosen]
    met = bool(copies * work.most(need)[work.machine[chosen]] >= need.users)
    exact = bool(copies * work.most_of_deployments(need)[work.deployment[chosen]] >= need.users)
    costs = work.cheapest(need)
    best = costs.min()
    hits = [bool(costs[work.machine[load]] <= best * (1 + TIED)) for load in ranked[:3]]
    return Outcome(
        model=work.model,
        met=met,
        exact=exact,
        overspend=max(float(work.costs(need.users)[chosen] / best) - 1, 0.0) if met else None,
        top_1=bool(hits and hits[0]),
        top_3=any(hits),
    )


def scores(outcomes: Iterable[Outcome]) -> dict[str, Any]:
    """Return success rate and overspend over all questions and as the mean over models, hit rates, and each model's."""
    document = list(outcomes)
    by_model = {
        name: _part([item for item in document if item.model == name])
        for name in sorted({item.model for item in document})
    }
    parts = list(by_model.values())
    return {
        **_part(document),
        "macro_success": _mean([part["success"] for part in parts]),
        "macro_overspend": _mean([part["overspend"] for part in parts]),
        "by_model": by_model,
    }


def _part(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    return {
        "questions": len(outcomes),
        "success": _mean([item.met for item in outcomes]),
        "exact": _mean([item.exact for item in outcomes]),
        "overspend": _mean([item.overspend for item in outcomes]),
        "top_1": _mean([item.top_1 for item in outcomes]),
        "top_3": _mean([item.top_3 for item in outcomes]),
    }


def regrets(lost: Sequence[tuple[str, float, int]]) -> dict[str, Any]:
    """Return the scores of choices of a device: each is (model, what was lost beside the best, rank of the best from 0).

    What is lost is a share of what the best reaches: 0.03 is 3 % slower or dearer than it had to be.
    """
    values = np.array([value for _, value, _ in lost])
    models = sorted({name for name, _, _ in lost})
    ranks = np.array([rank for _, _, rank in lost])
    if not len(values):
        return {"questions": 0, "median": None, "p90": None, "top_1": None, "top_3": None, "by_model": {}}
    by_model = {model: np.array([value for name, value, _ in lost if name == model]) for model in models}
    return {
        "questions": len(values),
        "models": len(models),
        "median": round(float(np.median(values)), 6),
        "p90": round(float(np.quantile(values, 0.9)), 6),
        "mean": round(float(values.mean()), 6),
        "macro_mean": round(float(np.mean([key.mean() for key in by_model.values()])), 6),
        "top_1": round(float(np.mean(ranks == 0)), 6),
        "top_3": round(float(np.mean(ranks < 3)), 6),
        "by_model": {
            name: {
                "questions": len(value),
                "median": round(float(np.median(value)), 6),
                "worst": round(float(value.max()), 6),
            }
            for name, value in by_model.items()
        },
    }


def _mean(values: Sequence[float | None]) -> float | None:
    existing = [float(value) for value in values if value is not None]
    return round(float(np.mean(existing)), 6) if existing else None
