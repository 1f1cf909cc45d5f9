"""Every figure that an event can hold is a column, and holds what the event said."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import duckdb
import pyarrow as pa
import pytest

from domain.events import decode_event, encode_event
from domain.metrics import MEASURED_METRICS
from ingest.projection.fold import BATCH_SCHEMA, Folder, create

FIGURES = {name: number + 0.5 for number, name in enumerate(MEASURED_METRICS, start=1) if name != "latency_ms"}
METRICS = {name: int(value) if name.endswith("_bytes") else value for name, value in FIGURES.items()}
CONDITIONS = {"stopped_by": "precise", "other_load": 0.25, "clock_before_hz": 2.5e9, "clock_after_hz": 2.4e9}


@pytest.fixture
def fold():
    """Folds one event as it is and returns the rows of `measurements` and the reasons of dead letters."""
    with duckdb.connect() as connection:
        create(connection)

        def folded(event):
            batch = {**event, "event_id": event["id"], "position": 1, "time": None, "body": json.dumps(event)}
            batch |= {"attestation": "anonymous", "chain": bytes(32)}
            batch["recorded_at"] = datetime(2026, 1, 1, tzinfo=UTC)
            Folder(connection).apply(pa.Table.from_pylist([batch], schema=BATCH_SCHEMA))
            rows = connection.sql("FROM measurements").to_arrow_table().to_pylist()
            return rows, [reason for (reason,) in connection.execute("SELECT reason FROM dead_letter").fetchall()]

        yield folded


def test_every_metric_and_what_was_seen_meanwhile_is_in_the_view(build, fold):
    event = build.measurement(conditions={**CONDITIONS, "steady": True}, samples={"digest": digest("5"), "n": 60})
    event["data"]["metrics"] |= METRICS
    assert decode_event(encode_event(event)).data is not None
    (row,), letters = fold(event)
    assert letters == []
    wanted = {**METRICS, **CONDITIONS, "samples_n": 60, "latency_p50_ms": 1.5}
    assert {name: row[name] for name in wanted} == wanted


def test_what_was_not_said_is_null(build, fold):
    (row,), _ = fold(build.measurement())
    assert {row[name] for name in (*METRICS, *CONDITIONS, "samples_n")} == {None}


ENERGY = ("energy_j", "power_w", "energy_per_item_j")
WELL = {"verdict": "valid"}
GAP = {"verdict": "invalid", "reasons": ["the power meter was not read for 4.0 s"]}


@pytest.mark.parametrize(
    ("validity", "metrics", "verdict"),
    [
        ({"verdict": "suspect", "metrics": {"latency_ms": {"verdict": "suspect"}, **dict.fromkeys(ENERGY, WELL)}}, {"energy_j": 2.0}, "valid"),
        ({"verdict": "valid", "metrics": {"latency_ms": {"verdict": "valid"}, **dict.fromkeys(ENERGY, GAP)}}, {}, "invalid"),
        ({"verdict": "suspect", "metrics": {"latency_ms": {"verdict": "suspect"}}}, {"energy_j": 2.0}, None),
        ({"verdict": "suspect"}, {"power_w": 40.0}, "suspect"),
        ({"verdict": "suspect"}, {}, None),
    ],
)  # fmt: skip
def test_energy_has_a_verdict_of_its_own(build, fold, validity, metrics, verdict):
    event = build.measurement(validity=validity)
    event["data"]["metrics"] |= metrics
    (row,), letters = fold(event)
    assert letters == []
    assert row["energy_verdict"] == verdict
    assert row["verdict"] == validity["verdict"]
    assert row["energy_per_item_j"] is None


def test_how_energy_was_read_and_what_a_scenario_came_to_are_in_the_view(build, fold):
    reading = {"meter": "nvml", "scope": "board", "longest_gap_s": 0.25, "idle_w": 20.5}
    result = {"scenario": "server", "result": "invalid", "reasons": ["too few"], "target_latency_ms": 15.0}
    event = build.measurement(
        conditions={"energy": reading}, observed={"device": "stated", "details": {"scenario": result}}
    )
    (row,), _ = fold(event)
    assert (json.loads(row["energy_reading"]), json.loads(row["scenario_result"])) == (reading, result)
    assert row["device"] == "stated"


@pytest.mark.parametrize("samples", [{"digest": "5" * 64, "n": 3}, {"digest": "sha256:" + "x" * 64, "n": 3}, {"n": 3}])
def test_a_reference_to_samples_that_the_gate_refuses_is_a_dead_letter(build, fold, samples):
    rows, (reason,) = fold(build.measurement(samples=samples))
    assert rows == []
    assert "digest" in reason


def digest(digit):
    return "sha256:" + digit * 64
