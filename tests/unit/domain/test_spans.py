"""Spans: nothing where no tracer is in use, parents and links where one is, and no private words in them."""

from __future__ import annotations

import asyncio
import contextlib
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider

from domain import spans
from ingest.log.append import Appended
from ingest.log.coalescer import Coalescer


def test_without_a_tracer_every_span_is_the_same_one_and_holds_nothing():
    first, second = spans.span("a", assay_events=3), spans.Appends().span("b")
    assert first is second
    with first as span:
        span.set(assay_events=4, failed=True)
        assert (spans.context(), spans.trace_id(), spans.headers()) == (None, None, {})
    assert spans.extract({b"traceparent": b"00-" + b"1" * 32 + b"-" + b"2" * 16 + b"-01"}) is None


def test_a_span_is_below_the_one_of_the_request_that_its_header_names(recorded_spans):
    with spans.span("client"):
        sent = {name.encode(): value.encode() for name, value in spans.headers().items()}
        trace = spans.trace_id()
    assert re.fullmatch(rb"00-[0-9a-f]{32}-[0-9a-f]{16}-0[13]", sent[b"traceparent"])
    with spans.span("server", parent=spans.extract(sent), http_response_status__code=200):
        assert spans.trace_id() == trace
        with spans.span("inner"):
            pass
    by_name = recorded_spans()
    assert by_name["server"].parent.span_id == by_name["client"].context.span_id
    assert by_name["inner"].parent.span_id == by_name["server"].context.span_id
    assert dict(by_name["server"].attributes) == {"http.response.status_code": 200}


def test_an_exception_leaves_its_type_and_not_its_words(recorded_spans):
    with pytest.raises(ValueError, match="secret"), spans.span("a"):
        raise ValueError("secret")
    span = recorded_spans()["a"]
    assert span.attributes["error.type"] == "ValueError" and not span.status.is_ok
    assert "secret" not in span.to_json()


@given(st.binary(max_size=80) | st.from_regex(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", fullmatch=True))
@example(b"00-" + b"0" * 32 + b"-" + b"2" * 16 + b"-01")
def test_no_traceparent_breaks_a_request(header):
    spans.use(TracerProvider(shutdown_on_exit=False).get_tracer("test"))
    try:
        parent = spans.extract({b"traceparent": header, b"tracestate": header})
        assert parent is None or (parent.is_valid and parent.is_remote)
    finally:
        spans.use(None)


@pytest.mark.parametrize("model", ["./mine", "/home/ann/model", "~/model", r"C:\models\mine"])
def test_paths_of_models_are_not_named(model):
    assert spans.public_name(model) == "(local)"
    assert spans.public_name("google-bert/bert-base-uncased") == "google-bert/bert-base-uncased"


def _append(appends, name, position):
    with appends.span(name) as span:
        span.set(assay_position_last=position)


def test_a_move_is_below_the_first_append_in_it_and_linked_to_the_others(recorded_spans):
    appends, position = spans.Appends(), 0
    moved = appends.follower("project", lambda: position, lambda: None)
    for number in (1, 2, 3, 4):
        _append(appends, f"append {number}", number * 10)
    position = 30
    moved()
    by_name = recorded_spans()
    project = by_name["project"]
    assert project.parent.span_id == by_name["append 1"].context.span_id
    assert [link.context.span_id for link in project.links] == [
        by_name[f"append {number}"].context.span_id for number in (2, 3)
    ]
    assert dict(project.attributes) == {"assay.position.first": 1, "assay.position.last": 30}
    assert project.start_time <= project.end_time


def test_a_move_that_is_quicker_than_the_append_that_it_follows_waits_for_it(recorded_spans):
    appends, position = spans.Appends(), 0
    moved = appends.follower("project", lambda: position, lambda: None)
    with appends.span("append") as span:
        position = 10
        moved()
        assert "project" not in recorded_spans()
        span.set(assay_position_last=10)
    by_name = recorded_spans()
    assert by_name["project"].parent.span_id == by_name["append"].context.span_id


def test_a_move_over_what_others_appended_is_a_trace_of_its_own(recorded_spans):
    appends, position = spans.Appends(), 0
    moved = appends.follower("project", lambda: position, lambda: None)
    position = 10
    with spans.span("unrelated"):
        moved()
    assert recorded_spans()["project"].parent is None
    # An append that fails holds no move up for ever.
    with contextlib.suppress(OSError), appends.span("append"):
        position = 20
        moved()
        raise OSError
    assert recorded_spans()["project"].attributes["assay.position.last"] == 20


def test_appends_that_nobody_follows_are_forgotten(recorded_spans):
    appends = spans.Appends()
    for number in range(spans.REMEMBERED + 5):
        _append(appends, "append", number + 1)
    assert len(appends._recent) == spans.REMEMBERED


def test_one_commit_of_several_requests_is_below_the_first_and_linked_to_the_others(recorded_spans):
    class Event:
        raw = b"{}"

    async def commit(events):
        return [Appended(position=number, status="accepted") for number, _ in enumerate(events, 1)]

    async def request(coalescer, name):
        with spans.span(name):
            await coalescer.append(Event())

    async def run():
        async with Coalescer(commit) as coalescer:
            await asyncio.gather(*(request(coalescer, f"request {number}") for number in range(3)))

    asyncio.run(run())
    by_name = recorded_spans()
    assert by_name["coalesce"].parent.span_id == by_name["request 0"].context.span_id
    assert [link.context.span_id for link in by_name["coalesce"].links] == [
        by_name[f"request {number}"].context.span_id for number in (1, 2)
    ]
