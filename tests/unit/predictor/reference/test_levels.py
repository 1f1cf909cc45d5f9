import numpy as np
import pytest

from predictor.device_transfer.levels import decompose

PIECES, DEVICES = 120, 7


def made(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Log figures of pieces in three software configurations, with nothing but levels and shifts in them."""
    random = np.random.default_rng(seed)
    software = np.arange(PIECES) % 3
    level = random.normal(scale=2.0, size=PIECES)
    shifts = random.normal(scale=0.5, size=(3, DEVICES))
    shifts -= shifts.mean(axis=1, keepdims=True)
    return level[:, None] + shifts[software], software, level, shifts


def test_levels_and_shifts_come_out_of_figures_with_gaps() -> None:
    figures, software, level, shifts = made()
    figures[np.random.default_rng(1).random(figures.shape) < 0.3] = np.nan
    found = decompose(figures, software)
    assert found.level[:, None] + found.shifts[software] == pytest.approx(level[:, None] + shifts[software], abs=0.02)
    assert np.abs(found.profile).max() < 0.05


def test_an_odd_figure_moves_a_level_little() -> None:
    figures, software, level, _ = made()
    figures[5, 2] += 3.0
    found = decompose(figures, software)
    assert found.level[5] == pytest.approx(level[5], abs=0.12)
    assert found.profile[5, 2] > 2.5
    assert found.scatter[5] > 5 * np.median(found.scatter)


def test_a_profile_that_was_not_measured_is_filled_from_what_alike_pieces_do() -> None:
    figures, software, _, _ = made()
    heavy = np.arange(PIECES) % 2 == 0
    away = np.array([1.0, 1.0, -1.0, -1.0, 0.0, 0.0, 0.0]) * 0.4
    figures += np.where(heavy[:, None], away, -away)
    figures[10, 0] = np.nan
    assert decompose(figures, software).profile[10, 0] == pytest.approx(0.4, abs=0.1)


def test_a_device_without_a_software_configuration_is_shifted_as_on_its_others() -> None:
    figures, software, _, shifts = made()
    figures[software == 2, 3] = np.nan
    found = decompose(figures, software)
    assert found.shifts[2, 3] == pytest.approx(found.shifts[:2, 3].mean())
    assert found.shifts[0, 3] == pytest.approx(shifts[0, 3], abs=0.1)


def test_levels_compare_across_software_that_different_devices_ran() -> None:
    random = np.random.default_rng(0)
    speed, level = np.array([-1.0, 0.0, 1.0]), random.normal(size=PIECES)
    software = np.arange(PIECES) % 2
    figures = level[:, None] + speed
    figures[software == 0, 2] = np.nan
    figures[software == 1, 0] = np.nan
    found = decompose(figures, software)
    assert found.level - level == pytest.approx(np.full(PIECES, (found.level - level)[0]), abs=0.05)
    assert set(found.scale.tolist()) == {0}


def test_software_that_no_device_joins_has_a_scale_of_its_own() -> None:
    figures, software, _, _ = made()
    figures[software == 2, :4] = np.nan
    figures[np.ix_(software != 2, [4, 5, 6])] = np.nan
    assert decompose(figures, software).scale.tolist() == [0, 0, 2]
