"""Whether spans are exported, by the variables of OpenTelemetry and ASSAY_TRACING, and what is said where they cannot be."""

from __future__ import annotations

import sys

import pytest

from api.background.span_export import exported, wanted
from domain import spans
from domain.errors import PartMissing

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def _nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ASSAY_TRACING", ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("environment", "on"),
    [
        ({}, False),
        ({"ASSAY_TRACING": "on"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "ASSAY_TRACING": "off"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_spans_are_exported_where_an_endpoint_is_named_or_asked_for(environment: dict[str, str], on: bool) -> None:
    assert wanted(environment) is on


def test_with_nothing_set_the_sdk_is_not_even_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with exported("assay"):
        assert not spans.active()


def test_a_missing_extra_is_an_error_where_traces_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    monkeypatch.setenv("ASSAY_TRACING", "on")
    with pytest.raises(PartMissing, match=r"assay-bench\[tracing\]"), exported("assay"):
        pass


@pytest.mark.parametrize("missing", [True, False])
def test_an_endpoint_alone_is_a_warning_where_spans_cannot_be_exported(
    missing: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    if missing:
        monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    else:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with exported("assay"):
        assert not spans.active()
    assert "spans are not exported" in caplog.text


def test_a_block_inside_of_another_goes_on_with_its_tracer(
    recorded_spans: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:1")
    with exported("inner"), spans.span("a"):
        pass
    assert spans.active() and "a" in recorded_spans()  # type: ignore[operator]
