"""Traces from a verb through a real service to the projector, received by a real OTLP/HTTP server."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.integration.conftest import ROOT, RunningService

WAIT_S = 30.0


class Collector:
    """The spans that were received: dictionaries with name, ids, attributes and the service's name."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []
        self.url = ""
        self.arrived = threading.Condition()

    def take(self, body: bytes) -> None:
        """Decode one request of the protocol."""
        request = ExportTraceServiceRequest.FromString(body)
        with self.arrived:
            for resource in request.resource_spans:
                service = next(
                    each.value.string_value for each in resource.resource.attributes if each.key == "service.name"
                )
                for scope in resource.scope_spans:
                    self.spans += [_span(span, service) for span in scope.spans]
            self.arrived.notify_all()

    def wait(self, name: str, **attributes: Any) -> dict[str, Any]:
        """Return the first span of this name with these attributes."""

        def match() -> dict[str, Any] | None:
            wanted = attributes.items()
            return next(
                (span for span in self.spans if span["name"] == name and wanted <= span["attributes"].items()), None
            )

        with self.arrived:
            assert self.arrived.wait_for(match, WAIT_S), [span["name"] for span in self.spans]
        found = match()
        assert found is not None
        return found

    def above(self, span: dict[str, Any]) -> list[str]:
        """Return the names from the root of a span's trace down to the span, once every span above it has arrived."""
        names = [span["name"]]
        while parent := span["parent"]:
            with self.arrived:
                assert self.arrived.wait_for(lambda parent=parent: self._by_id(parent), WAIT_S), (names, span)
            span = self._by_id(parent)
            names.insert(0, f"{span['service']}: {span['name']}")
        return names

    def _by_id(self, span_id: str) -> dict[str, Any]:
        """Return the span of this id, empty where it has not arrived."""
        return next((each for each in self.spans if each["id"] == span_id), {})


def _span(span: Any, service: str) -> dict[str, Any]:
    attributes = {}
    for each in span.attributes:
        kind = each.value.WhichOneof("value")
        attributes[each.key] = getattr(each.value, kind)
    return {
        "name": span.name, "service": service, "trace": span.trace_id.hex(), "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(), "attributes": attributes, "failed": span.status.code == 2,
    }  # fmt: skip


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    """A server that speaks OTLP over HTTP with protobuf, as a collector does."""
    received = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            received.take(gzip.decompress(body) if self.headers.get("Content-Encoding") == "gzip" else body)
            content = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    received.url = f"http://127.0.0.1:{server.server_port}"
    yield received
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def traced(service_database: Any, tmp_path_factory: Any, collector: Collector) -> Iterator[RunningService]:
    """A service that exports to the collector."""
    service = RunningService(tmp_path_factory.mktemp("traced"), service_database().url)
    service.environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    service.start()
    yield service
    service.stop()


def verb(collector: Collector, home: Path, *words: str, code: int = 0, **more: str) -> None:
    """Run a verb in a process of its own that exports to the collector."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "OTEL_"))}
    environment |= {"ASSAY_HOME": str(home), "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, **more}
    command = [sys.executable, "-m", "assay.cli", *words]
    ended = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr


def test_one_trace_goes_from_a_post_to_the_tables_and_no_event_holds_it(
    traced: RunningService, collector: Collector, build: Any, tmp_path: Path
) -> None:
    lines = [json.dumps(build.measurement(batch_size=size)) for size in (1, 2, 4)]
    (tmp_path / "here.ndjson").write_text("\n".join(lines) + "\n")
    verb(collector, tmp_path, "post", str(tmp_path / "here.ndjson"), "--server", traced.url)
    with traced.client() as client:
        last = client.ready()["position"]
    project = collector.wait("project", **{"assay.position.last": last})
    root = collector.wait("assay post")
    assert (root["service"], project["service"]) == ("assay-cli", "assay")
    assert project["trace"] == root["trace"]
    assert collector.above(project) == [
        "assay-cli: assay post", "assay-cli: POST", "assay: POST /v1/events", "assay: append", "assay: commit", "project",
    ]  # fmt: skip
    assert collector.wait("commit")["attributes"]["assay.events"] == 3
    answered = traced.logged(path="/v1/events")[0]
    assert answered["trace_id"] == root["trace"]
    stored = httpx.get(f"{traced.url}/v1/events/{json.loads(lines[0])['id']}").text
    assert root["trace"] not in stored and "traceparent" not in stored
    assert not [span for span in collector.spans if "health" in json.dumps(span)]


def test_question_has_its_position_and_model_and_a_path_stays_private(
    traced: RunningService, collector: Collector, build: Any
) -> None:
    with traced.client() as client:
        position = client.post_events([build.measurement(model="acme/asked")])["last_position"]
        client.wait_for(position)
        client.recommend("acme/asked")
    span = collector.wait("recommend", **{"assay.model": "acme/asked"})
    assert span["attributes"]["assay.position"] >= position and span["attributes"]["assay.predictor"]
    assert collector.above(span)[-2:] == ["assay: POST /v1/recommendations", "recommend"]
    httpx.post(f"{traced.url}/v1/recommendations", json={"model": "/home/ann/secret"})
    hidden = collector.wait("recommend", **{"assay.model": "(local)"})
    assert hidden["failed"] and hidden["attributes"]["error.type"] == "UnknownModel"
    assert "ann" not in json.dumps(collector.spans)


@pytest.mark.torture
def test_training_has_a_span_with_its_predictor(traced: RunningService, collector: Collector) -> None:
    card = httpx.post(f"{traced.url}/v1/predictor/train", json={}, timeout=120).json()
    span = collector.wait("train predictor", **{"assay.predictor": card["digest"]})
    assert span["attributes"]["assay.position"] == card["position"]
    assert collector.above(span)[0] == "assay: POST /v1/predictor/train"


def test_a_sampler_of_the_standard_variables_is_heard(
    collector: Collector, tmp_path: Path, traced: RunningService
) -> None:
    before = len([span for span in collector.spans if span["name"] == "assay status"])
    verb(collector, tmp_path, "status", "--server", traced.url, OTEL_TRACES_SAMPLER="always_off")
    verb(collector, tmp_path, "status", "--server", traced.url, OTEL_SERVICE_NAME="bench-host")
    assert collector.wait("assay status")["service"] == "bench-host"
    assert len([span for span in collector.spans if span["name"] == "assay status"]) == before + 1


@pytest.mark.torture
def test_bench_has_a_span_for_each_case_and_its_events_are_in_the_trace(
    traced: RunningService, collector: Collector, tmp_path: Path
) -> None:
    words = [
        "bench",
        "prajjwal1/bert-tiny",
        "--platform",
        "cpu",
        "--weights",
        "random",
        "--iterations",
        "2",
        "--budget",
        "0.2",
    ]
    verb(collector, tmp_path, *words, "--server", traced.url)
    root, case = collector.wait("assay bench"), collector.wait("case")
    assert collector.above(case) == ["assay-cli: assay bench", "assay-cli: run", "case"]
    assert case["attributes"]["assay.platform"] == "cpu" and case["attributes"]["assay.batch_size"] == 1
    with traced.client() as client:
        last = client.ready()["position"]
    assert collector.wait("project", **{"assay.position.last": last})["trace"] == root["trace"]


def test_collector_that_never_answers_delays_no_append(service_database: Any, tmp_path: Path, build: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as dead:
        service = RunningService(tmp_path, service_database().url)
        service.environment = {
            "ASSAY_TRACING": "on", "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{dead.getsockname()[1]}",
            "OTEL_BSP_SCHEDULE_DELAY": "1", "OTEL_BSP_MAX_QUEUE_SIZE": "8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "4",
        }  # fmt: skip
        service.start()
        with service.client(patience_s=0) as client:
            begun = time.monotonic()
            for size in range(1, 41):
                client.post_events([build.measurement(batch_size=size)])
            # One export waits ten seconds for an answer; forty appends, with five spans each, take less than that in all.
            assert time.monotonic() - begun < 8
            client.wait_for(40)
        # The exporter did try: its connection is there.
        dead.settimeout(5)
        connection, _ = dead.accept()
        connection.close()
        assert service.stop() == 0


def test_wrong_word_for_tracing_is_refused_by_name(tmp_path: Path, collector: Collector) -> None:
    verb(collector, tmp_path, "detect", "--json", code=2, ASSAY_TRACING="maybe")
