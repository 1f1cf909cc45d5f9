"""The log over HTTP: what is taken, what is refused and how it is said, and following it."""

from __future__ import annotations

import gzip
import json
import uuid
from typing import Any

import httpx
import pytest
import zstandard

JSON = "application/json"
BATCH = "application/cloudevents-batch+json"
LINES = "application/x-ndjson"


def post(service: Any, content: bytes, media: str = JSON, **headers: str) -> httpx.Response:
    return httpx.post(
        f"{service.url}/v1/events", content=content, headers={"Content-Type": media, **headers}, timeout=60
    )


def text(event: dict[str, Any]) -> bytes:
    return json.dumps(event).encode()


def lines(events: list[dict[str, Any]]) -> bytes:
    return b"\n".join(text(event) for event in events) + b"\n"


def changed(event: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(event))
    *parents, last = path.split(".")
    inner = copy
    for name in parents:
        inner = inner[name]
    if value is KeyError:
        del inner[last]
    else:
        inner[last] = value
    return copy


def last_position(service: Any) -> int:
    return int(httpx.get(f"{service.url}/v1/events", params={"limit": 1}).json()["last_position"])


@pytest.mark.parametrize("media", [JSON, "application/cloudevents+json", "application/cloudevents+json; charset=utf-8"])
def test_one_event_is_taken_once(service, build, media):
    event = build.measurement()
    first = post(service, text(event), media)
    assert (first.status_code, first.json()["accepted"], first.json()["duplicate"]) == (200, 1, 0)
    again = post(service, text(event), media).json()
    assert (again["accepted"], again["duplicate"]) == (0, 1)
    assert again["last_position"] == first.json()["last_position"]


@pytest.mark.parametrize("media", [JSON, BATCH, LINES])
def test_a_batch_is_taken_in_its_order(service, build, media):
    events = [build.measurement(batch_size=size) for size in range(1, 31)]
    body = lines(events) if media == LINES else json.dumps(events).encode()
    answer = post(service, body, media).json()
    assert answer["accepted"] == 30
    stored = httpx.get(f"{service.url}/v1/events", params={"after": answer["last_position"] - 30}).json()["events"]
    assert [event["id"] for event in stored] == [event["id"] for event in events]
    positions = [event["position"] for event in stored]
    assert positions == sorted(positions)


def test_an_event_is_kept_as_it_was_sent(service, build):
    event = build.event("acme.weather.seen.v7", {"b": 1.50, "a": [1, 2]})
    sent = b'{ "acmeextra": "kept",\n' + text(event)[1:].replace(b'"b": 1.5', b'"b": 1.50')
    assert post(service, sent).json()["accepted"] == 1
    got = httpx.get(f"{service.url}/v1/events/{event['id']}")
    assert b'"b": 1.50' in got.content
    assert got.json()["acmeextra"] == "kept"
    assert got.json()["type"] == "acme.weather.seen.v7"


def test_unknown_members_are_kept_and_named_as_warnings(service, build):
    event = changed(build.measurement(), "data.mood", "sunny")
    answer = post(service, json.dumps([build.measurement(), event]).encode(), BATCH).json()
    assert answer["accepted"] == 2
    assert answer["warnings"] == [{"index": 1, "field": "data.mood"}]
    assert httpx.get(f"{service.url}/v1/events/{event['id']}").json()["data"]["mood"] == "sunny"


BAD = {
    "malformed JSON": (lambda e: text(e)[:-9], 400, "malformed-body", None),
    "not an object": (lambda e: b"7", 422, "invalid-event", "$"),
    "empty body": (lambda e: b"", 400, "malformed-body", "$"),
    "NaN": (lambda e: text(e).replace(b'"p50": 1.5', b'"p50": NaN'), 400, "malformed-body", None),
    "infinity": (lambda e: text(e).replace(b'"p50": 1.5', b'"p50": 1e999'), 400, "malformed-body", None),
    "negative latency": (
        lambda e: text(changed(e, "data.metrics.latency_ms.p50", -1.0)),
        422, "invalid-event", "data.metrics.latency_ms.p50",
    ),
    "no source": (lambda e: text(changed(e, "source", KeyError)), 422, "invalid-event", "source"),
    "no model": (lambda e: text(changed(e, "data.model", KeyError)), 422, "invalid-event", "data.model"),
    "id that is no UUID": (lambda e: text(changed(e, "id", "one")), 422, "invalid-event", "id"),
    "text for a number": (
        lambda e: text(changed(e, "data.workload.batch_size", "many")),
        422, "invalid-event", "data.workload.batch_size",
    ),
    "too large an event": (
        lambda e: text(changed(e, "data.environment.os", "x" * 300_000)), 413, "payload-too-large", None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_by_its_field_and_nothing_is_stored(service, build, name):
    make, status, kind, field = BAD[name]
    before = last_position(service)
    response = post(service, make(build.measurement()))
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert (response.status_code, problem["status"]) == (status, status)
    assert problem["type"] == f"urn:assay:problem:{kind}"
    assert problem["detail"]
    assert problem["remedy"]
    if field is not None:
        assert problem["field"] == field
    assert last_position(service) == before


def test_the_good_of_a_batch_are_kept_and_each_bad_one_is_named(service, build):
    good = [build.measurement() for _ in range(20)]
    known = build.measurement()
    post(service, text(known))
    bad = changed(build.measurement(), "data.metrics.latency_ms.p50", -3)
    other = changed(known, "data.metrics.latency_ms.p50", 99.0)
    answer = post(service, json.dumps([*good[:10], bad, other, *good[10:]]).encode(), BATCH)
    assert answer.status_code == 200
    told = answer.json()
    assert told["accepted"] == 20
    assert [(one["index"], one["id"], one["field"], one["problem"]) for one in told["rejected"]] == [
        (10, bad["id"], "data.metrics.latency_ms.p50", "invalid-event"),
        (11, known["id"], "data.metrics.latency_ms.p50", "conflicting-event"),
    ]
    assert told["rejected"][0]["type"] == "assay.measurement.recorded.v1"


def test_truncated_lines_lose_only_the_last(service, build):
    events = [build.measurement() for _ in range(3)]
    answer = post(service, lines(events)[:-50], LINES).json()
    assert answer["accepted"] == 2
    assert [(one["index"], one["problem"]) for one in answer["rejected"]] == [(2, "malformed-body")]


def test_an_id_with_another_body_is_a_conflict(service, build):
    event = build.measurement()
    post(service, text(event))
    for path, value in (("data.metrics.latency_ms.p50", 9.0), ("source", "urn:acme:else")):
        response = post(service, text(changed(event, path, value)))
        assert response.status_code == 409
        assert response.json()["type"] == "urn:assay:problem:conflicting-event"
        assert response.json()["field"] == path
    batch = post(service, json.dumps([changed(event, "source", "urn:acme:else")] * 2).encode(), BATCH)
    assert batch.status_code == 409


def test_a_batch_of_nothing_good_is_refused_whole(service, build):
    bad = changed(build.measurement(), "specversion", "0.3")
    response = post(service, json.dumps([bad, 7]).encode(), BATCH)
    assert response.status_code == 422
    assert [one["index"] for one in response.json()["rejected"]] == [0, 1]


def test_a_body_over_the_limit_is_refused_while_it_is_read(service):
    before = last_position(service)
    response = post(service, b"[" + b" " * 20_000_000 + b"]", BATCH)
    assert response.status_code == 413
    assert response.json()["type"] == "urn:assay:problem:payload-too-large"

    def unannounced():
        for _ in range(20):
            yield b" " * 1_000_000

    chunked = httpx.post(f"{service.url}/v1/events", content=unannounced(), headers={"Content-Type": LINES}, timeout=60)
    assert chunked.status_code == 413
    assert last_position(service) == before


def test_too_many_events_in_a_body(service, build):
    line = text(build.measurement()) + b"\n"
    assert post(service, line * 5001, LINES).status_code == 413


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("zstd", zstandard.compress)])
def test_packed_bodies(service, build, encoding, pack):
    events = [build.measurement() for _ in range(5)]
    packed = pack(lines(events))
    assert post(service, packed, LINES, **{"Content-Encoding": encoding}).json()["accepted"] == 5
    parts = b"".join(pack(text(build.measurement()) + b"\n") for _ in range(3))
    assert post(service, parts, LINES, **{"Content-Encoding": encoding}).json()["accepted"] == 3
    bomb = post(service, pack(b" " * 30_000_000), LINES, **{"Content-Encoding": encoding})
    assert bomb.status_code == 413
    broken = post(service, b"no archive", LINES, **{"Content-Encoding": encoding})
    assert (broken.status_code, broken.json()["field"]) == (400, "Content-Encoding")


def test_media_types_that_are_not_taken(service, build):
    event = text(build.measurement())
    assert post(service, event, "text/plain").status_code == 415
    assert post(service, event, JSON, **{"Content-Encoding": "br"}).status_code == 415
    assert post(service, event, BATCH).status_code == 400


def test_the_log_is_read_by_position_and_type(service, build):
    start = last_position(service)
    events = [build.alias(f"alias-{uuid.uuid4().hex}", "acme/tiny") for _ in range(3)]
    post(service, json.dumps([events[0], build.measurement(), events[1], events[2]]).encode(), BATCH)
    seen: list[str] = []
    after = start
    while True:
        asked: dict[str, Any] = {"after": after, "limit": 2, "type": "assay.alias.declared.v1"}
        page = httpx.get(f"{service.url}/v1/events", params=asked).json()["events"]
        if not page:
            break
        seen += [event["id"] for event in page]
        after = page[-1]["position"]
    assert seen == [event["id"] for event in events]
    by_line = httpx.get(f"{service.url}/v1/events", params={"after": start}, headers={"Accept": LINES})
    assert len([json.loads(line) for line in by_line.text.splitlines()]) == 4
    assert httpx.get(f"{service.url}/v1/events/{uuid.uuid4()}").status_code == 404
    for query in ("after=-1", "limit=0", "limit=9999", "after=abc", "after=99999999999999999999"):
        assert httpx.get(f"{service.url}/v1/events?{query}").status_code == 422, query


def test_the_stream_tells_new_positions_and_what_was_missed(service, build):
    seen = last_position(service)

    def heard(headers: dict[str, str]) -> tuple[int, int]:
        with httpx.stream("GET", f"{service.url}/v1/events/stream", headers=headers, timeout=20) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            found: dict[str, str] = {}
            for line in stream.iter_lines():
                name, _, value = line.partition(": ")
                found[name] = value
                if line == "" and "data" in found:
                    return int(found["id"]), json.loads(found["data"])["position"]
        raise AssertionError("the stream ended")

    position = post(service, text(build.measurement())).json()["last_position"]
    assert heard({"Last-Event-ID": str(seen)}) == (position, position)
    with httpx.stream(
        "GET", f"{service.url}/v1/events/stream", headers={"Last-Event-ID": str(position)}, timeout=20
    ) as stream:
        new = post(service, text(build.measurement())).json()["last_position"]
        told = next(line for line in stream.iter_lines() if line.startswith("data"))
    assert json.loads(told.partition(": ")[2])["position"] == new


def test_every_refusal_is_a_problem_document(service):
    for method, path in (("GET", "/v1/nothing"), ("PUT", "/v1/events"), ("DELETE", "/v1/models")):
        response = httpx.request(method, service.url + path)
        assert response.status_code in (404, 405)
        assert response.headers["content-type"] == "application/problem+json"
        assert response.json()["type"].startswith("urn:assay:problem:")
        assert "Traceback" not in response.text
