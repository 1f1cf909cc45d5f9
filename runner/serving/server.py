"""Endpoints of one server: created, called in batches, scaled, failed over where told to, and removed; each change an event."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec

from domain.endpoints.events import Change, EndpointChanged
from domain.errors import (
    AssayError,
    NameTaken,
    NotFound,
    PlatformUnavailable,
    ServiceUnavailable,
    UsageError,
)
from domain.events import ENDPOINT_CHANGED, uuid7
from runner.campaign.campaign import Campaign, refusal, survey_machine
from runner.campaign.event_payloads import Machine, provenance, runner_source, stamped
from runner.campaign.plan import Sweep, make_plan
from runner.platforms.registry import names
from runner.protocol.tasks import Case
from runner.serving.batching import Request
from runner.serving.contract import EndpointSpec, EndpointStatus, Eviction, Pool, Tensor
from runner.serving.endpoint import Chosen, Endpoint, Observe

__all__ = ["Choose", "ModelServer"]

_DEFAULT_PRECISION = "fp32"


Choose = Callable[[EndpointSpec, Machine, Sequence[str]], Chosen]
"""Picks one of the platforms that were proved here; raises Unavailable where nothing can answer."""


class ModelServer:
    """All endpoints of one process. Changes are made one at a time on a thread of the server's own.

    `on_event` gets each change as an event, `observe` each request.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        choose: Choose | None = None,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        observe: Observe | None = None,
        cache: Path | None = None,
    ) -> None:
        self.pool = pool
        self.id = uuid7()
        self.observe = observe
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
        chosen = self._choice(spec)
        endpoint = Endpoint(spec, self)
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
        endpoint.batcher.submit(request)
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

    def _choice(self, spec: EndpointSpec) -> Chosen:
        """Return the configuration: as it was asked for, else as the recommendation has it for what was proved here."""
        if spec.platform is not None:
            return Chosen(platform=spec.platform, precision=spec.precision or _DEFAULT_PRECISION)
        every = names()
        machine, _ = survey_machine(every)
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
        with self._telling:
            self._on_event(stamped(ENDPOINT_CHANGED, data, runner_source(machine.environment), endpoint.spec.name))


def _check(spec: EndpointSpec) -> None:
    for field, value, least, most in (
        ("workers", spec.workers, 1, 64),
        ("max_batch", spec.max_batch, 1, 1024),
        ("max_wait_ms", spec.max_wait_ms, 0, 10_000),
        ("queue_limit", spec.queue_limit, 1, 100_000),
    ):
        if not least <= value <= most:
            raise UsageError(f"{value:g} is not possible.", field=field, remedy=f"Give {least:,} to {most:,}.")
