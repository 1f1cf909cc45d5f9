"""A connection to an endpoint: HTTP/1.1, one request at a time, every byte stamped with the moment at which it was there.

A client that parses while others wait would give them its own time. On Linux the kernel stamps what it receives
(`runner.endpoint.stamps`), and neither a busy client nor a busy machine makes it later. Elsewhere, and behind TLS, what is
ready has the moment at which the operating system said so (`StampedSelector`), and not that at which its turn comes.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
import ssl
from array import array
from collections.abc import Mapping
from time import perf_counter_ns
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import httptools

from runner.endpoint.exchange import Exchange, Sink, StreamReader
from runner.endpoint.faults import EndpointFault, broken, not_json, not_streamed, refused, silent, unreachable
from runner.endpoint.stamps import receive, stamped_twin
from runner.endpoint.target import Target

__all__ = ["Link", "StampedLoop", "StampedSelector", "connect", "request_bytes"]

_CONNECT_S = 10.0
_SAID_BYTES = 4096
_SHORT_NS = 50_000
"""A spell of work that nobody could notice in a time of tokens."""


class StampedSelector(selectors.DefaultSelector):
    """Remembers when the operating system last said what is ready, and how long was then worked at a time (ns)."""

    def __init__(self) -> None:
        super().__init__()
        self.woke = perf_counter_ns()
        self.busy: array[int] = array("q")

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Wait as any selector does."""
        spell = perf_counter_ns() - self.woke
        if spell > _SHORT_NS:
            self.busy.append(spell)
        select = super().select(timeout)
        self.woke = perf_counter_ns()
        return select


class StampedLoop(asyncio.SelectorEventLoop):
    """An event loop on a StampedSelector."""

    def __init__(self) -> None:
        self.stamps = StampedSelector()
        super().__init__(self.stamps)


def request_bytes(target: Target, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> bytes:
    """Return a request as it goes over the wire."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {target.authority}", "User-Agent: assay-runner"]
    if target.key:
        lines.append(f"Authorization: Bearer {target.key}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


async def connect(target: Target) -> Link:
    """Return a new connection within 10 s; raises EndpointFault. No proxy is used, whatever the environment says."""
    loop = cast("StampedLoop", asyncio.get_running_loop())
    try:
        async with asyncio.timeout(_CONNECT_S):
            _, link = await loop.create_connection(
                lambda: Link(target, loop.stamps), target.host, target.port, ssl=_tls() if target.tls else None
            )
    except TimeoutError:
        raise unreachable(f"no connection within {_CONNECT_S:g} s") from None
    except ssl.SSLError as error:
        raise unreachable(f"TLS failed ({error.reason or 'no reason given'})") from None
    except OSError as error:
        raise unreachable(_why(error)) from None
    return link


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the connection was refused"
    # Several addresses of one name that all fail come as one error without a number.
    if "refused" in str(error):
        return "the connection was refused"
    return (error.strerror or str(error) or type(error).__name__).rstrip(".").lower()


def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


class Link(asyncio.Protocol):
    """One connection. `open` says whether it can take another request."""

    def __init__(self, target: Target, stamps: StampedSelector) -> None:
        self.open = False
        self.last = 0
        """When something last came, or the request went out; 0 where nothing is awaited."""
        self._target = target
        self._stamps = stamps
        self._transport: asyncio.Transport | None = None
        self._finished: asyncio.Future[None] | None = None
        self._parser: Any = None
        self._exchange = Exchange()
        self._sink: Sink | None = None
        self._status = 0
        self._kind = ""
        self._location: str | None = None
        self._said = bytearray()
        self._framed = False
        self._moment = 0
        self._twin: socket.socket | None = None

    async def ask(self, request: bytes, exchange: Exchange, sink: Sink) -> None:
        """Send a request and wait until its answer is complete; raises EndpointFault. It ends when `expire` says so."""
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange, self._sink = exchange, sink
        self._status, self._kind, self._location, self._framed = 0, "", None, False
        self._said.clear()
        self._finished = asyncio.get_running_loop().create_future()
        exchange.sent = self.last = perf_counter_ns()
        if not exchange.arrived:
            exchange.arrived = exchange.sent
        try:
            self._transport.write(request)
            await self._finished
        except BaseException:
            self.close()
            raise
        finally:
            self.last = 0

    def expire(self, now: int, patience_s: float) -> None:
        """End the request that waits where nothing came for so long."""
        if self.last and now - self.last > patience_s * 1e9:
            self._end(None if self._exchange.complete else silent(patience_s, len(self._exchange.tokens)))
            self.close()

    def close(self) -> None:
        """Close the connection at once."""
        self.open = False
        self._let_go()
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the way out."""
        self._transport = cast("asyncio.Transport", transport)
        self.open = True
        if not self._target.tls:
            self._twin = stamped_twin(transport.get_extra_info("socket"))
        if self._twin is not None:
            # The transport sends, and what comes is read here, with the kernel's stamps.
            self._transport.pause_reading()
            asyncio.get_running_loop().add_reader(self._twin, self._readable)

    def _readable(self) -> None:
        assert self._twin is not None
        try:
            data, moment = receive(self._twin)
        except BlockingIOError:
            return
        except OSError:
            data, moment = b"", None
        if not data:
            self._let_go()
            self.connection_lost(None)
            self.close()
            return
        self._take(data, moment or self._stamps.woke)

    def _let_go(self) -> None:
        if self._twin is not None:
            asyncio.get_running_loop().remove_reader(self._twin)
            self._twin.close()
            self._twin = None

    def data_received(self, data: bytes) -> None:
        """Read what came, as of the moment at which it was ready."""
        self._take(data, self._stamps.woke)

    def _take(self, data: bytes, moment: int) -> None:
        if self._finished is None or self._finished.done():
            return
        self.last = self._moment = moment
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            fault = error.__context__ if isinstance(error.__context__, EndpointFault) else not_json(str(error))
            self._end(fault)
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        """Settle what still waits: an answer without a length is complete when the connection ends."""
        self.open = False
        self._let_go()
        if self._finished is None or self._finished.done():
            return
        if self._status and not self._framed:
            self.on_message_complete()
        else:
            self._end(broken(len(self._exchange.tokens)))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Note the headers that matter."""
        match name.lower():
            case b"content-type":
                self._kind = value.decode("latin-1").partition(";")[0].strip().lower()
            case b"location":
                self._location = value.decode("latin-1")
            case b"content-length" | b"transfer-encoding":
                self._framed = True

    def on_headers_complete(self) -> None:
        """Refuse a whole answer in the place of a stream before it is read."""
        self._status = self._parser.get_status_code()
        streams = isinstance(self._sink, StreamReader)
        if self._status < 300 and streams and self._kind != "text/event-stream":
            raise not_streamed(self._kind)

    def on_body(self, body: bytes) -> None:
        """Hand on what belongs to the answer."""
        if self._status < 300:
            assert self._sink is not None
            self._sink.feed(body, self._moment)
        elif len(self._said) < _SAID_BYTES:
            self._said += body[:_SAID_BYTES]

    def on_message_complete(self) -> None:
        """Settle the answer."""
        if self._status < 200:
            return
        self._exchange.ended = self._moment
        try:
            self._settle()
        except EndpointFault as fault:
            self._end(fault)
        else:
            self._end(None)
        if not self._parser.should_keep_alive():
            self.close()

    def _settle(self) -> None:
        if self._status >= 300:
            raise refused(self._status, bytes(self._said), location=self._location, elsewhere=self._points_elsewhere())
        assert self._sink is not None
        self._sink.close()
        if not self._exchange.complete:
            raise broken(len(self._exchange.tokens))

    def _points_elsewhere(self) -> bool:
        scheme = "https" if self._target.tls else "http"
        there = urlsplit(urljoin(f"{scheme}://{self._target.authority}/", self._location or ""))
        return there.netloc != self._target.authority

    def _end(self, fault: EndpointFault | None) -> None:
        if self._finished is not None and not self._finished.done():
            if not self._exchange.ended:
                self._exchange.ended = self._stamps.woke
            if fault is None:
                self._finished.set_result(None)
            else:
                self._finished.set_exception(fault)
