"""Rows and a small report for the tests of reports; figures are invented."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from presentation.reports.content import Chart, Report, ReportQuestion, Section
from presentation.reports.evidence import evidence_table, row_of
from presentation.reports.pairs import measured_table

POSITION = 4321


@pytest.fixture
def found() -> Callable[..., dict[str, Any]]:
    """Makes rows as the API gives them; p50 in ms, its interval one per cent to each side."""
    positions = count(1)

    def make(p50: float | None = 10.0, **changes: Any) -> dict[str, Any]:
        position = next(positions)
        batch = changes.get("batch_size", 1)
        made = {
            "event_id": f"00000000-0000-7000-8000-{position:012d}", "position": position, "model_id": "acme/tiny",
            "category": "embedding", "family": "bert", "hardware_id": "acme-one", "hardware_kind": "cpu",
            "hardware_count": 1, "mode": "inference", "scenario": "single_stream", "batch_size": batch,
            "sequence_length": 128, "platform": "cpu", "precision": "fp32", "runtime_name": "torch",
            "runtime_version": "2.13.0", "compiled": False, "threads": 2, "weights": "random",
            "latency_p50_ms": p50, "latency_mean_ms": p50, "latency_n": 61,
            "latency_p50_ci95_low_ms": p50 and p50 * 0.99, "latency_p50_ci95_high_ms": p50 and p50 * 1.01,
            "throughput_per_s": p50 and batch and batch * 1000 / p50, "peak_memory_bytes": 500_000_000, "origin": "measured",
            "verdict": "valid", "verdict_reasons": [], "configuration": f"c{position}", "run_id": "run-1",
            "environment_fingerprint": "env-1", "time": "2026-11-20T14:05:00+00:00", "provenance_source": "assay-runner",
        }  # fmt: skip
        return made | changes

    return make


@pytest.fixture
def row(found: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Makes rows as reports hold them."""
    return lambda p50=10.0, **changes: row_of(found(p50, **changes))


@pytest.fixture
def report(row: Callable[..., dict[str, Any]]) -> Callable[..., Report]:
    """Makes a report of some rows: a sentence, a picture and a table."""

    def make(*rows: dict[str, Any], **changes: Any) -> Report:
        kept = list(rows) or [
            row(),
            row(5.0, platform="openvino", verdict="suspect", verdict_reasons=["warm-up inside"]),
        ]
        parts = [
            "One sentence.",
            Chart("pic", "A picture", "What it shows.", "intervals", kept),
            measured_table(kept, "configurations", "Every configuration"),
        ]
        made = Report(
            asked=ReportQuestion(kind="performance"), title="Performance", question="Which?", position=POSITION,
            recorded_at="2026-11-20T14:06:00+00:00", facts=["1 model"], sections=[Section("Found", parts)],
            evidence=evidence_table(kept),
        )  # fmt: skip
        return made._replace(**changes)

    return make
