"""The earlier framework's web results: simulation wins over REAL, tables made by hand, and calls that failed. The samples are ours."""

from __future__ import annotations

import pytest

from ingest.importers.legacy.web import SeedWeb

RESULT = {
    "model_key": "clip", "model_name": "openai/clip-vit-base-patch32", "platform": "webgpu", "status": "success",
    "browser_opened": False, "timestamp": "2025-03-06T18:42:24.296430", "platform_support": {"available": True, "simulated": True},
    "implementation_type": "REAL_WEBGPU", "is_simulation": True, "modality": "multimodal",
    "metrics": {"inference_time_ms": 81.25390625, "load_time_ms": 480.5, "memory_mb": 250, "throughput_items_per_second": 12.3},
}  # fmt: skip
COMPARISON = {
    "timestamp": "2025-03-02T12:00:00Z",
    "summary": {"webnn": {"avg_processing_time_ms": 57.3}},
    "results_by_modality": {"text": [
        {"model": "bert-base-uncased", "webnn": {"time_ms": 15.2, "memory_mb": 35, "success": True, "implementation": "REAL_WEBNN"},
         "webgpu": {"time_ms": None, "success": False, "implementation": "SIMULATED_WEBGPU", "error": "Missing required operators"}},
    ]},
}  # fmt: skip
SIZES = {"size_tiny": {"webnn": {"text": {
    "success": True, "platform": "webnn", "model_name": "prajjwal1/bert-tiny", "model_modality": "text", "initialization_type": "SIMULATION",
    "performance": {"iterations": 10, "avg_inference_time_ms": 0.223, "min_inference_time_ms": 0.156, "max_inference_time_ms": 0.3125},
}}}}  # fmt: skip
SIDE = {
    "success": True, "model_name": "acme/pair", "implementation_type": "REAL_WEBGPU", "parallel_loading_enabled": True,
    "initialization_time_ms": 394.93513107, "first_inference_time_ms": 82.17382431,
    "performance": {"iterations": 5, "avg_inference_time_ms": 2.5141716, "min_inference_time_ms": 2.4862289, "max_inference_time_ms": 2.55537},
    "performance_metrics": {"shader_compilation_ms": 125.0},
}  # fmt: skip
LOADING = {
    "pair": {
        "with_parallel": SIDE,
        "without_parallel": {**SIDE, "parallel_loading_enabled": False, "performance": {}},
        "improvements": {},
    }
}


def test_a_simulation_is_one_whatever_it_calls_itself(reads):
    (event,) = reads(SeedWeb(), RESULT, "clip_webgpu/result.json").rows
    data = event["data"]
    assert data["metrics"] == {
        "latency_ms": {"mean": 81.25390625}, "throughput_per_s": 12.3, "load_ms": 480.5, "peak_memory_bytes": 250 << 20,
    }  # fmt: skip
    assert (data["provenance"]["origin"], data["imported"]["rules"]) == ("simulated", ["simulated-flag"])
    assert "is_simulation" in data["validity"]["reasons"][0] and "batch_size" not in data["workload"]
    assert data["model"]["category"] == "multimodal" and data["hardware"]["id"] == "unknown-device"


def test_without_a_flag_the_same_row_is_taken_as_it_is(reads):
    honest = {**RESULT, "is_simulation": False, "platform_support": {"available": True}}
    (data,) = reads(SeedWeb(), honest, "result.json").data
    assert data["provenance"]["origin"] == "imported" and "validity" not in data


def test_a_table_made_by_hand_has_typed_figures_and_failures(reads):
    bert, failed = reads(SeedWeb(), COMPARISON, "web_platform_comparison.json").data
    assert bert["imported"]["rules"] == ["typed-figures"] and bert["metrics"]["latency_ms"] == {"mean": 15.2}
    assert bert["imported"]["original"]["record"] == "results_by_modality/text/[0]/webnn"
    assert failed["outcome"] == "unsupported" and failed["failure"]["message"] == "Missing required operators"
    assert failed["provenance"]["origin"] == "simulated"


def test_sizes_and_loading_are_read_and_what_lacks_a_time_is_refused(reads):
    (sized,) = reads(SeedWeb(), SIZES, "benchmark_results.json").data
    assert sized["metrics"]["latency_ms"] == {"mean": 0.223, "min": 0.156, "max": 0.3125, "n": 10}
    assert sized["provenance"]["origin"] == "simulated"
    found = reads(SeedWeb(), LOADING, "parallel_loading_results.json")
    (loaded,) = found.data
    assert loaded["execution"] == {"platform": "webgpu", "options": {"parallel_loading": True}}
    assert loaded["metrics"]["first_run_ms"] == 82.17382431 and loaded["metrics"]["compile_ms"] == 125.0
    assert loaded["imported"]["rules"] == ["typed-figures"], "no clock gives 125 ms"
    (refused,) = found.refused
    assert refused.field == "pair/without_parallel/avg_inference_time_ms"


@pytest.mark.parametrize("content", [RESULT, COMPARISON, SIZES, LOADING])
def test_each_shape_is_recognised(place, content):
    assert SeedWeb().sniff(place(content, "result.json"))


def test_what_a_browser_says_of_itself_is_no_result(place):
    assert not SeedWeb().sniff(
        place({"browser": "edge", "webnn": {"supported": False}, "webgpu": {}, "webgl": {}}, "e.json")
    )
