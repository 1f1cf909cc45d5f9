"""The earlier framework's direct benchmarks: three shapes, the device that did the work, and typed estimates. The samples are ours."""

from __future__ import annotations

import pytest

from ingest.importers.legacy.direct import SeedDirect

SAMPLES = [10.25390625, 10.501861572265625, 10.371208190917969, 10.45989990234375, 10.3759765625]
MEAN = sum(SAMPLES) / 5
DIRECT = {
    "model": "prajjwal1/bert-tiny", "hardware": "cuda", "success": True,
    "batch_results": {
        "1": {"success": True, "batch_size": 1, "avg_latency_ms": MEAN, "throughput_items_per_second": 1000 / MEAN, "memory_mb": 512.0,
              "latencies_ms": SAMPLES, "device": "cpu", "timestamp": "2025-03-06T17:45:26.506441"},
        "2": {"success": False, "batch_size": 2, "error": "CUDA out of memory. Tried to allocate"},
        "4": {"success": True, "batch_size": 2.5, "avg_latency_ms": 3.0},
    },
    "timestamp": "2025-03-06T17:45:26.462134",
}  # fmt: skip
ESTIMATE = {
    "model": "BERT", "model_key": "bert", "model_category": "embedding", "model_path": "bert-base-uncased", "hardware": "AMD ROCm",
    "hardware_key": "rocm", "timestamp": "2025-03-05T19:57:15.307065", "compatible": True,
    "batch_sizes": {"4": {"throughput": 300, "latency_ms": 30, "memory_usage_mb": 148, "success": True, "command": "python x.py"}},
}  # fmt: skip
LISTED = [
    {"model_name": "bert-base-uncased", "modality": "text", "hardware_type": "cuda", "device_name": "NVIDIA RTX 3090", "batch_size": 8,
     "precision": "fp16", "test_case": "embedding", "total_time_seconds": 25.3, "average_latency_ms": 25.28123456,
     "throughput_items_per_second": 316.4399, "memory_peak_mb": 2048.0, "iterations": 100, "warmup_iterations": 10,
     "metrics": {"gpu_util_percent": 85.0}},
    {"model_name": "bert-base-uncased", "hardware_type": "abacus"},
]  # fmt: skip


def test_the_device_that_did_the_work_stands_beside_the_one_that_was_asked_for(reads):
    found = reads(SeedDirect(), DIRECT, "direct_benchmark_x.json")
    data, failed = found.data
    assert data["execution"]["platform"] == "cuda"
    assert data["observed"] == {"device": "cpu", "platform": "cpu", "requested": {"platform": "cuda"}}
    assert data["hardware"] == {"id": "unknown-cpu", "kind": "cpu", "count": 1}
    latency = data["metrics"]["latency_ms"]
    assert (latency["mean"], latency["min"], latency["max"], latency["n"]) == (MEAN, min(SAMPLES), max(SAMPLES), 5)
    assert data["metrics"]["peak_memory_bytes"] == 512 << 20 and data["imported"]["original"]["memory_mb"] == 512.0
    assert "validity" not in data
    assert failed["outcome"] == "out_of_memory"
    assert [(refused.row, refused.field) for refused in found.refused] == [(3, "batch_results/4/batch_size")]


def test_estimates_were_typed(reads):
    (data,) = reads(SeedDirect(), ESTIMATE, "benchmark_bert_rocm.json").data
    assert data["metrics"] == {"latency_ms": {"mean": 30.0}, "throughput_per_s": 300.0, "peak_memory_bytes": 148 << 20}
    assert data["imported"]["rules"] == ["typed-figures", "inconsistent-rate"]
    assert data["provenance"]["origin"] == "simulated" and data["workload"]["batch_size"] == 4


def test_a_list_names_its_device_and_precision(reads):
    found = reads(SeedDirect(), LISTED, "bert_cuda_test.json")
    (data,) = found.data
    assert data["hardware"] == {"id": "nvidia-rtx-3090", "kind": "gpu", "count": 1}
    assert data["execution"] == {"platform": "cuda", "precision": "fp16"}
    assert data["metrics"]["utilisation"] == 0.85 and data["metrics"]["latency_ms"]["n"] == 100
    assert [(refused.row, refused.field) for refused in found.refused] == [(2, "hardware_type")]


@pytest.mark.parametrize("content", [DIRECT, ESTIMATE, LISTED])
def test_each_shape_is_recognised(place, content):
    assert SeedDirect().sniff(place(content, "x.json"))


def test_a_batch_of_direct_benchmarks_is_another_format(place):
    assert not SeedDirect().sniff(place({"results": {"m": {"benchmark_data": DIRECT}}}, "b.json"))
