"""A backup is the log: dumped while others append, restored on another server, it makes the same tables."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
import threading

import psycopg
import pytest

from domain.errors import PartMissing, ServiceUnavailable, UsageError
from domain.events import decode_event, encode_event
from ingest.archive.archive import Archive
from ingest.log import migrate
from ingest.log.backup import back_up, program, restore
from ingest.log.event_log import EventLog
from ingest.log.postgres import open_database
from ingest.projection.projector import Projection


@pytest.fixture
def other_server(tmp_path, monkeypatch):
    """A server of its own with an empty database."""
    monkeypatch.delenv("ASSAY_DATABASE_URL", raising=False)
    with open_database(tmp_path / "other") as database:
        yield database


def projected(folder, database):
    projection = Projection(folder, database)
    projection.open()
    projection.catch_up()
    return projection


def rows(database, statement):
    with psycopg.connect(database.url) as connection:
        return connection.execute(statement).fetchall()


def test_from_a_dump_and_a_copied_archive_another_server_has_the_same_log_and_tables(
    database, other_server, append, build, tmp_path, monkeypatch, assert_same_projection
):
    folder = tmp_path / "archive"
    monkeypatch.setenv("ASSAY_ARCHIVE", str(folder))
    events = [build.measurement(1.0 + number, batch_size=1 + number % 5) for number in range(30)]
    append([*events, build.alias("acme/small", "acme/tiny"), build.retraction(events[3]["id"])])
    archive = Archive(folder, database.url)
    archive.write(keep=10, segment_events=12)
    archive.trim()
    size = back_up(database.url, tmp_path / "log.dump")
    assert size == (tmp_path / "log.dump").stat().st_size > 1000
    shutil.copytree(folder, tmp_path / "copied")

    restore(other_server.url, tmp_path / "log.dump")
    assert migrate.revision(other_server.url) == migrate.head()
    everything = (
        "SELECT position, id, type, time, recorded_at, digest, attestation, chain, body FROM event ORDER BY position"
    )
    assert rows(other_server, everything) == rows(database, everything)
    ((log, epoch),) = rows(database, "SELECT id, epoch FROM log")
    assert rows(other_server, "SELECT id, epoch FROM log") == [(log, epoch + 1)]
    with projected(tmp_path / "one", database) as before:
        monkeypatch.setenv("ASSAY_ARCHIVE", str(tmp_path / "copied"))
        with projected(tmp_path / "two", other_server) as after:
            assert_same_projection(before, after)

    copied = Archive(tmp_path / "copied", other_server.url)
    for segment in copied.segments():
        copied.verify(segment)

    async def go_on():
        async with EventLog(other_server.url, archive=copied) as log:
            batch = [events[0], build.measurement(99.0)]
            return await log.append([decode_event(encode_event(event)) for event in batch])

    again, new = asyncio.run(go_on())
    assert (again.status, again.position) == ("duplicate", 1)
    assert (new.status, new.position) == ("accepted", 33)


def test_a_backup_under_appends_is_a_prefix_of_the_log(database, other_server, build, tmp_path):
    stop = threading.Event()

    async def write():
        async with EventLog(database.url) as log:
            while not stop.is_set():
                batch = [decode_event(encode_event(build.measurement(1.0))) for _ in range(50)]
                await log.append(batch)

    writer = threading.Thread(target=lambda: asyncio.run(write()))
    writer.start()
    try:
        back_up(database.url, tmp_path / "log.dump")
    finally:
        stop.set()
        writer.join()
    restore(other_server.url, tmp_path / "log.dump")
    ((last, events),) = rows(other_server, "SELECT coalesce(max(position), 0), count(*) FROM event")
    assert events % 50 == 0
    assert rows(database, f"SELECT count(*) FROM event WHERE position <= {last}") == [(events,)]


def test_a_restore_replaces_nothing(database, append, build, tmp_path):
    append([build.measurement(1.0)])
    back_up(database.url, tmp_path / "log.dump")
    with pytest.raises(UsageError, match="not empty"):
        restore(database.url, tmp_path / "log.dump")
    assert rows(database, "SELECT count(*) FROM event") == [(1,)]
    with pytest.raises(UsageError, match="no file"):
        restore(database.url, tmp_path / "nothing.dump")


def test_what_fails_says_why_and_leaves_no_file(database, postgres_server, tmp_path):
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        back_up("postgresql://nobody@/nothing?host=/nonexistent", tmp_path / "log.dump")
    assert not (tmp_path / "log.dump").exists()
    (tmp_path / "bad.dump").write_bytes(b"not a dump")
    empty = postgres_server.create("empty_for_restore")
    try:
        with pytest.raises(ServiceUnavailable, match="pg_restore failed"):
            restore(empty.url, tmp_path / "bad.dump")
    finally:
        postgres_server.drop("empty_for_restore")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda dump, major: re.sub(rb"(?<=\x00)%d\." % major, b"%d." % (major + 1), dump), ("older server", "export")),
        (lambda dump, _: dump[:6] + b"\x63" + dump[7:], ("newer pg_dump", "client programs")),
    ],
    ids=["newer server", "newer format"],
)
def test_backup_of_newer_postgres_names_the_versions(database, postgres_server, append, build, tmp_path, change, words):
    append([build.measurement(1.0)])
    dump = tmp_path / "log.dump"
    back_up(database.url, dump)
    with psycopg.connect(database.url) as connection:
        major = connection.info.server_version // 10_000
    dump.write_bytes(change(dump.read_bytes(), major))
    empty = postgres_server.create("older_server")
    try:
        with pytest.raises(UsageError) as refused:
            restore(empty.url, dump)
        assert rows(empty, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [(0,)]
    finally:
        postgres_server.drop("older_server")
    assert words[0] in refused.value.detail and words[1] in refused.value.remedy
    if words[0] == "older server":
        assert f"PostgreSQL {major}" in refused.value.detail and f"PostgreSQL {major + 1}" in refused.value.detail


def test_the_programs_fit_the_server(database):
    with psycopg.connect(database.url) as connection:
        server = connection.info.server_version // 10_000
    told = subprocess.run([program("pg_dump", server), "--version"], capture_output=True, text=True, check=True).stdout
    assert f") {server}" in told
    with pytest.raises(PartMissing, match="PostgreSQL 999"):
        program("pg_dump", 999)
