"""What is acknowledged is on disk, whatever the server, the database, the role or the URL have set."""

from __future__ import annotations

import asyncio
import time

import httpx
import psycopg
import pytest
from psycopg import sql

from api.http.tokens import TokenStore
from assay.diagnosis import log as diagnosis
from domain.errors import ServiceUnavailable
from domain.events import decode_event, encode_event
from ingest.log.artifacts import ArtifactStore
from ingest.log.embedded import EmbeddedServer
from ingest.log.event_log import EventLog
from ingest.log.migrate import upgrade
from ingest.log.postgres import Database

_SEEN = """
CREATE TABLE seen (name text, value text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO seen SELECT name, current_setting(name) FROM unnest(ARRAY[
        'synchronous_commit', 'transaction_isolation', 'transaction_read_only']) AS name;
    RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON event FOR EACH STATEMENT EXECUTE FUNCTION note();
"""


def append(url, events):
    async def run():
        async with EventLog(url) as log:
            return await log.append([decode_event(encode_event(event)) for event in events])

    return asyncio.run(run())


@pytest.mark.parametrize("where", ["database", "role", "url"])
@pytest.mark.parametrize(
    ("name", "value", "seen"),
    [
        ("synchronous_commit", "off", "on"),
        ("synchronous_commit", "remote_apply", "remote_apply"),
        ("default_transaction_isolation", "repeatable read", "read committed"),
        ("default_transaction_isolation", "serializable", "read committed"),
        ("default_transaction_read_only", "on", "off"),
    ],
)
def test_append_overrides_what_would_lose_or_refuse_events(database, build, where, name, value, seen):
    url = database.url
    with psycopg.connect(url) as connection:
        connection.execute(_SEEN)
        role, own = connection.info.user, connection.info.dbname
    targets = {
        "database": sql.SQL("DATABASE {0}").format(sql.Identifier(own)),
        "role": sql.SQL("ROLE {0} IN DATABASE {1}").format(sql.Identifier(role), sql.Identifier(own)),
    }
    if where == "url":
        url += ("&" if "?" in url else "?") + f"options=-c%20{name}%3D{value.replace(' ', '%5C%20')}"
    else:
        with psycopg.connect(url) as connection:
            connection.execute(sql.SQL("ALTER {} SET {} = {}").format(targets[where], sql.Identifier(name), value))
    assert [one.status for one in append(url, [build.measurement(), build.measurement()])] == ["accepted"] * 2
    with psycopg.connect(database.url, options="-c default_transaction_read_only=off") as connection:
        noted = dict(connection.execute("SELECT name, value FROM seen").fetchall())
    assert noted[name.replace("default_", "")] == seen


def test_tokens_and_artifacts_are_written_where_sessions_are_read_only(database):
    with psycopg.connect(database.url) as connection:
        own = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(own))
    assert ArtifactStore(database.url).put(b"bytes", {}, "test").startswith("sha256:")
    TokenStore(database.url).create("ci", ["read"])
    assert [token.name for token in TokenStore(database.url).listed()] == ["ci"]


@pytest.fixture(scope="module", params=["fsync", "full_page_writes"])
def unsafe(request, tmp_path_factory):
    """A server with a setting that no session can change, the setting's name."""
    server = EmbeddedServer(tmp_path_factory.mktemp("unsafe") / "postgres", {request.param: "off"})
    database = Database(server.start())
    upgrade(database.url)
    yield database, request.param
    server.stop()


def test_append_is_refused_where_the_server_can_lose_it(unsafe, build):
    database, name = unsafe
    with pytest.raises(ServiceUnavailable) as refused:
        append(database.url, [build.measurement()])
    assert refused.value.field == name and f"ALTER SYSTEM SET {name} = on" in refused.value.remedy

    async def change():
        async with EventLog(database.url) as log:
            with pytest.raises(ServiceUnavailable) as refused:
                async with log.transaction():
                    pass
            return refused.value.field, await log.last_position()

    assert asyncio.run(change()) == (name, 0)


def test_doctor_names_the_setting(unsafe, database):
    with psycopg.connect(unsafe[0].url) as connection:
        found = diagnosis.durability(connection)
    assert (found.level, unsafe[1] in found.found) == ("problem", True)
    with psycopg.connect(database.url) as connection:
        assert diagnosis.durability(connection).level == "ok"


def test_running_service_names_the_setting_until_it_is_mended(tmp_path, fresh_service, build):
    def until(ask, expected):
        """Ask again while the service still finds connections that ended with the former server."""
        ends = time.monotonic() + 30
        while (answer := ask()) != expected:
            assert time.monotonic() < ends, answer
            time.sleep(0.05)

    def ready():
        answer = httpx.get(f"{service.url}/health/ready", trust_env=False)
        return answer.status_code, "fsync" in (answer.json()["error"] or "")

    def post():
        answer = httpx.post(f"{service.url}/v1/events", json=build.measurement(), trust_env=False)
        return answer.status_code, answer.json().get("field") == "fsync"

    server = EmbeddedServer(tmp_path / "postgres")
    service = fresh_service()
    service.database_url = server.start()
    upgrade(service.database_url)
    service.start()
    assert post() == (200, False)
    for settings, answer, kept in (({"fsync": "off"}, (503, True), 1), ({}, (200, False), 2)):
        assert server.stop()
        server = EmbeddedServer(tmp_path / "postgres", settings)
        server.start()
        until(ready, answer)
        until(post, answer)
        with psycopg.connect(service.database_url) as connection:
            assert connection.execute("SELECT count(*) FROM event").fetchone() == (kept,)
    service.stop()
    server.stop()
