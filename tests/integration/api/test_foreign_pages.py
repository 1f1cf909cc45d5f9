"""What a web page may reach: nothing of an open service. Bodies are declared JSON, shallow and bounded before decoding."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.app import create_app
from api.http.body_budget import BYTES
from api.http.tokens import TokenStore
from api.settings import Settings
from tests.integration.api.test_limits import MB, Watch

WITH_BODY = ("POST", "PUT", "PATCH")
JSON = {"Content-Type": "application/json"}
STALL_S = 0.8
"""A list of 16 MB used to block the event loop for 3 s; what remains is receiving it."""
DEPTHS = (65, 500, 990, 1000, 5000, 40_000)


def routes() -> list[tuple[str, str]]:
    """Every method and path of the application that may have a body."""
    app = create_app(Settings(home=Path("unused")))
    paths = [(method, route.path) for route in app.routes for method in getattr(route, "methods", ())]
    found = sorted((method, PATHS.get(path, path)) for method, path in paths if method in WITH_BODY)
    assert len(found) >= 12
    assert all("{" not in path for _, path in found)
    return found


FILE = "/v1/links/files/sha256:" + "0" * 64
"""Takes bytes of any type, under their digest alone; a page cannot send its method to another origin unasked."""
DEVICE = "/v1/browser-devices/page-0"
ALERT = "/v1/alerts/none/state"
PAGES = "/v1/peers/none/pages"
"""Takes lines of JSON."""
CANCEL, RETRY = "/v1/jobs/none/cancel", "/v1/jobs/none/retry"
LEASE = "/v1/jobs/claims/00000000-0000-4000-8000-000000000000"
PATHS = {
    "/v1/jobs/{job_id:str}/cancel": CANCEL,
    "/v1/jobs/{job_id:str}/retry": RETRY,
    "/v1/jobs/claims/{lease:str}/heartbeat": f"{LEASE}/heartbeat",
    "/v1/jobs/claims/{lease:str}/finish": f"{LEASE}/finish",
    "/v1/links/files/{digest:str}": FILE,
    "/v1/peers/{name:str}/pages": PAGES,
    "/v1/peers/{name:str}/problems": "/v1/peers/none/problems",
    "/v1/browser-devices/{device:str}": DEVICE,
    "/v1/alerts/{alert_id:str}/state": ALERT,
}
ROUTES = routes()
IGNORE_BODIES = {
    "/v1/projection/rebuild": 200,
    DEVICE: 422,
    FILE: 422,
    PAGES: 415,
    CANCEL: 422,
    RETRY: 422,
    f"{LEASE}/heartbeat": 409,
}


@pytest.fixture(scope="module")
def http(service: Any) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=60) as client:
        yield client


def last_position(http: httpx.Client) -> int:
    return int(http.get("/v1/events?limit=1").json()["last_position"])


def nested(depth: int) -> list[bytes]:
    return [
        b"[" * depth + b"]" * depth, b"[" * depth, b'{"a":' * depth + b"1" + b"}" * depth,
        b'{"model":' + b'[{"a":' * (depth // 2) + b"1" + b"}]" * (depth // 2) + b"}",
    ]  # fmt: skip


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_deep_json_is_refused_by_every_route(http, method, path):
    if path in IGNORE_BODIES:
        assert http.request(method, path, content=nested(1000)[0], headers=JSON).status_code == IGNORE_BODIES[path]
        return
    for depth in DEPTHS:
        for body in nested(depth):
            answer = http.request(method, path, content=body, headers=JSON)
            told = answer.json()
            assert answer.status_code in ((400, 422) if path == "/v1/events" else (400,)), (depth, body[:20], told)
            assert told["type"].startswith("urn:assay:problem:"), told


def test_brackets_in_strings_are_not_depth(http):
    question = {"sql": f"SELECT '{'[{' * 5000}\\\"[' AS a"}
    assert http.post("/v1/query", json=question).status_code == 200


@pytest.mark.parametrize("media", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "x"])
def test_a_body_needs_a_json_type(http, media):
    before = last_position(http)
    headers = {} if media is None else {"Content-Type": media}
    for method, path in ((method, path) for method, path in ROUTES if path != FILE):
        for content in (b"{}", iter([b"{}"])):
            answer = http.request(method, path, content=content, headers=headers)
            assert (answer.status_code, answer.json()["field"]) == (415, "Content-Type"), (path, answer.text)
            # Nobody read the body, so that the server ends the connection; the client is told.
            assert path == "/v1/events" or answer.headers["connection"] == "close"
    assert last_position(http) == before


REFUSED: list[tuple[dict[str, str], str]] = [
    ({"Host": "evil.example"}, "Host"), ({"Host": "localhost.evil.example"}, "Host"), ({"Host": "a@localhost"}, "Host"),
    ({"Host": "192.0.2.7"}, "Host"), ({"Origin": "null"}, "Origin"), ({"Origin": "http://evil.example"}, "Origin"),
    ({"Origin": "http://localhost:1"}, "Origin"), ({"Origin": "http://127.0.0.1"}, "Origin"),
    ({"Origin": "file://"}, "Origin"), ({"Origin": ""}, "Origin"), ({"Sec-Fetch-Site": "cross-site"}, "Sec-Fetch-Site"),
    ({"Sec-Fetch-Site": "same-site"}, "Sec-Fetch-Site"), ({"Sec-Fetch-Site": "what"}, "Sec-Fetch-Site"),
]  # fmt: skip


@pytest.mark.parametrize(("headers", "field"), REFUSED)
def test_an_open_service_refuses_a_foreign_page(http, build, headers, field):
    before = last_position(http)
    body = json.dumps(build.measurement()).encode()
    for method, path in [
        ("GET", "/v1/models"),
        ("GET", "/v1/events"),
        ("GET", "/schema"),
        *ROUTES,
        ("DELETE", "/v1/snapshots/x"),
    ]:
        content = None if method in ("GET", "DELETE") else body
        answer = http.request(method, path, content=content, headers={**JSON, **headers})
        told = answer.json()
        assert (answer.status_code, told["type"], told["field"]) == (403, "urn:assay:problem:forbidden", field), path
    assert last_position(http) == before
    assert http.get("/health/live", headers=headers).status_code == 200


def test_an_open_service_answers_its_own_pages_and_programs(service, http):
    own = {"Origin": service.url}
    named = {"Host": f"localhost:{service.port}", "Origin": f"http://localhost:{service.port}"}
    for headers in ({}, own, named, {"Sec-Fetch-Site": "same-origin", **own}, {"Sec-Fetch-Site": "none"}):
        answer = http.post("/v1/recommendations", json={"model": "none"}, headers=headers)
        assert answer.status_code == 422, (headers, answer.text)
        assert http.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/v1/events", "/v1/query", "/v1/tokens", "/v1/models"])
def test_a_preflight_gets_no_permission(http, path):
    asked = {
        "Origin": "http://evil.example", "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type", "Access-Control-Request-Private-Network": "true",
    }  # fmt: skip
    answer = http.options(path, headers=asked)
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_the_first_token_is_made_on_the_command_line_only(http):
    answer = http.post("/v1/tokens", json={"name": "mine", "scopes": ["admin"]})
    assert answer.status_code == 403
    assert "assay token create" in answer.json()["remedy"]
    assert http.get("/v1/tokens").json()["items"] == []


def test_a_service_with_tokens_checks_pages_that_write_and_the_names_that_were_set(fresh_service, database, build):
    secret, _ = TokenStore(database.url).create("root", ["admin"])
    service = fresh_service()
    service.environment = {"ASSAY_ALLOWED_HOSTS": "assay.example, *.corp.example"}
    service.start_with(secret)
    key = {"Authorization": f"Bearer {secret}"}
    body = json.dumps(build.measurement()).encode()

    def status(method: str, path: str, **headers: str) -> int:
        sent = {**key, **JSON, **{name.replace("_", "-"): value for name, value in headers.items()}}
        content = body if method == "POST" else None
        return httpx.request(method, service.url + path, content=content, headers=sent).status_code

    for path in ("/v1/events", "/v1/tokens", "/v1/snapshots"):
        assert status("POST", path, Origin="null") == 403
        assert status("POST", path, Origin="http://evil.example") == 403
        assert status("POST", path, Sec_Fetch_Site="cross-site") == 403
        assert status("POST", path, Host="evil.example") == 403
    assert status("POST", "/v1/events", Content_Type="text/plain") == 415
    # An answer needs the token, so that another page that has it may read.
    assert status("GET", "/v1/events", Sec_Fetch_Site="cross-site") == 200
    assert status("GET", "/v1/events", Host="evil.example") == 403
    for host in ("assay.example", "assay.example:8443", "a.corp.example", "127.0.0.1", "[::1]:8000"):
        assert status("GET", "/v1/events", Host=host) == 200, host
    assert status("POST", "/v1/events", Origin="https://assay.example") == 200


def test_large_lists_of_numbers_do_not_hold_up_the_others(service):
    """Eight lists of 16 MB at once: refused with 413 (or 429 where there is no room), while others are answered."""
    body = b"[" + b"1," * (8 * MB - 2) + b"1]"
    lines = {"Content-Type": "application/x-ndjson"}
    bodies = [(body, JSON)] * 6 + [(b"1\n" * (8 * MB), lines), (b"[" + b"{}," * (5 * MB) + b"{}]", JSON)]
    slowest, ended = 0.0, threading.Event()

    def watch() -> None:
        nonlocal slowest
        with httpx.Client() as http:
            while not ended.is_set():
                begun = time.monotonic()
                assert http.get(f"{service.url}/health/live", timeout=30).status_code == 200
                slowest = max(slowest, time.monotonic() - begun)

    watcher = threading.Thread(target=watch)
    memory = Watch(service.process.pid)
    watcher.start()
    begun = time.monotonic()
    try:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda sent: post_events(service, *sent), bodies))
    finally:
        took_s = time.monotonic() - begun
        ended.set()
        watcher.join()
        grown = memory.end()
    print(f"{took_s:.2f} s, the slowest other answer {slowest:.3f} s, {grown / MB:.0f} MB more")
    assert set(answers) <= {413, 429}
    assert 413 in answers
    assert slowest < STALL_S
    assert grown < 2 * BYTES + 128 * MB


def post_events(service: Any, content: bytes, headers: dict[str, str]) -> int:
    return httpx.post(f"{service.url}/v1/events", content=content, headers=headers, timeout=60).status_code
