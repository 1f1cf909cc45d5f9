"""The earlier framework's hardware detection: devices with what was found of them, and nothing of browsers. The samples are ours."""

from __future__ import annotations

import pytest

from ingest.importers.legacy.hardware import SeedHardware
from ingest.importers.reading import BadFile

NESTED = {
    "hardware": {"cpu": True, "cuda": True, "rocm": False, "openvino": True, "webgpu": True, "qualcomm": False},
    "details": {
        "cpu": {"architecture": "x86_64", "cores": {"logical": 8, "physical": 4}, "system": "Linux", "python_version": "3.12.3",
                "memory": {"total": 1024.0, "available": 512.0, "unit": "MB"}},
        "cuda": {"device_count": 1, "cuda_version": "12.4", "devices": [{"name": "Quadro P4000", "total_memory": 8.0, "multi_processor_count": 14}]},
        "rocm": {"reason": "PyTorch not built with ROCm"},
        "openvino": {"version": "2025.0.0", "device_info": {"CPU": {"full_name": "Intel(R) Xeon(R) CPU E3-1535M v6 @ 3.10GHz"}}},
        "webgpu": {"node_version": "v22.5.1"},
        "qualcomm": {"reason": "Qualcomm AI SDK not found"},
    },
    "errors": {},
}  # fmt: skip
FLAT = {
    "cpu": True, "cuda": True, "cuda_device_count": 1, "cuda_devices": [{"name": "Quadro P4000", "total_memory": 8.0}],
    "mps": False, "mps_error": "not available", "openvino": True, "openvino_devices": ["CPU"], "openvino_version": "2025.0.0",
    "webgpu": False, "system": {"platform": "Linux", "platform_release": "6.8.0", "architecture": "x86_64", "total_memory": 2.0},
}  # fmt: skip


def test_each_device_is_described_with_its_platforms(reads):
    found = reads(SeedHardware(), NESTED, "hardware_detection_results.json")
    cpu, gpu = found.rows
    assert {event["type"] for event in found.rows} == {"assay.hardware.described.v1"}
    assert cpu["data"]["hardware"] == {"id": "intel-xeon-e3-1535m-v6-4c", "kind": "cpu", "count": 1}
    platforms = {probe["platform"]: probe for probe in cpu["data"]["platforms"]}
    assert list(platforms) == ["cpu", "rocm", "openvino", "qnn"]
    assert platforms["rocm"] == {"platform": "rocm", "available": False, "reason": "PyTorch not built with ROCm"}
    assert platforms["openvino"]["runtime"] == {"name": "openvino", "version": "2025.0.0"}
    assert cpu["data"]["spec"]["memory_bytes"]["value"] == 1 << 30 and cpu["data"]["spec"]["cores"]["value"] == 4
    assert gpu["data"]["hardware"]["id"] == "nvidia-quadro-p4000"
    assert [probe["platform"] for probe in gpu["data"]["platforms"]] == ["cuda"]
    assert gpu["data"]["spec"]["memory_bytes"]["value"] == 8 << 30
    assert gpu["data"]["environment"]["libraries"] == {"openvino": "2025.0.0", "cuda": "12.4"}


def test_a_cpu_without_a_name_is_not_described(reads):
    (gpu,) = reads(SeedHardware(), FLAT, "hardware_detection_comprehensive.json").data
    assert gpu["hardware"]["id"] == "nvidia-quadro-p4000"
    assert gpu["environment"]["kernel"] == "6.8.0"


def test_a_figure_that_is_none_refuses_the_file(place):
    broken = {**FLAT, "system": {"total_memory": "much"}}
    with pytest.raises(BadFile, match="total_memory"):
        list(SeedHardware().rows(place(broken, "hardware_detection.json")))


def test_both_shapes_are_recognised(place):
    assert SeedHardware().sniff(place(NESTED, "a.json")) and SeedHardware().sniff(place(FLAT, "b.json"))
    assert not SeedHardware().sniff(place({"hardware": {"cpu": True}, "system_info": {}}, "c.json"))
