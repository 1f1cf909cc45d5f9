"""Who may do what: tokens, scopes, sources, revocation, and the open door of a machine of one's own."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from api.http.access import REFRESH_S, STALE_S, UNKNOWN_REFRESH_S, Access
from api.http.tokens import TokenStore
from api.settings import Settings
from domain.errors import AssayError, Forbidden, NotFound, ServiceUnavailable, Unauthenticated, UsageError
from domain.permissions import PREFIX

ROOT = Path(__file__).resolve().parents[3]


def sent(**headers: str) -> dict[bytes, bytes]:
    return {name.encode(): value.encode() for name, value in headers.items()}


def bearer(secret: str) -> dict[bytes, bytes]:
    return sent(authorization=f"Bearer {secret}", host="assay.example")


def check(access: Access, connection: Any, scope: str) -> Any:
    return asyncio.run(access.check(connection, scope))


def test_a_secret_is_shown_once_and_only_its_hash_is_kept(database):
    secret, token = TokenStore(database.url).create("runner", ["append"], source="urn:acme:one")
    assert secret.startswith(PREFIX)
    assert len(secret) - len(PREFIX) >= 27  # 160 bits in base64
    assert (token.scopes, token.source) == (["append"], "urn:acme:one")
    with psycopg.connect(database.url) as connection:
        (row,) = connection.execute("SELECT token::text FROM token").fetchall()
    assert secret not in row[0]
    assert [one.id for one in TokenStore(database.url).listed()] == [token.id]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"scopes": ["fly"]}, "scopes"), ({"scopes": []}, "scopes"), ({"name": " "}, "name"),
        ({"expires_at": datetime(2020, 1, 1, tzinfo=UTC)}, "expires_at"),
    ],
)  # fmt: skip
def test_a_token_that_makes_no_sense_is_not_made(database, arguments, field):
    with pytest.raises(UsageError) as refused:
        TokenStore(database.url).create(**{"name": "one", "scopes": ["read"], **arguments})
    assert refused.value.field == field


def test_scopes_expiry_and_revocation(database):
    clock = [0.0]
    access = Access(Settings(home=Path("unused"), host="0.0.0.0"), TokenStore(database.url), clock=lambda: clock[0])
    reader, _ = TokenStore(database.url).create("reader", ["read"])
    admin, _ = TokenStore(database.url).create("admin", ["admin"])
    short, _ = TokenStore(database.url).create("short", ["read"], expires_at=datetime.now(UTC) + timedelta(seconds=0.3))

    async def story() -> None:
        assert (await access.check(bearer(reader), "read")).name == "reader"
        assert (await access.check(bearer(admin), "append")).name == "admin"
        with pytest.raises(Forbidden):
            await access.check(bearer(reader), "append")
        for wrong in (bearer(reader + "x"), sent(), sent(authorization="Basic abc")):
            with pytest.raises(Unauthenticated):
                await access.check(wrong, "read")
        while (TokenStore(database.url).listed()[2].expires_at or datetime.now(UTC)) > datetime.now(UTC):
            await asyncio.sleep(0.05)
        with pytest.raises(Unauthenticated):
            await access.check(bearer(short), "read")
        assert TokenStore(database.url).revoke("reader").revoked_at is not None
        await access.refresh()
        with pytest.raises(Unauthenticated):
            await access.check(bearer(reader), "read")
        later, _ = TokenStore(database.url).create("later", ["read"])
        clock[0] += UNKNOWN_REFRESH_S + 0.1
        assert (await access.check(bearer(later), "read")).name == "later"
        clock[0] += STALE_S + 0.1
        with pytest.raises(ServiceUnavailable):
            await access.check(bearer(later), "read")

    asyncio.run(story())
    assert REFRESH_S < STALE_S <= 30
    with pytest.raises(NotFound):
        TokenStore(database.url).revoke("nobody")


def test_without_tokens_only_this_machine_gets_in(database):
    access = Access(Settings(home=Path("unused")), TokenStore(database.url))
    for host in ("127.0.0.1:8000", "localhost", "[::1]:8000"):
        assert check(access, sent(host=host), "admin") is None
    for headers in ({"host": "evil.example"}, {"host": "localhost", "origin": "http://evil.example"}):
        with pytest.raises(Forbidden):
            asyncio.run(Access(access.settings, TokenStore(database.url)).check(sent(**headers), "read"))


def test_the_last_token_revoked_does_not_open_the_door(database):
    TokenStore(database.url).create("only", ["read"])
    TokenStore(database.url).revoke("only")
    with pytest.raises(Unauthenticated):
        check(Access(Settings(home=Path("unused")), TokenStore(database.url)), sent(host="localhost"), "read")


@pytest.mark.parametrize("role", ["all", "ingest"])
def test_binding_beyond_this_machine_needs_a_token(database, tmp_path, role):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    environment |= {"ASSAY_HOME": str(tmp_path), "ASSAY_DATABASE_URL": database.url}
    command = [sys.executable, "-m", "assay.cli", "serve", "--host", "0.0.0.0", "--port", str(port), "--role", role]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "no token is configured" in ended.stderr
    assert "assay token create" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_served_token_appends_as_its_source_only(fresh_service, database, build):
    secret, _ = TokenStore(database.url).create("runner", ["append", "read"], source=build.SOURCE)
    service = fresh_service().start_with(secret)
    bare = httpx.get(f"{service.url}/v1/events")
    assert (bare.status_code, bare.json()["type"]) == (401, "urn:assay:problem:unauthenticated")
    assert bare.headers["www-authenticate"].startswith("Bearer")
    own, other = build.measurement(), build.measurement(source="urn:acme:else")
    with service.client() as client:
        answer = client.post_events([own, other])
        assert answer["accepted"] == 1
        assert [(one["index"], one["problem"], one["field"]) for one in answer["rejected"]] == [
            (1, "forbidden", "source")
        ]
        with pytest.raises(AssayError) as refused:
            client.train()
        assert refused.value.status == 403
    headers = {"Authorization": f"Bearer {secret}", "Content-Type": "application/json"}
    alone = httpx.post(f"{service.url}/v1/events", headers=headers, json=other)
    assert alone.status_code == 403
    assert secret not in service.log.read_text()
    assert httpx.get(f"{service.url}/health/live").status_code == 200
