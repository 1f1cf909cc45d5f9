"""The log read by subject, source and time; decisions on what was read; and a stream that survives everything."""

from __future__ import annotations

import json
import threading
import time
import uuid
from datetime import datetime
from typing import Any

import httpx
import psycopg
import pytest

from domain.errors import AssayError, Expired, VersionConflict

LINES = "application/x-ndjson"
STATE = "acme.line.moved.v1"


def moved(build: Any, subject: str, **envelope: Any) -> dict[str, Any]:
    event: dict[str, Any] = build.event(STATE, {"to": 1}, subject=subject, **envelope)
    return event


def page(service: Any, path: str) -> dict[str, Any]:
    response = httpx.get(service.url + path)
    assert response.status_code == 200, response.text
    told: dict[str, Any] = response.json()
    return told


def test_the_log_is_filtered_and_its_pages_follow_each_other(service, client, build):
    subject, source = f"acme/{uuid.uuid4().hex}", f"urn:acme:{uuid.uuid4().hex}"
    mine = [moved(build, subject, source=source) for _ in range(5)]
    others = [moved(build, f"{subject}/other"), moved(build, subject)]
    client.post_events([mine[0], others[0], *mine[1:3], others[1], *mine[3:]])
    seen: list[dict[str, Any]] = []
    following = f"/v1/events?subject={subject}&source={source}&limit=2&type={STATE}"
    pages = 0
    while following:
        told = page(service, following)
        seen += told["events"]
        following = told["next"]
        pages += 1
    assert [event["id"] for event in seen] == [event["id"] for event in mine]
    assert pages == 3
    assert [event["id"] for event in client.events(subject=subject, source=source)] == [one["id"] for one in mine]
    upto = seen[2]["position"]
    assert len(list(client.events(subject=subject, source=source, upto=upto))) == 3
    lines = httpx.get(f"{service.url}/v1/events", params={"subject": subject, "limit": 3}, headers={"Accept": LINES})
    assert len(lines.text.splitlines()) == 3
    assert lines.links["next"]["url"].startswith("/v1/events?subject=")
    assert int(lines.headers["assay-last-position"]) >= seen[-1]["position"]


def test_since_and_until_are_on_the_time_of_recording(client, build):
    subject = f"acme/{uuid.uuid4().hex}"
    for _ in range(3):
        client.post_events([moved(build, subject, time=datetime.fromisoformat("2020-01-01T00:00:00+00:00"))])
    events = list(client.events(subject=subject))
    middle = datetime.fromisoformat(events[1]["recorded_at"])
    assert [one["id"] for one in client.events(subject=subject, since=middle)] == [one["id"] for one in events[1:]]
    assert [one["id"] for one in client.events(subject=subject, until=middle)] == [events[0]["id"]]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("since=yesterday", "since"), ("since=2026-01-01T00:00:00", "since"), ("subject=", "subject"),
        ("upto=-1", "upto"), ("source=" + "x" * 501, "source"),
    ],
)  # fmt: skip
def test_a_filter_that_makes_no_sense_is_named(service, query, field):
    response = httpx.get(f"{service.url}/v1/events?{query}")
    assert (response.status_code, response.json()["field"]) == (422, field)


def test_a_page_ends_before_it_is_too_large(service, client, build):
    subject = f"acme/{uuid.uuid4().hex}"
    large = [build.event(STATE, {"text": "x" * 250_000}, subject=subject) for _ in range(80)]
    client.post_events(large, batch=20)
    told = page(service, f"/v1/events?subject={subject}&limit=1000")
    assert 60 <= len(told["events"]) < 80
    assert [one["id"] for one in client.events(subject=subject)] == [one["id"] for one in large]


def test_a_decision_is_taken_whole_and_only_on_what_was_known(service, client, build):
    subject = f"acme/{uuid.uuid4().hex}"
    decision = [moved(build, subject) for _ in range(3)]
    first = client.decide(subject, 0, decision)
    assert first["accepted"] == 3
    version = list(client.events(subject=subject))[-1]["position"]
    assert version == first["last_position"]
    with pytest.raises(VersionConflict) as late:
        client.decide(subject, 0, [moved(build, subject)])
    assert late.value.version == version
    assert late.value.status == 409
    assert client.decide(subject, 0, decision)["duplicate"] == 3
    half = [moved(build, subject), {**moved(build, subject), "source": ""}]
    with pytest.raises(AssayError) as refused:
        client.decide(subject, version, half)
    assert refused.value.status == 422
    assert [one["index"] for one in refused.value.rejected] == [0, 1]
    with pytest.raises(AssayError) as elsewhere:
        client.decide(subject, version, [moved(build, "acme/other")])
    assert elsewhere.value.field == "subject"
    assert len(list(client.events(subject=subject))) == 3
    assert client.decide(subject, version, [moved(build, subject)])["accepted"] == 1
    for query in (
        "subject=x",
        "expected_version=1",
        "subject=x&expected_version=-1",
        "subject=x&expected_version=many",
    ):
        assert httpx.post(f"{service.url}/v1/events?{query}", json=moved(build, "x")).status_code == 422


def test_of_two_who_decide_at_once_one_is_told(service, build):
    subject = f"acme/{uuid.uuid4().hex}"
    outcomes: list[str] = []

    def decide() -> None:
        with service.client() as client:
            try:
                client.decide(subject, 0, [moved(build, subject)])
                outcomes.append("taken")
            except VersionConflict:
                outcomes.append("late")

    threads = [threading.Thread(target=decide) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcomes) == ["late"] * 5 + ["taken"]


def test_samples_that_have_expired_are_known_and_gone(service, client, build):
    data = {"run_id": "run-1", "metric": "latency_ms", "digest": "sha256:" + "0" * 64, "n": 2, "values": [1.0, 2.0]}
    event = build.event("assay.samples.recorded.v1", data)
    client.post_events([event])
    assert client.event(event["id"])["data"]["values"] == [1.0, 2.0]
    with psycopg.connect(service.database_url) as connection:
        connection.execute("UPDATE event SET body = NULL WHERE id = %s", [event["id"]])
    with pytest.raises(Expired) as gone:
        client.event(event["id"])
    assert gone.value.status == 410
    (listed,) = [one for one in client.events(types=["assay.samples.recorded.v1"]) if one["id"] == event["id"]]
    assert listed["expired"] is True
    assert "data" not in listed
    assert listed["source"] == event["source"]


class Listener:
    """Follows the stream as a browser's EventSource does: from the last id it has, again and again."""

    def __init__(self, service: Any, last_id: int) -> None:
        self.url = f"{service.url}/v1/events/stream"
        self.last_id = last_id
        self.connections = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        while not self._ending.is_set():
            headers = {"Last-Event-ID": str(self.last_id)}
            try:
                with httpx.stream("GET", self.url, headers=headers, timeout=httpx.Timeout(5, read=0.5)) as stream:
                    self.connections += 1
                    for line in stream.iter_lines():
                        if line.startswith("id: "):
                            position = int(line[4:])
                            assert position > self.last_id
                            self.last_id = position
                        if self._ending.is_set():
                            return
            except httpx.TransportError:
                time.sleep(0.05)

    def reaches(self, position: int) -> bool:
        until = time.monotonic() + 30
        while self.last_id < position and time.monotonic() < until:
            time.sleep(0.01)
        return self.last_id >= position

    def connects_again(self, before: int) -> bool:
        """A worker lives on for a moment when its supervisor is killed, and with it the old connection."""
        until = time.monotonic() + 30
        while self.connections <= before and time.monotonic() < until:
            time.sleep(0.01)
        return self.connections > before

    def end(self) -> None:
        self._ending.set()
        self._thread.join()


def test_a_listener_that_reconnects_hears_of_everything_even_over_a_restart(fresh_service, build):
    service = fresh_service("--role", "ingest").start()
    with service.client() as client:
        begin = client.post_events([build.measurement()])["last_position"]
        listener = Listener(service, begin)
        try:
            assert listener.reaches(client.post_events([build.measurement()])["last_position"])
            service.kill()
            before = listener.connections
            service.start()
            missed = client.post_events([build.measurement() for _ in range(3)])["last_position"]
            assert listener.reaches(missed)
            assert listener.connects_again(before)
            assert listener.reaches(client.post_events([build.measurement()])["last_position"])
        finally:
            listener.end()


def test_who_comes_back_with_an_old_position_hears_the_newest_at_once(service, client, build):
    start = client.post_events([build.measurement()])["last_position"]
    newest = client.post_events([build.measurement() for _ in range(4)])["last_position"]
    headers = {"Last-Event-ID": str(start)}
    with httpx.stream("GET", f"{service.url}/v1/events/stream", headers=headers, timeout=10) as stream:
        data = next(line for line in stream.iter_lines() if line.startswith("data: "))
    assert json.loads(data[6:])["position"] >= newest
