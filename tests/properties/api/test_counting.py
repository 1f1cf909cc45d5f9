"""Requests are counted in plain numbers; a scrape reads the same bytes as from the counters of prometheus_client."""

from __future__ import annotations

import prometheus_client
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Histogram

from api.background import metrics
from api.background.metrics import Metrics, ServiceState
from api.http.logs import RequestRecord

BOUNDS = metrics._SECONDS
durations = st.floats(0, 100) | st.sampled_from(BOUNDS)
requests = st.tuples(
    st.sampled_from(("GET", "POST")),
    st.sampled_from(("/v1/events", "/v1/rows/{name:str}", None)),
    st.sampled_from((200, 404, 503)),
    durations,
)
bodies = st.tuples(st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 5000))


class Reference:
    """The same metrics by the objects of prometheus_client, one lock a number."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        one = metrics._ONE
        self.events = Counter(
            "assay_events", f"Events of request bodies by what became of them. {one}", ["status"],
            registry=self.registry,
        )  # fmt: skip
        for status in ("accepted", "duplicate", "rejected"):
            self.events.labels(status)
        self.requests = Counter(
            "assay_requests", f"Requests answered. {one}", ["method", "route", "status"], registry=self.registry
        )
        self.durations = Histogram(
            "assay_request_duration_seconds", f"From the head of a request to the end of its answer. {one}", ["route"],
            buckets=BOUNDS, registry=self.registry,
        )  # fmt: skip


@given(st.lists(requests | bodies, max_size=60))
def test_a_scrape_reads_what_the_counters_of_prometheus_would_say(counted):
    ours, reference = Metrics("ingest"), Reference()
    for item in counted:
        if len(item) == 3:
            ours.events(*item)
            for status, number in zip(("accepted", "duplicate", "rejected"), item, strict=True):
                reference.events.labels(status).inc(number)
            continue
        method, route, status, duration_s = item
        request = RequestRecord("id", method, "/")
        request.route, request.status = route, status
        ours.answered(request, duration_s)
        reference.requests.labels(method, route or "unmatched", str(status)).inc()
        reference.durations.labels(route or "unmatched").observe(duration_s)
    expected = prometheus_client.generate_latest(reference.registry)
    assert expected
    assert ours.rendered(ServiceState(), up=True).startswith(expected)
