"""Rate limits: token buckets, one a token or address, in this process alone.

Each worker has buckets of its own, so a service of N workers lets N times as much through; a limit that all of them
share would cost a round trip a request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from api.http.problems import RateLimited
from api.settings import Rate

__all__ = ["Buckets", "limits"]

BURST_S = 2.0
"""A bucket holds what its rate gives in this time."""
KEPT = 10_000
"""So many buckets; beyond that the full ones, which say nothing, are forgotten."""


class _Bucket:
    __slots__ = ("at", "balance")

    def __init__(self, balance: float, at: float) -> None:
        self.balance = balance
        self.at = at


class Buckets:
    """What each asker has left of one kind of thing. What is asked at once may exceed the bucket: it is then owed.

    So a body of 5,000 events passes under any limit, and the next one waits until it is paid.
    """

    def __init__(self, noun: str, per_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.noun = noun
        self.per_s = per_s
        self.capacity = per_s * BURST_S
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}

    def take(self, asker: str, amount: float = 1.0) -> float:
        """Take from the asker's bucket and return what is left; RateLimited, and nothing taken, where it is empty."""
        now = self._clock()
        bucket = self._buckets.get(asker)
        if bucket is None:
            bucket = self._new(asker, now)
        else:
            bucket.balance = min(self.capacity, bucket.balance + (now - bucket.at) * self.per_s)
            bucket.at = now
        least = min(1.0, amount)
        if bucket.balance < least:
            wait_s = math.ceil((least - bucket.balance) / self.per_s)
            error = RateLimited(
                f"more than {self.per_s:g} {self.noun} a second.",
                field="Authorization",
                remedy=f"Come back in {wait_s} s, or send more events a request; ASSAY_RATE_LIMIT sets the limit.",
            )
            error.retry_after_s = float(wait_s)
            raise error
        bucket.balance -= amount
        return bucket.balance

    def headers(self, left: float) -> list[tuple[bytes, bytes]]:
        """Return the RateLimit fields of the IETF draft: the policy, what is left, and when the bucket is full."""
        full_s = max(0, math.ceil((self.capacity - left) / self.per_s))
        policy = f'"{self.noun}";q={int(self.capacity)};w={int(BURST_S)}'
        return [
            (b"ratelimit-policy", policy.encode()),
            (b"ratelimit", f'"{self.noun}";r={max(0, int(left))};t={full_s}'.encode()),
        ]

    def _new(self, asker: str, now: float) -> _Bucket:
        if len(self._buckets) >= KEPT:
            self._buckets = {
                name: kept
                for name, kept in self._buckets.items()
                if kept.balance + (now - kept.at) * self.per_s < self.capacity
            }
        if len(self._buckets) >= KEPT:
            self._buckets.clear()
        bucket = self._buckets[asker] = _Bucket(self.capacity, now)
        return bucket


def limits(rate: Rate) -> tuple[Buckets, Buckets] | None:
    """Return the buckets of requests and of events, None where the rate has no end."""
    if math.isinf(rate.requests_per_s) and math.isinf(rate.events_per_s):
        return None
    return Buckets("requests", rate.requests_per_s), Buckets("events", rate.events_per_s)
