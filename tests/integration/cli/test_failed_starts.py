"""A service that does not start tells the person who asked why, and what to do."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from assay.home import Home
from assay.service import free_port, last_words, started
from domain.errors import ServiceUnavailable, UsageError, error_document, error_of
from ingest.log.migrate import downgrade, head, require_current, upgrade

ROOT = Path(__file__).resolve().parents[3]
CRASH = b"""error: the port is taken.
Fatal Python error: _enter_buffered_busy: could not acquire lock for <_io.BufferedWriter name='<stderr>'>
Current thread 0x00007f (most recent call first):
  <no Python frame>
"""


def assay(database: Any, home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    environment |= {"ASSAY_HOME": str(home), "ASSAY_DATABASE_URL": database.url}
    command = [sys.executable, "-m", "assay.cli", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=180, check=False)


def set_revision(database: Any, revision: str) -> None:
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE alembic_version SET version_num = %s", [revision])


def test_older_schema_names_both_revisions_and_the_upgrade(database: Any) -> None:
    downgrade(database.url, "0005")
    with pytest.raises(ServiceUnavailable, match=rf"0005.*older.*{head()}") as raised:
        require_current(database.url)
    assert "assay db upgrade" in str(raised.value)


def test_newer_schema_is_not_told_to_upgrade_the_database(database: Any) -> None:
    set_revision(database, "9042")
    for refused in (require_current, upgrade):
        with pytest.raises(ServiceUnavailable, match=rf"9042.*newer.*{head()}") as raised:
            refused(database.url)
        assert "db upgrade" not in str(raised.value)


def test_database_without_schema_needs_the_upgrade(postgres_server: Any) -> None:
    empty = postgres_server.create("failed_start_empty")
    try:
        with pytest.raises(ServiceUnavailable, match="no schema") as raised:
            require_current(empty.url)
        assert "assay db upgrade" in str(raised.value)
    finally:
        postgres_server.drop("failed_start_empty")


def test_verb_shows_the_cause_and_remedy_of_its_service(database: Any, tmp_path: Path) -> None:
    downgrade(database.url, "0005")
    ended = assay(database, tmp_path, "status")
    assert ended.returncode == 3
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("error: ASSAY_DATABASE_URL: the database has schema 0005")
    assert last.endswith("Run `assay db upgrade` once.")


def test_serve_ends_with_its_error_and_nothing_after_it(database: Any, tmp_path: Path) -> None:
    set_revision(database, "9042")
    ended = assay(database, tmp_path, "serve", "--port", str(free_port()))
    assert ended.returncode == 3
    assert "9042" in ended.stderr.strip().splitlines()[-1]


def test_refused_setting_keeps_its_kind_and_field(
    database: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASSAY_DATABASE_URL", database.url)
    monkeypatch.setenv("ASSAY_RETRAIN_EVERY", "sometimes")
    with pytest.raises(UsageError) as raised, started(Home(path=tmp_path), free_port()):
        raise AssertionError("it must not start")
    assert raised.value.field == "ASSAY_RETRAIN_EVERY"
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("output", "words"),
    [
        (CRASH, "the port is taken."),
        (CRASH.split(b"\n", 1)[1], CRASH.splitlines()[1].decode()),
        (b'Traceback (most recent call last):\n  File "a.py"\nKeyError: 1\n', "KeyError: 1"),
        (b"", "it said nothing."),
    ],
)
def test_last_words_are_the_error_and_no_frame(output: bytes, words: str) -> None:
    assert last_words(output) == words


def test_an_error_keeps_its_class_across_processes() -> None:
    error = UsageError("no.", field="port", remedy="Give one.")
    other = error_of(error_document(error))
    assert (type(other), str(other)) == (UsageError, str(error))
