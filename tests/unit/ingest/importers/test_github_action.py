"""github-action-benchmark: its list, its history, units, and what Assay itself exported. The samples are ours."""

from __future__ import annotations

import json

import pytest

from ingest.importers.ci.github_action import GithubAction
from ingest.importers.reading import BadFile

READER = GithubAction()
LIST = [
    {"name": "forward of net", "unit": "ms", "value": 20.5, "range": "± 0.3", "extra": "batch 8"},
    {"name": "tests/test_net.py::test_b", "unit": "iter/sec", "value": 50.0, "range": "stddev: 0.001",
     "extra": "mean: 20.0 msec\nrounds: 30"},
    {"name": "net GPU memory", "unit": "MB", "value": 512},
    {"name": "decode", "unit": "tokens/s", "value": "1500"},
    {"name": "load", "unit": "Percent", "value": 50},
]  # fmt: skip
DATA = {
    "lastUpdate": 1772600600000, "repoUrl": "https://github.com/somebody/net",
    "entries": {
        "Benchmark": [
            {
                "commit": {"author": {"email": "somebody@example.org", "name": "Some Body", "username": "somebody"},
                           "id": "0123456789abcdef", "message": "Faster", "timestamp": "2026-03-04T01:00:00+01:00",
                           "url": "https://github.com/somebody/net/commit/0123"},
                "date": 1772600400000, "tool": "cargo",
                "benches": [{"name": "fib_20", "value": 37174, "range": "± 7527", "unit": "ns/iter"}],
            },
        ],
        "GPU": [{"commit": {"id": "89ab"}, "date": 1772600500000, "tool": "customSmallerIsBetter",
                 "benches": [{"name": "fib_20", "value": 2, "unit": "us"}, {"name": "", "value": 2, "unit": "us"}]}],
    },
}  # fmt: skip
SCRIPT = "window.BENCHMARK_DATA = " + json.dumps(DATA, indent=2)
KEY = "0123456789abcdef0123456789abcdef"
EXPORTED = [
    {"name": f"bert-base-uncased inference batch 8 sequence 128 on 2x nvidia-l4 cuda fp16 torch compiled [{KEY}]",
     "unit": "ms", "value": 5.5, "range": "± 0.1", "extra": "origin: measured\nverdict: valid\nevent: 01"},
    {"name": f"acme/tiny training on acme-one cpu torch 4 threads [{KEY}] throughput_per_s", "unit": "1/s", "value": 40.0},
    {"name": f"acme/tiny inference on acme-one cpu [{KEY}] peak_memory_bytes", "unit": "B", "value": 4096.0},
    {"name": f"acme/tiny inference on acme-one cpu [{KEY}] price_of_tea", "unit": "EUR", "value": 1.0},
    {"name": f"acme/tiny inference on acme-one cpu [{KEY}]", "unit": "1/s", "value": 640.0},
]  # fmt: skip


def test_a_value_is_the_metric_that_its_unit_says(reads):
    read = reads(READER, LIST, "output.json")
    metrics = {data["model"]["id"]: data["metrics"] for data in read.data}
    assert metrics == {
        "benchmark/forward-of-net": {"latency_ms": {"mean": 20.5}},
        "benchmark/tests/test_net.py::test_b": {
            "throughput_per_s": 50.0, "latency_ms": {"mean": 20.0, "stddev": 1.0, "n": 30},
        },
        "benchmark/net-GPU-memory": {"device_memory_bytes": 512_000_000},
        "benchmark/decode": {"tokens_per_s": 1500.0},
    }  # fmt: skip
    first = read.data[0]
    assert first["hardware"] == {"id": "unknown", "kind": "other", "count": 1} and first["execution"] == {
        "platform": "other"
    }
    assert first["imported"] == {"row": 1, "original": {"range": "± 0.3", "extra": "batch 8"}}
    (refused,) = read.refused
    assert (refused.row, refused.field) == (5, "unit")
    assert json.loads(refused.content) == [LIST[4]]


def test_the_history_is_taken_run_by_run_and_names_nobody(reads):
    read = reads(READER, SCRIPT, "data.js")
    assert [event["time"] for event in read.rows] == ["2026-03-04T05:00:00+00:00", "2026-03-04T05:01:40+00:00"]
    first, second = read.data
    assert first["metrics"] == {"latency_ms": {"mean": pytest.approx(0.037174)}} and "options" not in first["execution"]
    assert first["imported"]["original"] == {"value (ns/iter)": 37174, "range": "± 7527", "commit": "0123456789abcdef"}
    assert second["execution"]["options"] == {"suite": "GPU"}
    assert "ody" not in json.dumps(read.rows)
    (refused,) = read.refused
    assert (refused.field, refused.row) == ("name", 3)
    assert "ody" not in refused.content
    again = reads(READER, refused.content.replace('"name": ""', '"name": "fib"'), "data.json")
    assert again.data[0]["model"]["id"] == "benchmark/fib" and again.data[0]["execution"]["options"] == {"suite": "GPU"}


def test_the_history_without_its_script_says_the_same(reads):
    assert [event["id"] for event in reads(READER, DATA, "data.json").rows] == [
        event["id"] for event in reads(READER, SCRIPT + ";\n", "data.js").rows
    ]


def test_what_assay_exported_says_model_and_device_by_its_name(reads):
    read = reads(READER, EXPORTED, "assay.json")
    first, second, third = read.data
    assert first["model"]["id"] == "google-bert/bert-base-uncased"
    assert first["workload"] == {"mode": "inference", "batch_size": 8, "sequence_length": 128}
    assert first["execution"] == {
        "platform": "cuda", "precision": "fp16", "runtime": {"name": "torch"}, "compiled": True, "options": {"configuration": KEY},
    }  # fmt: skip
    assert first["hardware"] == {"id": "nvidia-l4", "kind": "gpu", "count": 2}
    assert first["metrics"] == {"latency_ms": {"p50": 5.5}}
    assert second["metrics"] == {"throughput_per_s": 40.0} and second["execution"]["threads"] == 4
    assert (second["workload"]["mode"], second["hardware"]["id"]) == ("training", "acme-one")
    assert third["metrics"] == {"peak_memory_bytes": 4096}
    # A value in 1/s may be of several figures: a name that does not say of which is no median latency.
    assert [(one.row, one.field) for one in read.refused] == [(4, "name"), (5, "name")]


@pytest.mark.parametrize(
    ("bench", "field"),
    [
        ({"name": "a", "unit": "ms", "value": None}, "value"), ({"name": "a", "unit": "ms", "value": "fast"}, "value"),
        ({"name": "a", "value": 1}, "unit"), ({"unit": "ms", "value": 1}, "name"), ("a", "benches"),
        ({"name": "size of wheel", "unit": "bytes", "value": 5}, "unit"),
    ],
)  # fmt: skip
def test_a_bad_benchmark_is_refused_alone(reads, bench, field):
    read = reads(READER, [LIST[0], bench], "output.json")
    assert [(one.row, one.field) for one in read.refused] == [(2, field)] and len(read.rows) == 1


def test_what_is_neither_list_nor_history_is_bad(place):
    for content, name in (({"entries": []}, "a.json"), ("window.BENCHMARK_DATA = {", "data.js"), ("5", "b.json")):
        with pytest.raises(BadFile):
            list(READER.rows(place(content, name)))


def test_only_its_own_files_are_recognised(place):
    for content, name in ((LIST, "a.json"), (SCRIPT, "data.js"), (DATA, "data.json")):
        assert READER.sniff(place(content, name))
    for content, name in (
        ([{"name": "x", "value": 1}], "a.json"), ([[1]], "b.json"), ("window.OTHER = {}", "data.js"), (LIST, "a.txt"), ("[", "c.json"),
        ([{"n_gen": 1, "avg_ns": 1, "model_filename": "x"}], "d.json"),
    ):  # fmt: skip
        assert not READER.sniff(place(content, name)), name
