import numpy as np
import pytest

from domain.performance.roofline import Limits
from predictor.features.dataset import Row
from predictor.features.traces import trace_from_data
from predictor.features.work import TERMS, work_of, work_of_many

LIMITS = Limits(
    peak_flops=1e12, bandwidth_bytes_per_s=1e11, launch_s=1e-6, activation_bytes=2.0, weight_bytes=2.0, cache_bytes=1e6
)


def operator(kind: str, count: int, flops: float, moved: float, weights: float = 0.0) -> dict[str, object]:
    return {
        "name": f"aten.{kind}", "class": kind, "count": count, "flops": flops, "read_elements": moved / 2,
        "write_elements": moved / 2, "weight_elements": weights, "inner": None, "kernel": None, "stride": None,
        "groups": None,
    }  # fmt: skip


def data(mode: str = "inference") -> dict[str, object]:
    return {
        "model": {"id": "acme/net", "parameters": 1e6},
        "workload": {"mode": mode, "phase": "training" if mode == "training" else "forward"},
        "operators": [operator("mm", 3, 4e9, 1e4, 1e7), operator("norm", 2, 0.0, 1e8), operator("bmm", 1, 1e3, 10)],
        "totals": {"parameters": 1e6},
    }


def row(**over: object) -> Row:
    given = {"model": "acme/net", "hardware": "h", "platform": "cpu", "precision": "fp16", "batch_size": 2}
    return Row(**{**given, **over})  # type: ignore[arg-type]


def named(one: Row, mode: str = "inference") -> dict[str, float]:
    return dict(zip(TERMS, work_of(trace_from_data(data(mode)), [LIMITS], [one])[0], strict=True))


def test_work_by_hand() -> None:
    found = named(row())
    assert found["mm.large"] == pytest.approx(3 * 8e9 / 1e12)
    assert found["mm.small"] == pytest.approx(0.0)
    assert found["bmm"] == pytest.approx(2e3 / 1e12)
    assert found["weights.large"] == pytest.approx(3 * 2e7 / 1e11)
    assert found["norm.large"] == pytest.approx(2 * 4e8 / 1e11)
    assert found["operands"] == pytest.approx((3 * 4e4 + 40) / 1e11)
    assert (found["launch.arithmetic"], found["launch.moving"]) == pytest.approx((4e-6, 2e-6))
    assert found["optimizer"] == 0.0


def test_weights_are_read_once_a_batch_and_everything_else_grows_with_it() -> None:
    one, four = named(row(batch_size=1)), named(row(batch_size=4))
    assert one["weights.large"] == four["weights.large"]
    assert four["norm.large"] + four["norm.small"] == pytest.approx(4 * (one["norm.large"] + one["norm.small"]))
    assert four["launch.moving"] == one["launch.moving"]


def test_a_training_step_counts_three_passes_where_only_the_forward_pass_was_traced() -> None:
    forward, assumed, traced = named(row()), named(row(mode="training")), named(row(mode="training"), "training")
    assert assumed["mm.large"] == pytest.approx(3 * forward["mm.large"])
    assert traced["mm.large"] == pytest.approx(forward["mm.large"])


def test_the_optimizer_moves_its_moments_once_a_step() -> None:
    adam, sgd = named(row(mode="training", optimizer="adamw")), named(row(mode="training", optimizer="sgd"))
    assert adam["optimizer"] == pytest.approx(7 * 4e6 / 1e11)
    assert adam["optimizer"] > sgd["optimizer"]
    assert named(row(mode="training", optimizer="adamw", batch_size=64))["optimizer"] == adam["optimizer"]


def test_several_traces_keep_their_order() -> None:
    one, other = trace_from_data(data()), trace_from_data({**data(), "operators": [operator("conv", 1, 1e9, 1e6)]})
    rows = [row(batch_size=size) for size in (1, 2, 3)]
    together = work_of_many([one, other, one], [LIMITS] * 3, rows)
    np.testing.assert_allclose(together[1], work_of(other, [LIMITS], rows[1:2])[0])
    np.testing.assert_allclose(together[[0, 2]], work_of(one, [LIMITS] * 2, rows[::2]))


def grouped(inner: int, kernel: list[int]) -> dict[str, float]:
    one = {**operator("grouped", 1, 4e9, 1e4, 1e4), "inner": inner, "kernel": kernel, "groups": 4}
    found = work_of(trace_from_data({**data(), "operators": [one]}), [LIMITS], [row()])[0]
    return dict(zip(TERMS, found, strict=True))


def test_a_group_as_wide_as_a_layer_works_as_a_plain_convolution_does() -> None:
    wide, narrow, flat = grouped(9 * 64, [3, 3]), grouped(9 * 8, [3, 3]), grouped(192, [1])
    assert (wide["grouped"], wide["conv.large"]) == pytest.approx((0.0, 8e9 / 1e12))
    assert (narrow["grouped"], narrow["conv.large"]) == pytest.approx((8e9 / 1e12, 0.0))
    assert flat["conv1x1.large"] == pytest.approx(8e9 / 1e12)
    between = grouped(9 * 20, [3, 3])
    assert 0 < between["grouped"] < narrow["grouped"]


def test_batch_norm_is_apart_from_the_norms_that_no_runtime_folds_away() -> None:
    folded = {**operator("norm", 2, 0.0, 1e8), "name": "aten.native_batch_norm"}
    found = work_of(trace_from_data({**data(), "operators": [folded]}), [LIMITS], [row()])[0]
    terms = dict(zip(TERMS, found, strict=True))
    assert terms["batch norm"] == pytest.approx(2 * 4e8 / 1e11)
    assert terms["norm.large"] == terms["norm.small"] == 0.0
