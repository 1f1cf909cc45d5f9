"""Versions: of events, of the tables, of what is known. Nothing is posted twice, nothing is lost."""

from __future__ import annotations

import uuid

import pytest

from ingest.projection import definitions, fold
from ingest.projection.projector import Projection

NEWEST = "assay.measurement.recorded.v1"
OLD = "assay.measurement.recorded.v0"
OLDEST = "assay.measurement.recorded.v00"


def from_seconds(data):
    latency = {name: value * 1000 for name, value in data["metrics"].pop("latency_s").items()}
    return {**data, "metrics": {**data["metrics"], "latency_ms": latency}}


def from_flat(data):
    return {"metrics": {"latency_s": {"p50": data.pop("p50_s")}}, **data}


TOMORROW = {OLD: (NEWEST, from_seconds), OLDEST: (OLD, from_flat)}


def versions(build):
    """The same fact in three versions; ids and run apart."""
    newest = build.measurement(p50=1.5)
    newest["data"]["metrics"] = {"latency_ms": {"p50": 1500.0}}
    old = {**newest, "id": str(uuid.uuid4()), "type": OLD}
    old["data"] = {**newest["data"], "metrics": {"latency_s": {"p50": 1.5}}}
    oldest = {**newest, "id": str(uuid.uuid4()), "type": OLDEST}
    oldest["data"] = {key: value for key, value in newest["data"].items() if key != "metrics"} | {"p50_s": 1.5}
    return [oldest, old, newest]


def facts(projection):
    with projection.tables() as tables:
        rows = tables.measurements().to_pylist()
    return [{key: row[key] for key in row.keys() - {"position", "event_id", "recorded_at"}} for row in rows]


def test_yesterdays_versions_end_in_the_same_rows_as_todays(tmp_path, database, append, build):
    append(versions(build))
    with Projection(tmp_path, database, upcasters=TOMORROW) as projection:
        projection.catch_up()
        one, two, three = facts(projection)
        assert one == two == three
        assert one["latency_p50_ms"] == 1500.0
        with projection.tables() as tables:
            counts = {row["type"]: (row["events"], row["known"]) for row in tables.event_type_counts().to_pylist()}
        assert counts == {OLDEST: (1, True), OLD: (1, True), NEWEST: (1, True)}


def test_an_unknown_version_is_kept_counted_shown_and_projected_after_an_upgrade(
    tmp_path, database, append, build, assert_same_projection
):
    append(versions(build))
    with Projection(tmp_path / "node", database) as today:
        today.catch_up()
        assert len(facts(today)) == 1
        with today.tables() as tables:
            known = {row["type"]: row["known"] for row in tables.event_type_counts().to_pylist()}
        assert known == {OLDEST: False, OLD: False, NEWEST: True}
        assert today.health().building is None
    with Projection(tmp_path / "node", database, upcasters=TOMORROW) as upgraded:
        assert upgraded.position == 0
        assert "other definitions" in upgraded.health().building
        upgraded.catch_up()
        assert len(facts(upgraded)) == 3
        with Projection(tmp_path / "fresh", database, upcasters=TOMORROW) as fresh:
            fresh.catch_up()
            assert_same_projection(upgraded, fresh)
    with Projection(tmp_path / "node", database, upcasters=TOMORROW) as again:
        assert again.position == 3
        assert again.health().building is None


def test_an_old_event_that_no_upcaster_understands_is_a_dead_letter(tmp_path, database, append, build):
    good, wrong = build.measurement(), {**build.measurement(), "type": OLD}
    append([good, {**wrong, "data": {"metrics": "none"}}, build.measurement()])
    with Projection(tmp_path, database, upcasters=TOMORROW) as projection:
        projection.catch_up()
        with projection.tables() as tables:
            (letter,) = tables.dead_letters().to_pylist()
            assert tables.measurements().num_rows == 2
            assert tables.recorded_at(2) is not None
    assert (letter["position"], letter["type"]) == (2, OLD)
    assert OLD in letter["reason"]


def test_a_new_projection_fills_itself_from_the_beginning(tmp_path, database, append, build, monkeypatch):
    append([build.event("acme.unknown.v7", {"colour": "red"}), build.measurement()])
    with Projection(tmp_path, database) as before:
        before.catch_up()
    colours = "CREATE TABLE colour (position BIGINT NOT NULL, colour VARCHAR NOT NULL);"
    fill = "INSERT INTO colour SELECT position, body->>'$.data.colour' FROM batch WHERE type = 'acme.unknown.v7'"
    for module in (fold, definitions):
        monkeypatch.setattr(module, "TABLES", fold.TABLES + colours if module is fold else fold.TABLES)
        monkeypatch.setattr(module, "INSERTS", {**module.INSERTS, "colours": frozenset({"acme.unknown.v7"})})
        monkeypatch.setattr(module, "FOLD", {**module.FOLD, "colours": fill})
    with Projection(tmp_path, database) as after:
        assert after.position == 0
        after.catch_up()
        with after.tables() as tables:
            assert tables.cursor.execute("SELECT position, colour FROM colour").fetchall() == [(1, "red")]
            assert tables.measurements().num_rows == 1
            assert {row["type"]: row["known"] for row in tables.event_type_counts().to_pylist()}["acme.unknown.v7"]


def test_what_was_done_to_the_service_is_a_table(tmp_path, database, append, build):
    done = {"action": "token.created", "actor": "local user", "object": "runner-1", "details": {"scopes": ["append"]}}
    append([build.event("assay.operation.performed.v1", done)])
    with Projection(tmp_path, database) as projection:
        projection.catch_up()
        with projection.tables() as tables:
            (row,) = tables.operations().to_pylist()
    assert (row["action"], row["actor"], row["object"]) == ("token.created", "local user", "runner-1")
    assert row["details"] == '{"scopes":["append"]}'


@pytest.mark.parametrize("harm", ["scribbled header", "scribbled pages", "another program's"])
def test_a_file_that_nobody_can_read_is_made_again_and_that_is_said(tmp_path, database, append, build, harm):
    append([build.measurement() for _ in range(20)])
    with Projection(tmp_path, database) as projection:
        projection.catch_up()
        path = projection.path
    content = bytearray(path.read_bytes())
    if harm == "scribbled header":
        content[0:12288] = bytes(range(256)) * 48
    elif harm == "scribbled pages":
        for at in range(12288, len(content), 4096):
            content[at : at + 64] = b"\xa5" * 64
    else:
        content = bytearray(b"SQLite format 3\x00" * 4096)
    path.write_bytes(content)
    with Projection(tmp_path, database) as projection:
        projection.start()
        projection.wait_for(20, 30)
        with projection.tables() as tables:
            assert tables.measurements().num_rows == 20
