"""What one measurement tells of other figures."""

import numpy as np
import pytest

from predictor.choosing.rule import Belief


def belief() -> Belief:
    """Two figures that err together, and one apart from them."""
    return Belief(
        mean=np.log([1.0, 2.0, 4.0]), covariance=np.array([[0.2, 0.1, 0.0], [0.1, 0.2, 0.0], [0.0, 0.0, 0.2]])
    )


def test_a_measured_figure_is_known_and_tells_of_those_that_err_with_it() -> None:
    after = belief().observed(0, 2.0)
    assert np.exp(after.mean) == pytest.approx([2.0, 2.0 * 2**0.5, 4.0])
    assert after.spread == pytest.approx([0.0, 0.15**0.5, 0.2**0.5])
    assert after.chances(1.9)[0] == 0
    assert after.chances(2.1)[0] == 1


def test_what_was_believed_before_stays_and_a_second_look_changes_nothing() -> None:
    before = belief()
    after = before.observed(0, 2.0)
    assert before.mean[0] == 0
    assert after.observed(0, 3.0) is after


def test_the_order_of_measurements_does_not_matter() -> None:
    one, other = belief().observed(0, 2.0).observed(1, 3.0), belief().observed(1, 3.0).observed(0, 2.0)
    assert one.mean == pytest.approx(other.mean)
    assert one.covariance == pytest.approx(other.covariance)


def test_a_part_keeps_what_its_figures_share() -> None:
    assert belief().part(np.array([2, 0])).covariance == pytest.approx(np.diag([0.2, 0.2]))


def test_wider_beliefs_promise_less() -> None:
    assert belief().chances(2.0)[0] > belief().chances(2.0, 2.0)[0] > 0.5
