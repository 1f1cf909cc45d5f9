"""Sends requests and keeps their connections: each exchange on a connection that is free, or on a new one."""

from __future__ import annotations

import asyncio
from time import perf_counter_ns
from types import TracebackType

from runner.endpoint.exchange import Exchange, Piece, StreamReader, WholeReader
from runner.endpoint.faults import EndpointFault
from runner.endpoint.link import Link, connect, request_bytes
from runner.endpoint.prompts import Prompts
from runner.endpoint.protocols import EXTRAS, Call, OpenAi
from runner.endpoint.stamps import HERE
from runner.endpoint.target import Target

__all__ = ["Driver", "fetch"]

_WATCH_S = 0.2
_AT_RESOLVE = frozenset({"EndpointUnreachable", "Unauthorised", "RedirectRefused", "NotServed", "NotStreamed"})


async def fetch(target: Target, path: str, patience_s: float) -> bytes:
    """Return the body that a GET gives; raises EndpointFault."""
    body = bytearray()

    def keep(data: bytes) -> Piece:
        body.extend(data)
        return Piece()

    link = await connect(target)
    exchange = Exchange()
    try:
        async with asyncio.timeout(patience_s):
            await link.ask(request_bytes(target, "GET", path, b"", {}), exchange, WholeReader(exchange, keep))
    except TimeoutError:
        raise EndpointFault(
            "EndpointSlow",
            f"nothing came for {patience_s:g} s.",
            "Give it more time with --request-timeout.",
            outcome="timeout",
        ) from None
    finally:
        link.close()
    return bytes(body)


class Driver:
    """Asks one endpoint one kind of question; to be used as a context, which leaves no connection behind.

    `patience_s` is how long nothing may come before a request has failed.
    """

    def __init__(self, target: Target, call: Call, prompts: Prompts, patience_s: float, *, keep_text: bool) -> None:
        self.target = target
        self.call = call
        self.prompts = prompts
        self.extras: tuple[str, ...] = EXTRAS[0] if isinstance(call, OpenAi) else ()
        self._patience_s = patience_s
        self._keep_text = keep_text
        self._free: list[Link] = []
        self._links: set[Link] = set()
        self._watch: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Driver:
        """Begin to watch for requests that nothing comes of."""
        self._watch = asyncio.create_task(self._look())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close every connection."""
        assert self._watch is not None
        self._watch.cancel()
        for link in self._links:
            link.close()
        await asyncio.sleep(0)

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_WATCH_S)
            now = perf_counter_ns()
            for link in list(self._links):
                link.expire(now, self._patience_s)

    @property
    def stamped(self) -> bool:
        """Whether the kernel stamps what comes, so that it does not matter when this client looks."""
        return HERE and not self.target.tls

    def ready(self) -> bytes:
        """Return the next request as it goes over the wire."""
        body = self.call.body(self.prompts.next(), self.extras)
        accept = "text/event-stream" if self.call.streams else "*/*"
        headers = {"Content-Type": self.call.content_type, "Accept": accept}
        return request_bytes(self.target, "POST", self.call.path, body, headers)

    async def once(self, arrived: int = 0, request: bytes | None = None) -> Exchange:
        """Return one exchange, whose `fault` says why it failed where it did; `arrived` is when it was due, else now."""
        request = request or self.ready()
        exchange = Exchange(arrived, allowed=self.call.allowed, keep_text=self._keep_text)
        if not arrived:
            exchange.arrived = perf_counter_ns()
        try:
            reused = await self._ask(request, exchange)
            if reused and exchange.fault is not None and not exchange.tokens:
                # A server may close a connection that rested just as the next request goes out.
                exchange.fault = None
                await self._ask(request, exchange, fresh=True)
        except EndpointFault as fault:
            exchange.fault = fault
        return exchange

    async def _ask(self, request: bytes, exchange: Exchange, *, fresh: bool = False) -> bool:
        """Ask, and return whether the connection had been used before; a break before any answer is kept as a fault."""
        link = None if fresh else self._take()
        reused = link is not None
        if link is None:
            link = await connect(self.target)
            self._links.add(link)
        reader = StreamReader if self.call.streams else WholeReader
        try:
            await link.ask(request, exchange, reader(exchange, self.call.read))
        except EndpointFault as fault:
            if not (reused and fault.error == "BrokenAnswer"):
                raise
            exchange.fault = fault
        finally:
            if link.open:
                self._free.append(link)
            else:
                self._links.discard(link)
        return reused

    def _take(self) -> Link | None:
        while self._free:
            link = self._free.pop()
            if link.open:
                return link
            self._links.discard(link)
        return None

    async def probe(self) -> Exchange:
        """Return a first exchange, having found out which extras the server takes and how it counts a prompt's tokens.

        Raises EndpointFault; `stage_of` says at which stage that was.
        """
        exchange = await self.once()
        left = EXTRAS[1:] if self.extras else ()
        for extras in left:
            if not (isinstance(exchange.fault, EndpointFault) and exchange.fault.error == "RequestRefused"):
                break
            self.extras = extras
            exchange = await self.once()
        for _ in range(3):
            input_tokens = exchange.input_tokens
            if exchange.fault is not None or not input_tokens or not self.prompts.fit(input_tokens):
                break
            exchange = await self.once()
        if exchange.fault is not None:
            raise exchange.fault
        return exchange

    @staticmethod
    def stage_of(fault: EndpointFault) -> str:
        """Return the stage of a fault that the probe met."""
        return "resolve" if fault.error in _AT_RESOLVE else "first_run"
