"""A real service with known rows, real dashboards that ask it, and a real browser."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from assay.client import Client
from dashboard import gallery, launch
from dashboard.menu import Entry
from domain.errors import PartMissing

MODEL = "acme/tiny"
HEIGHT = 1000
QUICK = ("--js-flags=--no-opt --no-maglev --single-threaded-gc --min-semi-space-size=32 --max-semi-space-size=32",)
"""What makes a page that is looked at once take less of a processor: nothing is compiled for being run often, and garbage waits."""
SETTLED = f"() => document.querySelector('h1') && ({gallery.SETTLED})()"
LOOK_MS = 50
"""Between two looks whether a page rests; looking at each frame, as is the default, makes the browser draw frames."""
STREAMLITS_OWN = ("_stcore/health", "_stcore/host-config")
"""Streamlit looks for its own routes below a page's path first; each such look ends in a 404."""


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def rows(build: Any) -> list[dict[str, Any]]:
    """Events of one run: two devices, a slower platform, a row without throughput."""
    start = build.event(
        "assay.run.started.v1",
        {"run_id": "run-1", "kind": "bench", "hardware": [{"id": "acme-one", "kind": "cpu", "count": 1}]},
    )
    measured = [
        build.measurement(8.0, hardware="acme-one", platform="cpu", precision="fp32"),
        build.measurement(2.0, hardware="acme-one", platform="openvino", precision="bf16"),
        build.measurement(40.0, hardware="acme-two", platform="cpu", precision="fp32"),
    ]
    for event, throughput in zip(measured, (125.0, 500.0, None), strict=True):
        if throughput is not None:
            event["data"]["metrics"]["throughput_per_s"] = throughput
            event["data"]["metrics"]["peak_memory_bytes"] = 64_000_000
    end = build.event("assay.run.finished.v1", {"run_id": "run-1", "outcome": "finished", "measured": 3, "failed": 0})
    return [start, *measured, end]


@pytest.fixture(scope="package")
def service_url(new_service: Any, build: Any) -> Iterator[str]:
    with new_service() as url:
        with Client(url) as client:
            answer = client.post_events(rows(build))
            assert answer["rejected"] == []
            client.wait_for(answer["last_position"])
        yield url


@pytest.fixture(scope="package")
def empty_url(new_service: Any) -> Iterator[str]:
    with new_service() as url:
        yield url


@pytest.fixture(scope="package")
def away_url() -> Iterator[str]:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


class Newer(BaseHTTPRequestHandler):
    """A service of a version whose answers have other names."""

    def do_GET(self) -> None:
        body = b'{"place": 7, "status": "fine"}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture(scope="package")
def newer_url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Newer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@contextmanager
def dashboard_on(server: str, folder: Path | None = None, **settings: str) -> Iterator[str]:
    """Run the dashboard as users do, from a folder that is not ours; where that has modules, in a new interpreter."""
    port = free_port()
    working = tempfile.mkdtemp()
    child = subprocess.Popen(
        launch.command(port, server), cwd=folder or working, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": "", **settings},
    )  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    try:
        transport = httpx.HTTPTransport(retries=10)
        with httpx.Client(transport=transport, trust_env=False) as client:
            assert client.get(f"{url}/_stcore/health", timeout=30).text == "ok"
        yield url
    finally:
        child.terminate()
        child.wait(20)
        shutil.rmtree(working)


@pytest.fixture(scope="package")
def dashboards(service_url: str) -> Iterator[Callable[[str], str]]:
    """Gives the address of a dashboard that asks a server; each is started once."""
    started: dict[str, tuple[Any, str]] = {}

    def at(server: str) -> str:
        if server not in started:
            context = dashboard_on(server)
            started[server] = (context, context.__enter__())
        return started[server][1]

    yield at
    for context, _ in started.values():
        context.__exit__(None, None, None)


# Playwright keeps an event loop running in this thread for as long as it is open, and services and dashboards that nobody
# asks take processor time from the tests after these: all of them end with the package.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    try:
        gallery.find_browser()
    except PartMissing as missing:
        if os.environ.get("ASSAY_REQUIRE_BROWSER") == "1":
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    with gallery.browser(*QUICK) as found:
        yield found


class Page:
    """A browser's page that remembers what went wrong in it."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.page.set_default_timeout(30_000)
        self.wrong: list[str] = []
        self._handlers = {"console": self._console, "pageerror": lambda error: self.wrong.append(str(error))}
        for event, handler in self._handlers.items():
            self.page.on(event, handler)

    def leave(self, viewport: dict[str, int], theme: str) -> None:
        """Make the tab as it was opened: blank, of this size and theme, and with nobody who listens."""
        for event, handler in self._handlers.items():
            self.page.remove_listener(event, handler)
        self.page.evaluate("sessionStorage.clear()")
        self.page.goto("about:blank")
        self.page.set_viewport_size(viewport)
        self.page.emulate_media(color_scheme=theme)

    def _console(self, message: Any) -> None:
        ours = not any(path in (message.location or {}).get("url", "") for path in STREAMLITS_OWN)
        if message.type in ("error", "warning") and ours:
            self.wrong.append(f"{message.type}: {message.text}")

    def open(self, url: str) -> str:
        self.page.goto(url)
        return self.text()

    def follow(self, entry: Entry) -> None:
        """Go to a page by the menu, as readers do: nothing of Streamlit's is loaded again, which takes half the time."""
        self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=entry.title, exact=True).click()
        self.page.wait_for_function("title => document.title.endsWith(`${title} · Assay`)", arg=entry.title)
        self.page.get_by_role("heading", level=1).wait_for()

    def text(self) -> str:
        """What a reader sees, with ordinary spaces."""
        self.page.wait_for_function(SETTLED, polling=LOOK_MS)
        return self.page.inner_text('[data-testid="stMain"]').replace("\u202f", " ")


@pytest.fixture(scope="package")
def contexts(chromium: Any) -> Iterator[Callable[[int, str], Any]]:
    """Gives a browser's context by width and theme; one each, so that Streamlit's scripts are loaded once."""
    opened: dict[tuple[int, str], Any] = {}

    def at(width: int, theme: str) -> Any:
        if (width, theme) not in opened:
            opened[width, theme] = chromium.new_context(
                viewport={"width": width, "height": HEIGHT},
                color_scheme=theme,
                timezone_id="Europe/Berlin",
                reduced_motion="reduce",
            )
        return opened[width, theme]

    yield at
    for context in opened.values():
        context.close()


@pytest.fixture(scope="package")
def idle_tabs() -> dict[tuple[int, str], Any]:
    """Blank tabs by width and theme. One that is used again has Streamlit's scripts compiled: half the time of a page."""
    return {}


@pytest.fixture
def tab(
    contexts: Callable[[int, str], Any], idle_tabs: dict[tuple[int, str], Any], request: pytest.FixtureRequest
) -> Iterator[Callable[..., Page]]:
    """Opens pages of a width and a theme; after the test one of each is left blank for the next, the others are closed."""
    opened: list[tuple[tuple[int, str], Page]] = []
    failed_before = request.session.testsfailed

    def at(width: int = 1280, theme: str = "light") -> Page:
        look = (width, theme)
        opened.append((look, Page(idle_tabs.pop(look, None) or contexts(*look).new_page())))
        return opened[-1][1]

    yield at
    for look, shown in opened:
        if look in idle_tabs or request.session.testsfailed > failed_before or shown.page.url == "about:blank":
            shown.page.close()
        else:
            shown.leave({"width": look[0], "height": HEIGHT}, look[1])
            idle_tabs[look] = shown.page


@pytest.fixture
def page(tab: Callable[..., Page], request: pytest.FixtureRequest) -> Page:
    return tab(*getattr(request, "param", ()))


@pytest.fixture(autouse=True)
def _same_main() -> Iterator[None]:
    """Streamlit puts the page that it runs in the place of `__main__`, which processes spawned by later tests would run."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before
