"""Endpoints of language models: their requests are passed on to an engine that batches token by token."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from time import monotonic
from typing import Any, cast

import msgspec

from domain.configuration import Execution, Model, Runtime
from domain.errors import AssayError, TooBusy, Unavailable, UsageError
from runner.campaign.campaign import default_cache
from runner.machine.headroom import resting_bytes
from runner.models.sources import ModelSource, resolve
from runner.platforms.registry import names, word
from runner.serving.contract import EndpointSpec, ReplicaKey
from runner.serving.delivery import Delivery
from runner.serving.delivery import Served as Observed
from runner.serving.endpoint import Endpoint, Owner, weights_digest
from runner.serving.engines import Engine, Served, choose_engine, find_engines, free_port, launch_of

__all__ = ["LanguageEndpoint", "engine_platforms", "language_model"]

_TASK = "text-generation"


def language_model(spec: EndpointSpec) -> ModelSource | None:
    """Return the source of a model that writes text, which an engine serves; None for another one.

    Raises UsageError where an engine is named for a model of another kind, or for random weights.
    """
    source = resolve(spec.model, spec.weights)
    if source.task != _TASK:
        if spec.engine is None:
            return None
        raise UsageError(
            f"{source.id} is no language model.", field="engine", remedy="Leave --engine out: its tensors are served."
        )
    if spec.weights == "random":
        raise UsageError("engines have no random weights.", field="weights", remedy="Name a model with a checkpoint.")
    return source


def engine_platforms(engine: str | None) -> list[str]:
    """Return the platforms that an installed engine serves; PartMissing with what to install where there is none."""
    programs = find_engines()
    able = []
    for platform in names():
        try:
            choose_engine(word(platform), engine, programs)
        except AssayError:
            continue
        able.append(platform)
    if not able:
        choose_engine("openvino" if engine == "ovms" else "cuda" if engine == "vllm" else "cpu", engine, programs)
    return able


class LanguageEndpoint(Endpoint):
    """An endpoint whose replica is an engine. It has one worker: the engine joins requests itself."""

    def __init__(self, spec: EndpointSpec, server: Owner, source: ModelSource) -> None:
        super().__init__(spec, server)
        self._source = source
        self._engine: Engine | None = None
        self._served: Served | None = None
        self._counting = threading.Lock()

    def _load(self, platform: str, precision: str, compiled: bool) -> None:  # noqa: ARG002 - engines compile themselves
        engine = choose_engine(word(platform), self.spec.engine)
        case, campaign = self.server.prepare(self.spec, platform, precision)
        prepared = campaign.prepared[case.model]
        self.model = msgspec.convert(prepared.model, Model)
        self._estimate = self.spec.memory_bytes or resting_bytes(self.model.parameters or 0, precision, platform)
        self._served = Served(
            name=self.spec.name,
            model=str(self._source.location or self._source.id),
            platform=word(platform),
            precision=precision,
            device=self.spec.device,
            threads=self.spec.threads,
        )
        launch_of(engine, engine, self._served, 1)
        self._key = ReplicaKey(
            weights=weights_digest(case, prepared.config),
            platform=platform,
            precision=precision,
            device=self.spec.device,
            threads=self.spec.threads,
            compiled=False,
            options=(f"engine={engine}",),
            workload=case.workload,
        )
        self._case = case
        self._hold()
        self.hardware = campaign.machine.hardware_for(word(platform), self.spec.device)

    def _hold(self) -> Engine:
        """Return the engine, started where it is not there."""
        key, served = self._key, self._served
        assert key is not None
        assert served is not None
        name = choose_engine(word(key.platform), key.options[0].partition("=")[2])
        log = default_cache().parent / "engines" / f"{self.spec.name}.log"

        def start() -> Engine:
            log.parent.mkdir(parents=True, exist_ok=True)
            return Engine(launch_of(name, find_engines()[name], served, free_port()), key, log)

        (replica,) = self.server.pool.acquire(self.spec.name, key, start, self._estimate)
        self._engine = cast("Engine", replica)
        return self._engine

    def _observe_delivery(self) -> None:
        if self.delivery:
            self.delivery.close()
        execution = self.execution()
        assert execution is not None
        assert self._case is not None
        assert self.hardware is not None
        # A promise is about one call; how long an answer takes depends on how many tokens it has.
        observed = Observed(
            endpoint=self.spec.name,
            server=self.server.id,
            model=self.model,
            workload=self._case.workload,
            execution=execution,
            hardware=self.hardware,
        )
        self.delivery = Delivery(observed, self.server.delivered)

    def scale(self, workers: int) -> None:
        """Take one worker; UsageError for more."""
        if workers != 1:
            raise UsageError(
                "an engine joins requests itself and has one worker.",
                field="workers",
                remedy="Leave it at 1, or serve the model under a second name on another device.",
            )
        self.workers = 1

    def send(self, route: str, body: dict[str, Any]) -> Iterator[bytes]:
        """Yield the engine's answer to an OpenAI request: one JSON, or with `stream` the events."""
        with self._counting:
            if self.calling >= self.spec.queue_limit:
                busy = TooBusy(
                    f"{self.calling} requests are under way already.", field="queue", remedy="Send it again later."
                )
                busy.retry_after_s = 1.0
                raise busy
            self.calling += 1
        began = monotonic()
        try:
            with self.server.pool.calling(self.spec.name):
                engine = self._hold()
                if self.state == "evicted":
                    self.state, self.reason = "ready", None
                    self.server.tell(self, "ready", "loaded again for a request")
                yield from engine.send(route, body, self.spec.name)
            if self.delivery:
                self.delivery.answered((monotonic() - began) * 1e3)
        except Unavailable:
            self.failures += 1
            if self.delivery:
                self.delivery.failed()
            raise
        finally:
            with self._counting:
                self.calling -= 1
                self.requests += 1

    def waiting(self) -> int:
        """Return how many requests are under way."""
        return self.calling

    def memory_bytes(self) -> int | None:
        """Return what the engine and all that it started take."""
        return self._engine.memory_bytes() if self._engine else None

    def execution(self) -> Execution | None:
        """Return the execution as rows of a measurement have it."""
        key = self._key
        if key is None:
            return None
        return Execution(
            platform=word(key.platform),
            runtime=Runtime(name=key.options[0].partition("=")[2]),
            precision=key.precision,
            threads=key.threads,
        )
