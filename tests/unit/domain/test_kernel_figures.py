"""What kernels reached of a device's limits, and which timings a device cannot have reached."""

from __future__ import annotations

import pytest

from domain.configuration import Execution, Hardware
from domain.payloads import KernelMark, KernelMeasured, KernelTypes, Provenance
from domain.performance.kernel_figures import kernel_figures, reached
from domain.performance.kernel_limits import Allowed, impossible
from domain.performance.kernel_work import Work

PEAK, BANDWIDTH = 1e12, 1e10


def measured(operator: str, columns: dict[str, list], **more) -> KernelMeasured:
    return KernelMeasured(
        run_id="run-1",
        hardware=Hardware(id="acme-one", kind="cpu"),
        execution=Execution(platform="cpu", precision="fp32"),
        operator=operator,
        timings=len(columns["latency_ms"]),
        columns=columns,
        provenance=Provenance(origin="imported"),
        types=KernelTypes(weights="fp32", activations="fp32", arithmetic="fp32"),
        **more,
    )


def test_a_product_is_held_against_arithmetic_and_a_step_of_decoding_against_memory():
    data = measured("gemm", {"m": [1000, 1], "n": [1000, 4000], "k": [1000, 4000], "latency_ms": [4.0, 12.8]})
    square, decode = kernel_figures(data, PEAK, BANDWIDTH)
    assert (square.bound, decode.bound) == ("arithmetic", "memory")
    assert square.flops_per_s == pytest.approx(5e11) and square.share == pytest.approx(0.5)
    assert decode.bytes_per_s == pytest.approx(5e9, rel=1e-2) and decode.share == pytest.approx(0.5, rel=1e-2)


def test_a_convolution_counts_its_whole_kernel():
    sizes = {
        "batch": 1, "in_channels": 64, "out_channels": 64, "height": 56, "width": 56, "kernel_height": 3,
        "kernel_width": 3, "stride": 1, "padding": 1, "groups": 1,
    }  # fmt: skip
    (figure,) = kernel_figures(measured("convolution", {"latency_ms": [1.0]}, fixed=sizes), PEAK, BANDWIDTH)
    assert figure.flops_per_s == pytest.approx(2 * 64 * 64 * 9 * 56 * 56 * 1e3)
    assert not figure.moving


def test_shares_are_of_the_best_valid_kernels_and_the_floor_of_the_shortest():
    marks = {"disturbed": KernelMark(verdict="invalid", reason="other work", timings=1)}
    products = measured(
        "gemm",
        {"m": [1000, 1000, 1], "n": [1000, 1000, 8], "k": [1000, 1000, 8], "latency_ms": [4.0, 2.1, 0.005],
         "mark": [None, "disturbed", None]},
        marks=marks,
    )  # fmt: skip
    # The second one is small enough to come from a cache.
    columns = {"rows": [1000, 1], "row_size": [1000, 1000], "inputs": [1, 1], "latency_ms": [1.0, 0.0001]}
    streams = measured("elementwise", columns, fixed={})
    figures = [*kernel_figures(products, PEAK, BANDWIDTH), *kernel_figures(streams, PEAK, BANDWIDTH)]
    whole = reached(figures, PEAK, BANDWIDTH)
    assert whole.arithmetic_share == pytest.approx(0.5)
    assert whole.bandwidth_share == pytest.approx(0.8)
    assert whole.floor_us == pytest.approx(0.1)
    assert (whole.kernels, whole.invalid, whole.doubtful) == (4, 1, 0)


def test_limits_that_nobody_knows_give_rates_without_shares():
    data = measured("gemm", {"m": [1000], "n": [1000], "k": [1000], "latency_ms": [4.0]})
    figures = kernel_figures(data, None, None)
    assert figures[0].share is None and figures[0].bound is None
    assert reached(figures, None, None).arithmetic_share is None


def bears(work: Work, seconds: float, **more) -> dict[str, str]:
    allowed = Allowed(**{"device": "acme-one", "kind": "gpu", "peak_flops": PEAK, "bandwidth_bytes_per_s": BANDWIDTH,
                         "cache_bytes": 1e6, **more})  # fmt: skip
    return {name: verdict for name, (verdict, _, mask) in impossible(work, seconds, allowed).items() if bool(mask)}


@pytest.mark.parametrize(
    ("work", "seconds", "kind", "marks"),
    [
        (Work(1e12, 1e6), 1.0, "gpu", {}),
        (Work(1e12, 1e6), 0.8, "gpu", {"beats-peak": "invalid"}),
        (Work(1e12, 1e6), 0.8, "cpu", {"beats-base-clock": "suspect"}),
        (Work(1e12, 1e6), 0.01, "cpu", {"beats-peak": "invalid"}),
        (Work(0.0, 1e9), 0.1, "gpu", {}),
        (Work(0.0, 1e9), 0.05, "gpu", {"beats-memory": "invalid"}),
        (Work(0.0, 9e5), 5e-5, "gpu", {"in-cache": "suspect"}),
        (Work(0.0, 9e5), 1e-6, "gpu", {"beats-memory": "invalid"}),
    ],
)
def test_what_a_device_cannot_reach_is_invalid_and_what_a_cache_explains_is_suspect(work, seconds, kind, marks):
    assert bears(work, seconds, kind=kind) == marks


def test_limits_that_nobody_knows_mark_nothing():
    assert bears(Work(1e15, 1e15), 1e-6, peak_flops=None, bandwidth_bytes_per_s=None) == {}
