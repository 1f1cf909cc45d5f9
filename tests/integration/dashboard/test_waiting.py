"""What a page shows while the service does not answer: its head and grey fields where it is new, the previous answer where it is not."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from dashboard.gallery import settled
from tests.integration.dashboard.conftest import dashboard_on

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
STATE = "state => document.querySelector('[data-testid=stApp]').dataset.testScriptState === state"


class Gate:
    """A way to the service that can be closed: connections stay, and nothing passes."""

    def __init__(self, target: str) -> None:
        self.open = threading.Event()
        self.open.set()
        self._to = (urlsplit(target).hostname, urlsplit(target).port)
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._server.accept()
            except OSError:
                return
            far = socket.create_connection(self._to)
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(65536):
                self.open.wait()
                sink.sendall(data)
        except OSError:
            return
        finally:
            sink.close()

    def close(self) -> None:
        self.open.set()
        self._server.close()


@pytest.fixture
def gate(service_url: str) -> Iterator[Gate]:
    gate = Gate(service_url)
    yield gate
    gate.close()


def test_a_new_page_waits_with_its_head_then_says_what_is_wrong(page: Any, gate: Gate) -> None:
    with dashboard_on(gate.url, ASSAY_PATIENCE_S="1.5") as at:
        gate.open.clear()
        page.page.goto(f"{at}/models")
        page.page.locator(".skeleton").wait_for()
        assert page.page.get_by_role("heading", level=1).inner_text() == "Models"
        page.page.get_by_text("has not answered within 1.5 s").wait_for()
        page.page.get_by_text("assay status").wait_for()
        page.page.locator(".skeleton").wait_for(state="hidden")
        assert "`" not in page.text()
        gate.open.set()
        page.page.get_by_role("button", name="Try again").click()
        page.page.locator(".assay-table").wait_for()


def test_the_previous_answer_stays_until_the_next_is_there(page: Any, gate: Gate) -> None:
    with dashboard_on(gate.url) as at:
        page.open(f"{at}/hardware?id=acme-one&tab=specification")
        settled(page.page)
        gate.open.clear()
        page.page.get_by_text("Siblings", exact=True).click()
        page.page.wait_for_function(STATE, arg="running")
        assert page.page.get_by_text("Where the figures come from").is_visible()
        assert not page.page.locator(".skeleton").is_visible()
        gate.open.set()
        page.page.get_by_text("Where the figures come from").wait_for(state="detached")
        assert "Traceback" not in page.text()


GREY = """() => new Promise(done => {
    const shown = () => document.querySelector('[data-testid=stMain] h1')?.textContent === 'Models';
    let begun = null;
    const look = now => {
        const grey = document.querySelector('.skeleton');
        if (begun === null && shown()) begun = now;
        const visible = grey && getComputedStyle(grey).display !== 'none' && getComputedStyle(grey).opacity > 0;
        if (begun !== null && visible) done(now - begun); else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
})"""


@pytest.mark.torture
def test_grey_fields_stand_within_a_third_of_a_second_of_the_new_head(page: Any, gate: Gate) -> None:
    with dashboard_on(gate.url) as at:
        page.open(at)
        gate.open.clear()
        page.page.evaluate(f"() => {{ window.grey = ({GREY})(); }}")
        page.page.get_by_test_id("stSidebarNavLink").filter(has_text="Models").click()
        assert page.page.evaluate("window.grey") <= 300
        gate.open.set()


@pytest.mark.torture
def test_a_service_that_stops_under_an_open_page_is_said_after_five_seconds_and_the_answer_stays_until_then(
    page: Any, gate: Gate
) -> None:
    with dashboard_on(gate.url) as at:
        page.open(f"{at}/hardware?id=acme-one&tab=specification")
        settled(page.page)
        # At once: the dashboard still takes the service for well.
        gate.open.clear()
        begun = time.monotonic()
        page.page.get_by_text("Siblings", exact=True).click()
        page.page.wait_for_function(STATE, arg="running")
        assert page.page.get_by_text("Where the figures come from").is_visible()
        page.page.get_by_text("has not answered within 5 s").first.wait_for()
        assert 3 < time.monotonic() - begun < 9
        assert page.page.locator("code", has_text="assay status").first.is_visible()
        assert "`" not in page.page.inner_text("[data-testid=stMain]")
        gate.open.set()
