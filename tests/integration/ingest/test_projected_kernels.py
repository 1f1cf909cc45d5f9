"""Timings of kernels in the tables."""

from __future__ import annotations

import json

import pytest

from ingest.projection.projector import Projection
from tests.conftest import append_raw


@pytest.fixture
def projection(tmp_path, database):
    with Projection(tmp_path, database) as opened:
        yield opened


def test_timings_of_kernels_become_rows_of_their_sizes(projection, append, build):
    marks = {"in-cache": {"verdict": "suspect", "reason": "it lay in the cache", "timings": 2}}
    event = build.kernels(hardware="nvidia-l4", platform="cuda", precision="bf16")
    event["data"] |= {
        "name": "linear", "kernel": "gemm_128x128", "device_name": "NVIDIA L4", "timings": 4, "marks": marks,
        "types": {"published": "fp8_block", "weights": "fp8", "arithmetic": "fp8"},
        "method": {"launch": "graph", "buffers": "rotated", "statistic": "mean"},
        "columns": {
            "m": {"values": [1, 8], "runs": [3, 1]}, "k": [64, 128, 128, 256], "latency_ms": [0.5, 1, 1e-5, 2.5],
            "kernel": ["a", None, "c", None], "mark": {"values": [None, "in-cache", None], "runs": [1, 2, 1]},
        },
        "fixed": {"n": 32, "split": 'tr"ain'},
    }  # fmt: skip
    (answer,) = append([event])
    projection.catch_up()
    with projection.tables() as tables:
        rows = tables.kernels().to_pylist()
        (table,) = tables.kernel_tables().to_pylist()
        assert tables.dead_letters().num_rows == 0
    assert [(row["m"], row["n"], row["k"], row["latency_ms"]) for row in rows] == [
        (1, 32, 64, 0.5), (1, 32, 128, 1.0), (1, 32, 128, 1e-5), (8, 32, 256, 2.5),
    ]  # fmt: skip
    assert [row["kernel"] for row in rows] == ["a", "gemm_128x128", "c", "gemm_128x128"]
    assert [(row["verdict"], row["reason"]) for row in rows] == [
        (None, None), ("suspect", "it lay in the cache"), ("suspect", "it lay in the cache"), (None, None),
    ]  # fmt: skip
    first = rows[0]
    assert (first["row"], first["timing_id"]) == (0, answer.position * 65536)
    assert (first["event_id"], first["run_id"], first["split"], first["heads"]) == (
        event["id"],
        "run-1",
        'tr"ain',
        None,
    )
    assert (first["type_published"], first["type_arithmetic"], first["launch"]) == ("fp8_block", "fp8", "graph")
    assert (table["timings"], table["timings_suspect"], table["timings_invalid"]) == (4, 2, 0)


def test_timings_of_kernels_count_on_their_hardware_until_they_are_retracted(projection, append, build):
    one, other = build.kernels(hardware="acme-one"), build.kernels(hardware="acme-two", run_id="run-2")
    answers = append([one, other, build.retraction(event_id=one["id"]), build.retraction(run_id="run-2")])
    append([build.kernels(m=(1,), latency_ms=(3.0,), run_id="run-2"), build.alias("acme-two", "acme-one", "hardware")])
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.kernels().num_rows == tables.kernel_tables().num_rows == tables.hardware().num_rows == 0
        then = tables.hardware(as_of=answers[1].position).to_pylist()
        assert [(row["hardware_id"], row["kernels"]) for row in then] == [("acme-one", 3), ("acme-two", 3)]
        assert tables.kernels(as_of=answers[1].position, hardware="acme-two").num_rows == 3
        assert tables.kernels(as_of=answers[2].position).num_rows == 3
    with projection.tables() as tables:
        first = tables.retractions().to_pylist()[0]
    append([build.retraction(event_id=first["event_id"])])
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.kernels().num_rows == 3
        assert [row["latency_ms"] for row in tables.kernels().to_pylist()] == [0.1, 0.15, 0.2]


def test_timings_whose_lists_differ_in_length_are_dead_letters(projection, database, build):
    event = build.kernels()
    event["data"]["columns"]["m"] = [16, 32, 64, 128]
    position = append_raw(database, json.dumps(event), "assay.kernel.measured.v1")
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.kernels().num_rows == 0
        assert [row["position"] for row in tables.dead_letters().to_pylist()] == [position]
