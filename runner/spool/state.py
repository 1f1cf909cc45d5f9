"""When a spool may send, and what becomes of a batch: a state machine without clock, chance or I/O.

ready ──accepted──▶ ready          the batch is forgotten
ready ──refused───▶ ready          a 4xx: never sent again, kept where it can be seen
ready ──busy──────▶ waiting        429: sent again when the service says, or after the backoff
ready ──unavailable▶ waiting       no answer or a 5xx: sent again after the backoff
ready ──forbidden─▶ blocked        401 or 403: nothing wrong with the events; waits for a person
waiting ──time────▶ ready          at `not_before_s`
blocked ──unblock─▶ ready
"""

from __future__ import annotations

from typing import Literal

import msgspec

from domain.errors import AccessError, AssayError, TooBusy, Unavailable

__all__ = ["BACKOFF_CAP_S", "BACKOFF_FIRST_S", "Action", "Outcome", "SpoolState", "outcome_of"]

BACKOFF_FIRST_S = 1.0
BACKOFF_CAP_S = 300.0

Outcome = Literal["accepted", "refused", "busy", "unavailable", "forbidden"]
Action = Literal["forget", "reject", "keep"]
Phase = Literal["ready", "waiting", "blocked"]


class SpoolState(msgspec.Struct, frozen=True, kw_only=True):
    """Where the spool stands: `attempts` in a row that brought nothing, and the earliest time of the next, in s."""

    phase: Phase = "ready"
    attempts: int = 0
    not_before_s: float = 0.0

    def may_send(self, now_s: float) -> bool:
        """Return whether a batch may be sent now."""
        return self.phase == "ready" or (self.phase == "waiting" and now_s >= self.not_before_s)

    def after(
        self, outcome: Outcome, *, now_s: float, draw: float, retry_after_s: float | None = None
    ) -> tuple[SpoolState, Action]:
        """Return the next state and what becomes of the batch; `draw` is a random number in [0, 1)."""
        if outcome == "accepted":
            return SpoolState(), "forget"
        if outcome == "refused":
            return SpoolState(), "reject"
        if outcome == "forbidden":
            return SpoolState(phase="blocked", attempts=self.attempts + 1), "keep"
        wait_s = draw * min(BACKOFF_CAP_S, BACKOFF_FIRST_S * 2.0 ** min(self.attempts, 30))
        if outcome == "busy" and retry_after_s is not None:
            wait_s += retry_after_s
        return SpoolState(phase="waiting", attempts=self.attempts + 1, not_before_s=now_s + wait_s), "keep"

    def unblock(self) -> SpoolState:
        """Return the state in which a person tries again."""
        return SpoolState()


def outcome_of(error: AssayError) -> Outcome:
    """Return what an error that sending raised means to the spool."""
    if isinstance(error, TooBusy):
        return "busy"
    if isinstance(error, AccessError):
        return "forbidden"
    if isinstance(error, Unavailable) or error.status >= 500:
        return "unavailable"
    return "refused"
