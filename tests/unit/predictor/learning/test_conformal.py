import math

import numpy as np
import pytest

from predictor.artifact.conformal import Widths, coverage, rescaled, width, width_between


def test_width_is_the_corrected_quantile() -> None:
    errors = np.array([0.4, -0.1, 0.2, -0.3])
    # Four draws and the one to come: 80 % of five is the fourth, 90 % cannot be told.
    assert width(errors, 0.8) == pytest.approx(0.4)
    assert width(errors, 0.5) == pytest.approx(0.3)
    assert width(errors, 0.9) == math.inf
    assert width(np.zeros(0), 0.5) == math.inf


@pytest.mark.parametrize("nominal", [0.8, 0.9])
def test_coverage_of_known_noise_is_the_nominal_one(nominal: float) -> None:
    random = np.random.default_rng(7)
    reached = [coverage(random.laplace(0, 0.1, 500), width(random.laplace(0, 0.1, 200), nominal)) for _ in range(200)]
    assert float(np.mean(reached)) == pytest.approx(nominal, abs=0.015)


def test_groups_weigh_the_same_however_many_rows_they_have() -> None:
    errors = np.concatenate([np.full(1000, 0.01), np.full(1, 0.5), np.full(1, 0.6), np.full(1, 0.7), np.full(1, 0.8)])
    groups = ["big"] * 1000 + ["a", "b", "c", "d"]
    assert width(errors, 0.5, groups) == pytest.approx(0.6)
    assert width(errors, 0.5) == pytest.approx(0.01)


def test_new_groups_are_covered_by_group_widths_and_not_by_row_widths() -> None:
    random = np.random.default_rng(3)

    def draw(groups: int, rows: int) -> tuple[np.ndarray, list[str]]:
        centre = np.repeat(random.normal(0, 0.2, groups), rows)
        return centre + random.normal(0, 0.02, groups * rows), [str(index) for index in np.repeat(range(groups), rows)]

    grouped = []
    for _ in range(150):
        known, names = draw(30, 20)
        grouped.append(coverage(draw(30, 5)[0], width(known, 0.8, names)))
    assert float(np.mean(grouped)) == pytest.approx(0.8, abs=0.04)


def test_a_farther_level_is_never_narrower() -> None:
    near, far = np.linspace(0, 1, 200), np.linspace(0, 0.5, 200)
    widths = Widths.fitted({"interpolation": (near, None), "new_family": (far, None)})
    assert widths.of("new_family", 0.8) == widths.of("interpolation", 0.8)
    assert widths.of("new_hardware") is None
    few = Widths.fitted({"new_hardware": (near, ["a"] * 200)})
    assert few.of("new_hardware", 0.9) is None


def test_widths_in_units_of_difficulty_cover_the_hard_and_are_narrow_on_the_usual() -> None:
    random = np.random.default_rng(11)
    difficulty = np.exp(random.normal(0, 0.6, 4000))
    errors = random.normal(0, 0.1, 4000) * difficulty
    known, new = slice(0, 2000), slice(2000, 4000)
    constant = np.full(2000, width(errors[known], 0.8))
    scaled = width(errors[known] / difficulty[known], 0.8) * difficulty[new]
    assert coverage(errors[new], constant) == pytest.approx(0.8, abs=0.03)
    assert coverage(errors[new], scaled) == pytest.approx(0.8, abs=0.03)
    assert float(np.median(scaled)) < 0.95 * float(np.median(constant))
    hard = difficulty[new] > 2
    assert coverage(errors[new][hard], constant[hard]) < 0.6 < coverage(errors[new][hard], scaled[hard])


@pytest.mark.parametrize(("spread", "rows"), [(0.0, 40), (0.5, 40), (1.0, 200)])
@pytest.mark.parametrize("groups", [4, 10])
def test_widths_between_groups_cover_the_next_group_whether_groups_are_alike_or_not(
    spread: float, rows: int, groups: int
) -> None:
    random = np.random.default_rng(5)

    def draw(count: int) -> tuple[np.ndarray, list[str]]:
        scale = np.repeat(np.exp(random.normal(0, spread, count)), rows)
        return random.normal(0, 0.1, count * rows) * scale, np.repeat(np.arange(count), rows).astype(str).tolist()

    reached = []
    for _ in range(300):
        known, names = draw(groups)
        reached.append(coverage(draw(1)[0], width_between(known, 0.8, names)))
    assert float(np.mean(reached)) == pytest.approx(0.8, abs=0.04)


def test_one_group_says_nothing_about_the_next() -> None:
    assert width_between(np.array([0.1, 0.2]), 0.8, ["a", "a"]) == math.inf


def test_each_group_is_rescaled_by_the_others_alone() -> None:
    random = np.random.default_rng(2)
    groups = np.repeat(["a", "b", "c", "d"], 500)
    errors = random.normal(0, 0.3, 2000)
    widths = np.where(groups == "d", np.nan, np.full(2000, 0.1))
    changed = np.where(groups == "a", 50 * errors, errors)
    answer = rescaled(changed, widths, 0.8, groups.tolist())
    assert answer[groups == "a"][0] == pytest.approx(0.3 * 1.2816, rel=0.15)
    assert answer[groups == "b"][0] > 3 * answer[groups == "a"][0]
    assert np.isnan(answer[groups == "d"]).all()
    two = np.where(np.isin(groups, ["a", "b"]), widths, np.nan)
    assert rescaled(errors, two, 0.8, groups.tolist())[0] == 0.1
