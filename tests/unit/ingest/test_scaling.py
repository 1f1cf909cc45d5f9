"""Efficiency of a training on ranks is derived from a measurement on one rank, which it names."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from ingest.projection.fold import BATCH_SCHEMA, Folder, create

WORKLOAD = {"mode": "training", "batch_size": 8, "sequence_length": 32, "optimizer": "adamw"}
CPU = {"id": "amd-epyc-9005-2c", "kind": "cpu", "count": 1}
GPU = {"id": "nvidia-l4", "kind": "gpu", "count": 1}
RANKS = [
    {"rank": index, "device": "cpu", "threads": 1, "computing_core_share": share}
    for index, share in enumerate((0.97, 0.93))
]
COMMUNICATION = {
    "exposed_ms": 1.5,
    "all_reduce_ms": 4.0,
    "gradient_bytes": 1000,
    "buffers": 1,
    "backend": "gloo",
    "steps": 5,
}


@pytest.fixture
def scaling() -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """Folds events in their order and returns the rows of `scaling`."""
    with duckdb.connect() as connection:
        create(connection)

        def rows(*events: dict[str, Any]) -> list[dict[str, Any]]:
            batch = [
                {**event, "event_id": event["id"], "position": position, "time": None, "body": json.dumps(event)}
                | {"attestation": "anonymous", "chain": bytes(32), "recorded_at": datetime(2026, 1, 1, tzinfo=UTC)}
                for position, event in enumerate(events, 1)
            ]
            Folder(connection).apply(pa.Table.from_pylist(batch, schema=BATCH_SCHEMA))
            assert connection.execute("SELECT reason FROM dead_letter").fetchall() == []
            return connection.sql("FROM scaling ORDER BY position").to_arrow_table().to_pylist()

        yield rows


def event(
    build: Any,
    rate: float,
    *,
    threads: int = 1,
    verdict: str = "valid",
    reasons: tuple[str, ...] = (),
    hardware: Any = CPU,
    **parts: Any,
) -> dict[str, Any]:
    execution = {
        "platform": "cpu",
        "precision": "fp32",
        "runtime": {"name": "torch", "version": "2.13.0"},
        "threads": threads,
    }
    made = build.measurement(
        **{"workload": WORKLOAD, **parts, "execution": {**execution, **parts.get("execution", {})}},
        validity={"verdict": verdict, "reasons": list(reasons)},
    )
    made["data"]["hardware"] = hardware
    made["data"]["metrics"]["throughput_per_s"] = rate
    return made


def on_ranks(build: Any, rate: float, *, ranks: int = 2, **parts: Any) -> dict[str, Any]:
    options = {"strategy": "ddp", "nodes": 1, "backend": "gloo", "local_batch_size": 8 // ranks}
    execution = {"parallelism": {"data": ranks}, "options": options, **parts.pop("execution", {})}
    observed = {"device": "cpu", "details": {"ranks": RANKS, "communication": COMMUNICATION}}
    return event(build, rate, **{"threads": ranks, "observed": observed, **parts, "execution": execution})


def test_efficiency_is_strong_scaling_and_names_its_baseline(build: Any, scaling: Any) -> None:
    baseline, measured = event(build, 100.0), on_ranks(build, 160.0)
    (row,) = scaling(event(build, 150.0, threads=2), baseline, measured)
    assert (row["event_id"], row["baseline_event_id"]) == (measured["id"], baseline["id"])
    assert (row["speedup"], row["efficiency"], row["efficiency_verdict"]) == (1.6, 0.8, "valid")
    assert (row["strategy"], row["ranks"], row["nodes"], row["backend"], row["local_batch_size"]) == (
        "ddp",
        2,
        1,
        "gloo",
        4,
    )
    assert (row["exposed_communication_ms"], row["all_reduce_ms"], row["least_core_share"]) == (1.5, 4.0, 0.93)


def test_without_a_baseline_nothing_is_derived(build: Any, scaling: Any) -> None:
    others = [
        event(build, 100.0, threads=2),
        event(build, 100.0, workload={**WORKLOAD, "batch_size": 4}),
        event(build, 100.0, execution={"precision": "bf16"}, observed={"precision": "bf16"}),
        event(build, 100.0, hardware=GPU),
        event(build, 100.0, execution={"runtime": {"name": "torch", "version": "2.12.0"}}),
        event(build, 100.0, execution={"compiled": True}),
    ]
    (row,) = scaling(*others, on_ranks(build, 160.0))
    derived = ("baseline_event_id", "speedup", "efficiency", "efficiency_verdict", "efficiency_reasons")
    assert [row[name] for name in derived] == [None] * 5 and row["throughput_per_s"] == 160.0


def test_threads_of_an_accelerators_host_are_no_part_of_what_is_alike(build: Any, scaling: Any) -> None:
    (row,) = scaling(
        event(build, 100.0, threads=16, hardware=GPU), on_ranks(build, 180.0, hardware={**GPU, "count": 2})
    )
    assert row["efficiency"] == 0.9


def test_a_sound_baseline_goes_before_a_newer_one_and_reasons_say_whose_they_are(build: Any, scaling: Any) -> None:
    sound, doubtful = event(build, 100.0), event(build, 90.0, verdict="suspect", reasons=("drifting",))
    starved = on_ranks(build, 100.0, verdict="suspect", reasons=("rank 1 had 52% of a core while it computed",))
    (row,) = scaling(sound, doubtful, starved)
    assert row["baseline_event_id"] == sound["id"] and row["efficiency_verdict"] == "suspect"
    assert json.loads(row["efficiency_reasons"]) == ["rank 1 had 52% of a core while it computed"]


def test_what_is_wrong_with_the_baseline_is_wrong_with_the_efficiency(build: Any, scaling: Any) -> None:
    (row,) = scaling(event(build, 90.0, verdict="suspect", reasons=("drifting",)), on_ranks(build, 100.0))
    assert (row["verdict"], row["efficiency_verdict"]) == ("valid", "suspect")
    assert json.loads(row["efficiency_reasons"]) == ["the baseline: drifting"]


def test_a_retracted_baseline_gives_way_to_another(build: Any, scaling: Any) -> None:
    first, wrong = event(build, 100.0), event(build, 50.0)
    (row,) = scaling(first, wrong, on_ranks(build, 160.0), build.retraction(event_id=wrong["id"]))
    assert row["baseline_event_id"] == first["id"]


def test_ranks_make_another_configuration_and_leave_that_of_one_rank_as_it_was(build: Any, scaling: Any) -> None:
    rows = scaling(
        event(build, 1.0), on_ranks(build, 160.0), on_ranks(build, 160.0, execution={"options": {"strategy": "fsdp2"}})
    )
    assert len({row["configuration"] for row in rows}) == 2
