import numpy as np
import pytest

from predictor.learning.evaluation import HeldOut, kendall_tau, pooled, score


def test_tau_counts_pairs_in_the_same_order() -> None:
    assert kendall_tau(np.array([1.0, 2, 3, 4]), np.array([10.0, 20, 30, 40])) == 1
    assert kendall_tau(np.array([1.0, 2, 3, 4]), np.array([4.0, 3, 2, 1])) == -1
    assert kendall_tau(np.array([1.0, 2, 3, 4]), np.array([1.0, 2, 4, 3])) == pytest.approx(1 - 2 / 6)
    assert kendall_tau(np.array([1.0, 2]), np.array([1.0, 2])) is None


def test_scores_by_hand() -> None:
    # Measured 100 ms; predicted 100, 125 and 80 ms.
    errors = np.log(100 / np.array([100.0, 125, 80]))
    widths = {0.8: np.full(3, 0.1), 0.9: np.full(3, 0.3)}
    blocks = np.array(["a", "a", "a"])
    latency = score(errors, np.full(3, 100.0), widths, "latency", blocks)
    assert latency["mape"] == pytest.approx((0 + 0.25 + 0.2) / 3, abs=1e-6)
    assert latency["median_ape"] == pytest.approx(0.2)
    assert (latency["within_10"], latency["within_20"]) == pytest.approx((1 / 3, 2 / 3), abs=1e-6)
    assert (latency["coverage_80"], latency["coverage_90"]) == pytest.approx((1 / 3, 1), abs=1e-6)
    assert latency["width_80"] == pytest.approx(np.exp(0.1) - np.exp(-0.1), abs=1e-6)
    throughput = score(errors, np.full(3, 100.0), widths, "throughput", blocks)
    assert throughput["mape"] == pytest.approx((0 + 0.2 + 0.25) / 3, abs=1e-6)


def test_no_interval_is_no_coverage() -> None:
    nothing = {0.8: np.full(2, np.nan), 0.9: np.full(2, np.nan)}
    found = score(np.zeros(2), np.ones(2), nothing, "latency", np.array(["a", "a"]))
    assert found["coverage_80"] is None
    assert found["width_80"] is None
    assert found["kendall_tau"] is None


def test_draws_of_shots_are_pooled_with_the_widths_of_each() -> None:
    def draw(place: int) -> HeldOut:
        count = place + 1
        return HeldOut(
            index=np.arange(count), errors=np.full(count, 0.1 * count), difficulty=np.ones(count),
            groups=np.array(["a"] * count), widths={0.8: np.full(count, 0.15)},
        )  # fmt: skip

    held = pooled([draw(0), draw(1)])
    assert held.index.tolist() == [0, 0, 1]
    assert held.groups.tolist() == ["a", "a", "a"]
    assert (np.abs(held.errors) <= held.widths[0.8]).tolist() == [True, False, False]
