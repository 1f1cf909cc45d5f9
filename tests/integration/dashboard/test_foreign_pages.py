"""A web page of another origin, in a real browser, reaches neither the open service nor the dashboard."""

from __future__ import annotations

import base64
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from assay.client import Client
from tests.integration.dashboard.conftest import dashboard_on

ATTACK = """
<script>
(async () => {
  const service = SERVICE, events = EVENTS, results = [];
  const bodies = {
    "/v1/events": events, "/v1/snapshots": {name: "stolen"}, "/v1/query": {sql: "SELECT 1 AS a"},
    "/v1/tokens": {name: "stolen", scopes: ["admin"]}, "/v1/projection/rebuild": {}, "/v1/predictor/train": {},
  };
  const ways = [
    {mode: "no-cors", headers: {"Content-Type": "text/plain"}}, {mode: "no-cors", blob: true},
    {mode: "cors", headers: {"Content-Type": "application/json"}}, {mode: "cors", headers: {"Content-Type": "text/plain"}},
  ];
  for (const [path, body] of Object.entries(bodies)) for (const way of ways) {
    const text = JSON.stringify(body);
    try {
      const answer = await fetch(service + path, {method: "POST", mode: way.mode, headers: way.headers || {},
                                                  body: way.blob ? new Blob([text]) : text});
      results.push([path, answer.type, answer.type === "opaque" ? "" : await answer.text()]);
    } catch (error) { results.push([path, "blocked", String(error)]); }
  }
  for (const path of ["/v1/models", "/v1/events", "/v1/tokens"]) {
    try { results.push([path, "read", await (await fetch(service + path)).text()]); }
    catch (error) { results.push([path, "blocked", String(error)]); }
  }
  parent.postMessage(JSON.stringify(results), "*");
})();
</script>
"""
OUTER = """<title>waiting</title><script>
onmessage = (message) => { window.results = message.data; document.title = "done"; };
</script><iframe sandbox="allow-scripts" src="/frame"></iframe>"""


class Foreign(BaseHTTPRequestHandler):
    """A page with a frame in a sandbox, whose origin is `null`."""

    frame = ""

    def do_GET(self) -> None:
        body = (self.frame if self.path == "/frame" else OUTER).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture
def foreign_port(service_url: str, build: Any) -> Iterator[int]:
    price = build.event(
        "assay.price.published.v1",
        {"hardware": {"id": "acme-one", "kind": "cpu", "count": 1}, "provider": "evil", "usd_per_hour": 0.01, "date": "2026-01-01"},
    )  # fmt: skip
    frame = ATTACK.replace("SERVICE", json.dumps(service_url)).replace(
        "EVENTS", json.dumps([price, build.measurement()])
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Page", (Foreign,), {"frame": frame}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    server.server_close()
    thread.join()


def state(client: Client) -> tuple[Any, ...]:
    return client.ready()["position"], client.tokens(), httpx.get(f"{client.server}/v1/snapshots").json()["items"]


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_page_in_a_sandbox_writes_and_reads_nothing(
    chromium: Any, service_url: str, foreign_port: int, name: str
) -> None:
    context = chromium.new_context()
    with Client(service_url) as client:
        before = state(client)
        page = context.new_page()
        page.goto(f"http://{name}:{foreign_port}/")
        page.wait_for_function("document.title === 'done'", timeout=60_000)
        results = json.loads(page.evaluate("window.results"))
        context.close()
        assert len(results) == 27
        assert {kind for _, kind, _ in results} <= {"opaque", "blocked"}
        assert state(client) == before
        assert client.models()


def handshake(url: str, host: str, origin: str | None = None, path: str = "/_stcore/stream") -> int:
    """Ask for a WebSocket under a Host and return the status of the answer."""
    address, _, port = url.removeprefix("http://").partition(":")
    lines = [
        f"GET {path} HTTP/1.1", f"Host: {host}", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
        *([f"Origin: {origin}"] if origin is not None else []),
    ]  # fmt: skip
    with socket.create_connection((address, int(port)), timeout=30) as connection:
        connection.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        return int(connection.recv(4096).split()[1])


def page_status(url: str, host: str) -> int:
    return httpx.get(f"{url}/operations", headers={"Host": host}, trust_env=False).status_code


FOREIGN = ["evil.example", "evil.example:8501", "127.0.0.1.evil.example", "192.0.2.7", "a@localhost", "localhost/", ""]


def test_the_dashboard_refuses_foreign_names(service_url: str, dashboards: Callable[[str], str]) -> None:
    url = dashboards(service_url)
    own = url.removeprefix("http://")
    port = own.partition(":")[2]
    for host in FOREIGN:
        assert page_status(url, host) == 403, host
        assert handshake(url, host) == 403, host
    for host in (own, f"localhost:{port}", "localhost", f"[::1]:{port}", "LOCALHOST."):
        assert page_status(url, host) == 200, host
        assert handshake(url, host, f"http://{host}") == 101, host
    for origin in ("null", "http://evil.example", "http://localhost:1", "https://127.0.0.1"):
        assert handshake(url, own, origin) == 403, origin


def test_the_dashboard_answers_to_names_that_were_set(service_url: str) -> None:
    with dashboard_on(service_url, ASSAY_ALLOWED_HOSTS="assay.example, *.corp.example") as url:
        for host in ("assay.example", "a.b.corp.example:8443", "127.0.0.1"):
            assert page_status(url, host) == 200, host
            assert handshake(url, host, f"https://{host}") == 101, host
        for host in ("corp.example", "evil-corp.example", "assay.example.evil.example"):
            assert page_status(url, host) == 403, host
            assert handshake(url, host) == 403, host
