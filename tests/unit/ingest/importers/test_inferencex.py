"""InferenceX's rows: seconds become ms, a GPU's tokens those of all. The rows are ours."""

from __future__ import annotations

from ingest.importers.serving.inferencex import InferenceX

ROW = {
    "hardware": "h200", "framework": "trt", "model": "acme/large", "precision": "fp8", "spec_method": "mtp",
    "disagg": False, "is_multinode": False, "prefill_tp": 8, "prefill_ep": 1, "decode_tp": 8, "decode_ep": 4,
    "num_prefill_gpu": 8, "num_decode_gpu": 8, "isl": 8192, "osl": 1024, "conc": 64, "date": "2026-03-01",
    "run_url": "https://example.org/1",
    "metrics": {
        "tput_per_gpu": 450.5, "output_tput_per_gpu": 50.0, "input_tput_per_gpu": 400.0, "median_ttft": 0.15,
        "p99_ttft": 0.35, "median_tpot": 0.012, "median_e2el": 2.3, "p99_e2el": 3.1,
    },
}  # fmt: skip


def test_a_row_of_the_database(reads):
    (row,) = reads(InferenceX(), [ROW], "dump.json").data
    assert row["hardware"] == {"id": "nvidia-h200-sxm", "kind": "gpu", "count": 8}
    assert row["workload"] == {
        "mode": "inference", "scenario": "serving", "input_tokens": 8192, "output_tokens": 1024, "concurrency": 64,
    }  # fmt: skip
    assert row["metrics"] == {
        "latency_ms": {"p50": 2300.0, "p99": 3100.0}, "ttft_ms": 150.0, "tpot_ms": 12.0, "tokens_per_s": 400.0,
    }  # fmt: skip
    assert row["execution"] == {
        "platform": "cuda", "runtime": {"name": "trt"}, "precision": "fp8",
        "parallelism": {"tensor": 8, "expert": 4}, "options": {"speculative": "mtp"},
    }  # fmt: skip


def test_disaggregated_serving_counts_both_kinds_of_worker(reads):
    apart = {**ROW, "disagg": True, "num_prefill_gpu": 4, "num_decode_gpu": 16, "prefill_num_workers": 1}
    (row,) = reads(InferenceX(), {"rows": [apart]}, "dump.json").data
    assert row["hardware"]["count"] == 20
    # Only those that decode give out tokens.
    assert row["metrics"]["tokens_per_s"] == 800.0
    assert row["execution"]["options"]["serving"] == "disaggregated" and "parallelism" not in row["execution"]
    assert row["execution"]["options"]["decode"] == {"tensor": 8, "expert": 4}


def test_a_file_of_one_run_has_its_metrics_beside_the_rest(reads, place):
    one = {
        "hw": "mi300x", "framework": "vllm", "model": "acme/large", "precision": "fp4", "tp": 4, "ep": 1, "conc": 8,
        "isl": 1024, "osl": 1024, "dp_attention": "false", "tput_per_gpu": 100, "output_tput_per_gpu": 25, "mean_tpot": 0.02,
    }  # fmt: skip
    found = reads(InferenceX(), one, "agg_run.json")
    (row,) = found.data
    assert (row["hardware"]["id"], row["hardware"]["count"]) == ("amd-instinct-mi300x", 4)
    assert row["execution"]["platform"] == "rocm" and row["metrics"] == {"tpot_ms": 20.0, "tokens_per_s": 100.0}
    assert InferenceX().sniff(place(one, "agg_run.json"))


def test_rows_without_hardware_or_figures_are_refused(reads):
    nameless = {name: value for name, value in ROW.items() if name != "hardware"}
    refused = reads(InferenceX(), [nameless, {**ROW, "metrics": {}}, {**ROW, "metrics": 3}, 5], "dump.json").refused
    assert [(item.row, item.field) for item in refused] == [(1, "hardware"), (2, "metrics"), (3, "metrics"), (4, "row")]
