"""One process that serves models: which device, its events on their way to the log, and its end."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import msgspec

from assay.cli.output import print_json, say
from domain.endpoints.events import Promise
from domain.errors import AssayError, PlatformUnavailable, ServiceUnavailable, UsageError

if TYPE_CHECKING:
    from runner.campaign.event_payloads import Machine
    from runner.serving.contract import EndpointSpec
    from runner.serving.endpoint import Chosen
    from runner.serving.server import ModelServer

__all__ = ["Settings", "choose", "require_token", "serve_models"]

_BACKLOG = 1024
_MEASURE_S = 5.0


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Where a server of models listens, what its models may take, and to which service its events go."""

    host: str
    port: int
    token: str | None
    budget_bytes: int | None
    service: str | None
    service_token: str | None
    as_json: bool

    @property
    def url(self) -> str:
        """The address that clients on this machine use."""
        host = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def require_token(host: str, token: str | None) -> None:
    """Raise UsageError where a server would listen beyond this machine without a token."""
    if token:
        return
    try:
        loopback = host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise UsageError(
            f"{host} can be reached from other machines, and no token is set.",
            field="token",
            remedy=f"Set ASSAY_MODELS_TOKEN, for example to {secrets.token_urlsafe(24)}, or listen on 127.0.0.1.",
        )


def choose(service: str | None, token: str | None) -> Callable[[EndpointSpec, Machine, Sequence[str]], Chosen]:
    """Return what asks the service, or one that is started for the question, which of the proved platforms to use."""

    def chosen(spec: EndpointSpec, machine: Machine, proved: Sequence[str]) -> Chosen:
        from assay.cli.connection import connected
        from domain.events import HARDWARE_DESCRIBED
        from runner.campaign.event_payloads import runner_source, stamped
        from runner.models.sources import resolve
        from runner.platforms.registry import word

        devices = [
            {"name": name, "hardware": machine.hardware_for(word(name), spec.device).id, "platforms": [word(name)]}
            for name in proved
        ]
        question: dict[str, Any] = {"precision": [spec.precision]} if spec.precision else {}
        try:
            with connected(service, token) as client:
                source = runner_source(machine.environment)
                answer = client.post_events([stamped(HARDWARE_DESCRIBED, data, source) for data in machine.hardware])
                client.wait_for(answer["last_position"])
                choice = client.choose(resolve(spec.model, spec.weights).id, devices, batch_sizes=[1], **question)
        except AssayError as error:
            raise PlatformUnavailable(
                f"no platform was named, and none can be chosen: {error}",
                field="platform",
                remedy=f"Name one with --platform: {', '.join(proved)} work here.",
            ) from error
        return _best(choice, spec, machine)

    return chosen


def _best(choice: Any, spec: EndpointSpec, machine: Machine) -> Chosen:
    """Return the first rung that can run here in its precision."""
    from runner.campaign.campaign import refusal
    from runner.serving.endpoint import Chosen

    for rung in choice.order:
        if refusal(machine, rung.name, rung.precision) is not None:
            continue
        promise = None
        if rung.latency_ms and rung.latency_ms_low and rung.latency_ms_high:
            promise = Promise(
                latency_ms=rung.latency_ms,
                low=rung.latency_ms_low,
                high=rung.latency_ms_high,
                coverage=0.8,
                origin="measured" if rung.basis == "measured" else "predicted",
                recommendation=choice.answer,
            )
        return Chosen(platform=rung.name, precision=rung.precision, promise=promise, compiled=rung.compiled)
    why = choice.abstained or "; ".join(f"{name}: {reason}" for name, reason in choice.left_out.items())
    raise PlatformUnavailable(
        f"no device here will do for {spec.model}: {why or 'the answer names none'}.",
        field="platform",
        remedy="Name one with --platform.",
    )


def serve_models(specs: Sequence[EndpointSpec], settings: Settings) -> int:
    """Serve until SIGTERM or Ctrl-C; then answer what waits, remove the endpoints, and give their memory back."""
    from assay.cli.measure.destination import destination
    from assay.service import loop_factory, require_free
    from runner.serving.pool import ReplicaPool
    from runner.serving.server import ModelServer

    require_token(settings.host, settings.token)
    require_free(settings.host, settings.port)
    with ExitStack() as stack:
        on_event = stack.enter_context(destination(None, False, settings.service, settings.service_token))
        pool = ReplicaPool(settings.budget_bytes)
        server = ModelServer(pool, choose=choose(settings.service, settings.service_token), on_event=on_event)
        stack.callback(server.close)
        for spec in specs:
            say(f"[dim]loading {spec.model}[/dim]")
            status = server.create(spec)
            if settings.as_json:
                print_json(status)
            else:
                say(describe(msgspec.to_builtins(status)))
        say(f"serving on {settings.url}; Ctrl-C ends it")
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            runner.run(_listen(server, settings))
        say("draining, and removing the endpoints")
    return 0


def describe(status: dict[str, Any]) -> str:
    """Return what an endpoint is, in a line or two."""
    promise = status.get("promise")
    text = (
        f"{status['spec']['name']}: {status['model_id']} on {status.get('platform')} in {status.get('precision')}, "
        f"{status.get('hardware')}, workers {status.get('workers')}, joined up to {status.get('max_batch', 1)}"
    )
    if promise:
        text += (
            f"\n  promise: {promise['latency_ms']:.2f} ms a call "
            f"({promise['low']:.2f} to {promise['high']:.2f}, {promise['coverage']:.0%}), {promise['origin']}"
        )
    if delivery := status.get("delivery"):
        request_ms = delivery.get("request_ms") or {}
        text += (
            f"\n  delivered to {delivery['requests']} requests since {delivery['since'][11:19]}: "
            f"{delivery['verdict']}. {delivery['reason']}"
        )
        if "p99" in request_ms:
            text += f" Whole requests: p50 {request_ms['p50']:.3g} ms, p99 {request_ms['p99']:.3g} ms."
    return text + (f"\n  {status['reason']}" if status.get("reason") else "")


async def _listen(server: ModelServer, settings: Settings) -> None:
    from granian.constants import HTTPModes, Interfaces
    from granian.errors import FatalError
    from granian.server.embed import Server

    from runner.serving.app import create_app

    app = create_app(server, settings.token)
    listener = Server(
        app,
        address=settings.host,
        port=settings.port,
        interface=Interfaces.ASGI,
        http=HTTPModes.http1,
        backlog=_BACKLOG,
        websockets=False,
        log_enabled=False,
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    measuring = asyncio.create_task(_measure(server))
    serving, waiting = asyncio.create_task(listener.serve()), asyncio.create_task(stopping.wait())
    done, _ = await asyncio.wait((serving, waiting), return_when=asyncio.FIRST_COMPLETED)
    if serving not in done:
        listener.stop()  # type: ignore[no-untyped-call]
    waiting.cancel()
    measuring.cancel()
    try:
        await serving
    except FatalError as error:
        raise ServiceUnavailable(f"{settings.url} cannot be served: {error}", field="port") from error


async def _measure(server: ModelServer) -> None:
    """Keep models that grow within the budget, and post what was delivered; a failure is said, and serving goes on."""
    while True:
        await asyncio.sleep(_MEASURE_S)
        try:
            await asyncio.to_thread(server.tick)
        except (AssayError, OSError) as error:
            say(f"[yellow]{error}[/yellow]")
