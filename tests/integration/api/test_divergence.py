"""A log that lost events which were served: the tables drop them, say what happened, and are right again."""

from __future__ import annotations

import json
import time

import httpx
import msgspec
import psycopg
import pytest

from domain.errors import AssayError
from domain.events import decode_event, encode_event
from ingest.projection.projector import Projection
from tests.conftest import append_decoded, append_events


def lose(database, position):
    """Take away the tail above a position, as a failover to a standby does that had not received it."""
    with psycopg.connect(database.url) as connection:
        connection.execute("DELETE FROM event WHERE position > %s", [position])
        connection.execute("SELECT setval('event_position_seq', %s, false)", [position + 1])


def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def caught_up(client, position):
    def ready():
        try:
            state = client.ready()
        except AssayError:
            return None
        return state if state["position"] >= position and state["diverged"] else None

    return until(ready)


def audit(database):
    with psycopg.connect(database.url) as connection:
        rows = connection.execute("SELECT body FROM event WHERE type = 'assay.operation.performed.v1'").fetchall()
    done = [json.loads(body)["data"] for (body,) in rows]
    return [one["details"] for one in done if one["action"] == "log.diverged"]


@pytest.mark.parametrize(
    ("lost", "appended", "running"),
    [(50, 60, True), (50, 20, True), (50, 60, False)],
    ids=["running", "running, fewer than were lost", "stopped"],
)
def test_a_lost_tail_leaves_the_tables_of_a_rebuild(
    database, fresh_service, build, tmp_path, assert_same_projection, lost, appended, running
):
    append_events(database, [build.measurement(1.0 + n, model="acme/old") for n in range(100)])
    service = fresh_service().start()
    with service.client() as client:
        client.wait_for(100)
        tag = httpx.get(f"{service.url}/v1/measurements?as_of=90").headers["etag"]
        cursor = httpx.get(f"{service.url}/v1/measurements?limit=10").json()["next_cursor"]
        if not running:
            service.stop()
        lose(database, 100 - lost)
        append_events(database, [build.measurement(500.0 + n, model="acme/new") for n in range(appended)])
        if not running:
            service.start()
        state = caught_up(client, 100 - lost + appended)
        assert state["diverged"]["last_common"] == 100 - lost
        assert state["diverged"]["lost"] == lost
        assert state["diverged"]["epoch"] == 2
        counts = {model: client.measurements(model=model) for model in ("acme/old", "acme/new")}
        assert [len(rows) for rows in counts.values()] == [100 - lost, appended]
        (details,) = until(lambda: audit(database))
        assert (details["last_common"], details["lost"]) == (100 - lost, lost)
        assert httpx.get(f"{service.url}/v1/measurements?limit=10&cursor={cursor}").status_code in (422, 503)
        if appended >= lost:
            again = httpx.get(f"{service.url}/v1/measurements?as_of=90", headers={"If-None-Match": tag})
            assert again.status_code == 200 and again.headers["etag"] != tag
        service.stop()
    with Projection(service.home, database) as kept, Projection(tmp_path / "anew", database) as anew:
        kept.catch_up()
        anew.catch_up()
        assert_same_projection(kept, anew)


@pytest.mark.parametrize(
    ("events", "kept"),
    [
        (40, 0),
        (3000, 1023),
        pytest.param(3000, 1024, marks=pytest.mark.torture),
        pytest.param(3000, 2500, marks=pytest.mark.torture),
    ],
)
def test_the_last_common_position_is_found(database, build, append, tmp_path, assert_same_projection, events, kept):
    append([build.measurement(1.0 + n) for n in range(events)])
    told = []
    with Projection(tmp_path / "kept", database, on_divergence=told.append) as projection:
        projection.catch_up()
        lose(database, kept)
        append([build.measurement(2.0 + n, model="acme/new") for n in range(30)])
        assert projection.catch_up() == kept + 30
        (found,) = told
        assert (found.last_common, found.lost, found.position) == (kept, events - kept, events)
        with Projection(tmp_path / "anew", database) as anew:
            anew.catch_up()
            assert_same_projection(projection, anew)


def test_the_sequence_that_was_set_back_too_far_skips_no_reader(database, build, append, tmp_path):
    append([build.measurement(1.0 + n) for n in range(30)])
    with Projection(tmp_path, database) as projection:
        assert projection.catch_up() == 30
        with psycopg.connect(database.url) as connection:
            connection.execute("DELETE FROM event WHERE position BETWEEN 11 AND 20")
            connection.execute("SELECT setval('event_position_seq', 10)")
        (answer,) = append([build.measurement(7.0)])
        assert answer.position == 31
        assert projection.catch_up() == 31


def test_the_stream_says_that_the_log_lost_events(database, fresh_service, build):
    append_events(database, [build.measurement(1.0 + n) for n in range(20)])
    service = fresh_service().start()
    with httpx.stream("GET", f"{service.url}/v1/events/stream", timeout=20) as stream:
        lines = stream.iter_lines()
        assert next(line for line in lines if line.startswith("data:")) == 'data: {"position":20}'
        lose(database, 10)
        assert next(line for line in lines if line.startswith("event:")) == "event: diverged"
        assert json.loads(next(lines).removeprefix("data:"))["position"] == 10


def test_an_altered_body_stops_the_tables_until_it_is_put_back(database, fresh_service, build):
    sent = decode_event(encode_event(build.measurement(5.5)))
    altered = msgspec.structs.replace(sent, raw=sent.raw.replace(b"5.5", b"0.5"))
    append_events(database, [build.measurement(1.5)])
    service = fresh_service().start()
    with service.client() as client:
        append_decoded(database, [altered])
        append_events(database, [build.measurement(2.5)])

        def refused():
            answer = httpx.get(f"{service.url}/health/ready")
            return answer.json() if answer.status_code == 503 and "altered" in answer.text else None

        state = until(refused)
        assert f"{sent.id} at position 2" in state["error"] and state["position"] == 1
        for path in ("/v1/events", f"/v1/events/{sent.id}"):
            problem = httpx.get(f"{service.url}{path}")
            assert (problem.status_code, problem.json()["type"]) == (500, "urn:assay:problem:log-altered")
            assert f"{sent.id} at position 2" in problem.json()["detail"]
        assert len(httpx.get(f"{service.url}/v1/events?after=2").json()["events"]) == 1
        with psycopg.connect(database.url) as connection:
            connection.execute("UPDATE event SET body = %s WHERE position = 2", [sent.raw.decode()])
        client.wait_for(3, timeout_s=30)
        assert len(client.measurements()) == 3
