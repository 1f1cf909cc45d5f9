"""What rows that are left out together tell of each other."""

import numpy as np
import pytest

from domain.catalogues import hardware
from predictor.llm_serving.neighbours import Neighbours, points_of
from predictor.llm_serving.table import tabulate


def rows(served):
    """Loads of two models whose times lie off physics by factors of their own."""
    return [
        served(
            model=model,
            concurrency=count,
            batch_size=count,
            tpot_ms=factor * 4 * (1 + count / 30),
            ttft_ms=100.0 + count,
        )
        for model, factor in (("meta-llama/Llama-3.1-70B", 3.0), ("meta-llama/Llama-3.1-8B", 2.0))
        for count in (1, 2, 4, 8, 16, 32, 64)
    ]


def test_rows_left_out_have_the_variances_of_without_and_rows_never_seen_those_of_predict(served) -> None:
    table = tabulate(rows(served), hardware.find, "tpot")
    known, asked = table.take(range(10)), table.take(range(10, 14))
    fitted = Neighbours.fit(points_of(known), known.residual)
    mean, covariance = fitted.joint(points_of(asked))
    said, variance = fitted.predict(points_of(asked))
    assert mean == pytest.approx(said)
    assert np.diag(covariance) == pytest.approx(variance)
    assert covariance == pytest.approx(covariance.T)
    group = np.array([1, 4, 5])
    mean, covariance = fitted.left_out(group)
    said, variance = fitted.without([group])
    assert mean == pytest.approx(said[group])
    assert np.diag(covariance) == pytest.approx(variance[group])


def test_a_row_that_is_measured_moves_its_like_as_if_it_had_been_among_the_neighbours(served) -> None:
    table = tabulate(rows(served), hardware.find, "tpot")
    known, asked = table.take(range(10)), table.take(range(10, 14))
    fitted = Neighbours.fit(points_of(known), known.residual)
    mean, covariance = fitted.joint(points_of(asked))
    moved = mean[1:] + covariance[1:, 0] / covariance[0, 0] * (asked.residual[0] - mean[0])
    one = asked.take([0])
    said, _ = fitted.extended(points_of(one), one.residual).predict(points_of(asked.take([1, 2, 3])))
    assert said == pytest.approx(moved, abs=1e-6)
