import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware
from domain.performance.roofline import limits_of
from predictor.kernels.columns import ATTENTION, MOVING, PRODUCT
from predictor.kernels.physics import START, Parameters, seconds_of
from predictor.kernels.profile import ANY, profile_at, profiles_of, under
from predictor.kernels.rows import kernel_rows, kernel_rows_of_view

PARAMETERS = {
    name: Parameters(values=dict(values), floors_us={"graph": 2.5, "eager": 12.0}) for name, values in START.items()
}


def event(operator: str, columns: dict, *, hardware_id: str = "nvidia-l4", **more) -> dict:
    return {
        "run_id": "r", "hardware": {"id": hardware_id, "kind": "gpu"},
        "execution": {"platform": "cuda", "runtime": {"name": "torch", "version": "2.9"}, "precision": "bf16"},
        "operator": operator, "timings": len(columns["latency_ms"]), "columns": columns,
        "provenance": {"origin": "imported"}, "method": {"launch": "graph"}, **more,
    }  # fmt: skip


def test_a_convolution_is_a_product_over_its_patches() -> None:
    sizes = {
        "batch": [8], "in_channels": [64], "out_channels": [128], "height": [56], "width": [56], "kernel_height": [3],
        "kernel_width": [3], "stride": [2], "padding": [1], "latency_ms": [0.5],
    }  # fmt: skip
    rows = kernel_rows([event("convolution", sizes)], hardware.find)[PRODUCT]
    got = {name: values[0] for name, values in rows.columns.sizes.items()}
    assert (got["m"], got["n"], got["k"], got["area"]) == (8 * 28 * 28, 128, 64 * 9, 9 / 4)
    assert rows.seconds[0] == 0.5e-3 and rows.hardware[0] == "nvidia-l4"


def test_weights_may_be_narrower_than_what_they_multiply() -> None:
    types = {"published": "int4_wo", "weights": "int4", "activations": "fp16", "arithmetic": "fp16"}
    columns = {"m": [16], "n": [4096], "k": [4096], "latency_ms": [0.05]}
    sizes = kernel_rows([event("gemm", columns, types=types)], hardware.find)[PRODUCT].columns.sizes
    assert (sizes["left_bytes"][0], sizes["right_bytes"][0], sizes["out_bytes"][0]) == (2.0, 0.5, 2.0)


def test_attention_counts_cached_tokens_windows_and_shared_heads() -> None:
    columns = {
        "batch": [4, 4],
        "query_tokens": [1, 512],
        "cached_tokens": [4096, 0],
        "heads": [32, 32],
        "latency_ms": [0.1, 0.2],
    }
    more = {"fixed": {"head_dim": 128, "kv_heads": 8, "window_size": 1024}, "phase": "generation"}
    sizes = kernel_rows([event("attention", columns, **more)], hardware.find)[ATTENTION].columns.sizes
    assert sizes["keys"].tolist() == [1025, 512]
    assert sizes["kv_heads"].tolist() == [8, 8] and sizes["causal"].tolist() == [1, 1]


def test_invalid_kernels_and_devices_without_figures_teach_nothing() -> None:
    columns = {"rows": [64, 64], "row_size": [1024, 1024], "latency_ms": [0.01, 1e-9], "mark": [None, "impossible"]}
    marks = {"impossible": {"verdict": "invalid", "reason": "faster than the memory", "timings": 1}}
    good = event("softmax", columns, marks=marks)
    unknown = event("softmax", {**columns, "mark": [None, None]}, hardware_id="acme-one")
    rows = kernel_rows([good, unknown], hardware.find)
    assert list(rows) == [MOVING] and rows[MOVING].seconds.tolist() == [1e-5]


def test_rows_of_the_view_are_the_same_kernels() -> None:
    columns = {"m": [1, 128], "n": [4096, 512], "k": [4096, 512], "latency_ms": [0.1, 0.02]}
    of_event = kernel_rows([event("gemm", columns)], hardware.find)[PRODUCT]
    view = [
        {
            "hardware_id": "nvidia-l4", "platform": "cuda", "runtime_name": "torch", "precision": "bf16", "operator": "gemm",
            "name": None, "phase": None, "launch": "graph", "verdict": "valid",
            **{f"type_{name}": None for name in ("published", "weights", "activations", "arithmetic", "kv_cache")},
            **{name: columns[name][index] for name in columns},
        }
        for index in range(2)
    ]  # fmt: skip
    of_view = kernel_rows_of_view(view, hardware.find)[PRODUCT]
    for name, values in of_event.columns.sizes.items():
        assert np.array_equal(values, of_view.columns.sizes[name])
    assert np.array_equal(of_event.seconds, of_view.seconds)


def kernels_of_a_device(traffic: float, compute: float = 1.0, precision: str = "bf16") -> dict:
    """Kernels of a device that reaches these shares of its bandwidth and of its peak in a precision, as an event has them."""
    random = np.random.default_rng(0)
    sizes = {
        "m": [1] * 12 + [4096] * 12,
        "n": (2 ** random.integers(10, 14, 24)).tolist(),
        "k": (2 ** random.integers(10, 14, 24)).tolist(),
    }
    execution = {"platform": "cuda", "runtime": {"name": "torch", "version": "2.9"}, "precision": precision}
    data = event("gemm", {**sizes, "latency_ms": [1.0] * 24}, execution=execution)
    rows = kernel_rows([data], hardware.find)[PRODUCT]
    old = rows.columns.device
    device = {
        **old,
        "bandwidth": old["bandwidth"] * traffic,
        "peak": old["peak"] * compute,
        "power": old["power"] / compute,
    }
    seconds = seconds_of(PRODUCT, PARAMETERS[PRODUCT], msgspec.structs.replace(rows.columns, device=device))
    return {PRODUCT: msgspec.structs.replace(rows, seconds=seconds)}


def test_a_profile_finds_the_shares_of_bandwidth_and_peak_that_a_device_reaches() -> None:
    profile = profiles_of({"bf16": kernels_of_a_device(0.5)}, PARAMETERS)["bf16"]
    assert profile.kernels == 24
    assert profile.traffic == pytest.approx(0.5, rel=0.1) and profile.compute == pytest.approx(1.0, rel=0.2)
    assert profile.spread < 0.1 * profile.before
    spec = hardware.find("nvidia-l4")
    assert spec is not None and (limits := limits_of(spec, "bf16", "cuda")) is not None
    assert under(limits, profile).bandwidth_bytes_per_s == pytest.approx(limits.bandwidth_bytes_per_s * profile.traffic)


def test_each_precision_has_its_own_peak_and_bandwidth_is_common() -> None:
    kernels = {"bf16": kernels_of_a_device(0.7, 0.5), "int8": kernels_of_a_device(0.7, 1.3, "int8")}
    profiles = profiles_of(kernels, PARAMETERS)
    assert set(profiles) == {"bf16", "int8", ANY}
    assert profiles["bf16"].compute == pytest.approx(0.5, rel=0.15)
    assert profiles["int8"].compute == pytest.approx(1.3, rel=0.15)
    assert profiles[ANY].compute == 1.0
    assert len({(profile.traffic, profile.floor_us) for profile in profiles.values()}) == 1
    assert profiles[ANY].traffic == pytest.approx(0.7, rel=0.1)


@pytest.mark.parametrize(
    ("precision", "compute"), [("bf16", 0.5), ("amp-bf16", 0.5), ("fp16", 0.5), ("int8", 1.3), ("fp32", 1.0)]
)
def test_a_precision_without_kernels_keeps_its_peak(precision: str, compute: float) -> None:
    kernels = {"bf16": kernels_of_a_device(0.7, 0.5), "int8": kernels_of_a_device(0.7, 1.3, "int8")}
    made = profiles_of(kernels, PARAMETERS)
    profiles = {("nvidia-l4", "cuda", name): profile for name, profile in made.items()}
    profile = profile_at(profiles, "nvidia-l4", "cuda", precision)
    assert profile is not None and profile.compute == pytest.approx(compute, rel=0.15)
    assert profile_at(profiles, "nvidia-t4", "cuda", precision) is None
    assert profile_at(profiles, "nvidia-l4", "openvino", precision) is None


def test_few_kernels_give_no_profile() -> None:
    rows = kernels_of_a_device(0.5)
    assert profiles_of({"bf16": {PRODUCT: rows[PRODUCT].take(np.arange(4))}}, PARAMETERS) == {}


def test_a_depthwise_convolution_moves_memory() -> None:
    sizes = {
        "batch": [2], "in_channels": [192], "out_channels": [192], "height": [56], "width": [56], "kernel_height": [3],
        "kernel_width": [3], "stride": [2], "padding": [1], "groups": [192], "latency_ms": [0.5],
    }  # fmt: skip
    rows = kernel_rows([event("convolution", sizes, name="depthwise")], hardware.find)
    assert list(rows) == [MOVING]
    got = {name: values[0] for name, values in rows[MOVING].columns.sizes.items()}
    assert (got["rows"], got["row"], got["moved"]) == (2 * 192, 28 * 28, 28 * 28 + 56 * 56)
