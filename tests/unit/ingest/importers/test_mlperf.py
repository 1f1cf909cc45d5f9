"""MLPerf: logs of a run by their folders, the checker's JSON, the flattened and the exported table. Samples are ours."""

from __future__ import annotations

import json

import pytest

from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.mlperf.mlperf import MLPerf
from ingest.importers.mlperf.vocabulary import System, benchmark_of, counts_tokens, runtime_named, scenario_of
from ingest.importers.refusals import BadRow, Refused

RESULT = {
    "ID": "5.1-0900", "Submitter": "Acme", "Availability": "available", "Category": "closed", "Suite": "datacenter",
    "System": "Acme Box 7", "Platform": "AcmeBox_H100x8_TRT", "UsedModel": "llama2-70b-99.9", "Model": "llama2-70b-99.9",
    "Scenario": "Interactive", "Accuracy": "ROUGE1: 44.1", "Nodes": 2, "Processor": "AMD EPYC 9654",
    "host_processors_per_node": 2, "host_processor_core_count": "96", "Accelerator": "NVIDIA H100-SXM-80GB", "a#": 8,
    "Location": "closed/Acme/results/AcmeBox_H100x8_TRT/llama2-70b-99.9/Interactive",
    "Software": "TensorRT 10.8, CUDA 12.9", "operating_system": "Ubuntu 24.04", "Notes": "", "compliance": 1, "errors": 0,
    "version": "v5.1", "inferred": 0, "has_power": False, "weight_data_types": "fp8", "p#": 2,
    "Performance_Result": 12345.5, "Performance_Units": "Tokens/s",
}  # fmt: skip
SUMMARY = [RESULT]
FLAT_HEADER = (
    "uid,experiment,version,Division,Organization,SystemName,Platform,accelerator_model_name,accelerators_per_node,"
    "number_of_nodes,host_processor_model_name,host_processors_per_node,host_processor_core_count,framework,Model,"
    "MlperfModel,Scenario,Result,Result_Units,Units,Accuracy,Result_Power,Result_Power_Units,Availability,inferred\n"
)
FLAT_MULTI = (
    "u1,mlperf-inference--v3.0--edge--closed-power--image-classification--multistream,v3.0,closed,Acme,Edge box,"
    'edge_l4,NVIDIA L4,1,1.0,AMD EPYC 7313P 16-Core Processor,1.0,16,"TensorRT 9.0.0, CUDA 12.2",resnet50,resnet,'
    "MultiStream,0.75,Latency (ms),Latency (ms),76.07,52.5,millijoules,available,1.0\n"
)
FLAT_OPEN = (
    "u2,mlperf-inference--v4.0--edge--open--image-classification--offline,v4.0,open,Acme,Board,"
    "board-tflite-ruy,NVIDIA Orin,1,1.0,Arm Cortex-A78AE v8.2,1.0,12,TFLite v2.11.0 (ruy),mobilenet-v1-0.5-224-quantized,"
    "resnet,Offline,228.5,Samples/s,Samples/s,64.3,,,available,0.0\n"
)
FLAT_POWER_ONLY = (
    "u3,mlperf-inference--v4.0--edge--open-power--image-classification--offline,v4.0,open,Acme,Board,board,N/A,0,1.0,"
    "Arm Cortex-A78AE v8.2,1.0,12,TFLite vmaster,resnet50,resnet,Offline,,Watts,Watts,64.3,12.5,,available,0.0\n"
)
FLAT_TRAINING = (
    "u4,mlperf-training--1.0--closed--language-processing,1.0,,Acme,,,NVIDIA A100-SXM4-80GB,,,Xeon,,,MXNet,,,,46.5,min.,,"
    "0.72,,,,\n"
)
TINY = (
    "uid,experiment,version,Division,Submitter,SystemName,Model,MlperfModel,Scenario,Result,Accuracy,Benchmark,"
    "Processor(s) Name,SoC Name,Inference Framework,median_throughput,median_throughput_metric,median_energy_cost,"
    "median_energy_cost_metric\n"
    "t1,mlperf-tiny--v1.1--closed--kws,v1.1,closed,Acme,,,,,587.3,77.4,kws,32-bit Arm Cortex-M7,STM32F746NG,TFLite 2.1.0,"
    "587.3,inf./sec.,250.5,uj/inf.\n"
)
EXPORTED = (
    ",,,,,,,Benchmark  /  Model MLC  /  Scenario  /  Units,,,\r\n"
    ",,,,,,,Inference,,,\r\n"
    ",,,,,,,llama2-70b-99,,llama3.1-8b-datacenter,dlrm-v2-99\r\n"
    ",,,,,,,Offline,Server,Offline,Offline\r\n"
    "Public ID,Organization,System Name (click + for details),# of Nodes,Accelerator,# of Accelerators,,Tokens/s,Tokens/s,"
    "Samples/s,Samples/s\r\n"
    "5.1-0901,Acme,Acme Box,2,AMD Instinct MI300X 192GB HBM3,8,# of Accelerators,8,8,,4\r\n"
    ",,,,,,# of Nodes,2,2,,1\r\n"
    ',,,,,,Avg. Result at System Name,"27,803.90","24,593.77",,584\r\n'
    '5.1-0902,Acme,Other Box,1,N/A,0,Avg. Result at System Name,,,"1,403.84",oops\r\n'
)


def line(key, value):
    told = {"key": key, "value": value, "time_ms": 0.01, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME",
            "metadata": {"is_error": False, "is_warning": False, "file": "loadgen.cc", "line_no": 1, "pid": 1, "tid": 1}}  # fmt: skip
    return f":::MLLOG {json.dumps(told)}\n"


DETAIL = "".join(
    line(key, value)
    for key, value in {
        "loadgen_version": "5.1 @ 0123456", "test_datetime": "2026-03-01T10:00:00Z", "requested_scenario": "Server",
        "requested_test_mode": "PerformanceOnly", "requested_server_target_qps": 73.5, "result_validity": "INVALID",
        "requested_qsl_rng_seed": 10688027786191513374, "result_invalid_reason": "Reduce target QPS.",
        "generated_samples_per_query": 1, "result_query_count": 50_000, "result_completed_samples_per_sec": 73.2,
        "result_completed_tokens_per_second": 21_000.5, "result_min_latency_ns": 1_000_000,
        "result_max_latency_ns": 9_000_000, "result_mean_latency_ns": 4_000_000,
        "result_50.00_percentile_latency_ns": 3_900_000, "result_90.00_percentile_latency_ns": 5_000_000,
        "result_97.00_percentile_latency_ns": 6_000_000, "result_99.00_percentile_latency_ns": 7_000_000,
        "result_first_token_50.00_percentile_latency_ns": 250_000_000,
        "result_first_token_99.00_percentile_latency_ns": 1_900_000_000,
        "result_time_to_output_token_mean": 40_000_000,
    }.items()
)  # fmt: skip
SUMMARY_TEXT = (
    "================================================\nMLPerf Results Summary\n"
    "================================================\nSUT name : PySUT\nScenario : SingleStream\n"
    "Mode     : PerformanceOnly\n90th percentile latency (ns) : 2500000\nResult is : VALID\n"
    "  Min duration satisfied : Yes\n\n"
    "================================================\nAdditional Stats\n"
    "================================================\nQPS w/ loadgen overhead         : 480.1\n\n"
    "Min latency (ns)                : 1900000\nMax latency (ns)                : 9100000\n"
    "Mean latency (ns)               : 2080000\n50.00 percentile latency (ns)   : 2000000\n"
    "90.00 percentile latency (ns)   : 2500000\n\nsamples_per_query : 1\ntarget_qps : 500\n"
)
SYSTEM = {
    "submitter": "Acme", "system_name": "AcmeBox", "number_of_nodes": "1", "accelerators_per_node": 4,
    "accelerator_model_name": "NVIDIA L40S", "host_processor_model_name": "AMD EPYC 9654",
    "host_processors_per_node": "2", "host_processor_core_count": "96", "framework": "vLLM v0.9.1, CUDA 12.4",
    "operating_system": "Ubuntu 24.04",
}  # fmt: skip


@pytest.fixture
def write(tmp_path):
    def written(content, name):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return File(path, path.name, given=True)

    return written


def read(file):
    assert MLPerf().sniff(file)
    items = list(MLPerf().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    assert items == list(MLPerf().rows(file))
    return [event for event in events if ".run." not in event["type"]], [i for i in items if isinstance(i, Refused)]


def test_a_result_of_the_checker_keeps_what_was_demanded_and_counts_every_node(write):
    (event,), refused = read(write(json.dumps(SUMMARY), "summary_results.json"))
    data = event["data"]
    assert refused == [] and "time" not in event
    assert data["model"] == {
        "id": "meta-llama/Llama-2-70b-chat-hf", "category": "text_generation", "task": "text-generation",
    }  # fmt: skip
    assert data["workload"] == {"mode": "inference", "scenario": "server"}
    assert data["execution"] == {
        "platform": "cuda", "runtime": {"name": "tensorrt", "version": "10.8"}, "precision": "fp8",
        "options": {"accuracy_target": "99.9%", "constraint": "interactive"},
    }  # fmt: skip
    assert data["hardware"] == {"id": "nvidia-h100-sxm", "kind": "gpu", "count": 16}
    assert data["metrics"] == {"tokens_per_s": 12345.5}
    assert data["environment"]["libraries"] == {"tensorrt": "10.8", "cuda": "12.9"}
    assert data["provenance"]["licence"] == "Apache-2.0"
    assert data["imported"]["original"]["Submitter"] == "Acme" and "validity" not in data


def test_the_same_figure_for_two_demands_is_two_results(write):
    both = [
        RESULT,
        RESULT | {"UsedModel": "llama2-70b-99", "Location": "closed/Acme/results/x/llama2-70b-99/Interactive"},
    ]
    events, _ = read(write(json.dumps(both), "summary_results.json"))
    assert len({event["id"] for event in events}) == 2
    assert [event["data"]["execution"]["options"]["accuracy_target"] for event in events] == ["99.9%", "99%"]


def test_what_no_result_is_refused_alone_with_the_smallest_file_that_holds_it(write):
    broken = [
        RESULT | {"Scenario": "Sideways"},
        7,
        RESULT | {"Performance_Units": "furlongs"},
        RESULT | {"a#": "eight"},
    ]
    events, refused = read(write(json.dumps([*broken, RESULT]), "summary_results.json"))
    assert [(one.row, one.field) for one in refused] == [(1, "Scenario"), (2, "result"), (3, "Performance_Result")]
    assert json.loads(refused[0].content) == [broken[0]]
    assert [event["data"]["hardware"]["count"] for event in events] == [2, 16]


def test_multistream_is_a_call_of_eight_with_its_99th_percentile_and_energy_and_inferred_is_suspect(write):
    (event,), _ = read(write(FLAT_HEADER + FLAT_MULTI, "all.csv"))
    data = event["data"]
    assert data["model"]["id"] == "microsoft/resnet-50"
    assert data["workload"] == {"mode": "inference", "scenario": "single_stream", "batch_size": 8}
    assert data["metrics"] == {"latency_ms": {"p99": 0.75}, "energy_j": 0.0525}
    assert data["imported"]["rules"] == ["inferred-result"]
    assert data["validity"]["verdict"] == "suspect" and data["provenance"]["origin"] == "imported"


def test_kernels_for_cpu_cores_ran_on_the_cpu_whatever_else_the_board_has(write):
    events, refused = read(write(FLAT_HEADER + FLAT_OPEN + FLAT_POWER_ONLY, "all.csv"))
    assert refused == []
    data = events[0]["data"]
    assert data["model"] == {"id": "mobilenet-v1-0.5-224-quantized"}
    assert data["execution"] == {"platform": "cpu", "runtime": {"name": "tflite", "version": "2.11.0"}}
    assert data["hardware"] == {"id": "arm-cortex-a78ae-v8-2-12c", "kind": "cpu", "count": 1}
    assert data["metrics"] == {"throughput_per_s": 228.5}
    assert events[1]["data"]["metrics"] == {"power_w": 12.5}


def test_times_to_train_are_refused_with_the_reason(write):
    events, (refused,) = read(write(FLAT_HEADER + FLAT_TRAINING, "all.csv"))
    assert events == [] and "time to train" in refused.reason and refused.row == 2
    assert refused.content is not None and refused.content.startswith("uid,experiment")


def test_rows_of_tiny_are_inferences_one_after_another_with_their_energy(write):
    (event,), refused = read(write(TINY, "all.csv"))
    data = event["data"]
    assert refused == [] and data["model"]["id"] == "mlperf/tiny-kws"
    assert data["workload"] == {"mode": "inference", "scenario": "single_stream", "batch_size": 1}
    assert data["hardware"] == {"id": "stm32f746ng", "kind": "other", "count": 1}
    assert data["execution"] == {"platform": "other", "runtime": {"name": "tflite", "version": "2.1.0"}}
    assert data["metrics"] == {"throughput_per_s": 587.3, "energy_j": pytest.approx(250.5e-6)}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_the_exported_table_is_read_cell_by_cell(write, encoding):
    content = EXPORTED if encoding == "utf-8" else EXPORTED.replace('"27,803.90","24,593.77"', "27803.90,24593.77")
    content = content if encoding == "utf-8" else content.replace('"1,403.84"', "1403.84").replace(",", "\t")
    events, (refused,) = read(write(content.encode(encoding), "mlperf-5.1.csv"))
    assert [event["data"]["metrics"] for event in events] == [
        {"tokens_per_s": 27803.9}, {"tokens_per_s": 24593.77}, {"throughput_per_s": 584.0}, {"tokens_per_s": 1403.84},
    ]  # fmt: skip
    assert [event["data"]["hardware"] for event in events] == [
        {"id": "amd-instinct-mi300x", "kind": "gpu", "count": 16}, {"id": "amd-instinct-mi300x", "kind": "gpu", "count": 16},
        {"id": "amd-instinct-mi300x", "kind": "gpu", "count": 4}, {"id": "unknown-cpu", "kind": "cpu", "count": 1},
    ]  # fmt: skip
    assert events[0]["data"]["execution"]["platform"] == "rocm"
    assert (refused.row, refused.field) == (9, "dlrm-v2-99 Offline")
    alone, (again,) = read(write(refused.content, "mlperf-mended.csv"))
    assert alone == [] and again.reason == refused.reason
    mended, none = read(write(refused.content.replace("oops", "12.5"), "mlperf-mended.csv"))
    assert none == [] and mended[0]["data"]["metrics"] == {"throughput_per_s": 12.5}


def test_a_detailed_log_is_placed_by_its_folders_and_described_beside_them(write):
    write(json.dumps(SYSTEM), "closed/Acme/systems/AcmeBox.json")
    file = write(DETAIL, "closed/Acme/results/AcmeBox/llama2-70b-99/Server/performance/run_1/mlperf_log_detail.txt")
    (event,), refused = read(file)
    data = event["data"]
    assert refused == [] and event["time"] == "2026-03-01T10:00:00+00:00"
    assert data["hardware"] == {"id": "nvidia-l40s", "kind": "gpu", "count": 4}
    assert data["execution"] == {
        "platform": "cuda", "runtime": {"name": "vllm", "version": "0.9.1"}, "options": {"accuracy_target": "99%"},
    }  # fmt: skip
    assert data["workload"] == {"mode": "inference", "scenario": "server", "arrival_rate_per_s": 73.5}
    assert data["metrics"] == {
        "latency_ms": {"mean": 4.0, "min": 1.0, "max": 9.0, "p50": 3.9, "p90": 5.0, "p99": 7.0, "n": 50000},
        "throughput_per_s": 73.2, "tokens_per_s": 21000.5, "ttft_ms": 250.0, "tpot_ms": 40.0,
    }  # fmt: skip
    assert data["validity"]["verdict"] == "suspect" and data["imported"]["rules"] == ["constraints-missed"]
    assert data["imported"]["original"]["result_first_token_99.00_percentile_latency_ns"] == 1_900_000_000


def test_offline_latencies_wait_for_each_other_and_are_left_out(write):
    offline = DETAIL.replace('"Server"', '"Offline"').replace(
        "result_completed_samples_per_sec", "result_samples_per_second"
    )
    (event,), _ = read(write(offline, "results/AcmeBox/bert-99/Offline/performance/run_1/mlperf_log_detail.txt"))
    assert "latency_ms" not in event["data"]["metrics"] and event["data"]["metrics"]["throughput_per_s"] == 73.2
    assert event["data"]["hardware"] == {"id": "acmebox", "count": 1}


def test_a_summary_is_the_run_where_no_detailed_log_lies_beside_it(write):
    folder = "results/AcmeBox/resnet50/SingleStream/performance/run_1"
    (event,), refused = read(write(SUMMARY_TEXT, f"{folder}/mlperf_log_summary.txt"))
    assert refused == []
    assert event["data"]["workload"] == {"mode": "inference", "scenario": "single_stream", "batch_size": 1}
    assert event["data"]["metrics"] == {"latency_ms": {"mean": 2.08, "min": 1.9, "max": 9.1, "p50": 2.0, "p90": 2.5}}
    detail = write(DETAIL, f"{folder}/mlperf_log_detail.txt")
    beside = detail.path.with_name("mlperf_log_summary.txt")
    assert not MLPerf().sniff(File(beside, f"tree/{folder}/{beside.name}"))


def test_logs_without_their_folders_or_results_are_refused(write):
    events, (refused,) = read(write(DETAIL, "mlperf_log_detail.txt"))
    assert events == [] and refused.field == "path"
    accuracy = DETAIL.replace("PerformanceOnly", "AccuracyOnly")
    _, (refused,) = read(write(accuracy, "results/a/bert-99/Server/accuracy/mlperf_log_detail.txt"))
    assert "accuracy" in refused.reason


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ('[{"Scenario": "x"}]', "summary_results.json"),
        ("model,infer_step_time\n", "benchmark-infer.csv"),
        (":::MLLOG {}\n", "result_0.txt"),
        ("MLPerf Results Summary\n", "notes.txt"),
        ("Public ID,Organization\n", "ids.csv"),
    ],
)
def test_other_files_are_not_claimed(write, content, name):
    assert not MLPerf().sniff(write(content, name))


def test_names_mean_what_the_rules_say():
    assert benchmark_of("llama2-70b-interactive-99.9")[1:] == (
        "llama2-70b", {"accuracy_target": "99.9%", "constraint": "interactive"},
    )  # fmt: skip
    assert benchmark_of("gptj-99").model["id"] == "EleutherAI/gpt-j-6b"
    assert benchmark_of("llama3_1-8b-edge").model["id"] == "meta-llama/Llama-3.1-8B-Instruct"
    assert benchmark_of("my own net").model["id"] == "my-own-net"
    assert counts_tokens("gptj", "server", (4, 1)) and not counts_tokens("gptj", "server", (4, 0))
    assert counts_tokens("llama2-70b", "offline", (4, 0)) and not counts_tokens("llama2-70b", "server", (4, 0))
    assert not counts_tokens("bert", "offline", (5, 1)) and not counts_tokens("whisper", "offline", None)
    assert scenario_of("Single-Stream") == ("single_stream", 1, "singlestream")
    with pytest.raises(BadRow, match="scenario"):
        scenario_of("sideways")
    assert runtime_named("cTuning TFLite, ARMNN v23.05") == {"name": "armnn", "version": "23.05"}
    assert runtime_named("vLLM 0.9.0.2.dev108+g71faa, Pytorch 2.7.0") == {
        "name": "vllm",
        "version": "0.9.0.2.dev108+g71faa",
    }
    assert runtime_named("magic") is None


def test_which_device_ran_is_said_by_the_software_not_by_the_harness():
    def ran(software, name, accelerators=8):
        return System(accelerator="NVIDIA L40S", accelerators=accelerators, software=software, name=name).device()[1]

    assert ran("vLLM 0.5.2", "vLLM_8xL40S-reference-cpu-pytorch-v2.3.1") == "cuda"
    assert ran("Onnxruntime v1.16.3", "box-reference-cpu-onnxruntime") == "cpu"
    assert ran("Pytorch 2.1", "box-reference-gpu-pytorch", accelerators=0) == "cuda"
    assert ran("TFLite (xnnpack)", "box") == "cpu" and ran("Pytorch 2.1", "box", accelerators=0) == "cpu"


def test_another_model_of_the_open_division_is_counted_as_its_benchmark_is(write):
    row = FLAT_OPEN.replace("mobilenet-v1-0.5-224-quantized,resnet", "acme_Llama-2-7b-FP8,llama2-70b-99").replace(
        "v4.0", "v4.1"
    )
    (event,), _ = read(write(FLAT_HEADER + row, "all.csv"))
    assert event["data"]["model"]["id"] == "acme_Llama-2-7b-FP8" and event["data"]["metrics"] == {"tokens_per_s": 228.5}


def test_a_slice_of_a_device_is_not_the_device():
    (slice_, platform) = System(accelerator="NVIDIA A100-SXM-80GB (1x1g.10gb MIG)", accelerators=1).device()
    assert slice_["id"] != "nvidia-a100-sxm-80gb" and platform == "cuda"
    assert System(accelerator="NVIDIA A100-SXM-80GB CTS", accelerators=8).device()[0]["id"] == "nvidia-a100-sxm-80gb"
    assert System(accelerator="NVIDIA GeForce RTX 4090 (Ada Lovelace)").device()[0]["id"] == "nvidia-rtx-4090"
    assert System(accelerator="NVIDIA A100-SXM-80GB", accelerators=8).device()[0]["id"] == "nvidia-a100-sxm-80gb"
    assert System(accelerator="-", processor="2xAMD EPYC 9654", cores=96).device() == (
        {"id": "amd-epyc-9654", "kind": "cpu", "count": 1}, "cpu",
    )  # fmt: skip
