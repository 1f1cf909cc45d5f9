"""How often to look: a few events cost as much as hundreds, so under a steady trickle some are let come together."""

from __future__ import annotations

__all__ = ["Pace"]


class Pace:
    """Work for half of the time in the long run, at once after a pause, never resting longer than `most_s`."""

    def __init__(self, *, share: float = 0.5, saved_s: float = 0.2, most_s: float = 0.06) -> None:
        self._share = share
        self._saved_s = saved_s
        self._most_s = most_s
        self._credit_s = saved_s
        self._until: float | None = None

    def rest_s(self, begun: float, ended: float) -> float:
        """Return how long to rest, in s, after work from `begun` to `ended` on one monotonic clock."""
        since = ended - (self._until if self._until is not None else begun)
        self._until = ended
        self._credit_s = min(self._saved_s, self._credit_s + since * self._share) - (ended - begun)
        self._credit_s = max(self._credit_s, -self._most_s * self._share)
        return max(0.0, -self._credit_s / self._share)
