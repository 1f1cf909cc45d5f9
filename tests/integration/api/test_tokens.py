"""Tokens over HTTP and on the command line: what they allow, how soon they end, what is remembered of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from api.http.tokens import TokenStore
from assay.client import Client
from assay.client.peers import PeerReader
from domain.errors import AssayError, Forbidden, Unauthenticated
from domain.sharing.peers import DEFAULT_TYPES, NewPeer, PeerPage

ROOT = Path(__file__).resolve().parents[3]
KNOWN_WITHIN_S = 3.0
"""Asking reads the table at most every 0.5 s; without being asked a worker reads it every 5 s."""
REVOKED_WITHIN_S = 30.0
ROUTES = [
    ("POST", "/v1/events", "append"), ("GET", "/v1/events", "read"), ("GET", "/v1/models", "read"),
    ("GET", "/v1/summary", "read"), ("GET", "/metrics", "read"), ("POST", "/v1/query", "read"),
    ("POST", "/v1/recommendations", "read"), ("POST", "/v1/predictor/train", "jobs"), ("POST", "/v1/predictor/train/machines", "admin"),
    ("POST", "/v1/predictor/evaluate", "jobs"), ("POST", "/v1/projection/rebuild", "admin"),
    ("GET", "/v1/tokens", "admin"), ("GET", "/v1/operations", "admin"), ("POST", "/v1/tokens", "admin"), ("DELETE", "/v1/tokens/x", "admin"),
    ("POST", "/v1/snapshots", "append"), ("GET", "/v1/snapshots", "read"), ("DELETE", "/v1/snapshots/x", "admin"), ("GET", "/v1/keys", "admin"),
    ("GET", "/v1/schema/tables", "read"), ("GET", "/v1/peers", "read"), ("POST", "/v1/peers", "admin"),
    ("DELETE", "/v1/peers/x", "admin"), ("POST", "/v1/peers/x/pages", "append"), ("POST", "/v1/peers/x/problems", "append"),
]  # fmt: skip


@pytest.fixture(scope="module")
def guarded(service_database: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A service with tokens; its client is the admin."""
    from tests.integration.conftest import RunningService

    database = service_database()
    secret, _ = TokenStore(database.url).create("root", ["admin"])
    running = RunningService(tmp_path_factory.mktemp("guarded"), database.url).start_with(secret)
    yield running
    running.stop()


def operations(client: Any) -> list[dict[str, Any]]:
    return [event["data"] for event in client.events(types=["assay.operation.performed.v1"])]


def test_a_token_is_made_used_and_revoked(guarded, build):
    with guarded.client() as admin:
        made = admin.create_token("runner-7", ["append"], source=build.SOURCE)
        token = made["token"]
        with Client(guarded.url, token=made["secret"]) as runner:
            assert runner.post_events([build.measurement()])["accepted"] == 1
            with pytest.raises(Forbidden):
                runner.models()
        (listed,) = [one for one in admin.tokens() if one["name"] == "runner-7"]
        assert listed == token
        assert made["secret"] not in json.dumps(admin.tokens())
        assert admin.revoke_token(token["id"])["revoked_at"] is not None
        with Client(guarded.url, token=made["secret"]) as runner, pytest.raises(Unauthenticated):
            runner.post_events([build.measurement()])
        done = [one for one in operations(admin) if one.get("object") == token["id"]]
    assert [(one["action"], one["actor"], one["details"]["name"]) for one in done] == [
        ("token.created", "root", "runner-7"), ("token.revoked", "root", "runner-7"),
    ]  # fmt: skip
    assert made["secret"] not in json.dumps(done)


def test_each_route_asks_for_its_scope(guarded):
    with guarded.client() as admin:
        secrets = {
            scope: admin.create_token(f"only-{scope}", [scope])["secret"] for scope in ("append", "read", "jobs")
        }
    for method, path, scope in ROUTES:
        for held, secret in secrets.items():
            answer = httpx.request(
                method, guarded.url + path, headers={"Authorization": f"Bearer {secret}"}, timeout=60
            )
            allowed = answer.status_code != 403
            assert allowed == (held == scope), (method, path, held, answer.text)
        bare = httpx.request(method, guarded.url + path)
        assert (bare.status_code, bare.json()["type"]) == (401, "urn:assay:problem:unauthenticated"), path
    assert httpx.get(f"{guarded.url}/health/ready").status_code == 200


def test_pages_of_a_peer_need_a_token_of_any_source_and_a_peer_one_that_reads(guarded):
    new = NewPeer(name="lab", url=guarded.url, sources=["urn:x"], types=list(DEFAULT_TYPES))
    page = PeerPage(log=str(uuid.uuid4()), epoch=1, after=0, upto=5, last_position=5)
    with guarded.client() as admin:
        admin.add_peer(new)
        bound = admin.create_token("bound", ["append"], source="urn:x")["secret"]
        free = admin.create_token("free", ["append"])["secret"]
        reads = admin.create_token("reads", ["read"])["secret"]
    with Client(guarded.url, token=bound) as client, pytest.raises(Forbidden):
        client.take_peer_page("lab", page, b"")
    with Client(guarded.url, token=free) as client:
        assert client.take_peer_page("lab", page, b"").position == 5
    with PeerReader(new, None, patience_s=0) as reader, pytest.raises(Unauthenticated) as refused:
        reader.read(0)
    assert refused.value.field == "token_file"
    with PeerReader(new, reads, patience_s=0) as reader:
        assert reader.read(0).page.last_position > 0


@pytest.mark.parametrize(
    "body",
    [
        {}, {"name": "x"}, {"name": "x", "scopes": []}, {"name": "x", "scopes": ["fly"]}, {"name": " ", "scopes": ["read"]},
        {"name": "x", "scopes": ["read"], "expires_at": "2020-01-01T00:00:00Z"},
        {"name": "x", "scopes": ["read"], "more": 1},
    ],
)  # fmt: skip
def test_a_token_that_makes_no_sense_is_not_made(guarded, body):
    headers = {"Authorization": f"Bearer {guarded.token}"}
    before = len(httpx.get(f"{guarded.url}/v1/tokens", headers=headers).json()["items"])
    assert httpx.post(f"{guarded.url}/v1/tokens", json=body, headers=headers).status_code == 422
    assert len(httpx.get(f"{guarded.url}/v1/tokens", headers=headers).json()["items"]) == before


def test_a_token_made_beside_the_service_works_soon_and_its_end_is_soon_known_everywhere(guarded, build):
    other = type(guarded)(guarded.home.parent / "other", guarded.database_url, "--role", "ingest")
    other.start_with(guarded.token)
    try:
        secret, token = TokenStore(guarded.database_url).create("late", ["read"])
        made_at = time.monotonic()
        headers = {"Authorization": f"Bearer {secret}"}
        for running in (guarded, other):
            while httpx.get(f"{running.url}/v1/events", headers=headers).status_code == 401:
                assert time.monotonic() - made_at < KNOWN_WITHIN_S
                time.sleep(0.05)
        TokenStore(guarded.database_url).revoke(token.id)
        revoked_at = time.monotonic()
        for running in (guarded, other):
            while httpx.get(f"{running.url}/v1/events", headers=headers).status_code == 200:
                assert time.monotonic() - revoked_at < REVOKED_WITHIN_S
                time.sleep(0.1)
    finally:
        other.stop()


def test_tokens_bring_a_rate_of_their_own(guarded):
    answer = httpx.get(f"{guarded.url}/v1/events", headers={"Authorization": f"Bearer {guarded.token}"})
    assert answer.headers["ratelimit-policy"] == '"requests";q=1000;w=2'


def test_the_command_line_leaves_a_trace_of_what_it_does(guarded):
    environment = {**os.environ, "ASSAY_HOME": str(guarded.home), "ASSAY_DATABASE_URL": guarded.database_url}

    def assay(*arguments: str) -> str:
        command = [sys.executable, "-m", "assay.cli", "token", *arguments]
        ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    made = json.loads(assay("create", "by-hand", "--scope", "read", "--days", "9", "--json"))
    assert "by-hand" in assay("list")
    assay("revoke", "by-hand")
    with guarded.client() as admin:
        done = [(one["action"], one["actor"]) for one in operations(admin) if one.get("object") == made["token"]["id"]]
    assert done == [("token.created", "local"), ("token.revoked", "local")]


def test_no_secret_is_in_any_log_after_a_busy_session(guarded, build):
    with guarded.client() as admin:
        secrets = [admin.create_token(f"busy-{number}", ["read", "append"])["secret"] for number in range(3)]
        for secret in secrets:
            with Client(guarded.url, token=secret, patience_s=0) as client:
                client.post_events([build.measurement()])
                client.post_events([{**build.measurement(), "source": ""}])
                client.models()
                with pytest.raises(AssayError):
                    client.query("SELECT nothing")
                with pytest.raises(AssayError):
                    client.tokens()
            for headers in (
                {"Authorization": secret},
                {"Authorization": f"Bearer {secret}x"},
                {"X-Request-Id": secret},
            ):
                httpx.get(f"{guarded.url}/v1/events", headers=headers)
                httpx.get(f"{guarded.url}/v1/hardware/{secret}", headers=headers)
            admin.revoke_token(next(one["id"] for one in admin.tokens() if secret.startswith(one["prefix"])))
    last = uuid.uuid4().hex
    httpx.get(f"{guarded.url}/health/live", headers={"X-Request-Id": last})
    assert guarded.logged(request_id=last)
    written = [path for path in guarded.home.rglob("*") if path.is_file()]
    assert guarded.log in written
    for path in written:
        content = path.read_bytes()
        assert not [secret for secret in (*secrets, guarded.token) if secret.encode() in content], path
