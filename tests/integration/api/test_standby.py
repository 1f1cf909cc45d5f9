"""A query node on a physical standby of Postgres: it answers, follows, refuses writes, and goes on after a promotion."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

import psycopg
import pytest

from domain.errors import AssayError
from ingest.log.account import account_of, programs
from ingest.log.embedded import EmbeddedServer
from ingest.log.migrate import upgrade
from ingest.log.postgres import Database
from tests.conftest import append_events
from tests.integration.conftest import RunningService


@pytest.fixture
def servers():
    """A Postgres with a log, and what makes a standby of it in another folder; both are servers of this machine."""
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        # The account of the standby's server reaches the first one's socket.
        Path(folder).chmod(0o711)
        primary, standby = (EmbeddedServer(Path(folder) / name) for name in ("primary", "standby"))
        url = primary.start()
        try:
            yield url, primary, standby
        finally:
            standby.stop()
            primary.stop()


def standby_of(url, primary, standby):
    """Copy the primary while it runs, start the copy as its standby, and return its URL."""
    with (primary.folder / "pg_hba.conf").open("a") as rules:
        rules.write("local replication all peer map=assay\n")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_reload_conf()")
    program = programs(account_of(primary.folder), None) / "pg_basebackup"
    subprocess.run(
        [
            program,
            "--dbname",
            url,
            "--pgdata",
            standby.folder,
            "--write-recovery-conf",
            "--checkpoint=fast",
            "--no-sync",
        ],
        check=True,
        capture_output=True,
    )
    (standby.folder / "postmaster.pid").unlink(missing_ok=True)
    return standby.start()


# Two servers of Postgres, a copy of one and a service: half a minute on a busy machine.
@pytest.mark.torture
def test_a_query_node_on_a_standby_answers_follows_and_survives_its_promotion(servers, tmp_path, build):
    url, primary, _ = servers
    log = Database(url).create("log")
    upgrade(log.url)
    append_events(log, [build.measurement(), build.test()])
    copy = standby_of(*servers).replace("/postgres?", "/log?")
    node = RunningService(tmp_path / "node", copy, "--role", "query").start()
    try:
        with node.client() as client:
            client.wait_for(2)
            assert len(client.measurements()) == 1
            last = append_events(log, [build.measurement(p50=2.0, batch_size=8)])[0].position
            client.wait_for(last)
            assert len(client.measurements()) == 2
            for write, words in (
                (lambda: client.post_events([build.measurement()]), "role all or ingest"),
                (lambda: client.create_snapshot("one"), "a node of role all"),
                (client.rebuild, "Name the primary server"),
            ):
                with pytest.raises(AssayError, match=words):
                    write()
            assert client.ready()["lag_events"] == 0
            primary.stop()
            with psycopg.connect(copy, autocommit=True) as connection:
                assert connection.execute("SELECT pg_promote()").fetchone() == (True,)
            last = append_events(Database(copy), [build.measurement(p50=3.0, batch_size=16)])[0].position
            client.wait_for(last)
            assert len(client.measurements()) == 3
            assert "diverged" not in {name for name, value in client.ready().items() if value}
    finally:
        node.stop()
