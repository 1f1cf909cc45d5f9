"""Reports of OpenVINO's benchmark_app: both files, names of several versions, failures. The samples are ours."""

from __future__ import annotations

import json

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.vendor.benchmark_app import BenchmarkApp

CPP = """Command line parameters
m;/home/jane/models/resnet-50.xml
d;CPU
hint;throughput
infer_precision;f32
report_type;no_counters

Configuration setup
benchmark mode;inference only
topology;main_graph
target device;CPU
API;async
precision;dynamic
batch size;2
number of iterations;0
number of parallel infer requests;4
duration (ms);60000
number of CPU streams;4

Execution results
read model time (ms);12.50
compile model time (ms);150.25
first inference time (ms);9.75
total execution time (ms);60004.00
total number of iterations;12000
Median latency (ms);19.50
Percentile boundary;50
Average latency (ms);20.00
Min latency (ms);15.00
Max latency (ms);48.00
throughput;400.00

"""
PYTHON = """Command line parameters
-m;resnet-50.xml
-d;GPU.1
-api;sync
-report_type;average_counters

Configuration setup
topology;Model0
target device;GPU.1
API;sync
inference_only;True
precision;UNSPECIFIED
batch size;1
number of iterations;100
number of parallel infer requests;1
duration (ms);0

Execution results
first inference time (ms);7.00
total number of iterations;100
latency (90 percentile) (ms);3.50
avg latency;3.00
min latency;2.50
max latency;6.00
throughput;333.33

"""
REPORT = {
    "cmd_options": {"m": "bert.onnx", "d": "NPU"},
    "configuration_setup": {"target_device": "NPU", "api": "sync", "batch_size": 1, "nireq": 1, "topology": "bert"},
    "execution_results": {
        "load_model_time": 900.0, "iterations_num": 50, "latency_median": 4.0, "percentile_boundary": 50,
        "latency_avg": 4.2, "latency_min": 3.9, "latency_max": 6.0, "throughput": 238.0,
        "group_latencies": [
            {"data_shape": "input[1,8]", "latency_median": 3.0, "latency_average": 3.1, "latency_min": 2.9, "latency_max": 4.0},
        ],
    },
}  # fmt: skip
COUNTERS = "layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)\nconv;EXECUTED;Convolution;jit;0.1;0.1\n"


@pytest.fixture
def write(tmp_path):
    def written(content, name="benchmark_report.csv", given=True):
        (tmp_path / name).write_text(content)
        return File(tmp_path / name, name, given=given)

    return written


def read(file):
    items = list(BenchmarkApp().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    rows = [event["data"] for event in events if ".run." not in event["type"]]
    return rows, [item for item in items if isinstance(item, Refused)]


def test_the_report_of_the_cpp_tool(write):
    (row,), refused = read(write(CPP))
    assert refused == []
    assert row["model"]["id"] == "microsoft/resnet-50"
    assert row["workload"] == {"mode": "inference", "scenario": "server", "batch_size": 2, "concurrency": 4}
    assert row["execution"] == {
        "platform": "openvino", "runtime": {"name": "openvino"}, "precision": "fp32", "streams": 4,
        "options": {"hint": "throughput"},
    }  # fmt: skip
    assert row["hardware"] == {"id": "unknown-cpu", "kind": "cpu", "count": 1}
    assert row["observed"] == {"requested": {"device": "CPU", "platform": "openvino"}}
    assert row["metrics"] == {
        "latency_ms": {"mean": 20.0, "min": 15.0, "max": 48.0, "p50": 19.5, "n": 12000},
        "throughput_per_s": 400.0, "load_ms": 12.5, "compile_ms": 150.25, "first_run_ms": 9.75,
    }  # fmt: skip
    assert "jane" not in str(row)


def test_the_report_of_the_python_tool_with_another_percentile_and_a_profiled_run(write):
    (row,), _ = read(write(PYTHON))
    assert row["workload"] == {"mode": "inference", "scenario": "single_stream", "batch_size": 1}
    assert row["hardware"] == {"id": "unknown-gpu", "kind": "gpu", "count": 1}
    assert row["execution"]["options"] == {"profiled": True}
    assert "precision" not in row["execution"]
    assert row["metrics"]["latency_ms"] == {"mean": 3.0, "min": 2.5, "max": 6.0, "p90": 3.5, "n": 100}


def test_the_json_report_and_its_groups_of_shapes(write):
    (whole, group), _ = read(write(json.dumps(REPORT), "benchmark_report.json"))
    assert whole["model"]["id"] == "bert" or "bert" in whole["model"]["id"]
    assert whole["hardware"]["id"] == "unknown-npu"
    assert whole["metrics"]["latency_ms"] == {"mean": 4.2, "min": 3.9, "max": 6.0, "p50": 4.0, "n": 50}
    assert whole["metrics"]["compile_ms"] == 900.0
    assert group["metrics"] == {"latency_ms": {"mean": 3.1, "min": 2.9, "max": 4.0, "p50": 3.0}}
    assert group["execution"]["options"] == {"shape": "input[1,8]"} and "batch_size" not in group["workload"]


def test_a_device_that_openvino_chose_itself_is_unknown(write):
    (row,), _ = read(write(CPP.replace("target device;CPU", "target device;AUTO:GPU,CPU")))
    assert row["hardware"] == {"id": "unknown", "kind": "other", "count": 1}
    assert row["execution"]["options"]["device"] == "AUTO:GPU,CPU"


def test_a_run_that_failed_is_a_failure_at_the_stage_that_it_reached(write):
    broken = CPP.partition("first inference time")[0] + "error;Exception from src/x.cpp: failed to allocate memory\n"
    (row,), _ = read(write(broken))
    assert (row["outcome"], row["stage"]) == ("out_of_memory", "first_run")
    assert row["failure"]["message"].startswith("Exception from")
    assert row["metrics"] == {"load_ms": 12.5, "compile_ms": 150.25}


def test_a_report_that_names_no_model_or_no_number_is_refused_whole(write):
    _, (nameless,) = read(write(CPP.replace("m;/home/jane/models/resnet-50.xml", "m;/home/jane/model.xml")))
    assert nameless.field == "m" and nameless.content.startswith("Command line parameters")
    _, (wrong,) = read(write(CPP.replace("throughput;400.00", "throughput;many")))
    assert wrong.field == "throughput"


def test_counters_of_layers_are_refused_where_they_are_named_and_passed_over_in_folders(write):
    named = write(COUNTERS, "benchmark_detailed_counters_report.csv")
    assert BenchmarkApp().sniff(named)
    _, (refused,) = read(named)
    assert "counters of layers" in refused.reason
    assert not BenchmarkApp().sniff(write(COUNTERS, "benchmark_detailed_counters_report.csv", given=False))


def test_recognised_by_its_beginning_and_read_twice_alike(write):
    assert BenchmarkApp().sniff(write(CPP)) and BenchmarkApp().sniff(write(json.dumps(REPORT), "r.json"))
    assert not BenchmarkApp().sniff(write("a;b\n1;2\n", "other.csv"))
    assert not BenchmarkApp().sniff(write('{"execution_results": 1}', "other.json"))
    file = write(PYTHON)
    assert list(BenchmarkApp().rows(file)) == list(BenchmarkApp().rows(file))
