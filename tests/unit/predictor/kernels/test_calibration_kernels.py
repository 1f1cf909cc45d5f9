"""The kernels of `assay calibrate` tell devices apart: from their times follow the shares of arithmetic and bandwidth."""

import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware
from predictor.kernels.physics import START, Parameters, seconds_of
from predictor.kernels.profile import profiles_of
from predictor.kernels.rows import KernelRows, kernel_rows
from runner.calibration.kernels import kernels_for, scale_of

PARAMETERS = {
    name: Parameters(values=dict(values), floors_us={"graph": 2.5, "eager": 12.0}) for name, values in START.items()
}
NOISE = 0.1
"""How far single kernels lie off their device, in log units."""


def kernels_of(hardware_id: str, platform: str, precision: str) -> dict[str, KernelRows]:
    """Return the kernels that a device gets, as the log would have them, with times of 1 ms."""
    spec = hardware.require(hardware_id)
    figures = {
        "peak_flops": spec.peak_flops["fp32"],
        "bandwidth_bytes_per_s": spec.memory_bandwidth_bytes_per_s,
        "cache_bytes": spec.cache_bytes,
        "memory_bytes": spec.memory_bytes,
    }
    scale = scale_of(spec.kind, **{name: figure.value for name, figure in figures.items() if figure is not None})
    events = [
        {
            "run_id": "r", "hardware": {"id": spec.id, "kind": spec.kind}, "operator": kernel.operator, "name": kernel.function,
            "execution": {"platform": platform, "runtime": {"name": "torch"}, "precision": precision}, "timings": 1,
            "columns": {"latency_ms": [1.0], **{name: [size] for name, size in kernel.sizes.items()}}, "phase": kernel.phase,
            "provenance": {"origin": "imported"}, "method": {"launch": "eager"},
        }
        for kernel in kernels_for(scale)
    ]  # fmt: skip
    return kernel_rows(events, hardware.find)


@pytest.mark.parametrize(
    ("device", "platform", "precision"),
    [
        ("nvidia-h100-sxm", "cuda", "bf16"),
        ("nvidia-t4", "cuda", "fp16"),
        ("apple-m2-gpu", "mps", "fp32"),
        ("amd-epyc-7763", "cpu", "fp32"),
    ],
)
@pytest.mark.parametrize(("arithmetic", "bandwidth"), [(0.5, 0.9), (0.9, 0.5), (0.6, 0.6)])
def test_the_shares_that_a_device_reaches_follow_from_its_kernels(device, platform, precision, arithmetic, bandwidth):
    random, times = np.random.default_rng(0), {}
    for name, rows in kernels_of(device, platform, precision).items():
        figures = rows.columns.device
        slower = {
            **figures,
            "peak": figures["peak"] * arithmetic,
            "bandwidth": figures["bandwidth"] * bandwidth,
            "power": figures["power"] / arithmetic,
        }
        seconds = seconds_of(name, PARAMETERS[name], msgspec.structs.replace(rows.columns, device=slower))
        noisy = seconds * np.exp(random.normal(0.0, NOISE, len(seconds)))
        times[name] = msgspec.structs.replace(rows, seconds=noisy)
    profile = profiles_of({precision: times}, PARAMETERS)[precision]
    assert profile.kernels == 29
    assert profile.compute == pytest.approx(arithmetic, rel=0.15)
    assert profile.traffic == pytest.approx(bandwidth, rel=0.15)
