"""What this process counts, for Prometheus. Each worker counts for itself, and a scrape meets one of them."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import inf

import msgspec
import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.metrics_core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from api.http.logs import RequestRecord
from ingest.sharing.peers import UnreadPeer

__all__ = ["CONTENT_TYPE", "Metrics", "ServiceState"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ONE = "This worker's alone: with several, a scrape meets one of them by chance (see assay_worker_info)."
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_BOUNDS = tuple(floatToGoString(bound) for bound in (*_SECONDS, inf))  # type: ignore[no-untyped-call]
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_STATE = {
    "log_position": ("assay_log_position", "Highest position of the event log."),
    "position": ("assay_projection_position", "Position that the tables tell of."),
    "lag_events": ("assay_projection_lag_events", "Events that the tables have not yet: the main alert."),
    "lag_seconds": ("assay_projection_lag_seconds", "Age of the oldest event that the tables have not yet."),
    "dead_letters": ("assay_dead_letters", "Events that could not be projected."),
    "unknown_events": ("assay_unknown_events", "Events of types that this version does not know; kept, not projected."),
    "archived_position": ("assay_archive_position", "Highest position that is in the archive."),
    "archive_bytes": ("assay_archive_bytes", "Size of the archive's files."),
    "trained_position": ("assay_predictor_trained_position", "Position of the newest training, accepted or not."),
    "drift": ("assay_predictor_drift", "1 where the predictor in force misses more of its intervals than it promised."),
}
"""Member of ServiceState → gauge; what is not known has no sample."""

_PEER = {
    "lag": ("assay_peer_lag_events", "Positions of the peer's log that were unread at the last pull."),
    "pulled_at_s": ("assay_peer_pulled_timestamp_seconds", "When the last page of the peer was taken."),
    "failed": ("assay_peer_failed", "1 where the last pull from the peer ended early; `assay peer list` says why."),
}
"""Member of UnreadPeer → gauge by peer."""

prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]


class ServiceState(msgspec.Struct, frozen=True, kw_only=True):
    """Positions, lag and counts of the service at one moment; None is not known."""

    log_position: int | None = None
    position: int | None = None
    lag_events: int | None = None
    lag_seconds: float | None = None
    dead_letters: int | None = None
    unknown_events: int | None = None
    archived_position: int | None = None
    archive_bytes: int | None = None
    trained_position: int | None = None
    drift: bool | None = None


class _Durations:
    """Requests of one route by how long they took; `counts` has one number more than `_SECONDS`, for what took longer."""

    def __init__(self) -> None:
        self.sum_s = 0.0
        self.counts = [0] * (len(_SECONDS) + 1)


class _Tally(Collector):
    """What is counted with every request, in plain numbers; a scrape reads them.

    The counters of `prometheus_client` take a lock for each number, and five times as long. Only the event loop counts.
    """

    def __init__(self) -> None:
        self._events = {"accepted": 0, "duplicate": 0, "rejected": 0}
        self._requests: defaultdict[tuple[str, str, int], int] = defaultdict(int)
        self._durations: defaultdict[str, _Durations] = defaultdict(_Durations)

    def events(self, accepted: int, duplicate: int, rejected: int) -> None:
        """Count the events of one body."""
        self._events["accepted"] += accepted
        self._events["duplicate"] += duplicate
        self._events["rejected"] += rejected

    def request(self, method: str, route: str, status: int, duration_s: float) -> None:
        """Count one request."""
        self._requests[method, route, status] += 1
        durations = self._durations[route]
        durations.sum_s += duration_s
        durations.counts[bisect_left(_SECONDS, duration_s)] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as they stand."""
        events = CounterMetricFamily(
            "assay_events", f"Events of request bodies by what became of them. {_ONE}", labels=["status"]
        )
        for status, number in self._events.items():
            events.add_metric([status], number)
        requests = CounterMetricFamily(
            "assay_requests", f"Requests answered. {_ONE}", labels=["method", "route", "status"]
        )
        for (method, route, code), number in list(self._requests.items()):
            requests.add_metric([method, route, str(code)], number)
        durations = HistogramMetricFamily(
            "assay_request_duration_seconds",
            f"From the head of a request to the end of its answer. {_ONE}",
            labels=["route"],
        )
        for route, measured in list(self._durations.items()):
            total = 0
            buckets = []
            for bound, count in zip(_BOUNDS, measured.counts, strict=True):
                total += count
                buckets.append((bound, total))
            durations.add_metric([route], buckets, measured.sum_s)
        yield from (events, requests, durations)


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self, role: str) -> None:
        self.registry = CollectorRegistry()
        self._tally = _Tally()
        self.registry.register(self._tally)
        self.events = self._tally.events
        self._refused = Counter(
            "assay_refused",
            f"Requests refused for want of room, rate or a part. {_ONE}",
            ["problem"],
            registry=self.registry,
        )
        self.batch_events = Histogram(
            "assay_append_batch_events", f"Events of one transaction. {_ONE}", buckets=_SIZES, registry=self.registry
        )
        self.append_duration = Histogram(
            "assay_append_duration_seconds",
            f"One transaction, waiting for its turn included. {_ONE}",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._alert_messages = Counter(
            "assay_alert_messages",
            f"Attempts to send a message about alerts, by what became of it. {_ONE}",
            ["route", "state"],
            registry=self.registry,
        )
        self.queued = self._gauge("assay_coalescer_depth", f"Single events that wait to be written. {_ONE}")
        self.bodies = self._gauge("assay_bodies_in_flight", f"Request bodies that are held in memory. {_ONE}")
        self.body_bytes = self._gauge("assay_body_bytes_in_flight", f"Bytes of those bodies. {_ONE}")
        self._peers = {
            member: Gauge(name, words, ["peer"], registry=self.registry) for member, (name, words) in _PEER.items()
        }
        self._up = self._gauge("assay_up", "Whether Postgres answers and the tables are kept up.")
        worker = Gauge("assay_worker_info", "The worker that this scrape met.", ["pid", "role"], registry=self.registry)
        worker.labels(str(os.getpid()), role).set(1)
        self._state: dict[str, Gauge] = {}

    def alert_message(self, route: str, state: str) -> None:
        """Count an attempt to send a message: it was delivered, or is retried, failed or gone."""
        self._alert_messages.labels(route, state).inc()

    def answered(self, request: RequestRecord, duration_s: float) -> None:
        """Count one request."""
        self._tally.request(request.method, request.route or "unmatched", request.status, duration_s)
        if request.problem is not None and request.status in (429, 503):
            self._refused.labels(request.problem).inc()

    def rendered(self, state: ServiceState, *, up: bool) -> bytes:
        """Return everything in Prometheus' text format, with the service's state as of now."""
        self._up.set(int(up))
        for member, (name, words) in _STATE.items():
            value: float | None = getattr(state, member)
            gauge = self._state.get(member)
            if value is None:
                if gauge is not None:
                    self.registry.unregister(self._state.pop(member))
                continue
            if gauge is None:
                gauge = self._state[member] = self._gauge(name, words)
            gauge.set(value)
        return prometheus_client.generate_latest(self.registry)

    def peers(self, peers: Iterable[UnreadPeer]) -> None:
        """Set how far each peer is read; those that are none any more are forgotten."""
        for gauge in self._peers.values():
            gauge.clear()
        for peer in peers:
            for member, gauge in self._peers.items():
                value = getattr(peer, member)
                if value is not None:
                    gauge.labels(peer.name).set(float(value))

    def _gauge(self, name: str, words: str) -> Gauge:
        return Gauge(name, words, registry=self.registry)
