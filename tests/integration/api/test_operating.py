"""Running it: logs, metrics, health, roles, restarts under load, and the end."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from domain.errors import TooBusy

EXIT_S = 5.0
"""An idle machine needs under half a second; a busy one gets the benefit of the doubt."""


def test_a_request_has_one_id_in_answer_log_and_problem(service, build):
    identifier = f"test-{uuid.uuid4().hex}"
    headers = {"X-Request-Id": identifier}
    posted = httpx.post(f"{service.url}/v1/events", json=build.measurement(), headers=headers)
    assert posted.headers["x-request-id"] == identifier
    (line,) = service.logged(request_id=identifier)
    position = posted.json()["last_position"]
    assert (line["method"], line["path"], line["status"], line["level"]) == ("POST", "/v1/events", 200, "info")
    assert line["batch"] == {"first": position, "last": position, "accepted": 1, "duplicate": 0, "rejected": 0}
    assert line["duration_ms"] > 0
    for path in ("/v1/events?limit=0", "/v1/nothing", "/v1/hardware/nobody"):
        refused = httpx.get(service.url + path)
        made = refused.headers["x-request-id"]
        assert refused.json()["instance"] == f"urn:assay:request:{made}"
        assert service.logged(request_id=made)[0]["problem"] == refused.json()["type"].rpartition(":")[2]
    other = httpx.get(f"{service.url}/v1/events", headers={"X-Request-Id": "no good id"})
    assert other.headers["x-request-id"] != "no good id"


def test_metrics_count_requests_events_and_transactions(service, client, build):
    def value(name: str) -> float:
        lines = httpx.get(f"{service.url}/metrics").text.splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith(name))

    names = {
        'assay_events_total{status="accepted"}': 7.0,
        'assay_events_total{status="duplicate"}': 7.0,
        'assay_requests_total{method="POST",route="/v1/events",status="200"}': 2.0,
        'assay_request_duration_seconds_count{route="/v1/events"}': 2.0,
        "assay_append_batch_events_sum": 14.0,
        "assay_append_duration_seconds_count": 2.0,
    }
    before = {name: value(name) for name in names}
    events = [build.measurement() for _ in range(7)]
    client.post_events(events)
    client.post_events(events)
    assert {name: value(name) - before[name] for name in names} == names
    text = httpx.get(f"{service.url}/metrics").text
    for name in (
        "assay_log_position", "assay_projection_position", "assay_projection_lag_events", "assay_dead_letters",
        "assay_up 1.0", "assay_coalescer_depth", "assay_bodies_in_flight", "assay_worker_info", "assay_unknown_events",
    ):  # fmt: skip
        assert name in text, name
    assert "a scrape meets one of them" in text


def test_health_tells_of_every_part(service, client, build):
    client.post_events([build.event(f"acme.thing{uuid.uuid4().hex[:6]}.seen.v9", {})])
    client.wait_for(client.ready()["log_position"])
    told = client.ready()
    assert told["unknown_events"] >= 1
    assert any(one["type"].startswith("acme.thing") for one in told["unknown_types"])
    assert not any(one["type"] == "assay.measurement.recorded.v1" for one in told["unknown_types"])
    assert (told["postgres"], told["duckdb"], told["role"]) == ("answers", "open", "all")
    assert told["archive"] == {"segments": 0, "last_position": None, "bytes": None, "trimmed_position": None}
    assert psutil.pid_exists(told["worker"])
    assert told["lag_seconds"] in (0, None) or told["lag_seconds"] < 60


def test_a_query_node_is_ready_when_it_has_caught_up(fresh_service, append, build):
    append([build.measurement() for _ in range(200)])
    nodes = [fresh_service("--role", "query") for _ in range(2)]
    states: list[dict[str, Any]] = []
    threads = [threading.Thread(target=node.start) for node in nodes]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        try:
            answer = httpx.get(f"{nodes[0].url}/health/ready", timeout=5)
            states.append({**answer.json(), "status": answer.status_code})
        except httpx.TransportError:
            pass
        # Asked without a pause it would take the processor from the nodes that are getting ready.
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert all(state["type"].endswith("projection-behind") for state in states if state["status"] == 503)
    # The events are younger than the lag of a ready node may be: the position says whether they are in its tables.
    assert all(state["position"] >= 200 for state in states if state["status"] == 200)
    for node in nodes:
        with node.client() as client:
            assert client.ready()["lag_events"] == 0
            assert client.summary()["measurements"] == 200


@pytest.mark.torture
def test_ingest_workers_are_replaced_one_by_one_under_load(fresh_service, database, build):
    service = fresh_service("--role", "ingest", "--workers", "2").start()
    ending = threading.Event()
    acknowledged: list[int] = []

    def send() -> None:
        with service.client(patience_s=30) as client:
            while not ending.is_set():
                told = client.post_events([build.measurement() for _ in range(5)], batch=1)
                assert not told["rejected"]
                acknowledged.append(told["accepted"] + told["duplicate"])

    def workers() -> set[int]:
        return {child.pid for child in psutil.Process(service.process.pid).children() if _serves(child)}

    with ThreadPoolExecutor(4) as pool:
        senders = [pool.submit(send) for _ in range(4)]
        before = workers()
        service.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 60
        while (workers() & before or len(workers()) != 2) and time.monotonic() < until:
            time.sleep(0.1)
        after = workers()
        sent = len(acknowledged)
        while len(acknowledged) < sent + 4 and time.monotonic() < until + 10:
            time.sleep(0.05)
        ending.set()
        for sender in senders:
            sender.result()
    assert len(before) == 2
    assert len(after) == 2
    assert not before & after
    with psycopg.connect(database.url) as connection:
        ((events, ids),) = connection.execute("SELECT count(*), count(DISTINCT id) FROM event").fetchall()
    assert events == ids == sum(acknowledged)


def _serves(process: psutil.Process) -> bool:
    try:
        return "spawn_main" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def test_workers_end_with_their_supervisor(fresh_service):
    service = fresh_service("--role", "ingest", "--workers", "2").start()
    children = psutil.Process(service.process.pid).children()
    with httpx.stream("GET", f"{service.url}/v1/events/stream", timeout=30) as stream:
        service.kill()
        _, alive = psutil.wait_procs(children, timeout=20)
        assert not [child for child in alive if child.status() != psutil.STATUS_ZOMBIE]
        stream.read()
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", service.port))


def test_an_open_stream_ends_with_its_worker(fresh_service):
    service = fresh_service("--role", "ingest").start()
    with httpx.stream("GET", f"{service.url}/v1/events/stream", timeout=30) as stream:
        begun = time.monotonic()
        assert service.stop() == 0
        assert time.monotonic() - begun < EXIT_S
        stream.read()


@pytest.mark.parametrize("role", ["all", "ingest"])
def test_the_end_is_quick_and_finishes_what_is_open(fresh_service, database, build, role):
    service = fresh_service("--role", role).start()
    lines = [json.dumps(build.measurement()).encode() + b"\n" for _ in range(3000)]
    ended = threading.Event()

    def body() -> Iterator[bytes]:
        yield b"".join(lines[:1500])
        assert ended.wait(60)
        yield b"".join(lines[1500:])

    with ThreadPoolExecutor(1) as pool:
        open_ = pool.submit(
            httpx.post, f"{service.url}/v1/events", content=body(), headers={"Content-Type": "application/x-ndjson"}, timeout=60
        )  # fmt: skip
        until = time.monotonic() + 30
        while "assay_bodies_in_flight 1.0" not in httpx.get(f"{service.url}/metrics").text:
            assert time.monotonic() < until
        begun = time.monotonic()
        service.process.terminate()
        ended.set()
        assert service.process.wait(30) == 0
        assert time.monotonic() - begun < EXIT_S
        answer = open_.result()
    assert answer.status_code == 200
    with psycopg.connect(database.url) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchall() == [(3000,)]


def test_one_training_or_rebuild_at_a_time(service, client, build):
    client.wait_for(client.post_events([build.measurement()])["last_position"])
    outcomes: list[str] = []

    def ask() -> None:
        with service.client(patience_s=0) as one:
            try:
                one.train()
                outcomes.append("trained")
            except TooBusy as busy:
                outcomes.append("busy" if busy.retry_after_s else "busy without end")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    answers = []
    while any(thread.is_alive() for thread in threads):
        begun = time.monotonic()
        client.summary()
        answers.append(time.monotonic() - begun)
        time.sleep(0.02)
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["busy", "busy", "trained"]
    assert sorted(answers)[len(answers) // 2] < 1.0
    done = [event["data"]["action"] for event in client.events(types=["assay.operation.performed.v1"])]
    assert "predictor.trained" in done
    client.rebuild()
    done = [event["data"]["action"] for event in client.events(types=["assay.operation.performed.v1"])]
    assert done[-1] == "projection.rebuilt"
