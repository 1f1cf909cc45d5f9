"""The relay of the dashboard's benchmark: it passes on what is asked and answered, and counts it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

from benchmarks.carried import relay


class Service(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"position": 7, "rows": [1, 2, 3], "asked": ' + asked + b"}"
        self.send_response(422)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_an_answer_comes_as_it_is_and_is_counted(service: str) -> None:
    with relay(service) as (address, answers), httpx.Client(trust_env=False) as client:
        answer = client.post(f"{address}/v1/query?limit=3", content=b'["a"]')
    assert answer.status_code == 422
    assert answer.json() == {"position": 7, "rows": [1, 2, 3], "asked": ["a"]}
    (told,) = answers
    assert told.asked == "POST /v1/query?limit=3"
    assert (told.size, told.rows) == (len(answer.content), 3)
    assert told.milliseconds > 0
