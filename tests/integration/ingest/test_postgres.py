"""The embedded server: found again, stopped by the last, never stopped under another; and the schema in it."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import psycopg
import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from domain.canonical import digest as canonical_digest
from domain.errors import ServiceUnavailable, UsageError
from ingest.log import migrate
from ingest.log.embedded import EmbeddedServer
from ingest.log.postgres import open_database
from ingest.log.schema import metadata

OWNER = """
import sys
from ingest.log.postgres import open_database
database = open_database(sys.argv[1])
print(database.server.pid, flush=True)
sys.stdin.read()
database.close()
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.delenv("ASSAY_DATABASE_URL", raising=False)
    return tmp_path


def owner(home):
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
    )  # fmt: skip
    return process, int(process.stdout.readline())


def alive(pid):
    """A process that ended and that nobody has asked about, as happens in containers, is not alive."""
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def close_pipes(process):
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_server_whose_owner_was_killed_is_found_with_its_data_and_stopped_by_the_next(home):
    process, pid = owner(home)
    with open_database(home) as database, psycopg.connect(database.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
    assert alive(pid), "it was stopped under its owner"
    process.send_signal(signal.SIGKILL)
    close_pipes(process)
    with open_database(home) as database:
        assert database.embedded
        assert database.server.pid == pid
        with psycopg.connect(database.url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)
    assert not alive(pid)


def test_a_killed_server_recovers_and_a_pid_file_of_another_process_is_not_believed(home):
    with open_database(home) as database:
        with psycopg.connect(database.url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS value")
        os.kill(database.server.pid, signal.SIGKILL)
    pid_file = home / "postgres" / "postmaster.pid"
    (socket_lock,) = (home / "postgres").glob(".s.PGSQL.*.lock")
    # Of the same user, and no ancestor: such a process Postgres takes for the one that holds the lock.
    with open_database(home / "another") as another:
        for file in (pid_file, socket_lock):
            lines = file.read_text().splitlines()
            file.write_text("\n".join([str(another.server.pid), *lines[1:]]) + "\n")
        with open_database(home) as database, psycopg.connect(database.url) as connection:
            assert connection.execute("SELECT value FROM kept").fetchone() == (7,)


def test_a_server_that_died_is_started_again_by_who_used_it_and_stopped_by_the_last(home):
    server = EmbeddedServer(home / "postgres")
    server.start()
    killed = server.pid
    os.kill(killed, signal.SIGKILL)
    while alive(killed):  # the signal is on its way
        time.sleep(0.01)
    with psycopg.connect(server.start()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    pid = server.pid
    assert server.stop()
    assert not alive(pid)


def test_a_home_with_a_long_path_works(home):
    deep = home / ("x" * 70) / ("y" * 70)
    deep.mkdir(parents=True)
    with open_database(deep) as database, psycopg.connect(database.url) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_named_server_is_used_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", "postgresql://somewhere/log")
    database = open_database(tmp_path)
    assert (database.url, database.embedded) == ("postgresql://somewhere/log", False)
    assert not (tmp_path / "postgres").exists()


def test_a_server_that_cannot_start_says_why(home):
    with open_database(home):
        pass
    (home / "postgres" / "postgresql.auto.conf").write_text("max_connections = 'many'\n")
    with pytest.raises(ServiceUnavailable, match="max_connections"):
        EmbeddedServer(home / "postgres").start()


def test_downgrade_of_an_empty_database_is_refused_in_a_sentence(home):
    with open_database(home) as server, pytest.raises(UsageError) as refused:
        migrate.downgrade(server.url, "0001")
    assert refused.value.field == "revision" and "0001" in refused.value.detail


def is_ours(name, kind, parents):
    return kind != "table" or not name.startswith("procrastinate_")


def test_the_migrations_make_the_schema_that_the_code_describes(database):
    assert migrate.upgrade(database.url) == migrate.head() == migrate.revision(database.url)
    engine = sa.create_engine(migrate.sqlalchemy_url(database.url), poolclass=sa.NullPool)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"include_name": is_ours})
        assert compare_metadata(context, metadata) == []


def test_a_downgrade_takes_the_log_away_and_an_upgrade_brings_it_back(database):
    assert migrate.downgrade(database.url, "base") == "base"
    assert migrate.revision(database.url) is None
    assert migrate.upgrade(database.url) == migrate.head()


def engine_of(database):
    """Return the recorded migration of procrastinate, and how many tables, functions and types it has."""
    with psycopg.connect(database.url) as connection:
        (row,) = connection.execute("SELECT (SELECT migration FROM job_engine)").fetchall()
        (counts,) = connection.execute(
            "SELECT (SELECT count(*) FROM pg_class WHERE relname LIKE 'procrastinate%' AND relkind = 'r'),"
            " (SELECT count(*) FROM pg_proc WHERE proname LIKE 'procrastinate%'),"
            " (SELECT count(*) FROM pg_type WHERE typname LIKE 'procrastinate%' AND typtype IN ('c', 'e'))"
        ).fetchall()
    return row[0], counts


def test_the_queue_is_made_where_its_package_is_installed_later(database, monkeypatch):
    migration, made = engine_of(database)
    assert migration and min(made) > 0
    migrate.downgrade(database.url, "0006")
    monkeypatch.setattr(migrate, "find_spec", lambda name: None)
    migrate.upgrade(database.url)
    assert engine_of(database) == (None, (0, 0, 0))
    monkeypatch.undo()
    migrate.upgrade(database.url)
    assert engine_of(database) == (migration, made)
    migrate.upgrade(database.url)
    assert engine_of(database) == (migration, made)


def test_a_newer_queue_package_brings_its_migrations(database):
    before = engine_of(database)
    with psycopg.connect(database.url) as connection:
        connection.execute("DROP FUNCTION procrastinate_trigger_function_status_events_update_v1 CASCADE")
        connection.execute("UPDATE job_engine SET migration = '03.04.00_01_pre_add_retry_failed_job_procedure.sql'")
    migrate.upgrade(database.url)
    assert engine_of(database) == before


def test_each_version_of_the_schema_has_the_digests_that_it_compares_by(database, append, build):
    event = build.measurement()
    append([event])

    def stored():
        with psycopg.connect(database.url) as connection:
            ((text, kept),) = connection.execute("SELECT body, digest FROM event").fetchall()
        return text.encode(), kept.hex()

    text, kept = stored()
    assert kept == hashlib.sha256(text).hexdigest()
    assert migrate.downgrade(database.url, "0001") == "0001"
    assert stored() == (text, canonical_digest(event).removeprefix("sha256:"))
    assert migrate.upgrade(database.url) == migrate.head()
    assert stored() == (text, kept)


def test_a_downgrade_keeps_what_it_would_lose(database, append, build):
    append([build.measurement()])
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE event SET body = NULL")
    with pytest.raises(sa.exc.IntegrityError):
        migrate.downgrade(database.url, "0001")
    assert migrate.revision(database.url) == migrate.head()


def test_a_server_that_is_away_is_service_unavailable():
    with pytest.raises(ServiceUnavailable, match="does not answer"):
        migrate.upgrade("postgresql://nobody@/nothing?host=/nonexistent")
