"""asv's results: columns, parameters, failures and skips, what lies around, and the first version. The samples are ours."""

from __future__ import annotations

import json

import pytest

from ingest.importers.ci.asv import Asv
from ingest.importers.reading import BadFile

READER = Asv()
COLUMNS = [
    "result", "params", "version", "started_at", "duration", "stats_ci_99_a", "stats_ci_99_b", "stats_q_25",
    "stats_q_75", "stats_number", "stats_repeat", "samples", "profile",
]  # fmt: skip
RESULTS = {
    "commit_hash": "0123456789abcdef0123456789abcdef01234567", "env_name": "virtualenv-py3.12-numpy", "date": 1772600000000,
    "params": {"arch": "x86_64", "cpu": "AMD EPYC 7763 64-Core Processor", "machine": "somebodys-host", "num_cpu": "64",
               "os": "Linux 6.1.0", "ram": "16344164", "python": "3.12", "numpy": ""},
    "python": "3.12", "requirements": {"numpy": "2.1.0", "wheel": ""}, "env_vars": {},
    "result_columns": COLUMNS,
    "results": {
        "bench.Net.time_forward": [
            [0.02, 0.08, None, float("nan")], [["1", "8"], ["'relu'", "'gelu'"]], "f00d", 1772600400000, 4.0,
            [0.019, 0.07, None, None], [0.021, 0.09, None, None], [0.0195, 0.075, None, None], [0.0205, 0.085, None, None],
            [1, 1, None, None], [10, 20, None, None], [[0.018, 0.02, 0.024], [0.08], None, None],
        ],
        "bench.peakmem_load": [[512000000.0], [], "beef", 1772600500000, 1.0],
        "bench.track_rate": [[1200.0], [], "cafe", 1772600600000, 1.0],
        "bench.mem_object": [[64.0], [], "c0de", 1772600700000, 1.0],
        "bench.time_broken": [None, [], "dead", 1772600800000],
    },
    "durations": {"<build>": 12.0}, "version": 2,
}  # fmt: skip
BENCHMARKS = {
    "bench.Net.time_forward": {
        "name": "bench.Net.time_forward", "param_names": ["batch_size", "activation"], "params": [["1", "8"], ["'relu'", "'gelu'"]],
        "type": "time", "unit": "seconds",
    },
    "bench.track_rate": {"name": "bench.track_rate", "param_names": [], "params": [], "type": "track", "unit": "images/s"},
    "version": 2,
}  # fmt: skip
AROUND = {"../benchmarks.json": BENCHMARKS}
NAME = "01234567-virtualenv-py3.12-numpy.json"


def test_each_combination_is_a_measurement_of_its_own(reads):
    read = reads(READER, RESULTS, NAME, AROUND)
    first, second = read.data[:2]
    assert read.rows[0]["time"] == "2026-03-04T05:00:00+00:00"
    assert first["model"] == {"id": "benchmark/bench.Net.time_forward(1,relu)"}
    assert first["workload"] == {"mode": "inference", "batch_size": 1}
    assert second["model"]["id"] == "benchmark/bench.Net.time_forward(1,gelu)"
    assert first["execution"] == {"platform": "cpu"}
    assert first["hardware"] == {"id": "amd-epyc-7763", "kind": "cpu", "count": 1}
    assert first["metrics"] == {"latency_ms": pytest.approx({"p50": 20.0, "min": 18.0, "max": 24.0, "n": 10})}
    original = first["imported"]["original"]
    assert (original["result (s)"], original["stats_ci_99_a (s)"], original["version"]) == (0.02, 0.019, "f00d")
    assert first["environment"] == {
        "fingerprint": first["environment"]["fingerprint"], "libraries": {"numpy": "2.1.0"}, "os": "Linux 6.1.0",
        "python": "3.12", "machine": "x86_64", "cpu": "AMD EPYC 7763 64-Core Processor",
    }  # fmt: skip
    assert "somebody" not in json.dumps(read.rows)


def test_a_failed_combination_is_an_error_and_a_nan_was_skipped(reads):
    read = reads(READER, RESULTS, NAME, AROUND)
    failed = [
        (data["model"]["id"], data["outcome"], data["failure"]["error"]) for data in read.data if "outcome" in data
    ]
    assert failed == [
        ("benchmark/bench.Net.time_forward(8,relu)", "error", "benchmark-failed"),
        ("benchmark/bench.Net.time_forward(8,gelu)", "skipped", "benchmark-skipped"),
        ("benchmark/bench.time_broken", "error", "benchmark-failed"),
    ]


def test_memory_and_tracked_rates_are_their_metrics_and_sizes_of_objects_none(reads):
    read = reads(READER, RESULTS, NAME, AROUND)
    metrics = {data["model"]["id"].rpartition(".")[2]: data["metrics"] for data in read.data if "metrics" in data}
    assert metrics["peakmem_load"] == {"peak_memory_bytes": 512_000_000}
    assert metrics["track_rate"] == {"throughput_per_s": 1200.0}
    assert [(one.field, one.row) for one in read.refused] == [("result", 7)]
    again = reads(READER, read.refused[0].content.replace("mem_object", "peakmem_object"), NAME)
    assert again.data[0]["metrics"] == {"peak_memory_bytes": 64}


def test_without_benchmarks_json_names_tell_times_and_a_tracked_value_is_refused(reads):
    read = reads(READER, RESULTS, NAME)
    assert read.data[0]["metrics"]["latency_ms"]["p50"] == 20.0 and "batch_size" not in read.data[0]["workload"]
    assert sorted(one.reason.partition(":")[0] for one in read.refused) == [
        "has no unit that is known", "is the size of an object, and Assay has no metric of it",
    ]  # fmt: skip


def test_machine_json_beside_it_names_the_cpu(reads):
    bare = {**RESULTS, "params": {"python": "3.12"}}
    around = {
        "machine.json": {
            "machine": "somebodys-host",
            "cpu": "AMD EPYC 9654 96-Core Processor",
            "num_cpu": "192",
            "version": 1,
        }
    }
    assert reads(READER, bare, NAME, around).data[0]["hardware"]["id"] == "amd-epyc-9654"


def test_an_existing_environment_is_a_path_and_one_sample_has_no_interval(reads):
    here = {
        **RESULTS,
        "python": "/home/somebody/venv/bin/python3",
        "results": {"bench.time_a": [[0.5], [], "f", 1772600400000, 1.0, [float("-inf")], [float("inf")]]},
    }
    (data,) = reads(READER, here, NAME).data
    assert "python" not in data["environment"]
    assert set(data["imported"]["original"]) == {"commit", "version", "result (s)"}


def test_the_first_version_had_no_columns(reads):
    old = {name: value for name, value in RESULTS.items() if name != "result_columns"}
    old["results"] = {
        "bench.time_a": 0.5,
        "bench.time_b": {
            "result": [0.1, 0.2],
            "params": [["1", "2"]],
            "stats": [{"repeat": 3, "ci_99": [0.1, 0.1]}, None],
        },
        "bench.time_c": None,
    }
    read = reads(READER, old, NAME)
    assert [data.get("metrics", {}).get("latency_ms") for data in read.data] == [
        {"p50": 500.0},
        {"p50": 100.0, "n": 3},
        {"p50": 200.0},
        None,
    ]
    assert {event["time"] for event in read.rows} == {"2026-03-04T04:53:20+00:00"}


def test_parameters_without_end_are_never_multiplied_out(reads):
    wide = {**RESULTS, "results": {"bench.time_a": [[0.5], [[str(n) for n in range(100)]] * 40]}}
    assert len(reads(READER, wide, NAME).rows) == 1


@pytest.mark.parametrize("said", ["text", 5, {"result": [1]}])
def test_what_is_no_row_is_refused_alone(reads, said):
    read = reads(READER, {**RESULTS, "results": {"bench.time_a": said, "bench.time_b": [[0.5]]}}, NAME)
    assert [one.field for one in read.refused] == ["bench.time_a"] and len(read.rows) == 1
    mended = json.loads(read.refused[0].content)
    mended["results"] = {"bench.time_a": [[0.25]]}
    assert reads(READER, mended, NAME).data[0]["metrics"]["latency_ms"] == {"p50": 250.0}


def test_a_file_without_results_or_with_a_broken_neighbour_is_bad(place):
    for content, around in (({**RESULTS, "results": []}, {}), (RESULTS, {"../benchmarks.json": "{"})):
        with pytest.raises(BadFile):
            list(READER.rows(place(content, NAME, around)))


def test_only_its_own_files_are_recognised(place):
    assert READER.sniff(place(RESULTS, NAME))
    for content, name in (
        (RESULTS["params"], "machine.json"), (BENCHMARKS, "benchmarks.json"), ({"results": {}}, "a.json"), (RESULTS, "b.txt"),
    ):  # fmt: skip
        assert not READER.sniff(place(content, name)), name
