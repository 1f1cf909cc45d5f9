"""pytest-benchmark: times, machines of several versions, parameters that say what ran. The samples are ours."""

from __future__ import annotations

import copy
import json

import pytest

from ingest.importers.ci.pytest_benchmark import PytestBenchmark
from ingest.importers.reading import BadFile

READER = PytestBenchmark()
STATS = {
    "min": 0.018, "max": 0.03, "mean": 0.02, "stddev": 0.001, "rounds": 50, "median": 0.0195, "iqr": 0.001, "q1": 0.019,
    "q3": 0.02, "iqr_outliers": 1, "stddev_outliers": 5, "outliers": "5;1", "ld15iqr": 0.018, "hd15iqr": 0.022,
    "ops": 50.0, "total": 1.0, "iterations": 1,
}  # fmt: skip
DOCUMENT = {
    "machine_info": {
        "node": "somebodys-host", "processor": "x86_64", "machine": "x86_64", "python_compiler": "GCC 13.2",
        "python_implementation": "CPython", "python_implementation_version": "3.12.7", "python_version": "3.12.7",
        "python_build": ["main", "Oct  1 2025"], "release": "6.1.0", "system": "Linux", "pytorch_version": "2.5.1",
        "cpu": {"python_version": "3.12.7.final.0 (64 bit)", "arch": "X86_64", "bits": 64, "count": 4,
                "vendor_id_raw": "AuthenticAMD", "brand_raw": "AMD EPYC 7763 64-Core Processor"},
    },
    "commit_info": {"id": "0123456789abcdef0123456789abcdef01234567", "time": "2026-03-04T00:00:00+00:00", "dirty": False},
    "benchmarks": [
        {
            "group": None, "name": "test_forward[8]", "fullname": "tests/bench/test_net.py::test_forward[8]",
            "params": {"batch_size": 8}, "param": "8", "extra_info": {}, "stats": STATS,
            "options": {"disable_gc": False, "timer": "perf_counter", "min_rounds": 5, "warmup": False},
        },
        {
            "group": "gpu", "name": "test_model", "fullname": "tests/bench/test_net.py::test_model",
            "params": None, "extra_info": {"model": "bert-base-uncased", "device": "cuda:0", "dtype": "float16"},
            "stats": {**STATS, "rounds": 5}, "options": {},
        },
    ],
    "datetime": "2026-03-04T05:06:07.123456+00:00", "version": "5.1.0",
}  # fmt: skip


def changed(at=0, **members):
    copied = copy.deepcopy(DOCUMENT)
    copied["benchmarks"][at] |= members
    return copied


def test_a_benchmark_becomes_a_measurement_of_its_name(reads):
    read = reads(READER, DOCUMENT, "bench.json")
    event, data = read.rows[0], read.data[0]
    assert event["time"] == "2026-03-04T05:06:07.123456+00:00"
    assert data["model"] == {"id": "benchmark/tests/bench/test_net.py::test_forward[8]"}
    assert data["workload"] == {"mode": "inference", "batch_size": 8}
    assert data["execution"] == {"platform": "cpu"}
    assert data["hardware"] == {"id": "amd-epyc-7763-4c", "kind": "cpu", "count": 1}
    assert data["metrics"]["latency_ms"] == pytest.approx(
        {"mean": 20.0, "min": 18.0, "max": 30.0, "p50": 19.5, "stddev": 1.0, "n": 50}
    )
    assert data["metrics"]["throughput_per_s"] == 400.0
    assert data["environment"]["libraries"] == {"pytorch": "2.5.1"} and data["environment"]["os"] == "Linux 6.1.0"
    assert data["imported"]["original"]["stats.mean (s)"] == 0.02
    assert data["imported"]["original"]["commit"].startswith("01234567")
    assert "somebody" not in json.dumps(event)


def test_what_extra_info_names_is_what_ran(reads):
    data = reads(READER, DOCUMENT, "bench.json").data[1]
    assert data["model"]["id"] == "google-bert/bert-base-uncased"
    assert data["execution"] == {
        "platform": "cuda", "precision": "fp16", "options": {"benchmark": "tests/bench/test_net.py::test_model"},
    }  # fmt: skip
    assert data["hardware"] == {"id": "unknown-gpu", "kind": "gpu", "count": 1}


def test_an_old_file_knows_no_cpu_no_ops_and_no_offset(reads):
    old = copy.deepcopy(DOCUMENT)
    del old["machine_info"]["cpu"]
    old["datetime"], old["version"] = "2015-08-15T00:04:18.687119", "2.5.0"
    old["benchmarks"] = [
        {"name": "test_a", "group": None, "stats": {k: v for k, v in STATS.items() if k != "ops"}, "options": {}}
    ]
    read = reads(READER, old, "old.json")
    assert read.rows[0]["time"] == "2015-08-15T00:04:18.687119+00:00"
    assert read.data[0]["model"]["id"] == "benchmark/test_a"
    assert read.data[0]["hardware"]["id"] == "unknown-cpu"
    assert "throughput_per_s" not in read.data[0]["metrics"]


def test_a_function_that_takes_microseconds_was_measured_all_the_same(reads):
    quick = {
        name: value / 10_000 if name in ("min", "max", "mean", "median", "stddev") else value
        for name, value in STATS.items()
    }
    data = reads(READER, changed(stats={**quick, "ops": 500_000.0}, params={}), "bench.json").data[0]
    assert data["provenance"]["origin"] == "imported" and "validity" not in data


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"stats": None}, "stats"), ({"stats": {**STATS, "mean": "slow"}}, "stats.mean"),
        ({"stats": {**STATS, "rounds": 2.5}}, "rounds"), ({"name": None, "fullname": None}, "fullname"),
        ({"params": [1]}, "params"),
    ],
)  # fmt: skip
def test_a_bad_benchmark_is_refused_alone_and_can_be_mended(reads, members, field):
    read = reads(READER, changed(**members), "bench.json")
    (refused,) = read.refused
    assert (refused.row, refused.field, len(read.rows)) == (1, field, 1)
    mended = json.loads(refused.content)
    mended["benchmarks"][0] = DOCUMENT["benchmarks"][0]
    (again,) = reads(READER, mended, "bench.json").rows
    assert again["id"] == reads(READER, DOCUMENT, "bench.json").rows[0]["id"]


def test_a_file_without_benchmarks_or_with_no_time_is_bad(place):
    for document in ({**DOCUMENT, "benchmarks": {}}, {**DOCUMENT, "datetime": "then"}, [1]):
        with pytest.raises(BadFile):
            list(READER.rows(place(document, "bench.json")))


def test_only_its_own_files_are_recognised(place):
    assert READER.sniff(place(DOCUMENT, "0001_abc.json"))
    assert READER.sniff(place(json.dumps(DOCUMENT, indent=4, sort_keys=True), "sorted.json"))
    for content, name in (({"benchmarks": []}, "a.json"), ([DOCUMENT], "b.json"), (DOCUMENT, "c.txt"), ("", "d.json")):
        assert not READER.sniff(place(content, name)), name
