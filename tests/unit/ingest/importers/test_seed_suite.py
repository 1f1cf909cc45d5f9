"""The earlier framework's benchmark suite: cases with their samples, failures, nested checks and means. The samples are ours."""

from __future__ import annotations

import copy

import pytest

from ingest.importers.files import File
from ingest.importers.legacy.functionality import SeedFunctionality
from ingest.importers.legacy.suite import SeedSuite

SYSTEM = {
    "platform": "Linux-6.8.0-11-generic-x86_64", "python_version": "3.12.3", "processor": "x86_64", "hostname": "ada-laptop",
    "os_release": "6.8.0-11-generic", "architecture": "x86_64", "total_memory_gb": 2.0, "cuda_version": "12.4",
    "cuda_devices": [{"name": "Quadro P4000", "total_memory_gb": 7.9}], "openvino_version": "2025.0.0",
}  # fmt: skip
SAMPLES = [0.0101234567, 0.0112345678, 0.0103456789, 0.0104567891]
MEAN = sum(SAMPLES) / 4
INNER = {
    "timestamp": "20250305_195321",
    "system_info": SYSTEM,
    "hardware_info": {"cpu": True},
    "benchmarks": {"embedding": {"bert-base-uncased": {"cuda": {
        "status": "completed", "model_name": "bert-base-uncased", "family": "embedding", "hardware": "cuda",
        "benchmark_results": {
            "batch_4_seq_32": {"status": "completed", "latencies": SAMPLES, "avg_latency": MEAN, "throughput": 4 / MEAN, "iterations": 4},
            "batch_8_seq_32": {"status": "failed", "error": "Warmup failed: 'dict' object has no attribute 'input_ids'"},
        },
        "timestamp": "2025-03-05T19:53:21.748271", "model_load_time": 5.5, "performance_summary": {"memory": {}},
    }}}},
}  # fmt: skip
OUTER = {
    "timestamp": "20250305_204847",
    "models": {"bert": {"name": "prajjwal1/bert-tiny", "family": "embedding"}},
    "functionality_verification": {"openvino": {
        "stats": {"timestamp": "20250305_204901"},
        "detailed_results": [{"model": "bert", "hardware": "openvino", "success": True, "return_code": 0, "stdout": "fine", "stderr": ""}],
    }},
    "performance_benchmarks": {"embedding": INNER, "vision": {"status": "error", "error": "Traceback:\nNameError: name 'false'"}},
    "simulated_hardware": ["openvino", "rocm"],
}  # fmt: skip
SUMMARY = {
    "timestamp": "20250303_051018",
    "system_info": {"platform": "Linux", "cpu": "x86_64"},
    "hardware_types": ["cpu"],
    "model_families": {"embedding": {
        "models_tested": ["bert-base-uncased", "acme/none"],
        "hardware_results": {"cpu": {"latency_ms": [1780.2078, 0], "throughput": [4.9461, 0]}},
    }},
}  # fmt: skip


def test_a_case_becomes_a_measurement_with_what_its_samples_say(reads):
    found = reads(SeedSuite(), INNER, "benchmark_results.json")
    measured, failed = found.rows
    data = measured["data"]
    assert measured["time"] == "2025-03-05T19:53:21.748271+00:00"
    assert data["model"]["id"] == "google-bert/bert-base-uncased"
    assert data["workload"] == {
        "mode": "inference",
        "scenario": "single_stream",
        "batch_size": 4,
        "sequence_length": 32,
    }
    assert data["execution"] == {"platform": "cuda"}
    assert data["hardware"] == {"id": "nvidia-quadro-p4000", "kind": "gpu", "count": 1}
    latency = data["metrics"]["latency_ms"]
    assert latency["mean"] == pytest.approx(MEAN * 1000) and latency["p50"] == pytest.approx(10.401234)
    assert (latency["min"], latency["max"], latency["n"]) == (pytest.approx(10.1234567), pytest.approx(11.2345678), 4)
    assert data["metrics"]["throughput_per_s"] == 4 / MEAN and data["metrics"]["load_ms"] == 5500.0
    environment = data["environment"]
    assert environment["memory_bytes"] == 2 << 30 and environment["libraries"] == {
        "cuda": "12.4",
        "openvino": "2025.0.0",
    }
    assert "ada" not in str(environment)
    assert data["imported"]["original"]["record"] == "benchmarks/embedding/bert-base-uncased/cuda/batch_4_seq_32"
    assert data["imported"]["original"]["avg_latency (s)"] == MEAN
    assert data["imported"]["rules"] == ["no-device-counters"], "the suite's place for memory is empty"
    assert failed["type"] == "assay.measurement.failed.v1"
    assert (failed["data"]["stage"], failed["data"]["workload"]["batch_size"]) == ("first_run", 8)
    assert "input_ids" in failed["data"]["failure"]["message"]
    assert (found.ended["measured"], found.ended["failed"]) == (1, 1)


def test_an_outer_file_holds_the_same_facts_checks_and_families_that_failed(reads):
    inner = reads(SeedSuite(), INNER, "inner/benchmark_results.json")
    outer = reads(SeedSuite(), OUTER, "benchmark_results.json")
    assert [event["id"] for event in outer.rows[:2]] == [event["id"] for event in inner.rows]
    check = outer.rows[2]
    assert check["source"] == "urn:assay:importer:seed-functionality"
    assert check["data"]["provenance"]["origin"] == "simulated", "the file says so of OpenVINO"
    (refused,) = outer.refused
    assert refused.field == "performance_benchmarks.vision" and "NameError" in refused.reason
    alone = {"stats": OUTER["functionality_verification"]["openvino"]["stats"], "simulated_hardware": ["openvino"],
             "detailed_results": OUTER["functionality_verification"]["openvino"]["detailed_results"]}  # fmt: skip
    (again,) = reads(SeedFunctionality(), alone, "model_functionality_20250305_204901.json").rows
    assert again["id"] == check["id"]


def test_a_summary_has_means_that_no_configuration_has(reads):
    found = reads(SeedSuite(), SUMMARY, "benchmark_summary.json")
    (data,) = found.data
    assert data["metrics"] == {"latency_ms": {"mean": 1780.2078}, "throughput_per_s": 4.9461}
    assert "batch_size" not in data["workload"]
    assert (data["validity"]["verdict"], data["provenance"]["origin"]) == ("invalid", "imported")


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        (lambda case: case.update(avg_latency="fast"), "avg_latency"),
        (lambda case: case.update(avg_latency=-1.0), "avg_latency"),
        (lambda case: case.update(latencies=[0.1, "x"]), "latencies"),
        (lambda case: (case.pop("avg_latency"), case.pop("latencies")), "avg_latency"),
    ],
)
def test_a_case_that_makes_no_sense_is_refused_and_the_rest_goes_on(reads, spoil, field):
    broken = copy.deepcopy(INNER)
    spoil(broken["benchmarks"]["embedding"]["bert-base-uncased"]["cuda"]["benchmark_results"]["batch_4_seq_32"])
    found = reads(SeedSuite(), broken, "benchmark_results.json")
    assert [refused.field.rpartition("/")[2] for refused in found.refused] == [field]
    assert len(found.rows) == 1


def test_other_shapes_are_not_taken_for_it(place):
    assert all(SeedSuite().sniff(place(shape, f"{at}.json")) for at, shape in enumerate((INNER, OUTER, SUMMARY)))
    config = {"batch_sizes": [1], "benchmark_iterations": 20, "model_families": {}, "hardware_types": []}
    matrix = {"model_families": {"embedding": {"hardware_compatibility": {}}}, "hardware_types": []}
    assert not any(SeedSuite().sniff(place(shape, f"o{at}.json")) for at, shape in enumerate((config, matrix, [1], {})))
    assert not SeedSuite().sniff(File(place(INNER, "x.json").path, "x.csv"))
