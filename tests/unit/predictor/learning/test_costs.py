import numpy as np
import pytest

from domain.performance.roofline import Limits
from predictor.features.dataset import Row
from predictor.features.traces import Trace, trace_from_data
from predictor.features.work_costs import WORK, multiples_of, work_of

LIMITS = Limits(
    peak_flops=1e12, bandwidth_bytes_per_s=1e11, launch_s=1e-6, activation_bytes=2.0, weight_bytes=2.0, cache_bytes=1e6
)


def traced(*operators: dict[str, object]) -> Trace:
    plain = {"count": 1, "flops": 0.0, "read_elements": 0, "write_elements": 0, "weight_elements": 0}
    shape = {"inner": None, "kernel": None, "stride": None, "groups": None}
    return trace_from_data(
        {
            "model": {"id": "acme/net", "family": "net", "category": "vision", "architecture": "a" * 64},
            "workload": {"mode": "inference", "image_size": 64},
            "operators": [{**plain, **shape, **one} for one in operators],
        }
    )


def row(batch_size: int, mode: str = "inference") -> Row:
    return Row(model="acme/net", hardware="card", platform="cuda", precision="fp16", batch_size=batch_size, mode=mode)


def named(trace: Trace, batch_size: int = 1, mode: str = "inference") -> dict[str, float]:
    seconds = work_of(trace, [LIMITS], [row(batch_size, mode)])[0]
    return {name: value for name, value in zip(WORK, seconds.tolist(), strict=True) if value}


CONV = {
    "name": "aten.convolution", "class": "conv", "flops": 2e6, "read_elements": 3e5, "write_elements": 4e5,
    "weight_elements": 64 * 9 * 128, "inner": 64 * 9, "kernel": [3, 3], "stride": [1, 1], "groups": 1,
}  # fmt: skip


def test_work_by_hand() -> None:
    found = named(traced({**CONV, "count": 5}), batch_size=2)
    assert found["conv.to_64"] == pytest.approx(5 * 2e6 * 2 / 1e12)
    assert found["conv.moved"] == pytest.approx(5 * 7e5 * 2 * 2 / 1e11)
    assert found["weights.arithmetic"] == pytest.approx(5 * 64 * 9 * 128 * 2 / 1e11)
    assert found["launch.arithmetic"] == pytest.approx(5e-6)
    assert set(found) == {"conv.to_64", "conv.moved", "weights.arithmetic", "launch.arithmetic", "entering"}


def test_lengths_that_do_not_fill_the_matrix_units_are_work_of_their_own() -> None:
    found = named(traced({**CONV, "inner": 63 * 9, "weight_elements": 63 * 9 * 128}))
    assert "conv.odd" in found
    assert "conv.to_64" not in found


def test_what_fits_the_cache_is_apart_from_what_does_not() -> None:
    gelu = {"name": "aten.gelu", "class": "elementwise", "read_elements": 1e5, "write_elements": 1e5}
    assert set(named(traced(gelu))) == {"gelu.cached", "launch.moving", "entering"}
    assert set(named(traced(gelu), batch_size=64)) == {"gelu.moved", "launch.moving", "entering"}


def test_kernels_of_depthwise_convolutions_are_told_apart() -> None:
    large = {**CONV, "class": "depthwise", "kernel": [9, 9], "inner": 81, "groups": 128, "weight_elements": 81 * 128}
    assert "depthwise.kernel_8" in named(traced(large))
    assert "depthwise.kernel_1" in named(traced({**large, "kernel": [3, 3], "inner": 9}))


def test_a_training_step_that_was_not_traced_is_three_passes() -> None:
    once, thrice = named(traced(CONV)), named(traced(CONV), mode="training")
    for name in set(once) - {"entering"}:
        assert thrice[name] == pytest.approx(3 * once[name]), name


def test_multiples_are_found_again_though_some_rows_are_odd() -> None:
    random = np.random.default_rng(0)
    work = random.lognormal(size=(400, 4))
    true = np.array([0.5, 2.0, 1.0, 6.0])
    seconds = work @ true * np.exp(random.normal(scale=0.02, size=400))
    seconds[:20] *= 30  # an odd software path
    np.testing.assert_allclose(multiples_of(work, seconds), true, rtol=0.08)


def test_work_that_no_row_has_keeps_its_multiple() -> None:
    work = np.column_stack([np.linspace(1, 2, 50), np.zeros(50)])
    found = multiples_of(work, 3 * work[:, 0])
    assert found == pytest.approx([3.0, 1.0], rel=1e-2)


def test_gradients_are_operators_of_their_own_and_named_like_what_they_are_gradients_of() -> None:
    gelu = {"name": "aten.gelu_backward", "class": "elementwise", "read_elements": 1e7, "write_elements": 1e7}
    found = named(traced({**CONV, "name": "aten.convolution_backward"}, gelu))
    assert found["conv.backward"] == found["conv.to_64"]
    assert "gelu.moved" in found
    assert "conv.backward" not in named(traced(CONV))
