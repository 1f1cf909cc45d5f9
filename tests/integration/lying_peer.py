"""A server on loopback that answers as a peer may, honestly or not: one function writes the whole answer."""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

__all__ = ["Answer", "answering", "line", "page_of"]

Answer = Callable[[BaseHTTPRequestHandler], None]
LOG = str(uuid.UUID(int=7))


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: the reader hangs up on what is too much."""


@contextmanager
def answering(answer: Answer) -> Iterator[str]:
    """Give the address of a server that answers every request by this function."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            answer(self)
            self.close_connection = True

        def log_message(self, *_: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def line(position: int, event: dict[str, Any], *, digest: str | None = None) -> bytes:
    """Return an event as a peer sends it."""
    body = msgspec.json.encode(event).decode()
    document = {
        "position": position,
        "digest": digest or hashlib.sha256(body.encode()).hexdigest(),
        "body": body,
    }
    return msgspec.json.encode(document) + b"\n"


def page_of(
    lines: Iterable[bytes],
    *,
    last: int | str = 100,
    log: str = LOG,
    epoch: int | str = 1,
    more: bool = False,
    status: int = 200,
    **headers: str,
) -> Answer:
    """Return an answer of these lines; without a length, so that they may have no end."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        sent = {
            "Content-Type": "application/x-ndjson",
            "Assay-Log": log,
            "Assay-Epoch": str(epoch),
            "Assay-Last-Position": str(last),
            **({"Link": '</v1/events?after=1>; rel="next"'} if more else {}),
            **{name.replace("_", "-"): value for name, value in headers.items()},
            "Connection": "close",
        }
        for name, value in sent.items():
            if value:
                handler.send_header(name, value)
        handler.end_headers()
        for piece in lines:
            handler.wfile.write(piece)

    return answer
