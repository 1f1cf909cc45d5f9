"""What is said of a run from work counted by device and type."""

from __future__ import annotations

from collections import Counter

import pytest

from runner.platforms.base import Observation
from runner.platforms.shares import observation_of


def seen(asked: str, **work: int) -> Observation:
    counted = Counter({tuple(key.split("_")): flops for key, flops in work.items()})
    return observation_of(counted, asked, at_home=lambda device: device == "gpu", platform_of=lambda device: device)


def test_a_plain_precision_is_what_carried_most_and_the_rest_is_fallback() -> None:
    found = seen("bf16", gpu_bf16=75, gpu_fp32=25)
    assert (found.precision, found.fallback_share, found.precision_share) == ("bf16", 0.25, 0.75)
    silent = seen("fp16", gpu_fp32=100)
    assert (silent.precision, silent.fallback_share) == ("fp32", 1.0)


def test_what_a_quantized_form_leaves_wide_is_no_fallback() -> None:
    found = seen("int8", gpu_int8=60, gpu_fp32=40)
    assert (found.precision, found.fallback_share, found.precision_share) == ("int8", 0.0, 0.6)


def test_a_quantized_form_that_did_little_of_the_work_is_named_by_what_did() -> None:
    found = seen("int8", gpu_int8=20, gpu_fp32=80)
    assert (found.precision, found.precision_share) == ("fp32", 0.8)
    assert found.fallback_share == pytest.approx(0.8)


def test_work_on_another_device_is_fallback_in_every_form() -> None:
    assert seen("amp-bf16", gpu_bf16=70, cpu_bf16=30).fallback_share == pytest.approx(0.3)
    moved = seen("fp32", cpu_fp32=10)
    assert (moved.device, moved.platform, moved.fallback_share) == ("cpu", "cpu", 1.0)


def test_autocast_counts_by_its_arithmetic_and_tf32_as_itself() -> None:
    assert seen("amp-fp16", gpu_fp16=9, gpu_fp32=1).precision == "amp-fp16"
    assert seen("tf32", gpu_fp32=5).precision == "tf32"
