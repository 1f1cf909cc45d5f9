"""Text of events is shown as text: no page makes an image, a link or a request of it."""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from assay.client import Client
from dashboard.menu import MENU
from dashboard.screens.hardware.words import TABS as DEVICE_TABS
from dashboard.screens.models.words import TABS as MODEL_TABS
from domain.errors import AssayError
from domain.events import decode_event, encode_event
from tests.integration.dashboard.conftest import dashboard_on

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("dashboard")]
GOLDEN = sorted((Path(__file__).resolve().parents[2] / "golden").glob("*.json"))
KEPT = frozenset({"specversion", "id", "time", "datacontenttype"})
OURS = ("model.id", "hardware.id", "platform", "precision", "run_id", "mode", "origin", "verdict", "category", "kind")
"""Members that stay as they are in half of the events, so that ordinary pages show the others."""
BY_NAME = {entry.name: entry for entries in MENU.values() for entry in entries}
MADE = """host => [...document.querySelectorAll('[src], [href], [data], [style]')].filter(each =>
    ['src', 'href', 'data'].some(name => { try { return new URL(each.getAttribute(name)).host === host } catch { return false } })
    || (each.getAttribute('style') || '').includes(host))
    .filter(each => each.localName !== 'a' || !each.textContent.includes(host))
    .map(each => each.outerHTML.slice(0, 300))"""

OPEN_ALL = """() => [...document.querySelectorAll('[data-testid="stExpander"] details:not([open]) > summary')]
    .map(each => each.click()).length"""

FOREIGN_IMAGE = """address => new Promise(done => {
    const image = new Image(); image.onload = () => done('load'); image.onerror = () => done('error'); image.src = address })"""


class Listener:
    """A web server that remembers what was asked of it."""

    def __init__(self) -> None:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                listener.requests.append(self.path)
                self.send_response(404)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                """Keep the test's output clean."""

        self.requests: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self.server.server_address[1]}"
        # At most 64 characters, which the shortest members take; the quote ends code that a page makes of it.
        self.text = f"`![](http://{self.host}/a)<img/src=//{self.host}/b>"


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    made = Listener()
    thread = threading.Thread(target=made.server.serve_forever, daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all texts."""
    if isinstance(value, str):
        yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from leaves(inner, (*path, key))


def hostile(event: dict[str, Any], text: str, *, ordinary: bool) -> dict[str, Any]:
    """Return the event with `text` in every member that may hold it; `ordinary` keeps ids and vocabulary."""
    for path in [path for path in leaves(event) if path[0] not in KEPT and path != ("type",)]:
        if ordinary and ".".join(map(str, path)).endswith(OURS):
            continue
        changed = copy.deepcopy(event)
        inner = changed
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = text
        try:
            decode_event(encode_event(changed))
        except AssayError:
            continue
        event = changed
    return event


def events_with(text: str, build: Any) -> list[dict[str, Any]]:
    made = [build.event(text, {text: text}, source=text, subject=text)]
    for ordinary in (False, True):
        for path in GOLDEN:
            event = json.loads(path.read_text())
            made.append(hostile(build.event(event["type"], event["data"], subject="s"), text, ordinary=ordinary))
        made += [hostile(build.measurement(float(n), batch_size=n), text, ordinary=ordinary) for n in (2, 4)]
        made += [hostile(event, text, ordinary=ordinary) for event in (build.test("failed"), build.failure())]
    return made


@pytest.fixture(scope="module")
def attacked(listener: Listener, new_service: Any, build: Any) -> Iterator[tuple[str, Any]]:
    """A dashboard on a service that holds such events, and the addresses to open."""
    with new_service() as url, Client(url) as client:
        events = events_with(listener.text, build)
        answer = client.post_events(events)
        assert len(answer["rejected"]) < len(events) / 3, answer["rejected"]
        client.wait_for(answer["last_position"])
        failed = client.query("select event_id, run_id from failures union all select event_id, run_id from tests")[
            "rows"
        ]
        rows = client.query("select event_id, run_id, model_id, hardware_id from measurements")["rows"]
        with dashboard_on(url) as dashboard:
            yield dashboard, addresses_of(listener.text, rows, [*failed, *(row[:2] for row in rows)], events[0]["id"])


def addresses_of(
    text: str, rows: list[list[str]], row_of_run: list[list[str]], other: str
) -> tuple[list[str], list[str]]:
    """Return addresses that show the events: one of each kind of page, and all the others."""
    models = [quote(id_, safe="") for id_ in {row[2] for row in rows}]
    devices = [quote(id_, safe="") for id_ in {row[3] for row in rows}]
    asked = quote(text, safe="")
    pages = list(BY_NAME)
    first = [
        *pages, f"runs?row={other}", f"operations?event={other}", f"models?id={quote('google-bert/bert-base-uncased', safe='')}",
        "hardware?id=nvidia-h200-sxm", f"hardware?id={asked}", f"compatibility?level=model&sel={asked}~{asked}",
        f"runs?run={quote(row_of_run[-1][1], safe='')}&row={row_of_run[-1][0]}",
    ]  # fmt: skip
    rest = [f"models?id={id_}&tab={tab}" for id_ in models for tab in MODEL_TABS]
    rest += [f"{page}?model={id_}" for page in ("recommend", "compare", "trends") for id_ in models]
    rest += [f"hardware?id={id_}&tab={tab}" for id_ in devices for tab in DEVICE_TABS]
    rest += [f"compare?subject=hw&hw={id_}" for id_ in devices]
    rest += [f"runs?run={quote(run, safe='')}&row={event}" for event, run in row_of_run]
    rest += [f"query?sql={quote(f'select * from {view} limit 20')}&run=true" for view in ("measurements", "tests")]
    rest += [f"{page}?model={asked}&id={asked}&search={asked}&family={asked}" for page in pages]
    return first, [address for address in rest if address not in first]


def require_text(page: Any, dashboard: str, addresses: list[str], listener: Listener) -> None:
    """Open addresses, or pages by the menu, and all folded in them; fail where text became an element or a request."""
    made: dict[str, list[str]] = {}
    seen = ""
    for address in addresses:
        if address in BY_NAME and seen:
            page.follow(BY_NAME[address])
            seen += page.text()
        else:
            seen += page.open(f"{dashboard}/{address}")
        if page.page.evaluate(OPEN_ALL):
            seen += page.text()
        if found := page.page.evaluate(MADE, listener.host):
            made[address] = found
    assert listener.host in seen
    assert made == {}
    assert listener.requests == []


def test_text_of_events_makes_no_request(page: Any, attacked: tuple[str, Any], listener: Listener) -> None:
    dashboard, (first, _) = attacked
    require_text(page, dashboard, first, listener)
    # What the pages miss, the browser refuses.
    assert page.page.evaluate(FOREIGN_IMAGE, f"http://{listener.host}/c") == "error"
    assert listener.requests == []


@pytest.mark.torture
def test_text_of_events_makes_no_request_on_any_address(
    page: Any, attacked: tuple[str, Any], listener: Listener
) -> None:
    dashboard, (_, rest) = attacked
    require_text(page, dashboard, rest, listener)
