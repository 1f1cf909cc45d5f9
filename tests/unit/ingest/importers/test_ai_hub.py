"""AI Hub Models' figures: both shapes of perf.yaml and the CSV, fallback, failures, language models. The samples are ours."""

from __future__ import annotations

import pytest
import yaml

from domain.events import decode_event, encode_event
from ingest.importers.files import File
from ingest.importers.refusals import Refused
from ingest.importers.vendor.ai_hub import AiHub

NEW = """supported_devices:
- Samsung Galaxy S25
precisions:
  float:
    components:
      Segment-Net:
        performance_metrics:
          Samsung Galaxy S25:
            tflite:
              job_id: jaaaaaaaa
              job_status: Passed
              inference_time_milliseconds: 2.5
              estimated_peak_memory_range_mb:
                min: 0
                max: 12
              primary_compute_unit: NPU
              layer_counts:
                total: 80
                npu: 60
                cpu: 20
              tool_versions:
                qairt: 2.41.0
                tflite: 2.17.0
            onnx:
              job_id: jbbbbbbbb
              job_status: Passed
              inference_time_milliseconds: 40.0
              estimated_peak_memory_range_mb:
                min: 3
                max: 9
              primary_compute_unit: CPU
              layer_counts:
                total: 80
                cpu: 80
              tool_versions:
                onnx_runtime: 1.23.0
            qnn_dlc:
              job_id: jcccccccc
              job_status: Failed
"""
OLD = """aggregated:
  supported_devices:
  - Samsung Galaxy S23
models:
- name: Segment-Net
  performance_metrics:
  - torchscript_onnx_tflite:
      inference_time: 2500.0
      throughput: 400.0
      estimated_peak_memory_range:
        min: 28672
        max: 1650648
      primary_compute_unit: GPU
      precision: fp16
      layer_info:
        layers_on_npu: 0
        layers_on_gpu: 80
        layers_on_cpu: 0
        total_layers: 80
      job_id: jdddddddd
      job_status: Passed
    torchscript_onnx_qnn:
      inference_time: 'null'
      throughput: 'null'
      precision: 'null'
      job_id: ''
      job_status: Skipped
    reference_device_info:
      name: Samsung Galaxy S23
      os: '13'
      form_factor: Phone
      os_name: Android
      manufacturer: Samsung
      chipset: Snapdragon® 8 Gen 2
    timestamp: '2024-04-02T15:20:53Z'
"""
LLM = """precisions:
  w4a16:
    components:
      Chatty-3B:
        performance_metrics:
          Snapdragon X Elite CRD:
            genie:
              llm_metrics:
              - context_length: 4096
                time_to_first_token_range_milliseconds: {min: 125.5, max: 4000.0}
                tokens_per_second: 18.5
              - context_length: 1024
                time_to_first_token_range_milliseconds: {min: 150.0, max: 150.0}
                tokens_per_second: 20.0
"""
HEADER = (
    "model,component,precision,device,runtime,status,latency_ms,mem_min_mb,mem_max_mb,unit,layers_total,layers_npu,"
    "layers_gpu,layers_cpu,qairt,other\n"
)
ROW = "segment_net,Segment-Net,w8a8,QCS8550 (Proxy),qnn_dlc,Passed,3.5,0.0,4.0,NPU,80.0,80.0,,,2.42.0,\n"
PART = ROW.replace("Segment-Net", "NetDecoder")
TALK = 'chatty_3b,Chatty-3B,w4a16,Snapdragon 8 Elite QRD,genie,,,,,,,,,,,"{""llm_metrics"": [{""context_length"": 4096, ""time_to_first_token_range_milliseconds"": {""min"": 58.0, ""max"": 1856.5}, ""tokens_per_second"": 29.5}]}"\n'


@pytest.fixture
def write(tmp_path):
    def written(content, name="perf.yaml"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        return File(path, path.name, given=True)

    return written


def read(file):
    items = list(AiHub().rows(file))
    events = [item for item in items if not isinstance(item, Refused)]
    assert all(decode_event(encode_event(event)).warnings == () for event in events)
    rows = [event for event in events if ".run." not in event["type"]]
    return rows, [item for item in items if isinstance(item, Refused)]


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        ("albert_base_v2_hf", {"sequence_length": 384}),
        ("yolov8_det", {"image_size": 640}),
        # Two networks of different inputs, and a network whose image is no square.
        ("mediapipe_face", {}),
        ("hrnet_pose", {}),
    ],
)
def test_the_input_is_of_the_size_that_the_manifest_of_the_model_states(write, model, sizes):
    (row, *_), refused = read(write(NEW, f"models/{model}/perf.yaml"))
    workload = row["data"]["workload"]
    assert refused == []
    assert {name: workload[name] for name in ("sequence_length", "image_size") if name in workload} == sizes


def test_the_new_shape_says_which_unit_worked_and_how_much_was_left_to_others(write):
    (on_npu, on_cpu, failed), refused = read(write(NEW, "models/segment_net/perf.yaml"))
    assert refused == []
    data = on_npu["data"]
    assert data["model"] == {"id": "ai-hub/segment_net"}
    assert data["workload"] == {"mode": "inference", "scenario": "single_stream", "batch_size": 1}
    assert data["execution"] == {
        "platform": "qnn", "runtime": {"name": "tflite", "version": "2.17.0"}, "precision": "fp16",
        "options": {"compute_unit": "npu"},
    }  # fmt: skip
    assert data["hardware"] == {"id": "samsung-galaxy-s25", "kind": "other", "count": 1}
    assert data["observed"] == {
        "device": "NPU", "platform": "qnn", "fallback_share": 0.25,
        "details": {"layers": {"total": 80, "npu": 60, "cpu": 20}},
    }  # fmt: skip
    assert data["metrics"] == {"latency_ms": {"mean": 2.5}, "peak_memory_bytes": 12 * 2**20}
    assert data["environment"]["libraries"] == {"qairt": "2.41.0", "tflite": "2.17.0"}
    assert data["imported"]["original"] == {"estimated_peak_memory_range_mb.max (MiB)": 12, "precision": "float"}
    assert on_cpu["data"]["execution"]["platform"] == "cpu"
    assert on_cpu["data"]["execution"]["precision"] == "fp32"
    assert on_cpu["data"]["execution"]["runtime"] == {"name": "onnxruntime", "version": "1.23.0"}
    assert on_cpu["data"]["observed"]["fallback_share"] == 1.0
    assert failed["type"] == "assay.measurement.failed.v1"
    assert (failed["data"]["outcome"], failed["data"]["execution"]["platform"]) == ("failed", "qnn")


def test_the_old_shape_counts_in_microseconds_and_bytes_and_has_a_time(write):
    (on_gpu, skipped), refused = read(write(OLD))
    assert refused == []
    data = on_gpu["data"]
    assert on_gpu["time"] == "2024-04-02T15:20:53Z"
    assert data["model"]["id"] == "ai-hub/Segment-Net"
    assert data["execution"] == {
        "platform": "other", "runtime": {"name": "tflite"}, "precision": "fp16",
        "options": {"artifact": "torchscript_onnx_tflite", "compute_unit": "gpu"},
    }  # fmt: skip
    assert data["metrics"] == {"latency_ms": {"mean": 2.5}, "throughput_per_s": 400.0, "peak_memory_bytes": 1650648}
    assert data["environment"]["os"] == "Android 13" and data["environment"]["cpu"] == "Snapdragon® 8 Gen 2"
    assert data["imported"]["original"] == {"inference_time (us)": 2500.0, "peak memory, least (B)": 28672}
    assert skipped["data"]["outcome"] == "skipped"


def test_language_models_have_a_row_for_each_context_length(write):
    (long, short), _ = read(write(LLM))
    assert long["data"]["metrics"] == {"tokens_per_s": 18.5}
    assert long["data"]["execution"]["options"] == {"context_length": 4096}
    assert long["data"]["imported"]["original"]["time to first token, max (ms)"] == 4000.0
    assert short["data"]["metrics"] == {"tokens_per_s": 20.0, "ttft_ms": 150.0}


def test_the_flattened_table(write):
    (whole, part, talk), refused = read(write(HEADER + ROW + PART + TALK, "perf.csv"))
    assert refused == []
    data = whole["data"]
    assert data["model"]["id"] == "ai-hub/segment_net"
    assert data["execution"] == {
        "platform": "qnn", "runtime": {"name": "qairt", "version": "2.42.0"}, "precision": "int8",
        "options": {"artifact": "qnn_dlc", "compute_unit": "npu"},
    }  # fmt: skip
    assert data["hardware"]["id"] == "qcs8550-proxy"
    assert data["observed"]["fallback_share"] == 0.0
    assert data["metrics"] == {"latency_ms": {"mean": 3.5}, "peak_memory_bytes": 4 * 2**20}
    assert data["imported"]["original"] == {"mem_max_mb (MiB)": 4.0, "precision": "w8a8"}
    assert part["data"]["model"]["id"] == "ai-hub/segment_net/NetDecoder"
    assert talk["data"]["metrics"] == {"tokens_per_s": 29.5}
    assert talk["data"]["execution"]["platform"] == "qnn"


def test_bad_rows_are_refused_alone_with_a_file_to_mend(write):
    rows, (refused,) = read(write(HEADER + ROW.replace(",3.5,", ",soon,") + PART, "perf.csv"))
    assert (refused.row, refused.field, len(rows)) == (2, "latency_ms", 1)
    assert refused.content == HEADER + ROW.replace(",3.5,", ",soon,")

    broken = NEW.replace("inference_time_milliseconds: 40.0", "inference_time_milliseconds: soon")
    rows, (refused,) = read(write(broken, "models/segment_net/perf.yaml"))
    assert (refused.row, refused.field, len(rows)) == (2, "inference_time_milliseconds", 2)
    mended = yaml.safe_dump(yaml.safe_load(refused.content.replace("soon", "40.0")))
    (row,), _ = read(write(mended, "content"))
    (_, expected, _), _ = read(write(NEW, "models/segment_net/perf.yaml"))
    assert row["id"] == expected["id"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [("precisions: [\n", "not YAML"), ("a: &a 1\nb: *a\n", "aliases"), ("- performance_metrics:\n", "no members")],
)
def test_what_is_no_perf_yaml_is_refused_whole(write, content, reason):
    rows, (refused,) = read(write(content))
    assert rows == [] and reason in refused.reason


def test_recognised_by_members_and_header_and_read_twice_alike(write):
    file = write(NEW)
    assert AiHub().sniff(file) and AiHub().sniff(write(OLD, "old.yaml"))
    assert AiHub().sniff(write(HEADER + ROW, "perf.csv"))
    assert not AiHub().sniff(write("columns:\n  model: {column: net}\n", "t.csv.mapping.yaml"))
    assert not AiHub().sniff(write("model,latency_ms\na,1\n", "other.csv"))
    assert list(AiHub().rows(file)) == list(AiHub().rows(file))
