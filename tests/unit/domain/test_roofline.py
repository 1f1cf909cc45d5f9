import pytest

from domain.catalogues.hardware import HardwareSpec
from domain.payloads import Figure
from domain.performance.roofline import Limits, limits_of, memory_estimate, roofline, roofline_share

LIMITS = Limits(peak_flops=1e12, bandwidth_bytes_per_s=1e11, launch_s=1e-6, activation_bytes=2.0, weight_bytes=2.0)


def row(name: str, **figures: float) -> dict[str, object]:
    empty = {"count": 1, "flops": 0.0, "read_elements": 0, "write_elements": 0, "weight_elements": 0}
    return {"name": name, "class": name, **empty, **figures}


MATMUL = row("mm", count=2, flops=2e9, read_elements=1e6, write_elements=1e6, weight_elements=1e6)
GELU = row("elementwise", count=3, read_elements=1e6, write_elements=1e6)


def test_each_operator_takes_the_longer_of_arithmetic_and_traffic_and_a_launch() -> None:
    floor = roofline([MATMUL, GELU], LIMITS, batch_size=4)
    # mm: 4 × 2e9 / 1e12 = 8 ms against (4 × 2e6 + 1e6) × 2 B / 1e11 = 0.18 ms; elementwise: 4 × 2e6 × 2 B / 1e11 = 0.16 ms.
    assert floor.by_class_ms == pytest.approx({"mm": 2 * (8 + 0.001), "elementwise": 3 * (0.16 + 0.001)})
    assert floor.latency_ms == pytest.approx(16.002 + 0.483)
    assert floor.compute_ms == pytest.approx(16.0)
    assert floor.memory_ms == pytest.approx(2 * 0.18 + 3 * 0.16)
    assert floor.launch_ms == pytest.approx(0.005)
    assert floor.bound == "compute"


def test_the_bound_names_what_takes_most_of_the_time() -> None:
    assert roofline([GELU], LIMITS, batch_size=4).bound == "memory"
    assert (
        roofline([row("copy", count=100, read_elements=10, write_elements=10)], LIMITS, batch_size=1).bound == "launch"
    )


def test_weights_are_read_once_whatever_the_batch() -> None:
    heavy = row("mm", flops=1.0, weight_elements=1e9)
    one, many = (roofline([heavy], LIMITS, batch_size=size).latency_ms for size in (1, 64))
    assert one == pytest.approx(many)


def test_a_training_step_is_three_passes() -> None:
    step = roofline([MATMUL], LIMITS, batch_size=1, mode="training")
    assert step.latency_ms == pytest.approx(3 * roofline([MATMUL], LIMITS, batch_size=1).latency_ms)


def test_memory_is_weights_and_live_activations() -> None:
    totals = {"parameters": 1e6, "peak_activation_elements": 2e5, "write_elements": 3e6}
    half = memory_estimate(totals, precision="fp16", batch_size=8)
    assert half is not None
    assert half.total_bytes == pytest.approx(2e6 + 2e5 * 8 * 2)
    mixed = memory_estimate(totals, precision="amp-fp16", batch_size=8)
    assert mixed is not None
    assert mixed.weights_bytes == pytest.approx(4e6)
    step = memory_estimate(totals, precision="fp32", batch_size=2, mode="training")
    assert step is not None
    assert step.total_bytes == pytest.approx(16e6 + 3e6 * 2 * 4)
    assert memory_estimate({"parameters": 1e6}, precision="fp16", batch_size=1) is None


def test_a_device_without_its_figures_has_no_limits() -> None:
    bare = HardwareSpec(id="x", name="X")
    assert limits_of(bare, "fp32", "cpu") is None
    figure = Figure(value=1e12, status="measured")
    probed = HardwareSpec(
        id="x",
        name="X",
        sustained_flops={"fp32": figure},
        sustained_bandwidth_bytes_per_s=Figure(value=2e10, status="measured"),
    )
    found = limits_of(probed, "fp32", "cpu")
    assert found is not None
    assert (found.peak_flops, found.bandwidth_bytes_per_s, found.activation_bytes) == (1e12, 2e10, 4.0)
    assert limits_of(probed, "int8", "cpu") is None


def test_the_share_of_the_roofline_leaves_launches_out() -> None:
    # mm: 2 × 8 ms, elementwise: 3 × 0.16 ms.
    assert roofline_share([MATMUL, GELU], LIMITS, batch_size=4, measured_ms=32.96) == pytest.approx(0.5)
    assert roofline_share([MATMUL, GELU], None, batch_size=4, measured_ms=32.96) is None
    assert roofline_share([], LIMITS, batch_size=4, measured_ms=1.0) is None
    step = roofline_share([MATMUL], LIMITS, batch_size=4, mode="training", measured_ms=48.0)
    assert step == pytest.approx(1.0)
