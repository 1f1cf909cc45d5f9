"""Keeping it: archive, retention, export, doctor and schema, by the verbs that a person types, on a running service."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import duckdb
import psycopg
import pyarrow.parquet as pq
import pytest

from assay.cli import run
from assay.exports.events import write_events
from domain.errors import Expired, UsageError
from ingest.log import migrate
from tests.conftest import append_raw, rechain

NOTE = "vendor.note.v7"


@pytest.fixture
def typed(database, tmp_path, monkeypatch, capsys):
    """Runs a verb in this process on the test's database; returns its answer, and what it said."""
    for name in ("ASSAY_SERVER", "ASSAY_TOKEN", "ASSAY_ARCHIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home-0"))
    monkeypatch.setenv("ASSAY_DATABASE_URL", database.url)

    def type_(*words, code=0):
        ended = run(list(words))
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return json.loads(said.out) if "--json" in words else said.out + said.err

    return type_


@pytest.fixture
def served(fresh_service):
    service = fresh_service().start()
    with service.client() as client:
        client.home = service.home
        yield client


@pytest.fixture
def filled(append, build):
    samples = {"run_id": "run-1", "digest": "sha256:" + "5" * 64, "n": 2, "values": [1.5, 1.25]}
    events = [build.measurement(1.5 + number, batch_size=1 + number) for number in range(4)]
    events += [build.event("assay.samples.recorded.v1", samples), build.event(NOTE, {"text": "ü"}, subject="s")]
    append(events)
    return events


def values(database, statement, *parameters):
    with psycopg.connect(database.url) as connection:
        return connection.execute(statement, parameters).fetchall()


def performed(database):
    rows = values(database, "SELECT body FROM event WHERE type = 'assay.operation.performed.v1' ORDER BY position")
    return [json.loads(body)["data"] for (body,) in rows]


def test_the_archive_from_writing_to_expiry_under_a_service_that_goes_on(database, filled, served, typed):
    before = list(served.events())
    (written,) = typed("archive", "write", "--json")
    assert (written["first_position"], written["last_position"], written["events"]) == (1, 6, 6)
    assert typed("archive", "list", "--json")[0]["trimmed_at"] is None
    assert typed("archive", "verify", "--deep", "--json")[0]["damaged"] is None
    assert "Nobody is there to agree" in typed("archive", "trim", code=2)
    assert values(database, "SELECT count(*) FROM event WHERE body IS NULL") == [(0,)]
    (trimmed,) = typed("archive", "trim", "--yes", "--keep", "1", "--json")
    assert trimmed["facts"] == written["facts"]
    assert values(database, "SELECT count(*) FROM event WHERE body IS NULL") == [(6,)]
    assert list(served.events())[:6] == before
    assert served.ready()["archive"]["trimmed_position"] == 6

    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE event SET recorded_at = recorded_at - interval '100 days'")
        rechain(connection)
    # The moment of recording that counts is the one in the file, which is from now.
    assert typed("samples", "expire", "--older-than", "90d", "--dry-run", "--json")["archived_events"] == 0
    told = typed("samples", "expire", "--older-than", "0h", "--yes", "--json")
    assert (told["log_events"], told["archived_events"], told["files"]) == (0, 1, 1)
    with pytest.raises(Expired):
        served._get(f"/v1/events/{filled[4]['id']}")
    assert [event["id"] for event in served.events() if "data" not in event] == [filled[4]["id"]]
    assert served.rebuild()["position"] >= 6
    assert len(served.measurements()) == 4

    done = performed(database)
    assert [one["action"] for one in done][:3] == ["archive.written", "archive.trimmed", "samples.expired"]
    assert {one["actor"] for one in done[:3]} == {"local"}
    assert done[1]["details"] == {"first_position": 1, "last_position": 6, "segments": 1}


def test_the_tables_are_made_anew_by_several_processes_of_the_service(database, filled, served, typed):
    answer = typed("rebuild", "--workers", "2", "--json")
    assert (answer["position"], answer["parallel"]["position"]) == (6, 6)
    assert (answer["parallel"]["ranges"], answer["parallel"]["restarted"]) == (1, 0)
    assert len(served.measurements()) == 4
    assert performed(database)[0]["details"]["parallel"]["ranges"] == 1
    assert "ASSAY_RAY=10.0.0.5:6379" in typed("rebuild", "--ray", "10.0.0.5:6379", code=2)
    assert "two ways" in typed("rebuild", "--ray", "auto", "--workers", "2", code=2)


def test_verify_names_the_file_that_is_wrong(filled, typed, tmp_path):
    (written,) = typed("archive", "write", "--json")
    (tmp_path / "home-0" / "archive" / written["facts"]).unlink()
    assert written["facts"] in typed("archive", "verify", code=1)
    assert "copy of the archive" in typed("archive", "trim", "--yes", code=3)


def test_a_downgrade_is_refused_until_the_bodies_are_back(database, filled, typed):
    assert typed("db", "revision", "--json") == {"revision": migrate.head(), "needed": migrate.head()}
    typed("archive", "write")
    typed("archive", "trim", "--yes")
    bodies = "SELECT count(*) FROM event WHERE body IS NULL"
    assert "assay archive restore" in typed("db", "downgrade", "0001", "--yes", code=2)
    assert migrate.revision(database.url) == migrate.head()
    typed("archive", "restore")
    assert values(database, bodies) == [(0,)]
    assert performed(database)[-1]["action"] == "archive.restored"
    assert "Nobody is there to agree" in typed("db", "downgrade", "0001", code=2)
    typed("db", "downgrade", "0001", "--yes")
    assert migrate.revision(database.url) == "0001"
    typed("db", "revision", code=1)
    typed("db", "upgrade")
    assert migrate.revision(database.url) == migrate.head()
    assert values(database, "SELECT body FROM event WHERE position = 1") == [
        (json.dumps(filled[0], separators=(",", ":")),)
    ]


def test_a_downgrade_is_refused_where_samples_have_expired(database, filled, typed):
    typed("samples", "expire", "--older-than", "0h", "--yes")
    assert "have expired" in typed("db", "downgrade", "0001", "--yes", code=2)
    assert migrate.revision(database.url) == migrate.head()


def test_events_are_exported_with_what_was_asked_in_the_file(filled, served, typed, tmp_path):
    path = tmp_path / "log.parquet"
    written = typed("export", str(path), "--json")
    assert (written["files"], written["card"]["rows"]) == ([str(path)], {"events": 6})
    rows = duckdb.sql(f"SELECT id, subject, data->>'text', data->>'run_id' FROM '{path}' ORDER BY position").fetchall()
    assert [row[0] for row in rows] == [event["id"] for event in filled]
    assert rows[5][1:3] == ("s", "ü")
    assert rows[0][3] == "run-1"
    told = json.loads(pq.read_schema(path).metadata[b"assay.filters"])
    assert (told["after"], told["upto"], told["log_position"]) == (0, 6, 6)

    assert f"{path} exists" in typed("export", str(path), code=2)
    typed("export", str(path), "--force", "--type", NOTE, "--after", "2")
    assert [row["type"] for row in pq.read_table(path).to_pylist()] == [NOTE]
    typed("export", str(path), "--force", "--upto", "2")
    assert pq.read_table(path)["position"].to_pylist() == [1, 2]
    typed("export", str(path), "--force", "--until", "2020-01-01")
    assert pq.read_table(path).num_rows == 0
    assert "write 2026-11-01" in typed("export", str(path), "--since", "soon", code=2)
    assert [file.name for file in tmp_path.glob("*.writing")] == []


def test_months_are_files_whatever_way_the_clock_went(tmp_path):
    def event(position, recorded_at):
        return {
            "position": position, "recorded_at": recorded_at, "specversion": "1.0", "id": str(position), "type": NOTE,
            "source": "urn:x", "data": {"n": position}, "tracing": "abc",
        }  # fmt: skip

    events = [
        event(1, "2026-10-31T23:59:59.999999Z"), event(2, "2026-11-01T01:30:00+02:00"), event(3, "2026-11-01T00:00:00Z"),
        event(4, "2026-10-01T00:00:00Z"), {**event(5, "2026-12-01T00:00:00Z"), "expired": True},
    ]  # fmt: skip
    del events[4]["data"]
    written = write_events(iter(events), tmp_path / "months", {}, monthly=True)
    assert {path.name: count for path, count in written.items()} == {
        "events-2026-10.parquet": 3,
        "events-2026-11.parquet": 1,
        "events-2026-12.parquet": 1,
    }
    october = pq.read_table(tmp_path / "months" / "events-2026-10.parquet").to_pylist()
    assert [row["position"] for row in october] == [1, 2, 4]
    assert json.loads(october[0]["extensions"]) == {"tracing": "abc"}
    december = pq.read_table(tmp_path / "months" / "events-2026-12.parquet").to_pylist()
    assert december[0]["data"] is None
    assert december[0]["recorded_at"] == datetime(2026, 12, 1, tzinfo=UTC)
    with pytest.raises(UsageError, match="exists"):
        write_events(iter(events), tmp_path / "months", {}, monthly=True)
    assert list((tmp_path / "months").glob("*.writing")) == []


def test_an_export_that_breaks_leaves_no_file(tmp_path):
    def broken():
        yield {"position": 1, "recorded_at": "2026-10-31T00:00:00Z", "id": "1", "type": NOTE, "source": "urn:x"}
        raise OSError("the line is cut")

    with pytest.raises(OSError, match="cut"):
        write_events(broken(), tmp_path / "log.parquet", {})
    assert list(tmp_path.iterdir()) == []


def problems(findings):
    return {(one["part"], one["found"].split(":")[0]) for one in findings if one["level"] == "problem"}


def test_the_doctor_finds_nothing_where_all_is_well(filled, served, typed):
    typed("archive", "write")
    findings = typed("doctor", "--deep", "--json")
    assert problems(findings) == set()
    parts = {one["part"]: one["found"] for one in findings}
    assert parts["schema"] == f"at {migrate.head()}"
    assert "log and tables have the same events" in parts["checkpoint"]
    assert "events are as they were appended" in parts["chain"]
    assert "1 segments up to position 6" in parts["archive"]
    assert parts["unknown type"].startswith(NOTE)
    assert parts["postgres"].startswith("PostgreSQL ")


def test_the_doctor_says_what_is_wrong_and_what_to_do(database, filled, served, typed, append, build):
    (written,) = typed("archive", "write", "--json")
    archive = served.home / "archive"
    (archive / "facts-1.parquet.writing").write_bytes(b"half")
    (archive / "facts-000000000007-000000000009.parquet").write_bytes(b"of another state")
    (archive / written["facts"]).rename(archive / "elsewhere")
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE event SET recorded_at = recorded_at - interval '1 hour' WHERE position = 5")
        rechain(connection)
        connection.execute(
            "INSERT INTO token (prefix, sha256, name, scopes, expires_at) VALUES "
            "('assay_x', 'x', 'ci', '{read}', clock_timestamp() + interval '3 days')"
        )
    found = typed("doctor", "--json", code=1)
    told = {one["part"]: one for one in found if one["level"] != "ok"}
    assert "'ci' expires on" in told["tokens"]["found"]
    assert told["clock"]["level"] == "note"
    assert "first at position 5" in told["clock"]["found"]
    assert told["left behind"]["found"].startswith("1 files")
    archive_problems = [one["found"] for one in found if one["part"] == "archive" and one["level"] == "problem"]
    assert any(written["facts"] + " is missing" in one for one in archive_problems)
    assert any("belongs to no segment" in one for one in archive_problems)
    assert all(one["remedy"] for one in found if one["level"] != "ok")

    (archive / "elsewhere").rename(archive / written["facts"])
    typed("doctor", "--fix", "--json", code=1)
    assert sorted(path.name for path in archive.iterdir()) == sorted(
        ["facts-000000000007-000000000009.parquet", written["facts"], written["samples"]]
    )
    (fixed,) = [one for one in performed(database) if one["action"] == "doctor.fixed"]
    assert (fixed["actor"], fixed["object"]) == ("local", "left behind")
    assert fixed["details"]["found"].startswith("1 files that nothing uses")
    assert "facts-1.parquet.writing" in fixed["details"]["found"]
    typed("doctor", "--fix", "--json", code=1)
    assert [one["action"] for one in performed(database)].count("doctor.fixed") == 1


@pytest.mark.parametrize(("schema", "told"), [(None, [("log.restored", "local", "assay.dump")]), ("0001", [])])
def test_a_restored_log_says_so_where_its_schema_is_this_versions(
    filled, typed, tmp_path, postgres_server, monkeypatch, schema, told
):
    dump = tmp_path / "assay.dump"
    if schema is not None:
        typed("db", "downgrade", schema, "--yes")
    typed("db", "backup", str(dump))
    other = postgres_server.create("restored_by_verb")
    try:
        monkeypatch.setenv("ASSAY_DATABASE_URL", other.url)
        typed("db", "restore", str(dump))
        assert migrate.revision(other.url) == (schema or migrate.head())
        assert [(one["action"], one["actor"], one["object"]) for one in performed(other)] == told
        ids = [str(id_) for (id_,) in values(other, "SELECT id FROM event ORDER BY position")]
        assert ids[: len(filled)] == [event["id"] for event in filled]
        assert "not empty" in typed("db", "restore", str(dump), code=2)
        assert len(performed(other)) == len(told)
    finally:
        postgres_server.drop("restored_by_verb")


def test_dead_letters_are_shown_by_reason_and_tried_again(database, served, typed, append, build):
    append([build.measurement(1.0)])
    with psycopg.connect(database.url) as connection:
        ((body,),) = connection.execute("SELECT body FROM event").fetchall()
    broken = body.replace('"count":1', '"count":"many"')
    assert broken != body
    assert append_raw(database, broken) == 2
    served.wait_for(2)
    found = [one for one in typed("doctor", "--json", code=1) if one["part"] == "dead letters"]
    assert len(found) == 1
    assert found[0]["found"].startswith("1 events from position 2")
    assert found[0]["fixable"]
    assert "assay retract" in found[0]["remedy"]
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE event SET body = %s, digest = sha256(convert_to(%s, 'UTF8'))", [body, body])
        rechain(connection)
    assert problems(typed("doctor", "--fix", "--json")) == set()


def test_a_schema_that_is_behind_is_said_first(database, typed):
    migrate.downgrade(database.url, "0001")
    told = {one["part"]: one for one in typed("doctor", "--json", code=1)}
    assert told["schema"]["found"] == f"at 0001; this version needs {migrate.head()}"
    assert "assay db upgrade" in told["schema"]["remedy"]


def test_a_database_that_is_away_is_a_finding(typed, monkeypatch):
    monkeypatch.setenv("ASSAY_DATABASE_URL", "postgresql://nobody@/nothing?host=/nonexistent")
    told = {one["part"]: one for one in typed("doctor", "--json", code=1)}
    assert "Postgres does not answer" in told["service"]["found"]
