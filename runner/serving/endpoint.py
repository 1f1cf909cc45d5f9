"""One endpoint: its queue, its workers and their replicas, and what it does when one of them is lost."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import msgspec

from domain.canonical import digest
from domain.configuration import Execution, Hardware, Model
from domain.endpoints.events import Change, DeliveryObserved, Promise
from domain.errors import AssayError, NotFound, ServiceUnavailable, Unavailable, UsageError
from runner.campaign.campaign import Campaign
from runner.machine.headroom import resting_bytes
from runner.protocol.tasks import Case, Failed
from runner.serving.batching import Batcher, Request, join, split
from runner.serving.contract import EndpointSpec, EndpointState, EndpointStatus, Pool, ReplicaKey, Tensor
from runner.serving.delivery import Delivery, RunningCalls, Served
from runner.serving.exchange import Loaded
from runner.serving.replica import ProcessReplica, ReplicaLost, start_replica

__all__ = ["Chosen", "Endpoint", "Owner", "weights_digest"]

_DRAIN_S = 30.0


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration that a recommendation names for an endpoint, and what it promises of a call."""

    platform: str
    precision: str
    promise: Promise | None = None
    compiled: bool = False


class Owner(Protocol):
    """What an endpoint asks of the server that it belongs to."""

    id: str
    pool: Pool
    calls: RunningCalls
    restart_pauses_s: tuple[float, ...]

    def prepare(self, spec: EndpointSpec, platform: str, precision: str) -> tuple[Case, Campaign]:
        """Return the case of an endpoint on a platform."""

    def tell(self, endpoint: Endpoint, change: Change, reason: str | None = None) -> None:
        """Hand on the event of a change."""

    def delivered(self, data: DeliveryObserved) -> None:
        """Hand on the event of what an endpoint delivered."""

    def sharing(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return the other endpoints that the same replicas answer."""


class Endpoint:
    """One endpoint: its queue, its workers, and the replicas that the pool lends it."""

    def __init__(self, spec: EndpointSpec, server: Owner) -> None:
        self.spec = spec
        self.server = server
        self.state: EndpointState = "creating"
        self.reason: str | None = None
        self.promise: Promise | None = None
        self.requests = self.failures = self.calling = 0
        self.loaded: Loaded | None = None
        self.hardware: Hardware | None = None
        self.model: Model = Model(id=spec.model if " " not in spec.model else spec.name)
        self.workers = 0
        self._copies = self._losses = 0
        self._chain: list[tuple[str, str, bool]] = []
        self._case: Case | None = None
        self._folder: Path | None = None
        self.delivery: Delivery | None = None
        self._key: ReplicaKey | None = None
        self._estimate = 0
        self._replicas: list[ProcessReplica] = []
        self._threads: list[threading.Thread] = []
        self._stop = threading.Event()
        self._changing = threading.RLock()
        self.batcher = Batcher(max_batch=spec.max_batch, max_wait_ms=spec.max_wait_ms, limit=spec.queue_limit)

    def open(self, chosen: Chosen) -> None:
        """Load the first configuration of the chain that works, and start the workers; raises the last refusal."""
        self.promise = chosen.promise
        first = (chosen.platform, chosen.precision, chosen.compiled or self.spec.compiled)
        others = [platform for platform in self.spec.failover if platform != chosen.platform]
        self._chain = [first, *((platform, chosen.precision, self.spec.compiled) for platform in others)]
        self._load_next(None)
        self.scale(self.spec.workers)

    def _load_next(self, lost: AssayError | None) -> None:
        """Load the configurations that are left, in order, until one works; the first attempt is no failover."""
        error = lost
        while self._chain:
            platform, precision, compiled = self._chain.pop(0)
            try:
                self._load(platform, precision, compiled)
            except (Unavailable, ServiceUnavailable, UsageError) as failure:
                if isinstance(failure, UsageError) and not self._chain:
                    raise
                error = failure
                continue
            if error is not None:
                self.promise = None
                self.reason = f"failed over to {platform}: {error.detail}"
                self.server.tell(self, "failed-over", self.reason)
            self._observe_delivery()
            self.state = "ready"
            return
        assert error is not None
        raise error

    def _load(self, platform: str, precision: str, compiled: bool) -> None:
        case, campaign = self.server.prepare(msgspec.structs.replace(self.spec, compiled=compiled), platform, precision)
        folder = campaign.converted(case)
        if isinstance(folder, Failed):
            raise ReplicaLost(folder)
        self._case, self._folder = case, folder
        prepared = campaign.prepared[case.model]
        self.model = msgspec.convert(prepared.model, Model)
        self._estimate = self.spec.memory_bytes or resting_bytes(self.model.parameters or 0, precision, platform)
        self._key = ReplicaKey(
            weights=weights_digest(case, prepared.config),
            platform=platform,
            precision=precision,
            device=case.device,
            threads=case.threads,
            compiled=case.compiled,
            options=case.options,
            workload=case.workload,
            max_batch=self.spec.max_batch,
        )
        replicas = self._acquire(max(1, self._copies))
        self.loaded = replicas[0].loaded
        self.model = msgspec.convert({**prepared.model, **self.loaded.model}, Model)
        self.hardware = campaign.machine.hardware_for(self.loaded.platform, self.loaded.device)
        self.batcher.max_batch = self.loaded.max_batch

    def _observe_delivery(self) -> None:
        """Observe what the configuration that was just loaded delivers, and end what was observed of the last one."""
        if self.delivery:
            self.delivery.close()
        execution = self.execution()
        assert self._case is not None
        assert self.loaded is not None
        assert execution is not None
        assert self.hardware is not None
        served = Served(
            endpoint=self.spec.name,
            server=self.server.id,
            model=self.model,
            workload=msgspec.structs.replace(
                self._case.workload,
                batch_size=self._case.workload.batch_size or 1,
                sequence_length=self._case.workload.sequence_length or self.loaded.length,
            ),
            execution=execution,
            hardware=self.hardware,
            promise=self.promise,
        )
        self.delivery = Delivery(served, self.server.delivered)

    def _acquire(self, copies: int) -> list[ProcessReplica]:
        key, case, folder = self._key, self._case, self._folder
        assert key is not None
        assert case is not None
        replicas = self.server.pool.acquire(
            self.spec.name, key, lambda: start_replica(key, case, folder), self._estimate, copies
        )
        self._replicas = [replica for replica in replicas if isinstance(replica, ProcessReplica)]
        return self._replicas

    def scale(self, workers: int) -> None:
        """Have so many workers, each with a replica of its own; those that are too many end after their call."""
        with self._changing:
            before, self.workers = self.workers, workers
            if workers > before:
                self._copies = workers
                try:
                    self._acquire(workers)
                except BaseException:
                    self.workers = self._copies = before
                    raise
                for slot in range(before, workers):
                    thread = threading.Thread(
                        target=self._work, args=(slot,), name=f"{self.spec.name}-{slot}", daemon=True
                    )
                    self._threads.append(thread)
                    thread.start()
                return
            leaving, self._threads = self._threads[workers:], self._threads[:workers]
        # The last replicas are closed when nobody calls them any more; until then every call asks for all of them.
        for thread in leaving:
            thread.join()
        if leaving:
            with self._changing:
                self._copies = workers
                self._acquire(workers)

    def _work(self, slot: int) -> None:
        """Answer batches until this worker is too many or the endpoint is removed."""
        while not self._stop.is_set() and slot < self.workers:
            batch = self.batcher.take(0.2)
            if batch:
                self.calling += 1
                try:
                    self._answer(slot, batch)
                finally:
                    self.calling -= 1

    def _answer(self, slot: int, batch: list[Request]) -> None:
        try:
            replica = self._acquire(self._copies)[slot]
            if self.state == "evicted":
                self.state, self.reason = "ready", None
                self.server.tell(self, "ready", "loaded again for a request")
            joined = join(batch)
            begun, alone = self.server.calls.begin(), False
            try:
                values, call_ms = replica.timed_infer(joined)
            finally:
                alone = self.server.calls.end(begun)
        except AssayError as error:
            self._fail(batch, error)
            if isinstance(error, ReplicaLost):
                self._bring_back(error)
            return
        except Exception as error:
            self._fail(batch, ServiceUnavailable(f"the call failed: {type(error).__name__}: {error}"))
            return
        finally:
            self.batcher.answered()
        self._losses = 0
        self.requests += len(batch)
        now = monotonic()
        if self.delivery:
            self.delivery.called(call_ms, sum(request.rows for request in batch), length=_length(joined), alone=alone)
        for request, outputs in zip(batch, split(values, batch), strict=True):
            request.future.set_result(outputs)
            if self.delivery:
                self.delivery.answered((now - request.arrived) * 1e3)

    def _fail(self, batch: list[Request], error: AssayError) -> None:
        self.requests += len(batch)
        self.failures += len(batch)
        for request in batch:
            request.future.set_exception(error)
            if self.delivery:
                self.delivery.failed()

    def _bring_back(self, lost: ReplicaLost) -> None:
        """Start lost replicas again, with pauses; after the last attempt go along the failover, or fail.

        A replica that starts and is lost again without having answered a call is one more attempt.
        """
        with self._changing:
            if self.state != "ready" or self._stop.is_set() or all(replica.alive() for replica in self._replicas):
                return
            error: AssayError = lost
            self.server.tell(self, "failed", f"a replica was lost and is started again: {lost.detail}"[:500])
            for pause in self.server.restart_pauses_s[self._losses :]:
                self._losses += 1
                if self._stop.wait(pause):
                    return
                try:
                    self._acquire(self._copies)
                except AssayError as failure:
                    error = failure
                    continue
                self.server.tell(self, "ready", "its replicas run again")
                return
            self._losses = 0
            try:
                self._load_next(error)
            except AssayError as last:
                self.state, self.reason = "failed", last.detail
                self.server.tell(self, "failed", last.detail[:500])
                self.batcher.close(
                    ServiceUnavailable(f"{self.spec.name} has failed: {last.detail}", remedy=last.remedy)
                )

    def close(self, *, drain: bool) -> None:
        """Refuse what comes, answer what waits where `drain` is set, end the workers and give the replicas back."""
        self.state = "removing"
        until = monotonic() + (_DRAIN_S if drain else 0)
        while self.waiting() and monotonic() < until:
            self._stop.wait(0.01)
        gone = NotFound(f"the endpoint {self.spec.name} was removed.", field="model")
        self._stop.set()
        self.batcher.close(gone)
        for thread in self._threads:
            thread.join(_DRAIN_S)
        if self.delivery:
            self.delivery.close()
        self.server.pool.release(self.spec.name)
        self.state = "removed"

    def waiting(self) -> int:
        """Return how many requests wait for a worker; none where there is no worker to come."""
        return len(self.batcher) if self._threads else 0

    def memory_bytes(self) -> int | None:
        """Return what its replicas take together; None where one of them does not run."""
        try:
            return sum(replica.memory_bytes() for replica in self._replicas) or None
        except AssayError:
            return None

    def status(self) -> EndpointStatus:
        """Return the endpoint as it stands."""
        loaded = self.loaded
        return EndpointStatus(
            spec=self.spec,
            state=self.state,
            model_id=self.model.id,
            platform=self._key.platform if self._key else self.spec.platform,
            precision=self._key.precision if self._key else self.spec.precision,
            hardware=self.hardware.id if self.hardware else None,
            workers=self.workers,
            waiting=self.waiting(),
            requests=self.requests,
            failures=self.failures,
            memory_bytes=self.memory_bytes() if self.state == "ready" else None,
            shared_with=self.server.sharing(self),
            reason=self.reason or (loaded.unjoined and f"calls are not joined: {loaded.unjoined}" if loaded else None),
            promise=self.promise,
            delivery=self.delivery.so_far() if self.delivery else None,
            max_batch=loaded.max_batch if loaded else None,
        )

    @property
    def key(self) -> ReplicaKey | None:
        """What its replicas are shared by."""
        return self._key

    def execution(self) -> Execution | None:
        """Return the execution as rows of a measurement have it."""
        loaded = self.loaded
        if loaded is None:
            return None
        return Execution(
            platform=loaded.platform,
            runtime=loaded.runtime,
            precision=loaded.precision,
            compiled=self._case.compiled if self._case else None,
            threads=loaded.threads,
            options=loaded.options or None,
        )


def _length(inputs: list[Tensor]) -> int | None:
    """Return the number of tokens of a call; None for a model of another kind."""
    return next((tensor.array.shape[1] for tensor in inputs if tensor.name == "input_ids"), None)


def weights_digest(case: Case, config: dict[str, Any] | None) -> str:
    """Return a digest of the model's config and the files of its weights; two folders with the same files give the same."""
    folder = Path(case.model).expanduser()
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else []
    contents = []
    for path in files:
        with path.open("rb") as file:
            contents.append([str(path.relative_to(folder)), hashlib.file_digest(file, "sha256").hexdigest()])
    return digest(
        {"model": None if files else case.model, "weights": case.weights, "config": config, "files": contents}
    )
