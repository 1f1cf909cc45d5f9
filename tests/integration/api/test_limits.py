"""Too much at once: refused before it takes memory, and nothing that was acknowledged is lost."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from api.http.body_budget import BYTES
from assay.client import Client
from domain.errors import ServiceUnavailable

MB = 2**20


def stored(database: Any) -> int:
    with psycopg.connect(database.url) as connection:
        ((events, ids),) = connection.execute("SELECT count(*), count(DISTINCT id) FROM event").fetchall()
    assert events == ids
    return int(events)


def large_body(build: Any, events: int) -> bytes:
    """About 200 KB an event."""
    return b"\n".join(
        json.dumps(build.event("acme.blob.seen.v1", {"text": "x" * 200_000})).encode() for _ in range(events)
    )


class Watch:
    """The greatest resident set of a process and its children while it is watched."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.begun_bytes = self._now()
        self.most_bytes = self.begun_bytes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def _now(self) -> int:
        found = [self._process, *self._process.children(recursive=True)]
        return max(one.memory_info().rss for one in found)

    def _look(self) -> None:
        while not self._ended.wait(0.02):
            self.most_bytes = max(self.most_bytes, self._now())

    def end(self) -> int:
        self._ended.set()
        self._thread.join()
        return self.most_bytes - self.begun_bytes


def test_many_large_bodies_at_once_are_turned_away_in_part_and_none_is_lost(fresh_service, database, build):
    service = fresh_service("--role", "ingest").start()
    bodies = [large_body(build, 40) for _ in range(24)]
    headers = {"Content-Type": "application/x-ndjson"}
    answers: Counter[int] = Counter()
    acknowledged = Counter[str]()

    def send(body: bytes) -> None:
        with httpx.Client(timeout=60) as http:
            for _ in range(200):
                answer = http.post(f"{service.url}/v1/events", content=body, headers=headers)
                answers[answer.status_code] += 1
                if answer.status_code == 200:
                    acknowledged["events"] += answer.json()["accepted"] + answer.json()["duplicate"]
                    return
                assert answer.status_code in (429, 503), answer.text
                assert int(answer.headers["retry-after"]) >= 1
                time.sleep(0.2)

    watch = Watch(service.process.pid)
    with ThreadPoolExecutor(24) as pool:
        list(pool.map(send, bodies))
    grown = watch.end()
    assert acknowledged["events"] == 24 * 40
    assert stored(database) == 24 * 40
    assert answers[429] > 0
    assert sum(map(len, bodies)) > 2 * BYTES
    assert grown < 8 * BYTES
    with service.client() as client:
        assert client.ready()["status"] == "ready"


@pytest.mark.torture
def test_packed_bodies_count_by_what_they_hold(fresh_service, build):
    service = fresh_service("--role", "ingest").start()
    packed = gzip.compress(large_body(build, 75), 1)
    headers = {"Content-Type": "application/x-ndjson", "Content-Encoding": "gzip"}
    watch = Watch(service.process.pid)
    with ThreadPoolExecutor(32) as pool:
        statuses = Counter(
            pool.map(
                lambda _: (
                    httpx.post(f"{service.url}/v1/events", content=packed, headers=headers, timeout=60).status_code
                ),
                range(32),
            )
        )
    assert watch.end() < 10 * BYTES
    assert set(statuses) <= {200, 429, 503}
    assert statuses[200] >= 1


def test_a_body_that_drips_ends_and_holds_up_nobody(fresh_service, build):
    service = fresh_service("--role", "ingest")
    service.environment = {"ASSAY_BODY_DEADLINE_S": "1"}
    service.start()
    heads = [
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{service.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: 100000\r\n\r\n"
        for path in ("/v1/events", "/v1/tokens")
    ]
    slow = [socket.create_connection(("127.0.0.1", service.port), timeout=10) for _ in range(20)]
    try:
        for number, one in enumerate(slow):
            one.sendall(heads[number % 2].encode() + b'{"a')
        with service.client(patience_s=0) as client:
            assert client.post_events([build.measurement()])["accepted"] == 1
        begun = time.monotonic()
        answers = [one.recv(4096) for one in slow]
        assert time.monotonic() - begun < 5
    finally:
        for one in slow:
            one.close()
    assert all(answer.startswith(b"HTTP/1.1 408") and b"body-too-slow" in answer for answer in answers)


def wait_as_told(refused: httpx.Response) -> None:
    time.sleep(int(refused.headers["retry-after"]))


def test_a_rate_is_kept_to_by_token_and_said(fresh_service, build):
    service = fresh_service("--role", "ingest")
    service.environment = {"ASSAY_RATE_LIMIT": "5,100"}
    service.start()
    with httpx.Client(base_url=service.url) as http:
        answers = [http.get("/v1/events") for _ in range(12)]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert answers[0].headers["ratelimit-policy"] == '"requests";q=10;w=2'
        assert answers[0].headers["ratelimit"].startswith('"requests";r=9;')
        refused = answers[-1]
        assert refused.json()["type"] == "urn:assay:problem:rate-limited"
        assert int(refused.headers["retry-after"]) >= 1
        assert http.get("/health/ready").status_code == 200
        wait_as_told(refused)
        lines = b"\n".join(json.dumps(build.measurement()).encode() for _ in range(300))
        sent = [
            http.post("/v1/events", content=lines, headers={"Content-Type": "application/x-ndjson"}) for _ in range(2)
        ]
        assert [answer.status_code for answer in sent] == [200, 429]
        assert sent[1].json()["detail"] == "more than 100 events a second."
        wait_as_told(sent[1])
        assert http.post("/v1/events", json=build.measurement()).status_code == 200
        assert 'assay_refused_total{problem="rate-limited"}' in http.get("/metrics").text
    with Client(service.url, patience_s=30) as client:
        begun = time.monotonic()
        for _ in range(15):
            client.event(json.loads(lines.splitlines()[0])["id"])
        assert time.monotonic() - begun > 0.5


# tests/torture/test_states.py shuts one down in `make test`.
@pytest.mark.torture
@pytest.mark.parametrize("way", ["shut", "halted"])
def test_a_postgres_that_is_away_is_said_at_once_and_comes_back_by_itself(fresh_service, build, tmp_path, way):
    import signal

    from ingest.log.migrate import upgrade
    from ingest.log.postgres import open_database

    server_home = tmp_path / "own"
    with open_database(server_home) as own:
        upgrade(own.url)
        service = fresh_service("--role", "ingest")
        service.database_url = own.url
        service.start()
        with service.client(patience_s=0) as client:
            client.post_events([build.measurement()])
        postmaster = psutil.Process(own.server.pid)
        family = [postmaster, *postmaster.children(recursive=True)]
        if way == "halted":
            for one in family:
                one.suspend()
        else:
            postmaster.send_signal(signal.SIGINT)
            postmaster.wait(30)
        try:
            _until_refused(service, build)
            begun = time.monotonic()
            for _ in range(20):
                answer = httpx.post(f"{service.url}/v1/events", json=build.measurement())
                assert answer.status_code == 503
                assert answer.json()["type"] == "urn:assay:problem:service-unavailable"
                assert int(answer.headers["retry-after"]) >= 1
            assert time.monotonic() - begun < 5
            ready = httpx.get(f"{service.url}/health/ready")
            assert ready.status_code == 503
            assert "Postgres" in ready.json()["detail"]
        finally:
            if way == "halted":
                for one in family:
                    one.resume()
        again = open_database(server_home)
        with service.client(patience_s=30) as client:
            assert client.post_events([build.measurement()])["accepted"] == 1
            assert client.ready()["postgres"] == "answers"
        again.close()


def _until_refused(service: Any, build: Any) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with Client(service.url, patience_s=0, timeout_s=20) as client:
            try:
                client.post_events([build.measurement()])
            except ServiceUnavailable:
                return
    raise AssertionError("the service went on without Postgres")
