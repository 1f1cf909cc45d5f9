"""Which kernels a device gets, in which sizes, and that each module does the work that its sizes say."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
import torch

from domain.kernels import SIZES
from runner.calibration.kernels import Kernel, chosen, kernels_for, quantizable, scale_of
from runner.calibration.modules import module_of
from runner.platforms.torch_eager import Cpu
from runner.platforms.work import WorkRecorder

DEVICES: dict[str, dict[str, Any]] = {
    "two cores": {"kind": "cpu", "peak_flops": 3.3e11, "cache_bytes": 3.3e7, "memory_bytes": 2.5e10},
    "an old board": {"kind": "cpu", "peak_flops": 2e10, "bandwidth_bytes_per_s": 4e9, "memory_bytes": 1e9},
    "H100": {
        "kind": "gpu",
        "peak_flops": 6.7e13,
        "bandwidth_bytes_per_s": 3.35e12,
        "cache_bytes": 5e7,
        "memory_bytes": 8e10,
    },
    "an unknown NPU": {"kind": "npu"},
}
SMALL = scale_of("cpu", peak_flops=1e9, bandwidth_bytes_per_s=1e9, cache_bytes=1e5, memory_bytes=2e8)


def kernels(device: str) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in kernels_for(scale_of(**DEVICES[device]))}


@pytest.mark.parametrize("device", DEVICES)
def test_each_device_gets_29_kernels_with_the_sizes_of_their_operators(device):
    made = kernels_for(scale_of(**DEVICES[device]))
    assert len({kernel.name for kernel in made}) == len(made) == 29
    assert Counter(kernel.operator for kernel in made) == {
        "gemm": 10, "bmm": 2, "convolution": 5, "attention": 4, "softmax": 2, "norm": 2, "elementwise": 4,
    }  # fmt: skip
    for kernel in made:
        needed, optional = SIZES[kernel.operator]
        assert set(needed) <= kernel.sizes.keys() <= {*needed, *optional}


def test_a_faster_device_gets_larger_kernels_that_its_caches_do_not_hold():
    small, large = kernels("two cores"), kernels("H100")
    assert large["square"].sizes["m"] > 4 * small["square"].sizes["m"]
    assert large["body"].sizes["batch"] > small["body"].sizes["batch"] == 1
    for made, device in ((small, "two cores"), (large, "H100")):
        cache = DEVICES[device]["cache_bytes"]
        for name in ("decode", "relu", "softmax-large", "layer-norm-large"):
            assert made[name].work().bytes > 1.5 * cache, (device, name)


def test_the_system_takes_back_no_tensor_of_a_streaming_kernel_on_a_processor():
    server = scale_of("cpu", peak_flops=1e13, bandwidth_bytes_per_s=6e11, cache_bytes=5e8, memory_bytes=1e12)
    for kernel in [*kernels_for(server), *kernels("two cores").values()]:
        if kernel.moves and "rows" in kernel.sizes:
            assert 4 * kernel.sizes["rows"] * kernel.sizes["row_size"] < 2**25, kernel.name


@pytest.mark.parametrize("device", DEVICES)
def test_no_kernel_needs_more_than_milliseconds_or_a_part_of_the_memory(device):
    figures = {"peak_flops": 1e13, "bandwidth_bytes_per_s": 3e11, "memory_bytes": 8e9, **DEVICES[device]}
    for kernel in kernels(device).values():
        work = kernel.work()
        assert work.flops / figures["peak_flops"] < 0.2, kernel.name
        assert work.bytes < figures["memory_bytes"] / 4, kernel.name


def test_kernels_of_one_event_follow_each_other():
    groups = [kernel.group for kernel in kernels_for(SMALL)]
    changes = [group for before, group in zip([None, *groups], groups, strict=False) if group != before]
    assert len(changes) == len(set(changes)) == 13


def test_words_choose_operators_and_names():
    made = kernels_for(SMALL)
    assert {kernel.name for kernel in chosen(made, ["norm", "decode"])} == {
        "layer-norm-small",
        "layer-norm-large",
        "decode",
    }
    assert chosen(made, []) == made


def test_only_products_with_weights_are_quantized():
    made = kernels_for(SMALL)
    assert {kernel.operator for kernel in made if quantizable(kernel, "cpu")} == {"gemm"}
    in_openvino = {kernel.name for kernel in made if quantizable(kernel, "openvino")}
    assert "body" in in_openvino and "depthwise" not in in_openvino and "encoder" not in in_openvino


@pytest.mark.parametrize("kernel", kernels_for(SMALL), ids=lambda kernel: kernel.name)
def test_a_module_does_the_work_that_its_sizes_say(kernel):
    module, inputs = module_of(kernel)
    with torch.no_grad(), WorkRecorder() as recorder:
        out = module(**inputs)
    counted = sum(recorder.work.values())
    if kernel.operator in ("softmax", "norm", "elementwise"):
        assert (counted, out.numel()) == (0, kernel.sizes["rows"] * kernel.sizes["row_size"])
        assert sum(tensor.numel() for tensor in inputs.values()) == out.numel() * kernel.sizes.get("inputs", 1)
    elif kernel.phase == "context":
        # torch counts a causal attention as if every token saw all others.
        query = kernel.sizes["query_tokens"]
        assert counted == pytest.approx(kernel.flops * 2 * query / (query + 1))
    else:
        assert counted == pytest.approx(kernel.flops)


def test_a_kernel_survives_the_way_to_the_child():
    for kernel in kernels_for(SMALL):
        assert msgspec.json.decode(msgspec.json.encode(kernel), type=Kernel) == kernel


def test_torch_runs_a_kernel_in_the_precision_that_it_is_given():
    from runner.platforms.base import Settings

    platform = Cpu()
    module, inputs = module_of(next(kernel for kernel in kernels_for(SMALL) if kernel.name == "tiny"))
    platform.load(module, Settings(precision="bf16", threads=1))
    assert platform.observe(platform.place(inputs)).precision == "bf16"
