"""One hostile input as bytes on the wire, and what a service answered."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator, Mapping, Sequence

import msgspec

__all__ = ["ANSWER_S", "DRIP_S", "Case", "Outcome", "play", "post", "request"]

ANSWER_S = 30.0
"""Who has no answer after this long hangs."""
DRIP_S = 0.25
"""Between two pieces of a body that drips."""
JSON = "application/cloudevents+json"


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One input. `sends` are its pieces; where they are several, DRIP_S lies between them.

    `closes` lets it end without an answer: what is not HTTP need not be answered. `forbidden` are statuses that would
    be wrong here, and `event` the text that the log must give back unchanged where the answer is 200.
    """

    family: str
    name: str
    sends: tuple[bytes, ...]
    closes: bool = False
    ends: bool = False
    forbidden: tuple[int, ...] = ()
    event: bytes | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came back: the status, 0 where the connection was closed without one, -1 where nothing ever came."""

    status: int
    took_s: float
    more: bytes = b""
    head: bytes = b""


def request(
    method: str, target: str | bytes, headers: Mapping[str, str | bytes] | Sequence[tuple[str, str | bytes]] = (),
    body: bytes = b"",
) -> bytes:  # fmt: skip
    """Return the bytes of one HTTP/1.1 request; nothing is checked, and nothing but Host and the length is added."""
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    named = {name.lower() for name, _ in pairs}
    if "host" not in named:
        pairs.insert(0, ("Host", "127.0.0.1"))
    if body and not named & {"content-length", "transfer-encoding"}:
        pairs.append(("Content-Length", str(len(body))))
    lines = [b"%s %s HTTP/1.1" % (_bytes(method), _bytes(target))]
    lines += [b"%s: %s" % (_bytes(name), _bytes(value)) for name, value in pairs]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def post(body: bytes, media: str = JSON, **headers: str) -> bytes:
    """Return the bytes of a POST of events; `headers` are named with underscores."""
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    return request("POST", "/v1/events", {"Content-Type": media, **named}, body)


def play(case: Case, port: int) -> Outcome:
    """Send a case over a connection of its own and return what came back within ANSWER_S."""
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S) as connection:
        received = bytearray()
        # A service may answer and close before all is sent; its answer is there to be read all the same.
        with contextlib.suppress(OSError):
            for piece in _dripping(case.sends, connection, received):
                connection.sendall(piece)
            if case.ends:
                connection.shutdown(socket.SHUT_WR)
        status = _answer(connection, received, begun + ANSWER_S, bodiless=case.sends[0].startswith(b"HEAD "))
    head, _, rest = bytes(received).partition(b"\r\n\r\n")
    return Outcome(status=status, took_s=time.monotonic() - begun, more=rest[:2000], head=head[:2000])


def _dripping(pieces: Sequence[bytes], connection: socket.socket, received: bytearray) -> Iterator[bytes]:
    """Yield the pieces, and stop where an answer has come in between."""
    yield pieces[0]
    for piece in pieces[1:]:
        connection.settimeout(DRIP_S)
        with contextlib.suppress(TimeoutError):
            chunk = connection.recv(65536)
            received += chunk
            connection.settimeout(ANSWER_S)
            return
        connection.settimeout(ANSWER_S)
        yield piece


def _answer(connection: socket.socket, received: bytearray, until: float, *, bodiless: bool) -> int:
    """Read to the end of the head and of what its length announces; return the status, 0 or -1."""
    while not (_whole(received) or (bodiless and b"\r\n\r\n" in received)):
        connection.settimeout(max(until - time.monotonic(), 0.01))
        try:
            chunk = connection.recv(65536)
        except TimeoutError:
            return -1
        except OSError:
            break
        if not chunk:
            break
        received += chunk
    line = bytes(received).split(b"\r\n", 1)[0].split(b" ")
    return int(line[1]) if len(line) > 1 and line[0].startswith(b"HTTP/") and line[1].isdigit() else 0


def _whole(received: bytearray) -> bool:
    """Whether the answer has come; one that only says to go on is dropped."""
    while received.startswith(b"HTTP/1.1 100") and b"\r\n\r\n" in received:
        del received[: received.index(b"\r\n\r\n") + 4]
    head, mark, rest = bytes(received).partition(b"\r\n\r\n")
    if not mark:
        return False
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return len(rest) >= int(value)
        if name.lower() == b"transfer-encoding":
            # A stream may never end; that it has begun is enough.
            return len(rest) > 0
    return True
