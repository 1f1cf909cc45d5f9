"""What holds for every page of the menu, so that a new one cannot be forgotten: it says its question, fits a phone, is read by
everybody, finds its view again, and says in a sentence what is wrong where the service is away, slow, newer or empty."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from axe_playwright_python.base import AXE_SCRIPT

from dashboard.gallery import settled
from dashboard.menu import MENU, Entry
from tests.integration.dashboard.conftest import dashboard_on

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
ENTRIES = [entry for entries in MENU.values() for entry in entries]
MODEL = "acme/tiny"
FILLED = {
    "overview": "", "recommend": f"model={MODEL}&platform=cpu", "compare": f"model={MODEL}&metric=latency",
    "predictor": "split=family", "models": f"id={MODEL}", "hardware": "id=acme-one",
}  # fmt: skip
"""Addresses of pages that show something; a page that is not here is opened without parameters."""
SUBJECTS = {"recommend": "tiny", "compare": "tiny", "models": "tiny", "hardware": "acme-one"}
"""Titles of pages that are about something: its name. The others have that of the menu."""
FACTS = {"models": " measurements", "hardware": " measurements"}
"""What stands under such a title in place of the question: what the subject is, in a line."""
OVERFLOW = """() => { const main = document.querySelector('[data-testid="stMain"]'); return main.scrollWidth - main.clientWidth; }"""
THEME = """theme => getComputedStyle(document.querySelector('[data-testid="stApp"]')).colorScheme === theme"""
FOCUS = """() => { const now = document.activeElement; return {
    inside: now.matches('[data-testid="stMain"] *'), name: now.getAttribute('aria-label') || now.labels?.[0]?.innerText || now.innerText }; }"""


STREAMLITS = {
    "list": {'[data-testid="stSidebarNavItems"]': "the menu's groups stand as divs in its list"},
    "listitem": {'[data-testid="stSidebarNavItems"]': "the menu's pages stand in those divs"},
    "scrollable-region-focusable": {
        '[data-testid="stCode"]': "a command wider than a phone is scrolled by touch; its button copies it"
    },
}
"""What axe finds in parts that Streamlit makes: by rule, their selectors, and why the finding is not ours to mend."""
AXE = """async () => (await axe.run(document, {resultTypes: ['violations']})).violations
    .filter(found => ['serious', 'critical'].includes(found.impact))
    .flatMap(found => found.nodes.map(node => ({
        rule: found.id, target: node.target.flat().join(' '), html: node.html.slice(0, 200), why: node.failureSummary })))"""
WITHIN = "([target, selector]) => document.querySelector(target)?.closest(selector) != null"


def findings(page: Any) -> list[str]:
    """What axe finds in our own content and calls serious or critical, a line each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    return [
        f"{found['rule']}: {found['target']}: {found['html']} ({found['why']})"
        for found in page.evaluate(AXE)
        if not any(page.evaluate(WITHIN, [found["target"], one]) for one in STREAMLITS.get(found["rule"], {}))
    ]


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.name)
def entry(request: pytest.FixtureRequest) -> Entry:
    return request.param


def address(entry: Entry) -> str:
    asked = FILLED.get(entry.name, "")
    return f"{path(entry)}?{asked}" if asked else path(entry)


def path(entry: Entry) -> str:
    """The first page opens without one."""
    return "" if entry is ENTRIES[0] else entry.name


def title(page: Any) -> str:
    return str(page.get_by_role("heading", level=1).inner_text())


LOOKS = (("dark", 390),)
OTHER_LOOKS = (("light", 1280), ("dark", 1280), ("light", 390))


def look(page: Any, theme: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 1000})
    page.emulate_media(color_scheme=theme)
    page.wait_for_function(THEME, arg=theme)
    settled(page)


def test_it_says_its_question_and_is_read_by_everybody_and_found_again(
    page: Any, dashboards: Any, service_url: str, entry: Entry
) -> None:
    text = page.open(f"{dashboards(service_url)}/{address(entry)}")
    subject = SUBJECTS.get(entry.name, entry.title)
    assert title(page.page) == subject
    page.page.wait_for_function("said => document.title.endsWith(said)", arg=f"{entry.title} · Assay")
    assert FACTS.get(entry.name, "?") in text.partition(subject)[2].strip().split("\n")[0]
    assert "Traceback" not in text and "could not be shown" not in text
    reached = first_of_the_page_by_keyboard(page.page)
    assert reached["inside"] and reached["name"]
    before = page.page.url
    for opened in (next(one for one in ENTRIES if one is not entry), entry):
        page.follow(opened)
    page.page.wait_for_function("was => decodeURIComponent(location.href) === decodeURIComponent(was)", arg=before)
    settled(page.page)
    for theme, width in LOOKS:
        look(page.page, theme, width)
        assert page.page.evaluate(OVERFLOW) <= 0
        assert findings(page.page) == []
    assert page.wrong == []


@pytest.mark.torture
def test_everybody_can_read_it_in_the_other_looks(page: Any, dashboards: Any, service_url: str, entry: Entry) -> None:
    page.open(f"{dashboards(service_url)}/{address(entry)}")
    for theme, width in OTHER_LOOKS:
        look(page.page, theme, width)
        assert page.page.evaluate(OVERFLOW) <= 0
        assert findings(page.page) == []


def first_of_the_page_by_keyboard(page: Any) -> dict[str, Any]:
    """What the Tab key reaches first in the page itself, behind the menu."""
    reached: dict[str, Any] = {}
    for _ in range(2 * len(ENTRIES) + 10):
        page.keyboard.press("Tab")
        reached = page.evaluate(FOCUS)
        if reached["inside"]:
            break
    return reached


class Slow(BaseHTTPRequestHandler):
    """A service that takes every question and answers none."""

    over = threading.Event()

    def do_GET(self) -> None:
        self.over.wait(60)

    def log_message(self, *_: Any) -> None:
        """Keep the test's output clean."""


@pytest.fixture(scope="module")
def slow_url() -> Iterator[str]:
    with served(Slow) as url:
        yield url
        Slow.over.set()


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def texts(page: Any, at: str) -> dict[str, str]:
    """What each page says, without parameters, to one reader who follows the menu."""
    said = {ENTRIES[0].name: page.open(at)}
    for entry in ENTRIES[1:]:
        page.follow(entry)
        said[entry.name] = page.text()
    return said


@pytest.mark.parametrize(
    ("state", "sentence", "remedy"),
    [
        ("away_url", "no service answers at", "assay up"),
        pytest.param("slow_url", "has not answered within 0.5 s", "Try again", marks=pytest.mark.torture),
        ("newer_url", "another version than this dashboard", "Install the same version"),
    ],
)
def test_what_is_wrong_with_the_service_is_a_sentence_on_every_page(
    page: Any, request: pytest.FixtureRequest, state: str, sentence: str, remedy: str
) -> None:
    with dashboard_on(request.getfixturevalue(state), ASSAY_PATIENCE_S="0.5") as at:
        said = texts(page, at)
    for name, text in said.items():
        assert sentence in text, name
        assert remedy in text, name
        assert "Traceback" not in text and "could not be shown" not in text, name
        # Streamlit shows a page's question also where nothing else can be shown.
        assert "?" in text.split("\n\n")[1], name
    assert page.wrong == []


def test_an_empty_service_is_a_sentence_on_every_page(page: Any, dashboards: Any, empty_url: str) -> None:
    said = texts(page, dashboards(empty_url))
    for name, text in said.items():
        assert "Traceback" not in text and "could not be shown" not in text, name
        assert len(text.split()) > 15, name
    assert "assay bench bert-base-uncased --platform cpu,openvino" in said["overview"]
    assert page.wrong == []
