"""Rules that choose a deployment and how many copies of it, before or after a few of them were tried."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.choosing.chance import below
from predictor.choosing.work import Need, Work
from predictor.features.table import Array, Matrix

__all__ = ["Belief", "Beliefs", "Rule", "decide"]


class Belief(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Logarithms of figures, normally distributed together; `mean` has one entry a figure, `covariance` one a pair."""

    mean: Array
    covariance: Matrix

    @property
    def spread(self) -> Array:
        """Return the standard deviation of each logarithm; 0 where the figure was measured."""
        return np.sqrt(np.maximum(np.diag(self.covariance), 0.0))

    def observed(self, index: int, figure: float) -> Belief:
        """Return what is believed once one figure was measured; measuring it again changes nothing."""
        variance = self.covariance[index, index]
        if variance <= 1e-9:
            return self
        gain = self.covariance[:, index] / variance
        mean = self.mean + gain * (np.log(figure) - self.mean[index])
        covariance = self.covariance - np.outer(gain, self.covariance[index])
        mean[index] = np.log(figure)
        covariance[index], covariance[:, index] = 0.0, 0.0
        return Belief(mean=mean, covariance=covariance)

    def part(self, chosen: NDArray[np.intp]) -> Belief:
        """Return what is believed of some of the figures."""
        return Belief(mean=self.mean[chosen], covariance=self.covariance[np.ix_(chosen, chosen)])

    def chances(self, limit: float, widening: float = 1.0) -> Array:
        """Return the chance that each figure is at most `limit`; 1 or 0 where it was measured."""
        return below(np.log(limit) - self.mean, self.spread * widening)


class Beliefs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What is believed of a work's seconds to the first token and between tokens, one entry a load."""

    ttft: Belief
    tpot: Belief

    def observed(self, work: Work, load: int) -> Beliefs:
        """Return what is believed once this load was measured."""
        return Beliefs(
            ttft=self.ttft.observed(load, float(work.ttft_s[load])),
            tpot=self.tpot.observed(load, float(work.tpot_s[load])),
        )

    def measured(self, load: int) -> bool:
        """Return whether both figures of a load are known."""
        return bool(self.ttft.spread[load] == 0 and self.tpot.spread[load] == 0)


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """What is chosen has the least USD ÷ chance^`caution`: with 1 the least expected price of one that does, if every
    failure were paid for; more is more careful. `least` is a chance below which nothing is chosen while something is
    above it. `widening` multiplies the spread of what is believed.
    """

    caution: float = 1.0
    least: float = 0.0
    widening: float = 1.0

    def chances(self, work: Work, beliefs: Beliefs, need: Need) -> Array:
        """Return the chance that each load meets a need; a deployment that serves more requests also serves fewer."""
        first = beliefs.ttft.chances(need.ttft_s, self.widening)
        next_ = beliefs.tpot.chances(need.tpot_s, self.widening)
        both = np.sqrt(first * next_ * np.minimum(first, next_))
        order = np.lexsort((-work.concurrency, work.deployment))
        empty = np.empty(len(work))
        empty[order] = _running(both[order], work.deployment[order])
        return empty

    def scores(self, work: Work, chances: Array, users: int) -> Array:
        """Return what each load is chosen by; the least is the choice."""
        value = np.log(work.costs(users)) - self.caution * np.log(np.maximum(chances, 1e-9))
        enough = chances >= self.least
        return value if not enough.any() else np.where(enough, value, value + 1e6)


def decide(work: Work, beliefs: Beliefs, need: Need, rule: Rule, checks: int = 0) -> tuple[int, list[int]]:
    """Return the load that is chosen, and for each machine the one it would be taken at, best machine first.

    With `checks` so many loads are measured first, one after the other, always the one that would be chosen; a choice
    that was measured and holds is final.
    """
    for left in range(checks, -1, -1):
        scores = rule.scores(work, rule.chances(work, beliefs, need), need.users)
        chosen = int(np.argmin(scores))
        if left == 0 or beliefs.measured(chosen):
            break
        beliefs = beliefs.observed(work, chosen)
    return chosen, best_of_machines(work, scores)


def best_of_machines(work: Work, scores: Array) -> list[int]:
    """Return each machine's best load, in the order of their scores."""
    order = np.argsort(scores, kind="stable")
    _, first = np.unique(work.machine[order], return_index=True)
    return [int(order[index]) for index in np.sort(first)]


def _running(values: Array, groups: NDArray[np.intp]) -> Array:
    """Return the highest value (0 to 1) so far within each group; groups ascend."""
    return np.asarray(np.maximum.accumulate(values + 2.0 * groups) - 2.0 * groups, dtype=np.float64)
