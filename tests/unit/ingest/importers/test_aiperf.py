"""AIPerf and GenAI-Perf: three shapes of config, units, telemetry, failures. The samples are ours."""

from __future__ import annotations

import copy
import json

import pytest

from ingest.importers.reading import BadFile
from ingest.importers.serving.aiperf import Aiperf

READER = Aiperf()
TIME = {
    "unit": "ms",
    "avg": 100.0,
    "p50": 90.0,
    "p90": 150.0,
    "p95": 160.0,
    "p99": 190.0,
    "min": 50.0,
    "max": 200.0,
    "std": 20.0,
}


def scaled(factor, **more):
    return {**{name: value if name == "unit" else value * factor for name, value in TIME.items()}, **more}


AIPERF = {
    "schema_version": "1.5", "aiperf_version": "0.12.0", "benchmark_id": "0a1b",
    "request_throughput": {"unit": "requests/sec", "avg": 4.0},
    "request_latency": scaled(20, count=100, sum=200000.0),
    "request_count": {"unit": "requests", "avg": 100.0},
    "time_to_first_token": scaled(1), "inter_token_latency": scaled(0.1),
    "output_token_throughput": {"unit": "tokens/sec", "avg": 512.0},
    "output_sequence_length": {"unit": "tokens", "avg": 127.6, "p50": 128.0},
    "input_sequence_length": {"unit": "tokens", "avg": 550.0},
    "goodput": {"unit": "requests/sec", "avg": 3.0},
    "error_request_count": {"unit": "requests", "avg": 2.0},
    "input_config": {
        "models": {"items": [{"name": "acme/tiny-llm"}], "strategy": "round_robin"},
        "endpoint": {"urls": ["http://host.internal:8000"], "type": "chat", "streaming": True},
        "phases": [{"name": "warmup", "kind": "warmup", "concurrency": 2},
                   {"name": "profiling", "kind": "profiling", "type": "poisson", "concurrency": 16, "rate": 5.5}],
    },
    "telemetry_data": {"endpoints": {"host.internal:9400": {"gpus": {
        f"gpu_{index}": {
            "gpu_index": index, "gpu_name": "NVIDIA H200", "gpu_uuid": "GPU-0", "hostname": "host.internal",
            "platform": "nvidia",
            "metrics": {"nvidia_power_usage": {"unit": "W", "avg": 500.0}, "nvidia_gpu_utilization": {"unit": "%", "avg": busy},
                        "nvidia_gpu_memory_used": {"unit": "GB", "avg": 90.0, "max": 100.0}},
        } for index, busy in enumerate((80.0, 90.0, 0.0))
    }}}},
    "was_cancelled": False, "error_summary": [],
    "start_time": "2026-03-04T05:06:07.250000", "end_time": "2026-03-04T05:07:07.250000",
}  # fmt: skip
EARLIER = {
    "input_config": {
        "endpoint": {"model_names": ["acme/tiny-llm"], "type": "chat", "streaming": True},
        "loadgen": {"concurrency": 8, "request_rate": None},
    },
    "aiperf_version": "0.4.0", "request_throughput": {"unit": "requests/sec", "avg": 2.0}, "request_latency": scaled(20),
    "request_count": {"unit": "requests", "avg": 40.0},
}  # fmt: skip
GENAI_PERF = {
    "request_throughput": {"unit": "requests/sec", "avg": "17.5"},
    "request_latency": {"unit": "ns", "avg": "2000000000", "p50": "1900000000", "min": "1000000000", "max": "3000000000", "std": "5"},
    "time_to_first_token": {"unit": "ns", "avg": "20000000.5"}, "output_token_throughput": {"unit": "tokens per sec", "avg": "217.0"},
    "num_output_token": {"unit": "tokens", "avg": "17.7"}, "num_input_token": {"unit": "tokens", "avg": "550.05"},
    "input_config": {
        "subcommand": "profile", "model": ["acme/tiny-llm"], "backend": "tensorrtllm", "endpoint": None, "streaming": True,
        "u": "host.internal:8001", "concurrency": 100, "request_rate": None, "tokenizer": "/path/of/somebody/tokenizer",
    },
}  # fmt: skip


def test_a_run_is_taken_with_what_its_telemetry_saw(reads):
    read = reads(READER, AIPERF, "profile_export_aiperf.json")
    (event,), (data,) = read.rows, read.data
    assert event["time"] == "2026-03-04T05:06:07.250000+00:00"
    assert data["model"] == {"id": "acme/tiny-llm", "category": "text_generation"}
    assert data["workload"] == {
        "mode": "inference", "scenario": "serving", "input_tokens": 550, "output_tokens": 128, "concurrency": 16,
        "arrival_rate_per_s": 5.5,
    }  # fmt: skip
    assert data["execution"] == {"platform": "cuda", "options": {"streaming": True}}
    # The third GPU did nothing.
    assert data["hardware"] == {"id": "nvidia-h200-sxm", "kind": "gpu", "count": 2}
    assert data["metrics"] == {
        "latency_ms": {"mean": 2000.0, "p50": 1800.0, "p90": 3000.0, "p95": 3200.0, "min": 1000.0, "max": 4000.0,
                       "stddev": 400.0, "n": 100},
        "throughput_per_s": 4.0, "tokens_per_s": 512.0, "ttft_ms": 90.0, "tpot_ms": 9.0, "goodput_per_s": 3.0,
        "power_w": 1000.0, "utilisation": 0.85, "device_memory_bytes": 200_000_000_000,
    }  # fmt: skip
    original = data["imported"]["original"]
    assert original["time_to_first_token.p99 (ms)"] == 190.0 and original["error_request_count"] == 2.0
    assert original["request_latency.p99 (ms)"] == 3800.0
    assert data["environment"]["libraries"] == {"aiperf": "0.12.0"}
    assert "internal" not in json.dumps(event)


def test_an_earlier_config_names_model_and_load_elsewhere(reads):
    (data,) = reads(READER, EARLIER, "profile_export_aiperf.json").data
    assert data["model"]["id"] == "acme/tiny-llm" and data["workload"]["concurrency"] == 8
    assert data["hardware"] == {"id": "unknown", "kind": "other", "count": 1}
    assert data["execution"]["platform"] == "other"
    assert data["metrics"]["latency_ms"]["n"] == 40 and "p90" not in data["metrics"]["latency_ms"]


def test_genai_perf_writes_numbers_as_text_and_times_in_ns(reads):
    (data,) = reads(READER, GENAI_PERF, "profile_export_genai_perf.json").data
    assert data["workload"]["input_tokens"] == 550 and data["workload"]["output_tokens"] == 18
    assert data["execution"]["runtime"] == {"name": "tensorrt-llm"}
    metrics = data["metrics"]
    assert metrics["latency_ms"]["p50"] == pytest.approx(1900.0) and metrics["ttft_ms"] == pytest.approx(20.0000005)
    assert (metrics["throughput_per_s"], metrics["tokens_per_s"]) == (17.5, 217.0)
    assert data["imported"]["original"]["request_latency.avg (ns)"] == "2000000000"
    assert "somebody" not in json.dumps(data)


def test_a_run_whose_requests_all_failed_is_a_failure_with_the_first_error(reads):
    failed = {name: value for name, value in AIPERF.items() if name in ("aiperf_version", "input_config", "start_time")}
    failed |= {
        "error_request_count": {"unit": "requests", "avg": 10.0}, "request_count": {"unit": "requests", "avg": 0.0},
        "error_summary": [{"error_details": {"code": 503, "type": "HTTPError", "message": "busy at /srv/llm/x"}, "count": 10}],
    }  # fmt: skip
    read = reads(READER, failed, "profile_export_aiperf.json")
    assert read.rows[0]["type"] == "assay.measurement.failed.v1"
    assert read.data[0]["failure"] == {"error": "no-request-completed", "message": "HTTPError: busy at …/x"}


def edit(**members):
    copied = copy.deepcopy(AIPERF)
    for path, value in members.items():
        *outer, last = path.split("__")
        place = copied
        for name in outer:
            place = place[name]
        place[last] = value
    return copied


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (edit(input_config__models={"items": [{"name": "a/b"}, {"name": "c/d"}]}), "input_config"),
        (edit(input_config={}), "input_config"),
        (edit(request_latency__unit="furlong"), "request_latency.unit"),
        (edit(request_latency__avg="slow"), "request_latency.avg"),
        (edit(request_throughput=4.0), "request_throughput"),
        (edit(start_time="soon"), "start_time"),
        (edit(request_latency__min=9000.0), "metrics.latency_ms.min"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_field(reads, document, field):
    read = reads(READER, document, "profile_export_aiperf.json")
    assert read.rows == [] and [one.field for one in read.refused] == [field]


def test_only_its_own_files_are_recognised(place):
    for content in (AIPERF, EARLIER, GENAI_PERF):
        assert READER.sniff(place(content, "renamed.json"))
    for content, name in (
        ({"experiments": [], "version": "2.50"}, "profile_export.json"), ({"timeslices": [EARLIER], "input_config": {}}, "slices.json"),
        ({"request_throughput": 5.0, "num_prompts": 1, "model_id": "x"}, "serve.json"), (AIPERF, "a.csv"),
        ({"metrics": {"request_latency_avg": {"mean": 1.0}}, "input_config": {}}, "profile_export_aiperf_aggregate.json"),
    ):  # fmt: skip
        assert not READER.sniff(place(content, name)), name
    with pytest.raises(BadFile):
        list(READER.rows(place([1], "list.json")))
