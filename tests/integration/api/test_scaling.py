"""Efficiency of trainings on ranks over HTTP, at earlier positions, and in a report."""

from __future__ import annotations

import uuid
from typing import Any

from assay.client.row_types import Scaling
from presentation.reports.content import ReportQuestion, Table
from presentation.reports.kinds import build as build_report

WORKLOAD = {"mode": "training", "batch_size": 8, "optimizer": "adamw"}
CPU = {"platform": "cpu", "precision": "fp32", "runtime": {"name": "torch", "version": "2.13.0"}}


def measured(build: Any, model: str, rate: float, **execution: Any) -> dict[str, Any]:
    event: dict[str, Any] = build.measurement(
        p50=8000 / rate, model=model, workload=WORKLOAD, execution={**CPU, **execution}
    )
    event["data"]["metrics"]["throughput_per_s"] = rate
    return event


def on_ranks(build: Any, model: str, rate: float) -> dict[str, Any]:
    options = {"strategy": "fsdp2", "nodes": 1, "backend": "gloo", "local_batch_size": 4}
    event = measured(build, model, rate, threads=2, parallelism={"data": 2}, options=options)
    communication = {
        "exposed_ms": 1.0,
        "all_reduce_ms": 2.0,
        "gradient_bytes": 8,
        "buffers": 1,
        "backend": "gloo",
        "steps": 5,
    }
    event["data"]["observed"] = {
        "device": "cpu",
        "details": {"ranks": [{"rank": 0}, {"rank": 1}], "communication": communication},
    }
    return event


def test_efficiency_comes_with_its_baseline_and_goes_back_with_the_position(
    service: Any, client: Any, build: Any
) -> None:
    model = f"acme/{uuid.uuid4().hex[:8]}"
    before = int(client.post_events([on_ranks(build, model, 150.0)])["last_position"])
    baseline = measured(build, model, 100.0, threads=1)
    position = int(client.post_events([baseline])["last_position"])
    (row,) = client.rows(Scaling, model=model, min_position=position)
    assert (row.efficiency, row.baseline_event_id, row.strategy, row.ranks) == (0.75, baseline["id"], "fsdp2", 2)
    assert row.training_ranks is not None and row.training_ranks["communication"]["all_reduce_ms"] == 2.0
    (earlier,) = client.scaling(model=model, as_of=before)
    assert earlier["efficiency"] is None and earlier["baseline_event_id"] is None
    assert client.scaling(model=model, strategy="ddp") == []
    report = build_report(client, ReportQuestion(kind="model", subject=model, as_of=position))
    section = next(each for each in report.sections if each.title == "Training on ranks")
    (table,) = [part for part in section.parts if isinstance(part, Table)]
    assert table.rows[0]["evidence"] == [row.event_id, baseline["id"]]
    assert table.words(table.rows[0])[-3] == "75%"
