"""Spans on their way to a collector: OpenTelemetry's SDK, set up by its standard variables, for as long as a block runs.

On where ASSAY_TRACING=on or an endpoint is named (OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT) and
the extra `tracing` is installed. Spans wait in a bounded queue and are sent by a thread: a collector that is slow or away
costs spans, never an answer.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from domain import spans
from domain.errors import PartMissing, UsageError

__all__ = ["ENDPOINTS", "exported", "wanted"]

_LOG = logging.getLogger(__name__)
ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
FLUSH_S = 3.0
"""How long the end of a process waits for a collector."""


def wanted(environment: Mapping[str, str]) -> bool:
    """Return whether spans are to be exported; UsageError for a word that ASSAY_TRACING does not know."""
    choice = environment.get("ASSAY_TRACING", "").lower()
    if choice not in ("", "on", "off"):
        raise UsageError(f"{choice!r} is neither on nor off.", field="ASSAY_TRACING", remedy="Set it to on or off.")
    if choice == "off" or environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if environment.get("OTEL_TRACES_EXPORTER", "otlp") != "otlp":
        return False
    return choice == "on" or any(environment.get(name) for name in ENDPOINTS)


@contextmanager
def exported(service: str) -> Iterator[None]:
    """Export the spans of the block as those of `service`, unless OTEL_SERVICE_NAME names another; see `wanted`.

    PartMissing where ASSAY_TRACING=on asks for it and the extra is not installed; with an endpoint alone a warning.
    """
    if spans.active() or not wanted(os.environ):
        yield
        return
    protocols = (os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL"))
    protocol = next(filter(None, protocols), "http/protobuf")
    if protocol != "http/protobuf":
        _LOG.warning("spans are not exported: OTLP over %s is not supported, http/protobuf is", protocol)
        yield
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as error:
        if os.environ.get("ASSAY_TRACING", "").lower() == "on":
            raise PartMissing(
                f"traces need the package {error.name!r}.",
                field="ASSAY_TRACING",
                remedy="pip install 'assay-bench[tracing]', or set it to off.",
            ) from error
        _LOG.warning("spans are not exported: pip install 'assay-bench[tracing]'")
        yield
        return
    resource = Resource.create()
    if not (os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")):
        resource = resource.merge(Resource({SERVICE_NAME: service}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    spans.use(provider.get_tracer("assay"))
    try:
        yield
    finally:
        spans.use(None)
        # The exporter tries again for as long as its own time limit; nobody waits for that.
        ending = threading.Thread(target=provider.shutdown, name="last-spans", daemon=True)
        ending.start()
        ending.join(FLUSH_S)
        if ending.is_alive():
            _LOG.warning("the collector did not take the last spans within %.0f s; they are lost", FLUSH_S)
