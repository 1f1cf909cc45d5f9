"""One request and its answer on the clock, and readers of answers: a stream of events, or one whole body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from runner.endpoint.faults import not_json, too_long

__all__ = ["MAXIMUM_ANSWER_BYTES", "Exchange", "Piece", "Read", "Sink", "StreamReader", "WholeReader"]

MAXIMUM_ANSWER_BYTES = 16 * 2**20
_DATA = b"data:"
_DONE = b"[DONE]"


class Piece(msgspec.Struct, kw_only=True):
    """What one event of an answer says: text, the counts of tokens that the server claims, whether it ends."""

    text: str = ""
    token: bool = False
    """Whether the event stands for a token though it may have no text of its own."""
    output_tokens: int | None = None
    input_tokens: int | None = None
    last: bool = False


Read = Callable[[bytes], Piece]


class Exchange:
    """A request and its answer. Times are readings of the monotonic clock in ns; `arrived` is when it was due.

    `tokens` are the times at which events with text came, `allowed` how many tokens were asked for. `fault` says why it gave no measurement.
    """

    __slots__ = (
        "allowed",
        "arrived",
        "characters",
        "complete",
        "ended",
        "fault",
        "input_tokens",
        "output_tokens",
        "sent",
        "text",
        "tokens",
    )

    def __init__(self, arrived: int = 0, *, allowed: int | None = None, keep_text: bool = False) -> None:
        self.arrived = arrived
        self.allowed = allowed
        self.sent = 0
        self.ended = 0
        self.tokens: list[int] = []
        self.characters = 0
        self.complete = False
        self.output_tokens: int | None = None
        self.input_tokens: int | None = None
        self.text: list[str] | None = [] if keep_text else None
        self.fault: Exception | None = None

    @property
    def latency_ms(self) -> float:
        """Time from when it was due to the end of its answer."""
        return (self.ended - self.arrived) / 1e6

    @property
    def ttft_ms(self) -> float | None:
        """Time from when it was due to the first token; None of an answer that was not streamed."""
        return (self.tokens[0] - self.arrived) / 1e6 if self.tokens else None

    @property
    def counted(self) -> int:
        """Output tokens: as the server says, unless it cannot be true; else one for each event with text."""
        said = self.output_tokens
        impossible = said is None or (self.allowed is not None and said > self.allowed)
        return len(self.tokens) if impossible or not said else said

    @property
    def tpot_ms(self) -> float | None:
        """Mean time of a token after the first; None where there is only one."""
        if len(self.tokens) < 2 or self.counted < 2:
            return None
        return (self.tokens[-1] - self.tokens[0]) / 1e6 / (self.counted - 1)

    def take(self, piece: Piece, now: int) -> None:
        """Note what one event said."""
        if piece.text or piece.token:
            self.tokens.append(now)
            self.characters += len(piece.text)
            if self.text is not None:
                self.text.append(piece.text)
        if piece.output_tokens is not None:
            self.output_tokens = piece.output_tokens
        if piece.input_tokens is not None:
            self.input_tokens = piece.input_tokens
        self.complete = self.complete or piece.last


class Sink(Protocol):
    """Takes the body of an answer piece by piece."""

    def feed(self, data: bytes, now: int) -> None:
        """Take what came at a moment; raises EndpointFault."""

    def close(self) -> None:
        """Take the end of the body; raises EndpointFault."""


class StreamReader:
    """Reads server-sent events into an exchange."""

    def __init__(self, exchange: Exchange, read: Read) -> None:
        self._exchange = exchange
        self._read = read
        self._rest = b""
        self._events = 0

    def feed(self, data: bytes, now: int) -> None:
        """Take bytes, which may hold several events, or a part of one."""
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > MAXIMUM_ANSWER_BYTES:
            raise too_long(MAXIMUM_ANSWER_BYTES)
        for line in lines:
            if line.startswith(_DATA):
                self._event(line[len(_DATA) :].strip(), now)

    def _event(self, data: bytes, now: int) -> None:
        self._events += 1
        if data == _DONE:
            self._exchange.complete = True
        elif data:
            self._exchange.take(_readable(self._read, data), now)

    def close(self) -> None:
        """Take the last event where no line end follows it."""
        if self._rest.startswith(_DATA):
            self._event(self._rest[len(_DATA) :].strip(), self._exchange.tokens[-1] if self._exchange.tokens else 0)
        if not self._events:
            raise not_json("it is called a stream of events, and has none")


class WholeReader:
    """Reads one body into an exchange; it has no times of tokens."""

    def __init__(self, exchange: Exchange, read: Read) -> None:
        self._exchange = exchange
        self._read = read
        self._body = bytearray()

    def feed(self, data: bytes, now: int) -> None:  # noqa: ARG002
        """Take bytes."""
        self._body += data
        if len(self._body) > MAXIMUM_ANSWER_BYTES:
            raise too_long(MAXIMUM_ANSWER_BYTES)

    def close(self) -> None:
        """Read the whole."""
        piece = _readable(self._read, bytes(self._body))
        self._exchange.take(piece, 0)
        self._exchange.tokens.clear()
        self._exchange.complete = True


def _readable(read: Read, data: bytes) -> Piece:
    try:
        return read(data)
    except msgspec.DecodeError as error:
        raise not_json(str(error)) from None
