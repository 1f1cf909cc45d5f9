"""Endpoints of one server: created, called in batches, scaled, failed over where told to, and removed; each change an event."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any

import msgspec

from domain.endpoints.events import Change, DeliveryObserved, EndpointChanged
from domain.errors import (
    AssayError,
    NameTaken,
    NotFound,
    PlatformUnavailable,
    ServiceUnavailable,
    UsageError,
)
from domain.events import DELIVERY_OBSERVED, ENDPOINT_CHANGED, uuid7
from runner.campaign.campaign import Campaign, refusal, survey_machine
from runner.campaign.event_payloads import Machine, provenance, runner_source, stamped
from runner.campaign.plan import Sweep, make_plan
from runner.platforms.registry import names
from runner.protocol.tasks import Case
from runner.serving.batching import Request
from runner.serving.contract import EndpointSpec, EndpointStatus, Eviction, Pool, Tensor
from runner.serving.delivery import RunningCalls
from runner.serving.endpoint import Chosen, Endpoint
from runner.serving.language import LanguageEndpoint, engine_platforms, language_model

__all__ = ["Choose", "ModelServer"]

RESTART_PAUSES_S = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Pauses between starts of a replica that does not come back; after the last one the endpoint fails, or fails over."""
_DEFAULT_PRECISION = "fp32"


Choose = Callable[[EndpointSpec, Machine, Sequence[str]], Chosen]
"""Picks one of the platforms that were proved here; raises Unavailable where nothing can answer."""


class ModelServer:
    """All endpoints of one process. Changes are made one at a time on a thread of the server's own.

    `on_event` gets each change as an event, and what each endpoint delivered.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        choose: Choose | None = None,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        cache: Path | None = None,
        restart_pauses_s: tuple[float, ...] = RESTART_PAUSES_S,
    ) -> None:
        self.pool = pool
        pool.on_evict = self.evicted
        self.id = uuid7()
        self.calls = RunningCalls()
        self.restart_pauses_s = restart_pauses_s
        self.endpoints: dict[str, Endpoint] = {}
        self._choose = choose
        self._on_event = on_event
        self._cache = cache
        self._telling = threading.Lock()
        self._control = ThreadPoolExecutor(1, thread_name_prefix="endpoints")

    async def run(self, change: Callable[[], Any]) -> Any:
        """Do a change on the server's own thread."""
        return await asyncio.get_running_loop().run_in_executor(self._control, change)

    def create(self, spec: EndpointSpec) -> EndpointStatus:
        """Load a model and serve it under a name; nothing stays where that fails."""
        _check(spec)
        if spec.name in self.endpoints:
            raise NameTaken(
                f"an endpoint is called {spec.name} already.", field="name", remedy="Take another name, or remove it."
            )
        source = language_model(spec)
        chosen = self._choice(spec, engine_platforms(spec.engine) if source else names())
        endpoint = LanguageEndpoint(spec, self, source) if source else Endpoint(spec, self)
        self.endpoints[spec.name] = endpoint
        try:
            endpoint.open(chosen)
        except BaseException as error:
            endpoint.close(drain=False)
            self.endpoints.pop(spec.name, None)
            endpoint.state = "failed"
            if isinstance(error, AssayError):
                self.tell(endpoint, "failed", error.detail[:500])
            raise
        self.tell(endpoint, "created", endpoint.reason)
        self.tell(endpoint, "ready")
        return endpoint.status()

    def scale(self, name: str, workers: int) -> EndpointStatus:
        """Change the number of workers of an endpoint."""
        endpoint = self.endpoint(name)
        if not 1 <= workers <= 64:
            raise UsageError(f"{workers} workers.", field="workers", remedy="Give 1 to 64.")
        endpoint.scale(workers)
        self.tell(endpoint, "scaled")
        return endpoint.status()

    def remove(self, name: str) -> EndpointStatus:
        """Answer what waits, end the workers, and give their memory back."""
        endpoint = self.endpoint(name)
        endpoint.close(drain=True)
        self.endpoints.pop(name, None)
        self.tell(endpoint, "removed")
        return endpoint.status()

    def close(self) -> None:
        """Remove every endpoint."""
        for name in list(self.endpoints):
            self.remove(name)
        self.pool.close()
        self._control.shutdown()

    def endpoint(self, name: str) -> Endpoint:
        """Return an endpoint; NotFound names those that there are."""
        endpoint = self.endpoints.get(name)
        if endpoint is None:
            raise NotFound(
                f"no endpoint is called {name!r}.",
                field="model",
                remedy=f"There is {', '.join(sorted(self.endpoints)) or 'none'}.",
            )
        return endpoint

    def submit(self, name: str, inputs: list[Tensor], deadline_s: float) -> Request:
        """Queue a request of an endpoint and return it; its future gives the outputs."""
        endpoint = self.endpoint(name)
        if endpoint.state not in ("ready", "evicted"):
            raise ServiceUnavailable(f"{name} is {endpoint.state}.", field="model", remedy=endpoint.reason)
        request = Request(inputs, deadline_s)
        # From here until it is answered or given up, its model is not evicted.
        calling = self.pool.calling(name)
        calling.__enter__()
        request.future.add_done_callback(lambda future: _leave(calling, future))
        try:
            endpoint.batcher.submit(request)
        except BaseException:
            request.future.cancel()
            raise
        return request

    def submit_all(self, name: str, items: Sequence[list[Tensor]], deadline_s: float) -> list[Request]:
        """Queue requests, all or none."""
        queued: list[Request] = []
        try:
            queued.extend(self.submit(name, inputs, deadline_s) for inputs in items)
        except BaseException:
            for request in queued:
                request.future.cancel()
            raise
        return queued

    def evicted(self, eviction: Eviction) -> None:
        """Take note that the pool has closed replicas of endpoints; their next request loads them again."""
        for name in eviction.endpoints:
            if endpoint := self.endpoints.get(name):
                endpoint.state, endpoint.reason = "evicted", eviction.reason
                self.tell(endpoint, "evicted", eviction.reason)

    def tick(self) -> None:
        """Count the memory of the models, and post what was delivered in windows that are over; call it every few seconds."""
        self.pool.measure()
        for endpoint in list(self.endpoints.values()):
            if endpoint.delivery:
                endpoint.delivery.roll()

    def sharing(self, endpoint: Endpoint) -> tuple[str, ...]:
        """Return the other endpoints that the same replicas answer."""
        return tuple(
            sorted(
                other.spec.name
                for other in self.endpoints.values()
                if other is not endpoint and other.key == endpoint.key
            )
        )

    def prepare(self, spec: EndpointSpec, platform: str, precision: str) -> tuple[Case, Campaign]:
        """Return the case of an endpoint on a platform, filled in; raises what a measurement of it would."""
        sweep = Sweep(
            models=(spec.model,),
            platforms=(platform,),
            precisions=(precision,),
            compiled=(spec.compiled,),
            options=(spec.options,),
            threads=(spec.threads,) if spec.threads else (),
        )
        plan = make_plan(sweep, weights=spec.weights, device=spec.device)
        if spec.workload:
            cases = [msgspec.structs.replace(case, workload=spec.workload) for case in plan.cases]
            plan = msgspec.structs.replace(plan, cases=tuple(cases))
        campaign = Campaign(plan, trace=False, cache=self._cache)
        case = campaign.cases[0]
        why = campaign.prepared[case.model].error or refusal(campaign.machine, platform, precision)
        if why:
            raise PlatformUnavailable(why.message, field="platform", remedy=why.remedy)
        return case, campaign

    def _choice(self, spec: EndpointSpec, every: Sequence[str]) -> Chosen:
        """Return the configuration: as it was asked for, else as the recommendation has it for what was proved here."""
        if spec.platform is not None:
            return Chosen(platform=spec.platform, precision=spec.precision or _DEFAULT_PRECISION)
        machine, _ = survey_machine(tuple(every))
        proved = [name for name in every if machine.available(name)]
        if self._choose is None or not proved:
            raise PlatformUnavailable(
                "no platform was named, and nothing here can choose one.",
                field="platform",
                remedy="Name one with --platform; `assay detect` lists what is here.",
            )
        return self._choose(spec, machine, proved)

    def tell(self, endpoint: Endpoint, change: Change, reason: str | None = None) -> None:
        """Hand on the event of a change."""
        if self._on_event is None:
            return
        machine, _ = survey_machine(("cpu",))
        data = EndpointChanged(
            endpoint=endpoint.spec.name,
            server=self.id,
            change=change,
            model=endpoint.model,
            execution=endpoint.execution(),
            hardware=endpoint.hardware,
            workers=endpoint.workers,
            memory_bytes=endpoint.memory_bytes() if change in ("ready", "scaled") else None,
            reason=reason,
            promise=endpoint.promise,
            environment=machine.reference(),
            provenance=provenance(),
        )
        self._hand_on(ENDPOINT_CHANGED, data, machine)

    def delivered(self, data: DeliveryObserved) -> None:
        """Hand on the event of what an endpoint delivered."""
        machine, _ = survey_machine(("cpu",))
        self._hand_on(DELIVERY_OBSERVED, msgspec.structs.replace(data, environment=machine.reference()), machine)

    def _hand_on(self, kind: str, data: EndpointChanged | DeliveryObserved, machine: Machine) -> None:
        if self._on_event is not None:
            with self._telling:
                self._on_event(stamped(kind, data, runner_source(machine.environment), data.endpoint))


def _leave(calling: AbstractContextManager[None], future: Future[Any]) -> None:
    """Say to the pool that a request is over: answered, or given up."""
    error = CancelledError() if future.cancelled() else future.exception()
    if error is None:
        calling.__exit__(None, None, None)
    else:
        with suppress(type(error)):
            calling.__exit__(type(error), error, None)


def _check(spec: EndpointSpec) -> None:
    for field, value, least, most in (
        ("workers", spec.workers, 1, 64),
        ("max_batch", spec.max_batch, 1, 1024),
        ("max_wait_ms", spec.max_wait_ms, 0, 10_000),
        ("queue_limit", spec.queue_limit, 1, 100_000),
    ):
        if not least <= value <= most:
            raise UsageError(f"{value:g} is not possible.", field=field, remedy=f"Give {least:,} to {most:,}.")
