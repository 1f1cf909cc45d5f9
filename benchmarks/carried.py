"""What crosses between a dashboard and its service: a relay that counts bytes and rows of every answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

import httpx

__all__ = ["Answer", "relay"]

PASSED_ON = ("accept", "content-type", "authorization")


class Answer(NamedTuple):
    """One answer: what was asked, its bytes, the most rows that stand together in it, and milliseconds."""

    asked: str
    size: int
    rows: int
    milliseconds: float


@contextmanager
def relay(service: str) -> Iterator[tuple[str, list[Answer]]]:
    """Give the address of a relay to a service, and the list that its answers are put into."""
    answers: list[Answer] = []
    # A proxy of the environment is for other hosts.
    with httpx.Client(base_url=service, timeout=60, trust_env=False) as client:

        class Relay(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name.lower() in PASSED_ON}
                begin = time.perf_counter()
                answer = client.request(self.command, self.path, content=body, headers=headers)
                taken = (time.perf_counter() - begin) * 1e3
                answers.append(Answer(f"{self.command} {self.path}", len(answer.content), _rows(answer.content), taken))
                self.send_response(answer.status_code)
                self.send_header("Content-Type", answer.headers.get("content-type", ""))
                self.send_header("Content-Length", str(len(answer.content)))
                self.end_headers()
                self.wfile.write(answer.content)

            do_GET = do_POST = handle_any  # noqa: N815

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Relay)
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", answers
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


def _rows(content: bytes) -> int:
    try:
        found = json.loads(content)
    except ValueError:
        return 0
    parts = found.values() if isinstance(found, dict) else [found]
    return max((len(part) for part in parts if isinstance(part, list)), default=0)
