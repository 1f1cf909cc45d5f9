"""The largest number that fits, found for many cases at once."""

from __future__ import annotations

import numpy as np
import pytest

from predictor.capacity.capacity_entry import largest


@pytest.mark.parametrize("most", [1, 2, 7, 64, 65536])
def test_it_is_what_trying_every_number_gives(most: int) -> None:
    limits = np.array([0, 1, 2, 3, 5, 6, 7, 8, 63, 64, 65, 1000, 65535, 65536, 70000])
    found = largest(lambda cases, sizes: sizes <= limits[cases], len(limits), most)
    assert found.tolist() == np.minimum(limits, most).tolist()


@pytest.mark.parametrize("limit", range(20))
def test_one_case_alone(limit: int) -> None:
    assert largest(lambda _, sizes: sizes <= limit, 1, 16).tolist() == [min(limit, 16)]


def test_all_cases_are_asked_together_and_few_times() -> None:
    limits = np.random.default_rng(1).integers(0, 65537, 500)
    asked: list[int] = []

    def fits(cases: np.ndarray, sizes: np.ndarray) -> np.ndarray:
        asked.append(len(cases))
        return sizes <= limits[cases]

    assert largest(fits, len(limits), 65536).tolist() == limits.tolist()
    assert len(asked) <= 34
    assert asked[0] == 500


def test_nothing_is_asked_where_there_is_no_case() -> None:
    assert largest(lambda cases, sizes: sizes > 0, 0, 64).tolist() == []


def test_what_fits_again_above_a_hole_does_not_count() -> None:
    # 1, 2 and 4 fit, 8 does not, 16 would: between 4 and 8 lies the answer.
    found = largest(lambda _, sizes: (sizes < 6) | (sizes > 8), 1, 64)
    assert found.tolist() == [5]
