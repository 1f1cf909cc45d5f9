"""The earlier framework's compatibility matrices: means in seconds, models without figures, and later notes. The samples are ours."""

from __future__ import annotations

from ingest.importers.legacy.compatibility import SeedCompatibility

MATRIX = {
    "timestamp": "20250305_195301",
    "hardware_types": ["cpu", "openvino"],
    "model_families": {
        "embedding": {"hardware_compatibility": {
            "cpu": {"compatible": True, "performance_rating": "medium", "benchmark_results": [
                {"mean_latency": 1.5, "mean_throughput": 12.25, "timestamp": "2025-03-03T05:16:00.537589", "model_name": "bert-base-uncased"},
                {"timestamp": "2025-03-03T05:16:01", "model_name": "roberta-base"},
                {"mean_latency": "slow", "model_name": "roberta-base"},
                {"mean_latency": 1.5},
            ]},
            "openvino": {"compatible": True, "benchmark_results": [{"mean_latency": 1.25, "model_name": "bert-base-uncased"}]},
            "acme/named-instead-of-a-platform": {"compatible": False, "benchmark_results": []},
        }},
        "vision": {"hardware_compatibility": {"cpu": {"compatible": False, "performance_rating": None, "benchmark_results": []}}},
    },
    "simulated_hardware": ["openvino"],
}  # fmt: skip


def test_means_become_invalid_measurements_and_missing_figures_failures(reads):
    found = reads(SeedCompatibility(), MATRIX, "hardware_compatibility_matrix.json")
    mean, without, noted = found.data
    assert mean["metrics"] == {"latency_ms": {"mean": 1500.0}, "throughput_per_s": 12.25}
    assert mean["imported"]["original"]["mean_latency (s)"] == 1.5
    assert mean["imported"]["rules"] == ["averaged-over"]
    assert found.rows[0]["time"] == "2025-03-03T05:16:00.537589+00:00"
    assert without["outcome"] == "error" and without["failure"]["message"] == "the benchmark gave no figures"
    assert (noted["provenance"]["origin"], noted["execution"]["platform"]) == ("simulated", "openvino")
    assert [(refused.row, refused.field) for refused in found.refused] == [(3, "mean_latency"), (4, "model")]


def test_an_empty_matrix_is_known_by_its_name(place):
    empty = {"timestamp": "2025-03-05T21:58:23", "hardware_types": [], "model_families": {}}
    assert SeedCompatibility().sniff(place(empty, "hardware_compatibility_matrix.json"))
    assert not SeedCompatibility().sniff(place(empty, "other.json"))
    assert SeedCompatibility().sniff(place(MATRIX, "other.json"))
