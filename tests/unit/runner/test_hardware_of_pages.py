"""Which hardware a page's row is of: a GPU's only where an adapter says so."""

from __future__ import annotations

import pytest

from runner.campaign.event_payloads import Machine


def machine(*gpus):
    places = [{"hardware": {"id": "processor", "kind": "cpu"}, "addresses": {"cpu": ["cpu"]}}]
    places += [{"hardware": {"id": gpu, "kind": "gpu"}, "addresses": {"cuda": ["cuda:0"]}} for gpu in gpus]
    return Machine(environment={}, hardware=[], placement=places, platforms={})


@pytest.mark.parametrize(
    ("platform", "device"),
    [
        ("webgpu", "cpu (google swiftshader)"),
        ("webgpu", None),
        ("webnn", "not told"),
        ("webnn", "npu"),
        ("webnn", "gpu"),
        ("wasm", "cpu"),
    ],
)
def test_software_adapters_and_what_a_browser_does_not_tell_stand_with_the_processor(platform, device):
    assert machine("radeon").hardware_for(platform, device).id == "processor"


def test_an_adapter_is_the_one_gpu_of_the_machine():
    assert machine("radeon").hardware_for("webgpu", "amd rdna-3").id == "radeon"
    assert machine().hardware_for("webgpu", "amd rdna-3").id == "processor"
    assert machine("radeon", "geforce").hardware_for("webgpu", "amd rdna-3").id == "processor"
