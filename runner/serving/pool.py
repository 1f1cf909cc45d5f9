"""The pool of loaded models: each started once for all endpoints that share it, within a budget of memory.

A replica counts with its estimate from before it is started until its endpoint has answered a first call, and from then on
with the most memory that was measured of it. Where a new one does not fit, the group of replicas that was used longest
ago is closed, then the next, until it fits: never one that is pinned, and never one with a request waiting or running.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import msgspec

from domain.errors import AssayError, Unavailable, UsageError
from runner.machine.headroom import NotEnoughMemory, available_bytes
from runner.serving.contract import Eviction, Replica, ReplicaKey

__all__ = ["BUDGET_SHARE", "Holding", "ReplicaPool", "default_budget_bytes"]

BUDGET_SHARE = 0.8
"""Of the memory that is free when the server starts, the part that its models may take."""


def default_budget_bytes() -> int:
    """Return the budget of a pool for which none is named: 80 % of what is free, within the limits of control groups."""
    return int(available_bytes() * BUDGET_SHARE)


class Holding(msgspec.Struct, frozen=True, kw_only=True):
    """What one group of equal replicas takes, and the endpoints that share it."""

    endpoints: tuple[str, ...]
    copies: int
    bytes: int
    requests: int
    pinned: bool
    starting: bool


class _Held:
    """A replica with its estimate and the most memory that was measured of it."""

    def __init__(self, replica: Replica, estimate: int) -> None:
        self.replica = replica
        self.estimate = estimate
        self.measured = replica.memory_bytes()
        self.answered = False

    @property
    def bytes(self) -> int:
        return self.measured if self.answered else max(self.measured, self.estimate)

    def measure(self) -> None:
        try:
            self.measured = max(self.measured, self.replica.memory_bytes())
        except Unavailable:
            # Its process has ended; the next `acquire` replaces it, and until then its last figure counts.
            return


class _Group:
    """Equal replicas, and how many of them each endpoint asked for; `busy` while one thread starts or closes some."""

    def __init__(self, key: ReplicaKey) -> None:
        self.key = key
        self.held: list[_Held] = []
        self.claims: dict[str, int] = {}
        self.reserved = 0
        self.busy = False

    @property
    def bytes(self) -> int:
        return sum(held.bytes for held in self.held) + self.reserved

    @property
    def size(self) -> int:
        return max(self.claims.values(), default=0)


class ReplicaPool:
    """Owns replicas within a budget; implements `runner.serving.contract.Pool`, and may be called from many threads.

    `on_evict` is called after an eviction, outside the pool's lock. `free_bytes` says how much memory the machine has left.
    """

    def __init__(
        self,
        budget_bytes: int | None = None,
        *,
        on_evict: Callable[[Eviction], None] | None = None,
        free_bytes: Callable[[], int] = available_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budget_bytes = default_budget_bytes() if budget_bytes is None else budget_bytes
        if self.budget_bytes <= 0:
            raise UsageError(
                "the budget must be more than 0 bytes.", field="memory-budget", remedy="Name it as in 4GB."
            )
        self.on_evict, self._free_bytes, self._clock = on_evict, free_bytes, clock
        # One lock for the state. It is not held while a replica is started, closed or measured, which may take seconds:
        # `busy` keeps other threads from that group meanwhile, and reservations keep them from its memory.
        self._changed = threading.Condition()
        self._groups: dict[ReplicaKey, _Group] = {}
        self._calls: Counter[str] = Counter()
        self._used: dict[str, float] = {}
        self._pinned: set[str] = set()
        self._leaving: set[str] = set()
        self._measured: dict[ReplicaKey, int] = {}
        self._closings = 0
        self._closed = False

    def acquire(
        self, endpoint: str, key: ReplicaKey, start: Callable[[], Replica], estimate_bytes: int, copies: int = 1
    ) -> list[Replica]:
        """Return `copies` replicas of a key for an endpoint, started where there are fewer; evicts idle ones for room.

        What an endpoint asks for replaces what it had: before it asks for fewer, it must have stopped calling the last ones.
        Replicas whose process has ended are started again. Raises NotEnoughMemory where the budget can never hold them, and
        Unavailable with who takes what where nothing more may be evicted now.
        """
        if copies < 1 or estimate_bytes < 1:
            raise UsageError(
                "copies and the estimate must be at least 1.", field="workers", remedy="Ask for 1 or more."
            )
        with self._changed:
            group = self._groups.get(key)
            if group is not None and not group.busy and group.claims.get(endpoint) == copies == group.size:
                replicas = [one.replica for one in group.held]
                if len(replicas) == copies and all(replica.alive() for replica in replicas):
                    self._used[endpoint] = self._clock()
                    return replicas
        with self._in_use(endpoint):
            return self._acquire(endpoint, key, start, estimate_bytes, copies)

    def release(self, endpoint: str) -> None:
        """Take an endpoint from its replicas; what no endpoint holds any more is closed, after its last call."""
        with self._changed:
            if self._calls[endpoint]:
                self._leaving.add(endpoint)
                return
        self._leave(endpoint)
        with self._changed:
            self._leaving.discard(endpoint)
            self._pinned.discard(endpoint)
            self._used.pop(endpoint, None)
        self._shrink()

    def used_bytes(self) -> int:
        """Return what all replicas take: measured where they run, estimated while they start."""
        with self._changed:
            return self._taken()

    def touch(self, endpoint: str) -> None:
        """Say that an endpoint was called just now."""
        with self._changed:
            self._used[endpoint] = self._clock()

    @contextmanager
    def calling(self, endpoint: str) -> Iterator[None]:
        """Keep the endpoint's replicas for as long as one of its requests waits or runs."""
        with self._in_use(endpoint):
            yield
            self._answered(endpoint)

    def pin(self, endpoint: str, pinned: bool = True) -> None:
        """Never evict this endpoint, or (False) evict it by the rule again."""
        with self._changed:
            if pinned:
                self._pinned.add(endpoint)
                return
            self._pinned.discard(endpoint)
        self._shrink()

    def measure(self) -> None:
        """Read the memory of all replicas, and evict by the rule where they have grown beyond the budget.

        Replicas that are pinned or called stay; then nothing is started until they take less, and the next call that ends
        evicts.
        """
        with self._changed:
            running = [held for group in self._groups.values() for held in group.held]
        for held in running:
            held.measure()
        self._shrink()

    def holdings(self) -> tuple[Holding, ...]:
        """Return who takes what, the largest first."""
        with self._changed:
            return self._holdings()

    def holds(self, endpoint: str) -> bool:
        """Return whether the endpoint has replicas now: False before its first `acquire` and after an eviction."""
        with self._changed:
            return any(endpoint in group.claims for group in self._groups.values())

    def close(self) -> None:
        """Close every replica, and refuse what is asked for afterwards."""
        with self._changed:
            self._closed = True
            self._changed.wait_for(lambda: not any(group.busy for group in self._groups.values()))
            groups = list(self._groups.values())
            for group in groups:
                group.claims.clear()
                group.busy = True
        self._trim_all(groups)

    def _acquire(
        self, endpoint: str, key: ReplicaKey, start: Callable[[], Replica], estimate: int, copies: int
    ) -> list[Replica]:
        self._leave(endpoint, unless=key)
        group, before = self._own(endpoint, key, copies)
        try:
            self._close_surplus(group)
            missing = copies - len(group.held)
            if missing > 0:
                each = max((held.bytes for held in group.held), default=self._measured.get(key, estimate))
                self._reserve(group, each, missing)
                self._start(group, start, each, missing)
            return [held.replica for held in group.held[:copies]]
        except BaseException:
            with self._changed:
                if before:
                    group.claims[endpoint] = before
                else:
                    group.claims.pop(endpoint, None)
            raise
        finally:
            self._trim(group)

    def _leave(self, endpoint: str, unless: ReplicaKey | None = None) -> None:
        """Take an endpoint from all replicas but those of one key, and close what nobody claims any more."""
        while True:
            with self._changed:
                groups = [group for group in self._groups.values() if endpoint in group.claims and group.key != unless]
                if not groups:
                    return
                group = groups[0]
                if group.busy:
                    self._changed.wait()
                    continue
                group.claims.pop(endpoint)
                group.busy = True
            self._trim(group)

    def _own(self, endpoint: str, key: ReplicaKey, copies: int) -> tuple[_Group, int]:
        """Claim copies of a key for an endpoint; return their group, which this thread alone may change, and its claim before."""
        with self._changed:
            while True:
                if self._closed or endpoint in self._leaving:
                    raise Unavailable(
                        f"{endpoint} is being removed.", field="endpoint", remedy="Create it again later."
                    )
                group = self._groups.setdefault(key, _Group(key))
                if not group.busy:
                    break
                self._changed.wait()
            group.busy = True
            before = group.claims.get(endpoint, 0)
            group.claims[endpoint] = copies
            return group, before

    def _trim(self, group: _Group) -> None:
        """Close what nobody claims of a group that this thread owns, and let others have it."""
        try:
            self._close_surplus(group)
        finally:
            with self._changed:
                group.busy = False
                if not group.held and not group.claims and self._groups.get(group.key) is group:
                    del self._groups[group.key]
                self._changed.notify_all()

    def _trim_all(self, groups: list[_Group]) -> None:
        with ExitStack() as stack:
            for group in reversed(groups):
                stack.callback(self._trim, group)

    def _close_surplus(self, group: _Group) -> None:
        ended = [held for held in group.held if not held.replica.alive()]
        running = [held for held in group.held if held not in ended]
        self._close(group, ended + running[group.size :])

    def _close(self, group: _Group, leaving: list[_Held]) -> None:
        """Close replicas; each counts until its process has ended."""
        for held in leaving:
            with self._changed:
                self._closings += 1
            try:
                held.replica.close()
            finally:
                with self._changed:
                    self._closings -= 1
                    group.held.remove(held)
                    self._changed.notify_all()

    def _reserve(self, group: _Group, each: int, copies: int) -> None:
        """Reserve the memory of replicas that are about to start; evict for it, or raise with who takes what."""
        needed = each * copies
        own = sum(held.bytes for held in group.held)
        if own + needed > self.budget_bytes:
            raise NotEnoughMemory(
                f"{len(group.held) + copies} × {_gb(each)} are more than the budget of {_gb(self.budget_bytes)}.",
                field="memory-budget",
                remedy="Give a larger budget, fewer workers, or a smaller model or precision.",
            )
        self.measure()
        while True:
            with self._changed:
                if self._room() >= needed:
                    group.reserved = needed
                    return
                if self._closings:
                    self._changed.wait()
                    continue
                victims = self._victims(needed - self._room())
                if victims is None:
                    raise self._refusal(needed)
                self._mark(victims)
            self._evict(victims, f"{_gb(needed)} were needed for {', '.join(sorted(group.claims))}.")

    def _start(self, group: _Group, start: Callable[[], Replica], each: int, copies: int) -> None:
        """Start replicas one after the other within their reservation; what has grown beyond the budget is closed again."""
        try:
            for _ in range(copies):
                held = _Held(start(), each)
                with self._changed:
                    group.held.append(held)
                    group.reserved -= each
        finally:
            with self._changed:
                group.reserved = 0
                self._changed.notify_all()
        self._shrink()
        with self._changed:
            if self._taken() <= self.budget_bytes:
                return
            grown = max(held.measured for held in group.held)
            self._measured[group.key] = max(grown, each)
            why = f"it took {_gb(grown)} where {_gb(each)} were expected, and " if grown > each else ""
            refusal = self._refusal(self._taken() - self.budget_bytes, why)
        self._close(group, group.held[-copies:])
        raise refusal

    def _shrink(self) -> None:
        """Evict by the rule until what is taken is within the budget again, as far as the rule allows."""
        while True:
            with self._changed:
                over = self._taken() - self.budget_bytes
                if over <= 0:
                    return
                if self._closings:
                    self._changed.wait()
                    continue
                victims = self._victims(over, all_or_none=False)
                if not victims:
                    return
                self._mark(victims)
            self._evict(victims, f"Models had grown {_gb(over)} beyond the budget of {_gb(self.budget_bytes)}.")

    def _victims(self, needed: int, *, all_or_none: bool = True) -> list[_Group] | None:
        """Return the groups to close for so many bytes, those used longest ago first; None where they are not enough."""
        candidates = [group for group in self._groups.values() if self._evictable(group)]
        candidates.sort(key=lambda group: max(self._used.get(endpoint, 0.0) for endpoint in group.claims))
        chosen: list[_Group] = []
        for group in candidates:
            if needed <= 0:
                break
            chosen.append(group)
            needed -= group.bytes
        return None if needed > 0 and all_or_none else chosen

    def _evictable(self, group: _Group) -> bool:
        if group.busy or not group.held or not group.claims:
            return False
        return not any(self._calls[endpoint] or endpoint in self._pinned for endpoint in group.claims)

    def _mark(self, victims: list[_Group]) -> None:
        """Keep other threads from groups that are about to be closed."""
        self._closings += 1
        for group in victims:
            group.busy = True

    def _evict(self, victims: list[_Group], reason: str) -> None:
        """Close groups that were marked, and say which endpoints lost their replicas."""
        evicted: list[str] = []
        with self._changed:
            for group in victims:
                evicted += sorted(group.claims)
                if all(held.answered for held in group.held):
                    self._measured[group.key] = max(held.measured for held in group.held)
                group.claims.clear()
        try:
            self._trim_all(victims)
        finally:
            with self._changed:
                self._closings -= 1
                self._changed.notify_all()
        if self.on_evict is not None:
            self.on_evict(Eviction(endpoints=tuple(evicted), reason=reason))

    @contextmanager
    def _in_use(self, endpoint: str) -> Iterator[None]:
        with self._changed:
            self._calls[endpoint] += 1
            self._used[endpoint] = self._clock()
        given_up = True
        try:
            yield
            given_up = False
        finally:
            with self._changed:
                self._calls[endpoint] -= 1
                self._used[endpoint] = self._clock()
                idle = not self._calls[endpoint]
                if idle:
                    del self._calls[endpoint]
                leaving = idle and endpoint in self._leaving
                # Who gives up, such as the loop of a client that left, must not wait for an eviction: `measure` does it.
                over = idle and not given_up and self._taken() > self.budget_bytes
            if leaving:
                self.release(endpoint)
            if over:
                self._shrink()

    def _answered(self, endpoint: str) -> None:
        """Count measured memory in place of the estimate, once a group has answered a call."""
        with self._changed:
            group = next((group for group in self._groups.values() if endpoint in group.claims), None)
            first = [] if group is None else [held for held in group.held if not held.answered]
        for held in first:
            held.measure()
            held.answered = True

    def _taken(self) -> int:
        return sum(group.bytes for group in self._groups.values())

    def _room(self) -> int:
        return min(self.budget_bytes - self._taken(), self._free_bytes())

    def _holdings(self) -> tuple[Holding, ...]:
        holdings = [self._holding(group) for group in self._groups.values() if group.bytes]
        return tuple(sorted(holdings, key=lambda holding: -holding.bytes))

    def _holding(self, group: _Group) -> Holding:
        return Holding(
            endpoints=tuple(sorted(group.claims)),
            copies=len(group.held),
            bytes=group.bytes,
            requests=sum(self._calls[endpoint] for endpoint in group.claims),
            pinned=any(endpoint in self._pinned for endpoint in group.claims),
            starting=group.reserved > 0,
        )

    def _refusal(self, needed: int, why: str = "") -> AssayError:
        who = "; ".join(
            f"{', '.join(taker.endpoints)} {_gb(taker.bytes)} ({_state(taker)})" for taker in self._holdings()
        )
        return Unavailable(
            f"{why}{_gb(needed)} are needed and {_gb(max(self._room(), 0))} of the budget of {_gb(self.budget_bytes)} are "
            f"free. Taken by: {who or 'no endpoint; other programs take the memory of this machine'}.",
            field="memory-budget",
            remedy="Remove an endpoint, take away its pin, or give the server a larger budget.",
        )


def _state(holding: Holding) -> str:
    if holding.starting:
        return "starting"
    if holding.requests:
        return f"{holding.requests} request{'s' * (holding.requests > 1)}"
    return "pinned" if holding.pinned else "idle"


def _gb(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e8 else f"{count / 1e6:.2f} MB"
