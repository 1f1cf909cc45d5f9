"""Reports of optimum-benchmark: a forward, a generation, a training, and what versions write wrongly. The samples are ours."""

from __future__ import annotations

import copy
import json

import pytest

from ingest.importers.files import File
from ingest.importers.reading import BadFile
from ingest.importers.vision.optimum_benchmark import OptimumBenchmark

READER = OptimumBenchmark()


def latency(mean, *, count=50, p50=None):
    p50 = p50 or mean
    return {
        "unit": "s", "values": [mean * 0.9, mean * 1.5], "count": count, "total": mean * count, "mean": mean, "p50": p50,
        "p90": p50 * 1.2, "p95": p50 * 1.3, "p99": p50 * 1.4, "stdev": mean / 10, "stdev_": 10.0,
    }  # fmt: skip


def target(mean, throughput=None, unit="samples/s", **more):
    return {
        "memory": None, "latency": latency(mean), "energy": None, "efficiency": None,
        "throughput": {"unit": unit, "value": throughput} if throughput else None, **more,
    }  # fmt: skip


MEMORY = {
    "unit": "MB", "max_ram": 2000.5, "max_global_vram": 9000.0, "max_process_vram": 0.0, "max_reserved": 700.0,
    "max_allocated": 512.25,
}  # fmt: skip
FORWARD = {
    "config": {
        "name": "bert", "print_report": True, "log_report": True,
        "backend": {
            "name": "pytorch", "version": "2.5.1", "_target_": "optimum_benchmark.backends.pytorch.backend.PyTorchBackend",
            "task": "fill-mask", "library": "transformers", "model_type": "bert", "model": "google-bert/bert-base-uncased",
            "processor": "google-bert/bert-base-uncased", "device": "cuda", "device_ids": "1", "seed": 42,
            "inter_op_num_threads": None, "intra_op_num_threads": 4, "no_weights": True, "device_map": None,
            "torch_dtype": "float16", "torch_compile": True, "quantization_config": {}, "attn_implementation": "sdpa",
        },
        "scenario": {
            "name": "inference", "_target_": "optimum_benchmark.scenarios.inference.scenario.InferenceScenario",
            "iterations": 10, "input_shapes": {"batch_size": 8, "num_choices": 2, "sequence_length": 64},
            "forward_kwargs": {}, "generate_kwargs": {}, "call_kwargs": {},
        },
        "launcher": {"name": "process", "numactl": False},
        "environment": {
            "cpu": " AMD EPYC 7763 64-Core Processor", "cpu_count": 128, "cpu_ram_mb": 540684.0, "system": "Linux",
            "machine": "x86_64", "platform": "Linux-6.1.0-x86_64-with-glibc2.36", "processor": "x86_64",
            "python_version": "3.12.7", "gpu": ["NVIDIA A100-SXM4-80GB", "NVIDIA L4"], "gpu_count": 2,
            "gpu_vram_mb": 110000000000, "optimum_benchmark_version": "0.6.0", "transformers_version": "4.47.1",
            "optimum_benchmark_commit": None, "peft_version": None,
        },
    },
    "report": {
        "load_model": target(1.5), "first_forward": target(0.08),
        "forward": target(0.02, 400.0, memory=MEMORY, energy={"unit": "kWh", "cpu": 0.1, "ram": 0.1, "gpu": 0.8, "total": 1.0},
                          efficiency={"unit": "samples/kWh", "value": 8000.0}),
    },
}  # fmt: skip
GENERATION = copy.deepcopy(FORWARD)
GENERATION["config"]["backend"] |= {
    "task": "text-generation", "model_type": "llama", "model": "/home/somebody/models/tiny-llama", "device_ids": "0",
    "torch_dtype": "bfloat16", "no_weights": False, "torch_compile": False,
}  # fmt: skip
GENERATION["config"]["scenario"]["generate_kwargs"] = {"max_new_tokens": 11, "min_new_tokens": 11, "num_beams": 1}
GENERATION["report"] = {
    "load_model": target(3.0), "prefill": target(0.1, 80.0), "decode": target(0.4, 200.0, "tokens/s"),
    "per_token": target(0.04),
}  # fmt: skip


def changed(document, **members):
    """Return a copy with members replaced, by paths with __ for the dot."""
    copied = copy.deepcopy(document)
    for path, value in members.items():
        *outer, last = path.split("__")
        place = copied
        for name in outer:
            place = place[name]
        place[last] = value
    return copied


def test_a_forward_becomes_one_measurement(reads):
    read = reads(READER, FORWARD, "benchmark.json")
    (data,) = read.data
    assert read.refused == [] and read.ended["measured"] == 1
    assert data["model"] == {
        "id": "google-bert/bert-base-uncased", "category": "embedding", "family": "bert", "task": "feature-extraction",
        "parameters": 109482240, "weights": "random",
    }  # fmt: skip
    assert data["workload"] == {
        "mode": "inference",
        "scenario": "single_stream",
        "batch_size": 8,
        "sequence_length": 64,
    }
    assert data["execution"] == {
        "platform": "cuda", "runtime": {"name": "torch", "version": "2.5.1"}, "precision": "fp16", "compiled": True,
        "threads": 4, "options": {"attn_implementation": "sdpa"},
    }  # fmt: skip
    assert data["hardware"] == {"id": "nvidia-l4", "kind": "gpu", "count": 1}
    metrics = data["metrics"]
    # Fifty samples bound p90 and no more.
    assert metrics["latency_ms"] == pytest.approx(
        {"mean": 20.0, "p50": 20.0, "p90": 24.0, "stddev": 2.0, "min": 18.0, "max": 30.0, "n": 50}
    )
    assert metrics["throughput_per_s"] == 400.0
    assert (metrics["load_ms"], metrics["first_run_ms"]) == (1500.0, 80.0)
    assert (metrics["peak_memory_bytes"], metrics["device_memory_bytes"]) == (2_000_500_000, 512_250_000)
    assert metrics["energy_j"] == pytest.approx(8 / 8000 * 3.6e6)
    original = data["imported"]["original"]
    assert original["forward.latency.p99 (s)"] == pytest.approx(0.028)
    assert original["forward.energy.total (kWh)"] == 1.0
    assert data["environment"]["libraries"] == {"optimum_benchmark": "0.6.0", "transformers": "4.47.1"}
    assert data["environment"]["memory_bytes"] == 540_684_000_000
    assert "time" not in read.rows[0] and "validity" not in data
    assert data["provenance"]["source"] == "optimum-benchmark 0.6.0"


def test_a_generation_has_first_and_later_tokens_and_no_folder_of_somebody(reads):
    (data,) = reads(READER, GENERATION, "benchmark.json").data
    assert data["model"]["id"] == "tiny-llama"
    assert data["workload"] == {
        "mode": "inference", "scenario": "single_stream", "batch_size": 8, "input_tokens": 64, "output_tokens": 11,
    }  # fmt: skip
    assert data["hardware"]["id"] == "nvidia-a100-sxm-80gb"
    metrics = data["metrics"]
    assert metrics["latency_ms"] == {"mean": 500.0}
    assert metrics["ttft_ms"] == 100.0 and metrics["tpot_ms"] == 40.0
    assert metrics["throughput_per_s"] == pytest.approx(16.0)
    assert metrics["tokens_per_s"] == pytest.approx(8 * 11 / 0.5)
    assert "somebody" not in json.dumps(data)


def test_tokens_that_nobody_wrote_down_are_told_by_the_decoding(reads):
    without = changed(GENERATION, config__scenario__generate_kwargs={})
    del without["report"]["per_token"]
    (data,) = reads(READER, without, "benchmark.json").data
    # 200 tokens a second over 0.4 s are 80 of 8 sequences: ten each after the first.
    assert data["workload"]["output_tokens"] == 11
    assert data["metrics"]["tpot_ms"] == pytest.approx(40.0)


def test_a_throughput_over_all_steps_is_computed_anew_and_kept(reads):
    training = changed(
        FORWARD,
        config__scenario={
            "name": "training", "max_steps": 140, "warmup_steps": 40, "dataset_shapes": {"sequence_length": 32},
            "training_arguments": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "optim": "adamw_torch"},
        },
        report={"overall": target(0.25), "warmup": target(0.3), "train": target(0.2, 4000.0)},
    )  # fmt: skip
    (data,) = reads(READER, training, "benchmark.json").data
    assert data["workload"] == {
        "mode": "training", "scenario": "offline", "batch_size": 8, "sequence_length": 32, "optimizer": "adamw_torch",
    }  # fmt: skip
    assert data["metrics"]["throughput_per_s"] == pytest.approx(40.0)
    assert data["imported"]["original"]["train.throughput (samples/s)"] == 4000.0
    assert data["execution"]["options"]["gradient_accumulation_steps"] == 2


def test_a_vision_task_has_no_sequence_length_though_its_config_has(reads):
    vision = changed(FORWARD, config__backend__task="image-classification", config__backend__model="acme/net")
    (data,) = reads(READER, vision, "benchmark.json").data
    assert "sequence_length" not in data["workload"] and data["model"]["category"] == "vision"


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ({"name": "openvino", "version": "2025.0", "device": "cpu", "load_in_8bit": True}, ("openvino", "int8", "amd-epyc-7763")),
        ({"name": "onnxruntime", "version": "ort:1.20.1", "device": "cpu", "torch_dtype": None}, ("cpu", None, "amd-epyc-7763")),
        ({"quantization_config": {"bits": 4}}, ("cuda", "int4", "nvidia-l4")),
        ({"autocast_enabled": True, "autocast_dtype": "bfloat16"}, ("cuda", "amp-bf16", "nvidia-l4")),
        ({"version": "2.5.1+rocm6.2", "device_ids": "0,1"}, ("rocm", "fp16", "nvidia-a100-sxm-80gb-and-nvidia-l4")),
        ({"torch_dtype": "auto"}, ("cuda", None, "nvidia-l4")),
    ],
)  # fmt: skip
def test_the_backend_says_platform_precision_and_device(reads, backend, expected):
    document = changed(FORWARD)
    document["config"]["backend"] |= backend
    (data,) = reads(READER, document, "benchmark.json").data
    assert (data["execution"]["platform"], data["execution"].get("precision"), data["hardware"]["id"]) == expected


def test_a_vendor_is_no_device(reads):
    amd = changed(FORWARD, config__environment__gpu=["Advanced Micro Devices, Inc. [AMD/ATI]"])
    (data,) = reads(READER, amd, "benchmark.json").data
    assert data["hardware"] == {"id": "unknown-gpu", "kind": "gpu", "count": 1}
    assert data["execution"]["platform"] == "rocm"


def test_report_and_config_in_two_files_give_the_same_event_as_in_one(reads):
    around = {"benchmark_config.json": FORWARD["config"]}
    apart = reads(READER, FORWARD["report"], "benchmark_report.json", around)
    together = reads(READER, FORWARD, "benchmark.json")
    assert apart.rows[0]["id"] == together.rows[0]["id"]


def test_a_report_without_its_config_says_what_is_missing(place):
    file = place(FORWARD["report"], "benchmark_report.json")
    assert READER.sniff(file)
    with pytest.raises(BadFile, match=r"benchmark_config\.json"):
        list(READER.rows(file))


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"config__backend__model": None}, "config.backend.model"),
        ({"report__forward__latency__mean": "fast"}, "forward.latency.mean"),
        ({"report__forward__latency__unit": "furlong"}, "report.forward.latency.unit"),
        ({"config__scenario__name": "energy_star"}, "config.scenario.name"),
        ({"report": {}}, "report.forward"),
    ],
)
def test_what_cannot_be_used_is_refused_and_can_be_mended(reads, members, field):
    read = reads(READER, changed(FORWARD, **members), "benchmark.json")
    (refused,) = read.refused
    assert read.rows == [] and refused.field == field
    mended = json.loads(refused.content)
    mended["config"]["backend"]["model"] = "acme/net"
    mended["config"]["scenario"]["name"] = "inference"
    mended["report"] = FORWARD["report"]
    assert len(reads(READER, mended, "benchmark.json").rows) == 1


def test_only_its_own_files_are_recognised(place):
    assert READER.sniff(place(FORWARD, "any name.json"))
    for content, name in (
        (FORWARD["config"], "benchmark_config.json"), ({"config": {}, "report": {}}, "report.json"), ("{", "broken.json"),
        (FORWARD, "benchmark.txt"), ({"benchmarks": [], "machine_info": {}}, "pytest.json"),
    ):  # fmt: skip
        assert not READER.sniff(place(content, name)), name


def test_in_an_archive_nothing_lies_beside(tmp_path):
    (tmp_path / "member").write_text(json.dumps(FORWARD["report"]))
    (tmp_path / "benchmark_config.json").write_text(json.dumps(FORWARD["config"]))
    with pytest.raises(BadFile):
        list(READER.rows(File(tmp_path / "member", "old.zip/benchmark_report.json")))
