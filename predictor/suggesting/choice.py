"""The choice: again and again the run that takes most from the open questions' variance for a second."""

from __future__ import annotations

import msgspec
import numpy as np

from predictor.features.table import Array
from predictor.suggesting.belief import Belief

__all__ = ["Chosen", "choose"]

WORTH = 1e-3
"""A run that takes less than this share of what there was at first is not worth its entry."""
HELPED = 0.1
"""A question whose variance falls by this share counts as helped."""


class Chosen(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One run: which configuration, what it costs, and what it takes from the weighted variance.

    `own` is the share of that which it takes from its own configuration; `helped` are the questions beside it whose
    variance falls by a tenth or more, the most helped first.
    """

    index: int
    seconds: float
    gain: float
    own: float
    helped: tuple[int, ...]


def choose(belief: Belief, seconds: Array, weights: Array, budget_s: float, most: int) -> list[Chosen]:
    """Return the runs for a budget in the order in which they are worth making; `belief` has them measured then.

    `weights` say how much each configuration is asked for, 0 for one that could only be run. What costs more than is
    left of the budget is passed over.
    """
    chosens: list[Chosen] = []
    left = budget_s
    open_ = np.ones(len(seconds), dtype=bool)
    least = WORTH * float(belief.variance @ weights)
    while len(chosens) < most:
        gains = np.where(open_ & (seconds <= left), belief.gains(weights), 0.0)
        index = int(np.argmax(gains / seconds)) if len(gains) else 0
        if not len(gains) or gains[index] <= least:
            break
        chosens.append(_chosen(belief, index, seconds, weights))
        belief.measure(index)
        open_[index] = False
        left -= float(seconds[index])
    return chosens


def _chosen(belief: Belief, index: int, seconds: Array, weights: Array) -> Chosen:
    fall = belief.fall(index)
    gain = float(fall @ weights)
    share = np.where(weights > 0, fall / np.maximum(belief.variance, 1e-12), 0.0)
    share[index] = 0.0
    helped = np.flatnonzero(share >= HELPED)
    return Chosen(
        index=index,
        seconds=float(seconds[index]),
        gain=gain,
        own=float(fall[index] * weights[index]) / gain,
        helped=tuple(helped[np.argsort(-share[helped], kind="stable")].tolist()),
    )
