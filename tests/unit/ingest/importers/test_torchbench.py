"""TorchBench's metrics and benchmarks/dynamo's tables: names of metrics, words for failures. The samples are ours."""

from __future__ import annotations

import json

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.reading import BadFile
from ingest.importers.refusals import Refused
from ingest.importers.vision.torchbench import TorchBench

ALONE = "model=hf_Bert, test=eval, device=cuda, bs=4, extra_args=['--precision', 'fp16'], metric="
METRICS = {
    "name": "test_bench",
    "environ": {"pytorch_git_version": "0123456789abcdef0123", "device": "NVIDIA A100-SXM4-40GB"},
    "metrics": {
        ALONE + "latencies": 8.5,
        ALONE + "cpu_peak_mem": 2.0,
        ALONE + "gpu_peak_mem": 1.5,
        "model=llama, test=train, device=cuda, bs=None, extra_args=[], metric=latencies": "not_implemented",
        "model=llama, test=train, device=cuda, bs=None, extra_args=[], metric=gpu_peak_mem": "not_implemented",
        "model=alexnet, test=eval, device=cpu, bs=None, extra_args=['--accuracy'], metric=accuracy": "fail_accuracy",
        "v3_score": 1000.0,
    },
}  # fmt: skip
NIGHTLY = {
    "name": "torch-nightly", "environ": {"pytorch_git_version": "fedcba9876543210"},
    "metrics": {"test_train[timm_regnet-cuda-eager]_latency": 100.0, "test_train[timm_regnet-cuda-eager]_gmem": 4.0},
}  # fmt: skip
CPU = {
    "name": "cpu", "environ": {"pytorch_git_version": "aa"},
    "metrics": {"resnet50-eval_latency": 30.0, "resnet50-eval_throughput": 33.0, "resnet50-eval_cmem": 0.5},
}  # fmt: skip
TABLE = "inductor_torchbench_amp_bf16_inference_cuda_performance.csv"
HEADER = (
    "dev,name,batch_size,speedup,abs_latency,compilation_latency,compression_ratio,eager_peak_mem,dynamo_peak_mem,"
    "calls_captured,unique_graphs,graph_breaks,unique_graph_breaks\n"
)
BERT = "cuda,BERT_pytorch,16,2.0,12.5,30.5,0.9,1.25,1.5,500,1,0,0\n"
FAILED = "cuda,moco,0,0.0,0.0,0.0,0.0,0.0,0.0,0,0,0,0\n"


@pytest.fixture
def write(tmp_path):
    def written(content, name="metrics-20240102030405.json"):
        (tmp_path / name).write_text(content if isinstance(content, str) else json.dumps(content))
        return File(tmp_path / name, name, given=True)

    return written


def read(file):
    items = list(TorchBench().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    rows = [event for event in events if ".run." not in event["type"]]
    return [event["data"] for event in rows], [item for item in items if isinstance(item, Refused)]


def test_the_metrics_of_one_configuration_are_one_measurement(write):
    (bert, llama, alexnet), (score,) = read(write(METRICS))
    assert bert["model"] == {"id": "torchbench/hf_Bert"}
    assert bert["workload"] == {"mode": "inference", "scenario": "single_stream", "batch_size": 4}
    assert bert["execution"] == {
        "platform": "cuda", "runtime": {"name": "torch"}, "options": {"extra_args": "--precision fp16"},
    }  # fmt: skip
    assert bert["hardware"] == {"id": "nvidia-a100-sxm-40gb", "kind": "gpu", "count": 1}
    assert bert["environment"]["libraries"] == {"torch": "git-0123456789ab"}
    assert bert["metrics"] == {
        "latency_ms": {"p50": 8.5}, "peak_memory_bytes": 2 * 2**30, "device_memory_bytes": 3 * 2**29,
    }  # fmt: skip
    assert (llama["outcome"], llama["workload"]) == ("unsupported", {"mode": "training"})
    assert (alexnet["test"], alexnet["outcome"], alexnet["stage"]) == ("accuracy", "failed", "verify")
    assert alexnet["hardware"]["id"] == "unknown-cpu"
    assert score.field == "metrics.v3_score" and json.loads(score.content)["metrics"] == {"v3_score": 1000.0}


def test_nightly_names_and_those_of_the_cpu_benchmark(write):
    (regnet,), _ = read(write(NIGHTLY))
    assert regnet["model"]["id"] == "torchbench/timm_regnet"
    assert regnet["workload"] == {"mode": "training"}
    assert regnet["metrics"] == {"latency_ms": {"p50": 100.0}, "device_memory_bytes": 4 * 2**30}
    (resnet,), _ = read(write(CPU, "metrics-1.json"))
    assert resnet["execution"]["platform"] == "cpu"
    assert resnet["metrics"] == {
        "latency_ms": {"mean": 30.0}, "throughput_per_s": 33.0, "peak_memory_bytes": 2**29,
    }  # fmt: skip


def test_a_dynamo_table_says_the_rest_in_its_name(write):
    (bert, moco), refused = read(write(HEADER + BERT + HEADER + FAILED, TABLE))
    assert refused == []
    assert bert["model"]["id"] == "torchbench/BERT_pytorch"
    assert bert["workload"] == {"mode": "inference", "scenario": "single_stream", "batch_size": 16}
    assert bert["execution"] == {
        "platform": "cuda", "runtime": {"name": "torch"}, "precision": "amp-bf16", "compiled": True,
        "options": {"compiler": "inductor"},
    }  # fmt: skip
    assert bert["metrics"] == {
        "latency_ms": {"p50": 12.5}, "compile_ms": 30500.0, "device_memory_bytes": 1_500_000_000,
    }  # fmt: skip
    assert bert["imported"]["original"]["speedup"] == 2.0
    assert moco["outcome"] == "error" and "metrics" not in moco


def test_what_a_cpu_table_calls_gigabytes_is_not_taken(write):
    name = "inductor_timm_models_float32_inference_cpu_performance.csv"
    (row,), _ = read(write(HEADER + BERT.replace("cuda,BERT_pytorch", "cpu,resnest101e"), name))
    assert row["model"]["id"] == "timm/resnest101e"
    assert row["metrics"] == {"latency_ms": {"p50": 12.5}, "compile_ms": 30500.0}


@pytest.mark.parametrize(
    ("word", "outcome"),
    [("pass", "passed"), ("fail_accuracy", "failed"), ("eager_1st_run_OOM", "out_of_memory"), ("timeout", "timeout"),
     ("model_fail_to_load", "unsupported"), ("infra_error", "error")],
)  # fmt: skip
def test_accuracy_tables_are_tests(write, word, outcome):
    name = "inductor-huggingface-amp_fp16-training-xpu-accuracy.csv"
    (row,), _ = read(write(f"dev,name,batch_size,accuracy\nxpu,BertForMaskedLM,4,{word}\n", name))
    assert (row["test"], row["outcome"]) == ("accuracy", outcome)
    assert (row["workload"]["mode"], row["execution"]["precision"]) == ("training", "amp-fp16")
    assert row["hardware"] == {"id": "unknown-gpu", "kind": "gpu", "count": 1}


def test_a_table_whose_name_does_not_say_how_it_ran_is_refused(write):
    with pytest.raises(BadFile, match="mode"):
        read(write(HEADER + BERT, "speedups.csv"))


def test_bad_values_are_refused_alone_with_a_file_to_mend(write):
    rows, (refused,) = read(write(HEADER + BERT.replace("12.5", "fast") + BERT, TABLE))
    assert (refused.row, refused.field, len(rows)) == (2, "abs_latency", 1)
    assert refused.content == HEADER + BERT.replace("12.5", "fast")
    broken = {**NIGHTLY, "metrics": {"test_eval[a-cuda-eager]_latency": [1], **NIGHTLY["metrics"]}}
    rows, (refused,) = read(write(broken))
    assert len(rows) == 1 and list(json.loads(refused.content)["metrics"]) == ["test_eval[a-cuda-eager]_latency"]


def test_recognised_and_read_twice_alike(write):
    file = write(METRICS)
    assert TorchBench().sniff(file) and TorchBench().sniff(write(HEADER + BERT, TABLE))
    assert not TorchBench().sniff(write("name,batch_size,speedup\na,1,2\n", "other.csv"))
    assert not TorchBench().sniff(write({"name": "x", "benchmarks": []}, "other.json"))
    assert list(TorchBench().rows(file)) == list(TorchBench().rows(file))
