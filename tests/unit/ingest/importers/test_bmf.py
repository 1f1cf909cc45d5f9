"""Bencher Metric Format: Bencher's units, Assay's own measures, and bounds that may be anything. The samples are ours."""

from __future__ import annotations

import json

import pytest

from assay.exports.writing import bmf, github_action
from ingest.importers.ci.bmf import Bmf
from ingest.importers.ci.github_action import GithubAction
from ingest.importers.reading import BadFile

READER = Bmf()
MOCK = {
    "net::forward": {
        "latency": {"value": 20500000.0, "lower_value": 20000000.0, "upper_value": 21000000.0},
        "throughput": {"value": 48.8},
    },
    "/bin/sh -c ./build.sh": {"build-time": {"value": 87.0}},
}
KEY = "0123456789abcdef0123456789abcdef"
EXPORTED = {
    f"acme/tiny inference batch 8 on nvidia-l4 cuda fp16 torch [{KEY}]": {
        "latency_p50_ms": {"value": 5.5, "lower_value": 5.25, "upper_value": 5.75}, "latency_mean_ms": {"value": 5.625},
        "throughput_per_s": {"value": 1422.25}, "peak_memory_bytes": {"value": 512000000.0},
    },
}  # fmt: skip


def test_bencher_counts_in_nanoseconds_and_its_bounds_are_kept_as_they_are(reads):
    read = reads(READER, MOCK, "results.json")
    (data,) = read.data
    assert data["model"] == {"id": "benchmark/net::forward"}
    assert data["hardware"]["id"] == "unknown" and data["execution"] == {"platform": "other"}
    assert data["metrics"] == {"latency_ms": {"mean": pytest.approx(20.5)}, "throughput_per_s": 48.8}
    assert data["imported"]["original"] == {
        "latency.value": 20500000.0, "latency.lower_value": 20000000.0, "latency.upper_value": 21000000.0,
    }  # fmt: skip
    (refused,) = read.refused
    assert (refused.row, refused.field) == (2, "build-time")
    assert json.loads(refused.content) == {"/bin/sh -c ./build.sh": {"build-time": {"value": 87.0}}}


def test_a_path_of_somebody_becomes_its_last_part(reads):
    (data,) = reads(READER, {"/home/somebody/bench.sh -n 5": {"latency": {"value": 1e9}}}, "results.json").data
    assert data["model"]["id"] == "benchmark/bench.sh--n-5"


def test_what_assay_exported_comes_back_by_its_columns(reads):
    (data,) = reads(READER, EXPORTED, "results.json").data
    assert data["model"]["id"] == "acme/tiny" and data["workload"]["batch_size"] == 8
    assert data["hardware"] == {"id": "nvidia-l4", "kind": "gpu", "count": 1}
    assert data["execution"]["options"] == {"configuration": KEY}
    assert data["metrics"] == {
        "latency_ms": {"p50": 5.5, "mean": 5.625, "ci95": {"p50": [5.25, 5.75]}}, "throughput_per_s": 1422.25,
        "peak_memory_bytes": 512_000_000,
    }  # fmt: skip


def test_the_names_are_those_that_the_exporter_writes(reads):
    row = {
        "configuration": KEY, "model_id": "acme/tiny", "mode": "inference", "batch_size": 8, "sequence_length": 128,
        "audio_seconds": 2.5, "hardware_id": "acme-one", "hardware_count": 2, "platform": "cuda", "precision": "amp-bf16",
        "runtime_name": "torch", "compiled": True, "threads": 4, "latency_p50_ms": 5.5, "latency_p50_ci95_low_ms": 5.25,
        "latency_p50_ci95_high_ms": 5.75, "tokens_per_s": 640.0,
    }  # fmt: skip
    (data,) = reads(READER, bmf([row]), "results.json").data
    assert data["model"]["id"] == "acme/tiny" and data["hardware"] == {"id": "acme-one", "count": 2}
    assert data["workload"] == {"mode": "inference", "batch_size": 8, "sequence_length": 128, "audio_seconds": 2.5}
    assert data["execution"] == {
        "platform": "cuda", "precision": "amp-bf16", "runtime": {"name": "torch"}, "compiled": True, "threads": 4,
        "options": {"configuration": KEY},
    }  # fmt: skip
    assert data["metrics"] == {"latency_ms": {"p50": 5.5, "ci95": {"p50": [5.25, 5.75]}}, "tokens_per_s": 640.0}
    for columns, metrics in (
        ((), [{"latency_ms": {"p50": 5.5}}]),
        (("latency_p50_ms", "ttft_ms"), [{"latency_ms": {"p50": 5.5}}]),
        (("tokens_per_s", "throughput_per_s"), [{"tokens_per_s": 640.0}]),
    ):
        listed = reads(GithubAction(), github_action([row], columns), "list.json").data
        assert [one["metrics"] for one in listed] == metrics and listed[0]["workload"] == data["workload"]


@pytest.mark.parametrize(
    ("measure", "metrics"),
    [
        ("Latency", {"latency_ms": {"mean": 1e-3}}), ("tokens-per-s", {"tokens_per_s": 1000.0}),
        ("latency_ms", {"latency_ms": {"mean": 1000.0}}), ("latency-p90-ms", {"latency_ms": {"p90": 1000.0}}),
        ("energy_j", {"energy_j": 1000.0}),
    ],
)  # fmt: skip
def test_measures_by_their_names(reads, measure, metrics):
    (data,) = reads(READER, {"b" * 300: {measure: {"value": 1000}}}, "results.json").data
    (expected,) = metrics.items()
    assert data["metrics"][expected[0]] == pytest.approx(expected[1])
    assert len(data["model"]["id"]) < 200


@pytest.mark.parametrize(
    ("measures", "field"),
    [
        ([], "b"), ({}, "b"), ({"latency": 5}, "b"), ({"latency": {"value": "soon"}}, "latency.value"),
        ({"latency": {"value": 0}}, "latency"), ({"latency": {"lower_value": 1}}, "latency"),
        ({"latency_p75_ms": {"value": 5}}, "latency_p75_ms"),
    ],
)  # fmt: skip
def test_a_benchmark_without_a_metric_is_refused_alone(reads, measures, field):
    read = reads(READER, {"b": measures, "c": {"latency": {"value": 1e6}}}, "results.json")
    assert [(one.row, one.field) for one in read.refused] == [(1, field)] and len(read.rows) == 1


def test_long_names_that_begin_alike_stay_apart(reads):
    names = ["x" * 200 + end for end in ("a", "b")]
    data = reads(READER, {name: {"latency": {"value": 1e6}} for name in names}, "results.json").data
    assert len({one["model"]["id"] for one in data}) == 2


def test_only_its_own_files_are_recognised(place):
    for content in (MOCK, EXPORTED):
        assert READER.sniff(place(content, "results.json"))
    for content, name in (
        ({"a": {"b": {"unit": "ms", "avg": 1}}}, "a.json"), ({"a": {"b": 5}}, "b.json"), ([MOCK], "c.json"), ({}, "d.json"),
        (MOCK, "e.txt"),
    ):  # fmt: skip
        assert not READER.sniff(place(content, name)), name
    with pytest.raises(BadFile):
        list(READER.rows(place([MOCK], "list.json")))
