"""onnxruntime_perf_test's log and result file, benchmark.py's tables. The samples are ours, in the exact shapes."""

from __future__ import annotations

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.reading import BadFile
from ingest.importers.refusals import Refused
from ingest.importers.vendor.onnxruntime_perf import OnnxRuntimePerf

LOG = """Session creation time cost: 0.25 s
First inference time cost: 12 ms
Total inference time cost: 2 s
Total inference requests: 200
Average inference time cost: 10 ms
Total inference run time: 2.01 s
Number of inferences per second: 99.5
Avg CPU usage: 50 %
Peak working set size: 104857600 bytes
Avg CPU usage:50
Peak working set size:104857600
Runs:200
Min Latency: 0.008 s
Max Latency: 0.02 s
P50 Latency: 0.0095 s
P90 Latency: 0.012 s
P95 Latency: 0.013 s
P99 Latency: 0.019 s
P999 Latency: 0.02 s
"""
COMMAND = "+ ./onnxruntime_perf_test -e tensorrt -m times -r 200 -x 4 -A /models/resnet50/model.onnx\n"
DETAIL = (
    "engine,version,providers,device,precision,optimizer,io_binding,model_name,inputs,threads,batch_size,sequence_length,"
    "custom_layer_num,datetime,test_times,QPS,average_latency_ms,latency_variance,latency_90_percentile,"
    "latency_95_percentile,latency_99_percentile\n"
)
ORT = (
    "onnxruntime,1.18.0,cuda,cuda,fp16,by_script,True,bert-base-uncased,1,-1,8,128,,2024-05-06 07:08:09.123,100,"
    "1600.00,5.00,0.00,5.50,6.00,7.00\n"
)
TORCH = "torch2,2.3.0,NA,cpu,fp32,,,bert-base-uncased,1,4,1,16,,2024-05-06 07:08:10.123,100,50.00,20.00,0.00,21.00,22.00,23.00\n"
SUMMARY = (
    "model_name,inputs,custom_layer_num,engine,version,providers,device,precision,optimizer,io_binding,threads,b1_s8,b4_s8\n"
    "gpt2,1,,onnxruntime,1.18.0,cuda,cuda,fp16,by_ort,False,-1,2.00,\n"
)


@pytest.fixture
def write(tmp_path):
    def written(content, name="resnet50.log", given=True):
        (tmp_path / name).write_text(content)
        return File(tmp_path / name, name, given=given)

    return written


def read(file):
    items = list(OnnxRuntimePerf().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    rows = [event["data"] for event in events if ".run." not in event["type"]]
    return rows, [item for item in items if isinstance(item, Refused)]


def test_a_log_with_its_command_names_model_provider_and_threads(write):
    (row,), refused = read(write(COMMAND + LOG, "stdout.log"))
    assert refused == []
    assert row["model"]["id"] == "microsoft/resnet-50"
    assert row["workload"] == {"mode": "inference", "scenario": "single_stream"}
    assert row["execution"] == {
        "platform": "cuda", "runtime": {"name": "onnxruntime"}, "threads": 4, "options": {"provider": "tensorrt"},
    }  # fmt: skip
    assert row["hardware"] == {"id": "unknown-gpu", "kind": "gpu", "count": 1}
    assert row["metrics"] == {
        "latency_ms": {"min": 8.0, "max": 20.0, "p50": 9.5, "p90": 12.0, "p95": 13.0, "p99": 19.0, "mean": 10.0, "n": 200},
        "load_ms": 250.0, "first_run_ms": 12.0, "peak_memory_bytes": 104857600,
    }  # fmt: skip
    assert row["imported"]["original"] == {
        "Number of inferences per second (1)": 99.5, "Avg CPU usage (%)": 50.0, "P999 Latency (s)": 0.02,
    }  # fmt: skip


def test_a_log_without_a_command_says_the_model_by_its_name_and_no_platform(write):
    (row,), _ = read(write(LOG))
    assert row["model"]["id"] == "microsoft/resnet-50"
    assert row["execution"]["platform"] == "other"
    assert row["hardware"] == {"id": "unknown", "kind": "other", "count": 1}
    _, (refused,) = read(write(LOG, "output.log"))
    assert refused.field == "model"


def test_a_log_of_several_runs_gives_one_row_each(write):
    second = COMMAND.replace("tensorrt", "cpu").replace("resnet50/model", "vgg16") + LOG.replace("0.0095", "0.0085")
    rows, _ = read(write(COMMAND + LOG + second, "all.log"))
    assert [(row["execution"]["platform"], row["metrics"]["latency_ms"]["p50"]) for row in rows] == [
        ("cuda", 9.5), ("cpu", 8.5),
    ]  # fmt: skip


def test_the_log_of_an_older_version(write):
    (row,), _ = read(write("Total time cost:2\nTotal iterations:100\nAverage time cost:20 ms\nP50 Latency is 0.019 sec\n", "vgg16.txt"))  # fmt: skip
    assert row["metrics"]["latency_ms"] == {"p50": 19.0, "mean": 20.0, "n": 100}


def test_a_result_file_is_one_row_a_series_with_what_its_calls_support(write):
    first = "".join(f"squeezenet,{0.01 + 0.0001 * run},1000,20,{run}\n" for run in range(50))
    older = "".join(f"vgg,20000000,4000,10,{run}\n" for run in range(3))
    file = write(first + "\nMin Latency: 0.01 s\nP50 Latency: 0.0125 s\n" + older, "result.csv")
    assert OnnxRuntimePerf().sniff(file)
    (squeezenet, vgg), refused = read(file)
    assert refused == []
    latency = squeezenet["metrics"]["latency_ms"]
    assert (latency["n"], latency["min"], latency["p50"]) == (50, 10.0, pytest.approx(12.45))
    assert "p90" in latency and "p95" not in latency
    assert vgg["metrics"]["latency_ms"]["mean"] == pytest.approx(20.0)
    assert vgg["metrics"]["peak_memory_bytes"] == 4000


def test_details_of_benchmark_py_and_headers_that_repeat(write):
    (ort, torch), refused = read(write(DETAIL + ORT + DETAIL + TORCH, "benchmark_detail.csv"))
    assert refused == []
    assert ort["model"]["id"] == "google-bert/bert-base-uncased"
    assert ort["workload"] == {
        "mode": "inference", "scenario": "single_stream", "batch_size": 8, "sequence_length": 128,
    }  # fmt: skip
    assert ort["execution"] == {
        "platform": "cuda", "runtime": {"name": "onnxruntime", "version": "1.18.0"}, "precision": "fp16",
        "options": {"optimizer": "by_script", "io_binding": "True", "inputs": "1"},
    }  # fmt: skip
    assert ort["metrics"] == {
        "latency_ms": {"mean": 5.0, "p90": 5.5, "p95": 6.0, "p99": 7.0, "n": 100}, "throughput_per_s": 1600.0,
    }  # fmt: skip
    assert torch["execution"]["runtime"] == {"name": "torch", "version": "2.3.0"}
    assert torch["execution"]["compiled"] is True and torch["execution"]["threads"] == 4
    assert torch["imported"]["original"] == {"datetime": "2024-05-06 07:08:10.123"}


def test_the_same_figures_at_another_time_are_another_row(write):
    file = write(DETAIL + ORT + ORT.replace("07:08:09", "08:08:09"), "benchmark_detail.csv")
    ids = [event["id"] for event in OnnxRuntimePerf().rows(file) if "recorded" in event["type"]]
    assert len(set(ids)) == 2


def test_summaries_and_fusions_are_read_or_refused_only_where_they_are_named(write):
    named = write(SUMMARY, "benchmark_summary.csv")
    assert OnnxRuntimePerf().sniff(named)
    (row,), _ = read(named)
    assert (row["workload"]["batch_size"], row["metrics"]) == (1, {"latency_ms": {"mean": 2.0}})
    assert not OnnxRuntimePerf().sniff(write(SUMMARY, "benchmark_summary.csv", given=False))
    with pytest.raises(BadFile, match="no measurement"):
        read(write("model_filename,datetime,transformers,torch,Attention\na,b,c,d,12\n", "fusion.csv"))


def test_a_bad_row_is_refused_alone_with_a_file_to_mend(write):
    bad = ORT.replace(",5.00,", ",five,")
    rows, (refused,) = read(write(DETAIL + bad + TORCH, "benchmark_detail.csv"))
    assert (refused.row, refused.field, len(rows)) == (2, "average_latency_ms", 1)
    assert refused.content == DETAIL + bad


def test_recognised_and_read_twice_alike(write):
    file = write(COMMAND + LOG)
    assert OnnxRuntimePerf().sniff(file) and OnnxRuntimePerf().sniff(write(DETAIL + ORT, "d.csv"))
    assert not OnnxRuntimePerf().sniff(write("model,latency_ms\nresnet50,1\n", "other.csv"))
    assert not OnnxRuntimePerf().sniff(write("nothing happened\n", "other.log"))
    assert list(OnnxRuntimePerf().rows(file)) == list(OnnxRuntimePerf().rows(file))
