"""The hash chain: every way to change the log behind its back is found, by the verbs that a person types."""

from __future__ import annotations

import json
import stat

import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, reject, settings
from hypothesis import strategies as st

from assay.cli import run
from domain.errors import LogAltered
from ingest.archive.archive import Archive
from ingest.log import migrate
from ingest.log.chain import genesis
from ingest.log.chain_breaks import breaks_between
from ingest.log.verify import identity
from ingest.projection.projector import Projection
from tests.conftest import rechain

COLUMNS = "position, id, type, source, subject, time, recorded_at, digest, body, attestation, chain"


@pytest.fixture
def typed(database, tmp_path, monkeypatch, capsys):
    """Runs a verb in this process on the test's database; returns its answer as JSON."""
    monkeypatch.delenv("ASSAY_SERVER", raising=False)
    monkeypatch.delenv("ASSAY_ARCHIVE", raising=False)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ASSAY_DATABASE_URL", database.url)

    def type_(*words, code=0):
        ended = run(list(words))
        said = capsys.readouterr()
        assert ended == code, said.err + said.out
        return json.loads(said.out) if said.out.startswith(("{", "[")) else said.out + said.err

    return type_


@pytest.fixture
def filled(append, build):
    samples = {"run_id": "run-1", "digest": "sha256:" + "5" * 64, "n": 2, "values": [1.5, 1.25]}
    events = [build.measurement(1.5 + number) for number in range(16)]
    events += [build.event("assay.samples.recorded.v1", samples), build.event("vendor.note.v7", {}, subject="s")]
    append(events)
    append([build.measurement(99.0), build.measurement(100.0)])
    return events


def rewritten(database, *statements):
    with psycopg.connect(database.url) as connection:
        for statement in statements:
            connection.execute(statement)


def breaks(typed, *words):
    found = typed("log", "verify", "--json", *words, code=1)["breaks"]
    assert found
    return [(one["kind"], one["position"]) for one in found]


def test_an_untouched_log_verifies_and_its_head_is_signed(database, filled, typed, tmp_path):
    told = typed("log", "verify", "--json")
    assert (told["events"], told["position"], told["breaks"]) == (20, 20, [])
    out = tmp_path / "head.json"
    typed("log", "head", "--out", str(out))
    head = json.loads(out.read_bytes())
    assert (head["position"], head["chain"], head["log"]) == (20, told["chain"], told["log"])
    assert typed("log", "head")["public_key"] == head["public_key"]
    key = tmp_path / "home" / "keys" / "log.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert typed("log", "verify", "--head", str(out), "--json")["heads"] == 1
    assert typed("log", "verify", "--since", "7", "--json")["events"] == 13
    assert "exists" in typed("log", "head", "--out", str(out), code=2)


def test_a_log_that_was_appended_in_many_batches_is_one_chain(database, append, build, typed):
    for number in range(7):
        append([build.measurement(1.0 + number + part) for part in range(number)])
    assert typed("log", "verify", "--json")["events"] == 21


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["DELETE FROM event WHERE position = 7"], ("deleted", 8)),
        (["DELETE FROM event WHERE position BETWEEN 5 AND 9"], ("deleted", 10)),
        (["DELETE FROM event WHERE position = 1"], ("deleted", 2)),
        (
            [
                "UPDATE event SET position = -4 WHERE position = 4",
                "UPDATE event SET position = 4 WHERE position = 11",
                "UPDATE event SET position = 11 WHERE position = -4",
            ],
            ("reordered", 4),
        ),
        (["UPDATE event SET body = replace(body, '\"mean\":6.5', '\"mean\":0.1') WHERE position = 6"], ("body-altered", 6)),
        (
            [
                "UPDATE event SET body = replace(body, '\"mean\":6.5', '\"mean\":0.1') WHERE position = 6",
                "UPDATE event SET digest = sha256(convert_to(body, 'UTF8')) WHERE position = 6",
            ],
            ("row-altered", 6),
        ),
        (["UPDATE event SET recorded_at = recorded_at - interval '1 day' WHERE position = 3"], ("row-altered", 3)),
        (["UPDATE event SET attestation = 'signed' WHERE position = 3"], ("row-altered", 3)),
        (["UPDATE event SET type = 'vendor.hidden.v1' WHERE position = 3"], ("row-altered", 3)),
        (["UPDATE event SET body = NULL WHERE position = 3"], ("body-missing", 3)),
        (["UPDATE event SET position = position + 100 WHERE position = 20"], ("deleted", 120)),
        (["UPDATE log SET id = gen_random_uuid()"], ("row-altered", 1)),
    ],
    ids=[
        "deleted", "many deleted", "first deleted", "swapped", "body", "body and digest", "recorded_at", "attestation",
        "type", "body taken", "moved", "another identity",
    ],
)  # fmt: skip
def test_a_changed_log_is_found_with_position_and_kind(database, filled, typed, statements, expected):
    with psycopg.connect(database.url) as connection:
        connection.execute("ALTER TABLE event ALTER position SET GENERATED BY DEFAULT")
        columns = [row[0] for row in connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_name = 'event' ORDER BY ordinal_position"
        ).fetchall()]  # fmt: skip
    assert ", ".join(columns) == COLUMNS
    rewritten(database, *statements)
    assert breaks(typed)[0] == expected


def test_an_event_that_was_put_into_a_gap_is_found(database, append, build, typed):
    append([build.measurement(1.0), build.measurement(2.0)])
    rewritten(database, "SELECT nextval('event_position_seq')")
    append([build.measurement(3.0), build.measurement(4.0)])
    assert typed("log", "verify", "--json")["breaks"] == []
    rest = ", ".join(COLUMNS.split(", ")[2:])
    rewritten(
        database,
        "ALTER TABLE event ALTER position SET GENERATED BY DEFAULT",
        f"INSERT INTO event SELECT 3, gen_random_uuid(), {rest} FROM event WHERE position = 1",
    )
    assert breaks(typed)[0] == ("inserted", 3)


def test_a_tail_that_was_cut_off_contradicts_an_exported_head(database, filled, typed, tmp_path):
    out = str(tmp_path / "head.json")
    typed("log", "head", "--out", out)
    rewritten(database, "DELETE FROM event WHERE position > 15")
    assert typed("log", "verify", "--json")["breaks"] == []
    assert breaks(typed, "--head", out) == [("tail-lost", 20)]


def test_a_chain_that_was_computed_again_contradicts_an_exported_head(database, filled, append, build, typed, tmp_path):
    out = str(tmp_path / "head.json")
    typed("log", "head", "--out", out)
    append([build.measurement(7.0)])
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE event SET body = replace(body, '\"mean\":6.5', '\"mean\":0.1') WHERE position = 6")
        connection.execute("UPDATE event SET digest = sha256(convert_to(body, 'UTF8')) WHERE position = 6")
        rechain(connection)
    assert typed("log", "verify", "--json")["breaks"] == []
    assert breaks(typed, "--head", out) == [("rewritten", 20)]


def test_a_forged_head_and_one_of_another_log_are_said(database, filled, typed, tmp_path):
    genuine = typed("log", "head")
    forged, other = tmp_path / "forged.json", tmp_path / "other.json"
    forged.write_text(json.dumps({**genuine, "chain": "0" * 64}))
    other.write_text(json.dumps(genuine))
    assert breaks(typed, "--head", str(forged)) == [("head-forged", 20)]
    rewritten(database, "UPDATE log SET id = gen_random_uuid()")
    assert ("other-log", 20) in breaks(typed, "--head", str(other))
    forged.write_text("{}")
    assert "no signed head" in typed("log", "verify", "--head", str(forged), code=2)


def test_bodies_in_the_archive_are_verified_too(database, filled, typed, tmp_path):
    typed("archive", "write")
    typed("archive", "trim", "--yes")
    assert typed("log", "verify", "--json")["breaks"] == []
    (facts,) = (tmp_path / "home" / "archive").glob("facts-*.parquet")
    content = bytearray(facts.read_bytes())
    content[len(content) // 2] ^= 1
    facts.write_bytes(content)
    assert ("archive-damaged", None) in breaks(typed)


_SENT = {
    "position": "int8",
    "id": "uuid",
    "time": "timestamptz",
    "recorded_at": "timestamptz",
    "digest": "bytea",
    "chain": "bytea",
}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    position=st.integers(1, 20), column=st.sampled_from(COLUMNS.split(", ")), place=st.integers(0, 2000), flip=st.integers(1, 255)
)  # fmt: skip
def test_one_changed_byte_in_any_column_of_any_row_is_found(database, filled, position, column, place, flip):
    kind = _SENT.get(column, "text")
    with psycopg.connect(database.url) as connection, connection.transaction(force_rollback=True):
        connection.execute("ALTER TABLE event ALTER position SET GENERATED BY DEFAULT")
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {column} FROM event WHERE position = %s", [position], binary=True)
            assert cursor.pgresult is not None
            content = bytearray(cursor.pgresult.get_value(0, 0) or b"")
        assume(content)
        content[place % len(content)] ^= flip
        connection.execute(f"CREATE TEMPORARY TABLE changed (value {kind})")
        try:
            with connection.transaction():
                with connection.cursor() as cursor, cursor.copy("COPY changed FROM STDIN (FORMAT binary)") as copy:
                    copy.write(
                        b"PGCOPY\n\xff\r\n\0" + bytes(8) + b"\0\1" + len(content).to_bytes(4) + content + b"\xff\xff"
                    )
                connection.execute(
                    f"UPDATE event SET {column} = (SELECT value FROM changed) WHERE position = %s", [position]
                )
        except (psycopg.DataError, psycopg.IntegrityError):
            reject()
        assert list(breaks_between(connection, genesis(identity(connection)[0])))


def test_an_altered_body_is_neither_served_nor_projected_nor_archived(database, filled, typed, tmp_path):
    identifier = filled[5]["id"]
    rewritten(database, "UPDATE event SET body = replace(body, '\"mean\":6.5', '\"mean\":0.1') WHERE position = 6")
    with Projection(tmp_path / "tables", database) as projection:
        with pytest.raises(LogAltered, match=f"{identifier} at position 6"):
            projection.catch_up()
        assert projection.position == 5
    assert f"{identifier} at position 6" in typed("archive", "write", code=1)
    assert list((tmp_path / "home" / "archive").glob("*.parquet")) == []
    assert Archive(tmp_path / "home" / "archive", database.url).segments() == []
    found = [one["found"] for one in typed("doctor", "--deep", "--json", code=1) if one["part"] == "chain"]
    assert len(found) == 1 and found[0].startswith("body-altered at position 6")


def test_an_archive_is_verified_without_the_log(database, filled, append, build, typed, tmp_path, monkeypatch):
    typed("archive", "write", "--segment-events", "7")
    monkeypatch.setenv("ASSAY_DATABASE_URL", "postgresql://nobody@/nothing?host=/nonexistent")
    told = typed("archive", "verify", "--alone", "--json")
    assert [one["damaged"] for one in told] == [None] * 3 and all(one["chain"] for one in told)
    folder = tmp_path / "home" / "archive"
    _, second, _ = sorted(folder.glob("facts-*.parquet"))
    table = pq.ParquetFile(second).read()
    sources = pa.array(["urn:assay:runner:other"] * table.num_rows)
    forged = table.set_column(table.schema.get_field_index("source"), "source", sources)
    pq.write_table(forged.replace_schema_metadata(table.schema.metadata), second)
    found = typed("archive", "verify", "--alone", "--json", code=1)
    assert [bool(one["damaged"]) for one in found] == [False, True, False]


def test_a_segment_never_takes_the_place_of_one_whose_events_the_log_lost(database, filled, append, build, tmp_path):
    archive = Archive(tmp_path / "archive", database.url)
    (lost,) = archive.write()
    with psycopg.connect(database.url) as connection:
        connection.execute("DELETE FROM archive_segment")
        connection.execute("DELETE FROM event WHERE position > 15")
        connection.execute("SELECT setval('event_position_seq', 15)")
    append([build.measurement(7.0 + n) for n in range(5)])
    content = (archive.folder / lost.facts).read_bytes()
    (segment,) = archive.write()
    assert segment.facts != lost.facts and (archive.folder / lost.facts).read_bytes() == content
    archive.verify(segment)
    with psycopg.connect(database.url) as connection:
        connection.execute("DELETE FROM archive_segment")
    # What a crash left behind holds this log, and is written again.
    assert [one.facts for one in archive.write()] == [segment.facts]


def test_events_from_before_the_chain_are_linked_by_the_migration(database, filled, append, build, typed):
    before = typed("log", "verify", "--json")
    migrate.downgrade(database.url, "0003")
    migrate.upgrade(database.url)
    after = typed("log", "verify", "--json")
    assert (after["events"], after["breaks"]) == (before["events"], [])
    assert after["log"] != before["log"] and after["chain"] != before["chain"]
    append([build.measurement(7.0)])
    assert typed("log", "verify", "--json")["events"] == before["events"] + 1
