"""vLLM's benchmarks: serving with metadata, lines, latency and throughput with what lies beside. The samples are ours."""

from __future__ import annotations

import json

import pytest

from ingest.importers.reading import BadFile
from ingest.importers.serving.vllm_bench import VllmBench

READER = VllmBench()
SERVE = {
    "date": "20260304-050607", "endpoint_type": "openai", "backend": "openai", "label": None,
    "model_id": "acme/tiny-llm", "tokenizer_id": "acme/tiny-llm", "num_prompts": 100, "gpu": "4xNVIDIA_L40S",
    "tensor_parallel_size": "4", "dtype": "bfloat16", "request_rate": 10.0, "burstiness": 0.5, "max_concurrency": 32,
    "duration": 20.0, "completed": 99, "failed": 1, "total_input_tokens": 99000, "total_output_tokens": 12870,
    "request_throughput": 4.95, "request_goodput": 3.5, "output_throughput": 643.5, "total_token_throughput": 5593.5,
    "max_output_tokens_per_s": 800.0, "max_concurrent_requests": 40, "mean_ttft_ms": 60.0, "median_ttft_ms": 55.0,
    "std_ttft_ms": 9.0, "p99_ttft_ms": 90.0, "mean_tpot_ms": 14.0, "median_tpot_ms": 13.5, "std_tpot_ms": 0.9,
    "p99_tpot_ms": 17.0, "mean_itl_ms": 13.5, "median_itl_ms": 12.8, "std_itl_ms": 3.8, "p99_itl_ms": 34.0,
    "mean_e2el_ms": 1800.0, "median_e2el_ms": 1750.0, "std_e2el_ms": 100.0, "p90_e2el_ms": 1950.0, "p99_e2el_ms": 2100.0,
}  # fmt: skip
LATENCY = {
    "avg_latency": 1.25, "std_latency": 0.05, "latencies": [1.2, 1.25, 1.3],
    "percentiles": {"10": 1.21, "25": 1.22, "50": 1.24, "75": 1.28, "90": 1.29, "99": 1.3},
}  # fmt: skip
THROUGHPUT = {
    "elapsed_time": 10.0, "num_requests": 200, "total_num_tokens": 128000, "requests_per_second": 20.0,
    "tokens_per_second": 12800.0,
}  # fmt: skip
LINES = json.dumps(SERVE) + "\n" + json.dumps({**SERVE, "date": "20260304-060000", "request_rate": "inf"}) + "\n"
RECORDS = [
    {
        "benchmark": {"name": "vLLM benchmark", "extra_info": {"args": {
            "model": "acme/tiny-llm", "batch_size": 8, "input_len": 32, "output_len": 128, "tensor_parallel_size": 2,
            "dtype": "float16", "device": "cuda", "quantization": None,
        }}},
        "model": {"name": "acme/tiny-llm"},
        "metric": {"name": "latency", "benchmark_values": [1.2, 1.25, 1.3], "extra_info": {
            "avg_latency": 1.25, "std_latency": 0.05, "percentiles": LATENCY["percentiles"],
        }},
    },
]  # fmt: skip
COMMANDS = {
    "throughput_command": "vllm bench throughput --model acme/tiny-llm --tensor-parallel-size=2 --input-len 512 --output-len 128 --num-prompts 200 --output-json x.json",
    "gpu_type": "NVIDIA H200",
}  # fmt: skip


def test_serving_is_taken_with_its_load_and_its_device(reads):
    read = reads(READER, SERVE, "serve.json")
    (event,), (data,) = read.rows, read.data
    assert event["time"] == "2026-03-04T05:06:07+00:00"
    assert data["model"] == {"id": "acme/tiny-llm", "category": "text_generation"}
    assert data["workload"] == {
        "mode": "inference", "scenario": "serving", "input_tokens": 1000, "output_tokens": 130, "concurrency": 32,
        "arrival_rate_per_s": 10.0,
    }  # fmt: skip
    assert data["execution"] == {
        "platform": "cuda", "precision": "bf16", "parallelism": {"tensor": 4}, "options": {"burstiness": 0.5},
    }  # fmt: skip
    assert data["hardware"] == {"id": "nvidia-l40s", "kind": "gpu", "count": 4}
    # 99 requests bound p95, not p99.
    assert data["metrics"] == {
        "latency_ms": {"mean": 1800.0, "p50": 1750.0, "p90": 1950.0, "stddev": 100.0, "n": 99},
        "throughput_per_s": 4.95, "tokens_per_s": 643.5, "ttft_ms": 55.0, "tpot_ms": 13.5, "goodput_per_s": 3.5,
    }  # fmt: skip
    original = data["imported"]["original"]
    assert (original["p99_ttft_ms"], original["p99_e2el_ms (ms)"], original["failed"]) == (90.0, 2100.0, 1)


def test_results_that_were_appended_are_read_by_line(reads):
    read = reads(READER, LINES, "all.json")
    assert [event["time"][:16] for event in read.rows] == ["2026-03-04T05:06", "2026-03-04T06:00"]
    assert "arrival_rate_per_s" not in read.data[1]["workload"] and "options" not in read.data[1]["execution"]
    broken = reads(READER, LINES + "{\n", "all.json")
    assert (len(broken.rows), broken.refused[0].row) == (2, 3)


def test_goodput_under_its_misspelt_name_and_a_backend_that_names_the_engine(reads):
    old = {
        **{name: value for name, value in SERVE.items() if name != "request_goodput"},
        "request_goodput:": 2.0,
        "backend": "vllm",
    }
    (data,) = reads(READER, old, "serve.json").data
    assert data["metrics"]["goodput_per_s"] == 2.0 and data["execution"]["runtime"] == {"name": "vllm"}


def test_without_a_word_on_the_device_it_stays_unknown(reads):
    bare = {name: value for name, value in SERVE.items() if name not in ("gpu", "tensor_parallel_size", "dtype")}
    (data,) = reads(READER, bare, "serve.json").data
    assert data["hardware"] == {"id": "unknown", "kind": "other", "count": 1}
    assert data["execution"]["platform"] == "other" and "precision" not in data["execution"]


def test_a_run_in_which_no_request_completed_is_a_failure(reads):
    read = reads(READER, {**SERVE, "completed": 0, "request_throughput": 0.0}, "serve.json")
    (data,) = read.data
    assert read.rows[0]["type"] == "assay.measurement.failed.v1" and read.ended["failed"] == 1
    assert data["failure"] == {"error": "no-request-completed", "message": "none of 100 requests completed"}


def test_latency_alone_is_named_by_its_file(reads):
    (data,) = reads(READER, LATENCY, "latency_tiny_tp4.json").data
    assert data["model"] == {"id": "benchmark/latency_tiny_tp4"}
    assert data["execution"]["parallelism"] == {"tensor": 4} and data["hardware"]["count"] == 4
    assert data["metrics"]["latency_ms"] == pytest.approx(
        {"mean": 1250.0, "stddev": 50.0, "p50": 1240.0, "min": 1200.0, "max": 1300.0, "n": 3}
    )
    assert data["imported"]["original"]["percentiles.99 (s)"] == 1.3


def test_the_records_beside_it_say_what_ran(reads):
    (beside,) = reads(READER, LATENCY, "latency.json", {"latency.pytorch.json": RECORDS}).data
    assert beside["model"]["id"] == "acme/tiny-llm"
    assert beside["workload"] == {
        "mode": "inference", "scenario": "single_stream", "batch_size": 8, "input_tokens": 32, "output_tokens": 128,
    }  # fmt: skip
    assert beside["hardware"] == {"id": "unknown-gpu", "kind": "gpu", "count": 2}
    assert (beside["execution"]["platform"], beside["execution"]["precision"]) == ("cuda", "fp16")


def test_records_alone_are_read_and_beside_their_result_passed_over(reads, place):
    alone = reads(READER, RECORDS, "only.pytorch.json")
    assert alone.data[0]["metrics"]["latency_ms"]["mean"] == 1250.0
    assert READER.sniff(place(RECORDS, "only.pytorch.json"))
    assert not READER.sniff(place(RECORDS, "latency.pytorch.json", {"latency.json": LATENCY}))


def test_a_command_line_beside_a_throughput_gives_lengths_and_device(reads):
    (data,) = reads(READER, THROUGHPUT, "offline.json", {"offline.commands": COMMANDS}).data
    assert data["workload"] == {"mode": "inference", "scenario": "offline", "input_tokens": 512, "output_tokens": 128}
    assert data["metrics"] == {"throughput_per_s": 20.0, "tokens_per_s": 2560.0}
    assert data["hardware"] == {"id": "nvidia-h200-sxm", "kind": "gpu", "count": 2}
    assert data["imported"]["original"]["tokens_per_second (input and output tokens/s)"] == 12800.0


def test_throughput_alone_counts_requests_and_no_output_tokens(reads):
    (data,) = reads(READER, THROUGHPUT, "offline.json").data
    assert data["metrics"] == {"throughput_per_s": 20.0}


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({**SERVE, "mean_tpot_ms": "fast", "median_tpot_ms": None}, "mean_tpot_ms"), ({**SERVE, "date": "today"}, "date"),
        ({**SERVE, "max_concurrency": 1.5}, "max_concurrency"), ({**LATENCY, "latencies": {}}, "latencies"),
        ({**THROUGHPUT, "requests_per_second": None}, "result"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_refused_with_its_field(reads, document, field):
    read = reads(READER, document, "result.json")
    assert read.rows == [] and [one.field for one in read.refused] == [field]
    assert json.loads(read.refused[0].content) == document


def test_what_is_no_object_is_no_result(place):
    with pytest.raises(BadFile):
        list(READER.rows(place([1], "result.json")))
    with pytest.raises(BadFile):
        list(READER.rows(place([], "x.pytorch.json")))


def test_only_its_own_files_are_recognised(place):
    for content, name in ((SERVE, "a.json"), (LINES, "a.jsonl"), (LATENCY, "b.json"), (THROUGHPUT, "c.json")):
        assert READER.sniff(place(content, name))
    for content, name in (
        ({"request_throughput": {"unit": "requests/sec", "avg": 1}, "input_config": {}}, "profile_export_aiperf.json"),
        ([SERVE], "list.json"), (SERVE, "a.txt"), ({}, "empty.json"), ([{"benchmark": {}}], "x.pytorch.json"),
    ):  # fmt: skip
        assert not READER.sniff(place(content, name)), name
