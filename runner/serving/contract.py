"""What the parts of a model server say to each other: endpoints as asked for, replicas that answer, and the pool that owns them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol

import msgspec

from domain.configuration import Word, Workload
from domain.endpoints.events import DeliveryObserved, Promise

__all__ = ["EndpointSpec", "EndpointState", "EndpointStatus", "Eviction", "Pool", "Replica", "ReplicaKey", "Tensor"]

EndpointState = Literal["creating", "ready", "evicted", "failed", "removing", "removed"]


class Tensor(msgspec.Struct, frozen=True, kw_only=True):
    """One input or output by name; `array` is a numpy array whose first dimension is the batch."""

    name: str
    array: Any


class EndpointSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An endpoint as somebody asked for it: `name` is that of its routes, `model` a name, a folder or a variant's folder.

    Where `platform` is None, the recommendation chooses it. `failover` names the platforms that may take over, in order; without
    any, an endpoint whose platform fails stays failed. `max_batch` requests are answered by one call, no request waits
    longer than `max_wait_ms` for others, and with `queue_limit` waiting the next is refused. `engine` is what serves a
    language model: vllm, ovms or transformers; the first that is installed where None.
    """

    name: Word
    model: str
    platform: Word | None = None
    precision: Word | None = None
    device: str | None = None
    weights: str = "auto"
    threads: int | None = None
    compiled: bool = False
    options: tuple[str, ...] = ()
    workload: Workload | None = None
    workers: int = 1
    max_batch: int = 8
    max_wait_ms: float = 2.0
    queue_limit: int = 256
    failover: tuple[Word, ...] = ()
    memory_bytes: int | None = None
    engine: str | None = None


class EndpointStatus(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An endpoint as it stands. `shared_with` are endpoints that are answered by the same replicas."""

    spec: EndpointSpec
    state: EndpointState
    model_id: str
    platform: str | None = None
    precision: str | None = None
    hardware: str | None = None
    workers: int = 0
    waiting: int = 0
    requests: int = 0
    failures: int = 0
    memory_bytes: int | None = None
    shared_with: tuple[str, ...] = ()
    reason: str | None = None
    promise: Promise | None = None
    delivery: DeliveryObserved | None = None
    max_batch: int | None = None


class ReplicaKey(msgspec.Struct, frozen=True, kw_only=True):
    """What two endpoints must have in common to share a replica: the weights by digest, and how they are executed."""

    weights: str
    platform: str
    precision: str
    device: str | None
    threads: int | None
    compiled: bool
    options: tuple[str, ...]
    workload: Workload | None = None
    max_batch: int = 1


class Replica(Protocol):
    """A loaded model in a process of its own; calls come from one thread at a time."""

    key: ReplicaKey

    def infer(self, inputs: list[Tensor]) -> list[Tensor]:
        """Return the outputs of one call; raises Unavailable where the process has ended."""

    def alive(self) -> bool:
        """Return whether its process runs."""

    def memory_bytes(self) -> int:
        """Return the memory that its process takes now."""

    def close(self) -> None:
        """End its process and wait until its memory is free again."""


class Eviction(msgspec.Struct, frozen=True, kw_only=True):
    """Endpoints whose replica was closed to make room, and why."""

    endpoints: tuple[str, ...]
    reason: str


class Pool(Protocol):
    """Owns replicas: starts each once for all that share it, within a budget of memory.

    `acquire` raises Unavailable with what is taken by whom where the estimate does not fit beside what may not be evicted.
    """

    budget_bytes: int
    on_evict: Callable[[Eviction], None] | None
    """Called after an eviction; the server sets it."""

    def acquire(
        self, endpoint: str, key: ReplicaKey, start: Callable[[], Replica], estimate_bytes: int, copies: int = 1
    ) -> list[Replica]:
        """Return that many replicas of a key for an endpoint, started where there are fewer; evicts idle ones for room."""

    def release(self, endpoint: str) -> None:
        """Take an endpoint from its replicas; what no endpoint holds any more is closed."""

    def used_bytes(self) -> int:
        """Return what all replicas take: measured where they run, estimated while they start."""

    def touch(self, endpoint: str) -> None:
        """Say that an endpoint was called just now."""

    def calling(self, endpoint: str) -> AbstractContextManager[None]:
        """Keep the endpoint's replicas for as long as one of its requests waits or runs.

        Enter it before `acquire` when a request arrives: an endpoint that was evicted is then loaded again.
        """

    def pin(self, endpoint: str, pinned: bool = True) -> None:
        """Never evict this endpoint, or (False) evict it by the rule again."""

    def measure(self) -> None:
        """Read the memory of all replicas and evict where they have grown beyond the budget; call it every few seconds."""

    def close(self) -> None:
        """Close every replica, and refuse what is asked for afterwards."""
