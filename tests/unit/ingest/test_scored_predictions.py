"""What was predicted beside what was measured since, and which predictor answers: views of a log, as of any position."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ingest.projection import Tables
from ingest.projection.fold import BATCH_SCHEMA, Folder, create

OPTION = {
    "rank": 1, "configuration": "0" * 32, "hardware": "acme-one", "hardware_count": 1, "platform": "cpu", "precision": "fp32",
    "batch_size": 1, "sequence_length": 128, "runtime": "torch", "compiled": False, "layout": None, "basis": "predicted",
    "origin": None, "latency_ms": 2.0, "latency_ms_low": 1.6, "latency_ms_high": 2.5, "interval_covered": True,
    "peak_memory_bytes": 1000, "evidence": [], "why": "it is near",
}  # fmt: skip
QUESTION = {"model": "acme/tiny", "mode": "inference", "objective": "latency", "percentile": "p50"}
A, B, C = (f"sha256:{letter * 64}" for letter in "abc")

Log = Callable[..., Tables]


@pytest.fixture
def log() -> Iterator[Log]:
    """Appends events to one projection and returns its tables."""
    connection = duckdb.connect(config={"threads": 1})
    create(connection)
    folder = Folder(connection)

    def tell(*events: dict[str, Any], as_of: int | None = None) -> Tables:
        first = folder.position + 1
        rows = [
            {
                "position": position, "event_id": event["id"], "type": event["type"], "source": event["source"],
                "attestation": "anonymous", "chain": bytes(32), "time": None, "recorded_at": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=position),
                "body": json.dumps(event),
            }
            for position, event in enumerate(events, start=first)
        ]  # fmt: skip
        if rows:
            folder.apply(pa.Table.from_pylist(rows, schema=BATCH_SCHEMA))
        assert connection.execute("FROM dead_letter").fetchall() == []
        return Tables(connection.cursor(), as_of)

    yield tell
    connection.close()


def recommended(build: Any, *options: dict[str, Any]) -> dict[str, Any]:
    answer = {"model": "acme/tiny", "predictor": A, "interval": 0.8, "ranked": [{**OPTION, **one} for one in options]}
    data = {"recommendation": "r1", "position": 1, "question": QUESTION, "answer": answer}
    return build.event("assay.recommendation.issued.v1", data)


def predicted(build: Any, **changes: Any) -> dict[str, Any]:
    answer = {"model": "acme/tiny", "predictor": A, "interval": 0.8, **OPTION, **changes}
    answer.pop("rank")
    return build.event(
        "assay.prediction.issued.v1", {"prediction": "p1", "position": 1, "question": QUESTION, "answer": answer}
    )


def latencies(tables: Tables) -> list[dict[str, Any]]:
    return tables.scored_predictions(target="latency").to_pylist()


def test_an_answer_is_scored_by_what_is_measured_after_it(log, build):
    tables = log(
        build.measurement(p50=9.0), predicted(build), build.measurement(p50=2.2), build.measurement(p50=4.0, run_id="2")
    )
    first, second = latencies(tables)
    assert (first["position"], first["measured_position"], first["nth"]) == (2, 3, 1)
    assert (first["predicted"], first["measured"], first["within"]) == (2.0, 2.2, True)
    assert first["log_error"] == pytest.approx(-0.0953, abs=1e-4)
    assert (first["predictor"], first["basis"], first["prediction"], first["age_s"]) == (A, "predicted", "p1", 1.0)
    assert (second["measured_position"], second["nth"], second["within"]) == (4, 2, False)


def test_every_option_of_a_recommendation_is_scored_by_its_own_measurement(log, build):
    tables = log(
        recommended(build, {}, {"rank": 2, "batch_size": 8, "latency_ms": 9.0}),
        build.measurement(p50=8.0, batch_size=8),
        build.measurement(p50=2.0),
    )
    assert [(row["rank"], row["measured"], row["recommendation"]) for row in latencies(tables)] == [
        (2, 8.0, "r1"), (1, 2.0, "r1"),
    ]  # fmt: skip


def test_memory_is_scored_beside_latency(log, build):
    event = build.measurement(p50=2.0)
    event["data"]["metrics"]["peak_memory_bytes"] = 1250
    given = predicted(build, memory_low_bytes=900, memory_high_bytes=1300)
    (row,) = log(given, event).scored_predictions(target="memory").to_pylist()
    assert (row["predicted"], row["measured"], row["within"]) == (1000.0, 1250.0, True)
    assert row["interval_covered"] is False


@pytest.mark.parametrize(
    "other",
    [
        {"model": "acme/other"}, {"hardware": "acme-two"}, {"platform": "openvino"}, {"precision": "bf16"},
        {"batch_size": 2},
        {"workload": {"mode": "inference", "batch_size": 1, "sequence_length": 512}},
        {"workload": {"mode": "training", "batch_size": 1, "sequence_length": 128}},
        {"workload": {"mode": "inference", "scenario": "server", "batch_size": 1, "sequence_length": 128}},
        {"hardware": {"id": "acme-one", "count": 2}},
        {"execution": {"platform": "cpu", "precision": "fp32", "runtime": {"name": "onnxruntime"}}},
        {"execution": {"platform": "cpu", "precision": "fp32", "compiled": True}},
        {"execution": {"platform": "cpu", "precision": "fp32", "layout": "channels_last"}},
        {"provenance": {"origin": "simulated", "source": "dice"}},
        {"validity": {"verdict": "invalid", "reasons": ["x"]}}, {"validity": {"verdict": "suspect", "reasons": ["x"]}},
        {"observed": {"device": "cpu", "platform": "cpu", "precision": "fp32", "fallback_share": 0.3}},
    ],
)  # fmt: skip
def test_what_is_something_else_or_no_evidence_scores_nothing(log, build, other):
    event = build.measurement(p50=2.0)
    for name, value in other.items():
        part = name if name in event["data"] else {"batch_size": "workload"}.get(name, "execution")
        if isinstance(value, dict):
            event["data"][part] = value
        elif name in ("model", "hardware"):
            event["data"][name]["id"] = value
        else:
            event["data"][part][name] = value
            if name in event["data"]["observed"]:
                event["data"]["observed"][name] = value
    tables = log(predicted(build), event)
    assert tables.measurements().num_rows == 1
    assert latencies(tables) == []


def test_what_a_prediction_leaves_open_may_be_anything(log, build):
    event = build.measurement(p50=2.0)
    event["data"]["execution"]["threads"] = 2
    assert len(latencies(log(predicted(build), event))) == 1


def test_a_measured_option_is_no_prediction(log, build):
    tables = log(recommended(build, {"basis": "measured"}), build.measurement(p50=2.0))
    assert latencies(tables) == []
    assert tables.view("predictions").num_rows == 1


def test_a_retracted_measurement_scores_until_it_is_retracted(log, build):
    event = build.measurement(p50=2.0)
    assert latencies(log(predicted(build), event, build.retraction(event["id"]))) == []
    assert len(latencies(log(as_of=2))) == 1
    assert latencies(log(as_of=1)) == []


def test_an_alias_declared_since_finds_the_measurement(log, build):
    tables = log(predicted(build), build.measurement(p50=2.0, model="acme/tiny-v1"))
    assert latencies(tables) == []
    tables = log(build.alias("acme/tiny", "acme/tiny-v1"), build.measurement(p50=3.0, model="acme/tiny"))
    assert [row["measured"] for row in latencies(tables)] == [2.0, 3.0]
    assert latencies(log(as_of=2)) == []


def trained(build: Any, digest: str, **more: Any) -> dict[str, Any]:
    return build.event("assay.predictor.trained.v1", {"digest": digest, "position": 1, "card": {}, **more})


def chosen(build: Any, digest: str) -> dict[str, Any]:
    return build.event("assay.predictor.chosen.v1", {"digest": digest, "by": "local", "reason": "it was better"})


def in_force(tables: Tables) -> list[str]:
    return [row["digest"] for row in tables.predictors().to_pylist() if row["in_force"]]


def test_what_was_accepted_or_chosen_last_is_in_force_at_every_position(log, build):
    rejected = {"accepted": False, "reason": "worse", "comparison": {"rows": 30}}
    log(
        trained(build, A), trained(build, B), trained(build, C, **rejected), chosen(build, A), chosen(build, C),
        chosen(build, "shipped"),
    )  # fmt: skip
    expected = {0: [], 1: [A], 2: [A, B], 3: [A, B], 4: [A], 5: [A, C], 6: []}
    for position, line in expected.items():
        tables = log(as_of=position)
        assert tables.predictor_line() == line, position
        assert tables.predictor == (line[-1] if line else None), position
        assert in_force(tables) == line[-1:], position
    now = log()
    assert (now.predictor, now.predictor_line(), in_force(now)) == (None, [], [])
    kept = now.predictors().to_pylist()[2]
    assert (kept["accepted"], kept["reason"], json.loads(kept["comparison"])) == (False, "worse", {"rows": 30})
    assert [row["digest"] for row in now.predictor_choices().to_pylist()] == [A, C, "shipped"]
    assert log(trained(build, B)).predictor == B
