from typing import Any

import numpy as np
import pytest

from predictor.features.dataset import Row
from predictor.features.table import Table
from predictor.learning.covariance import Kin, covariance, kin_of, own_variance, version_steps


def kin(*rows: dict[str, Any], known: tuple[str, ...] = (), balance: tuple[float, ...] | None = None) -> Kin:
    given = {
        "model": "m", "hardware": "dev", "platform": "cuda", "precision": "fp16", "batch_size": 8, "runtime": "torch",
        "runtime_version": "2.4",
    }  # fmt: skip
    made = [Row(**{**given, **row}) for row in rows]
    ones = np.ones(len(made))
    table = Table(
        target="latency", rows=made, names=("balance",), values=np.array(balance or ones * 0.0)[:, None], prior=ones,
        measured=ones, subjects=[None] * len(made), limits=[None] * len(made),
        architecture=np.array([row.model for row in made], dtype=str), family=np.array(["f"] * len(made), dtype=str),
    )  # fmt: skip
    return kin_of(table, known, ())


def shared(one: dict[str, Any], other: dict[str, Any]) -> float:
    both = kin({"model": "a", **one}, {"model": "b", **other})
    return float(covariance(both, both, both.axes.mean(axis=0))[0][0, 1])


def test_the_nearer_the_software_the_more_is_shared() -> None:
    same = shared({}, {})
    assert same > shared({}, {"runtime_version": "2.9"}) > shared({}, {"runtime_version": "1.10"})
    assert same > shared({}, {"layout": "nhwc"}) > shared({}, {"compiled": True}) > shared({}, {"hardware": "other"})
    assert shared({}, {"hardware": "other"}) == 0.0
    assert shared({}, {"model": "a", "hardware": "other"}) > 0.0


def test_a_device_that_trained_has_little_left_to_learn() -> None:
    rows: tuple[dict[str, Any], ...] = ({"model": "a"}, {"model": "b"})
    new, old = kin(*rows), kin(*rows, known=("dev",))
    assert covariance(old, old, old.axes[0])[0][0, 1] < 0.2 * covariance(new, new, new.axes[0])[0][0, 1]


def test_variances_are_the_diagonal_and_the_parts_are_covariances() -> None:
    versions = ("1.10", "1.13", "2.0", "2.4", "2.9", "2.9")
    rows = [{"model": f"m{index % 4}", "runtime_version": version} for index, version in enumerate(versions)]
    both = kin(*rows, balance=(-3.0, -1.0, 0.0, 0.5, 2.0, 2.5))
    centre = both.axes.mean(axis=0)
    for part, own in zip(covariance(both, both, centre), own_variance(both, centre), strict=True):
        np.testing.assert_allclose(np.diag(part), own)
        assert np.linalg.eigvalsh(part).min() > -1e-9


@pytest.mark.parametrize(("version", "steps"), [("2.0", 28.0), ("1.13", 27.0), ("2.13.0", 41.0), ("", 0.0), ("x", 0.0)])
def test_versions_are_counted_in_minor_ones(version: str, steps: float) -> None:
    assert version_steps(version) == steps
