"""What a service that was killed, or robbed of its tables, has when it starts again."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import psycopg
import pytest

from domain.errors import AssayError, ServiceUnavailable
from ingest.projection.projector import Projection

ROWS = 30_000


def rows(build: Any, count: int) -> list[dict[str, Any]]:
    first = build.measurement()
    return [
        {**first, "id": str(uuid.uuid4()), "data": {**first["data"], "run_id": f"run-{index % 7}"}}
        for index in range(count)
    ]


def logged(database: Any) -> tuple[int, int]:
    with psycopg.connect(database.url) as connection:
        ((events, ids),) = connection.execute("SELECT count(*), count(DISTINCT id) FROM event").fetchall()
    return events, ids


def kill_at(service: Any, database: Any, events: int) -> threading.Thread:
    """Kill the service as soon as the log holds so many events, whatever it is doing then."""

    def watch() -> None:
        until = time.monotonic() + 120
        with psycopg.connect(database.url, autocommit=True) as connection:
            while time.monotonic() < until:
                if connection.execute("SELECT count(*) FROM event").fetchall()[0][0] >= events:
                    break
        service.kill()

    thread = threading.Thread(target=watch)
    thread.start()
    return thread


@pytest.mark.torture
def test_killed_in_the_middle_of_an_import_nothing_is_lost_or_doubled(
    fresh_service, database, build, tmp_path, assert_same_projection
):
    service = fresh_service().start()
    events = rows(build, ROWS)
    killer = kill_at(service, database, ROWS // 3)
    acknowledged: list[int] = []
    with service.client(patience_s=0) as client, pytest.raises(ServiceUnavailable):
        client.post_events(events, on_batch=acknowledged.append)
    killer.join()
    there = logged(database)[0]
    assert sum(acknowledged) <= there < ROWS
    service.start()
    with service.client() as client:
        answer = client.post_events(events)
        assert (answer["accepted"], answer["duplicate"]) == (ROWS - there, there)
        assert logged(database) == (ROWS, ROWS)
        client.wait_for(answer["last_position"])
        assert client.query("SELECT count(*), count(DISTINCT event_id) FROM measurements")["rows"] == [[ROWS, ROWS]]
        again = client.post_events(events[:1000])
        assert (again["accepted"], again["duplicate"]) == (0, 1000)
    assert service.stop() == 0
    with Projection(service.home, database) as served, Projection(tmp_path / "anew", database) as anew:
        anew.catch_up()
        assert_same_projection(served, anew)


def test_tables_that_were_deleted_come_back(fresh_service, build):
    service = fresh_service().start()
    with service.client() as client:
        position = client.post_events([build.measurement(batch_size=size) for size in range(1, 51)])["last_position"]
        client.wait_for(position)
        before = client.measurements()
    service.stop()
    files = list((service.home / "projection").glob("*.duckdb*"))
    assert files
    for file in files:
        file.unlink()
    service.start()
    with service.client() as client:
        client.wait_for(position)
        assert client.measurements() == before


def test_a_second_service_on_the_same_directory_says_so(fresh_service, service_database):
    service = fresh_service().start()
    other = type(service)(service.home, service_database().url)
    with pytest.raises(AssertionError, match="another service already uses"):
        other.start()
    with service.client() as client:
        assert client.ready()["status"] == "ready"


def test_an_open_stream_does_not_hold_up_the_end(fresh_service, build):
    import httpx

    service = fresh_service().start()
    with httpx.stream("GET", f"{service.url}/v1/events/stream", timeout=30) as stream:
        begun = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - begun < 10
        stream.read()
    assert not Path(service.home / "service.json").exists()


def test_events_taken_by_one_role_are_answered_by_another(fresh_service, build):
    ingest, query = fresh_service("--role", "ingest").start(), fresh_service("--role", "query").start()
    with ingest.client() as takes, query.client() as answers:
        position = takes.post_events([build.measurement(model="acme/roles")])["last_position"]
        answers.wait_for(position)
        assert len(answers.measurements(model="acme/roles")) == 1
        with pytest.raises(AssayError) as refused:
            takes.measurements()
        assert refused.value.status == 404
        with pytest.raises(AssayError) as closed:
            answers.post_events([build.measurement()])
        assert closed.value.status == 404
