import math

import numpy as np
import pytest

from predictor.learning.shrinkage import Nested

PATHS = [("a", "x")] * 40 + [("a", "y")] * 2 + [("b", "z")] * 40
VALUES = np.array([1.0] * 40 + [9.0] * 2 + [3.0] * 40)


def nested(between: float = 1.0, within: float = 1.0) -> Nested:
    return Nested.fitted(VALUES, PATHS, between=between, within=within)


def test_many_rows_speak_for_themselves_and_few_lean_on_the_group_around_them() -> None:
    found = nested()
    assert found.at(("b", "z")).mean == pytest.approx(3.0, abs=0.1)
    few = found.at(("a", "y"))
    assert 1.5 < few.mean < 9.0
    assert few.rows == 2
    assert few.spread > found.at(("b", "z")).spread


def test_what_is_unknown_is_answered_by_the_narrowest_known_group_with_a_wider_spread() -> None:
    found = nested()
    known, unknown = found.at(("a",)), found.at(("a", "new"))
    assert unknown.mean == known.mean
    assert unknown.spread == pytest.approx(math.hypot(known.spread, 1.0))
    assert found.at(("c", "new")).mean == found.at(()).mean
    assert found.at(("c", "new")).spread > unknown.spread


def test_one_odd_value_does_not_move_a_group() -> None:
    odd = np.array([1.0] * 9 + [100.0])
    assert Nested.fitted(odd, [("a",)] * 10, between=1.0, within=0.5).at(("a",)).mean == pytest.approx(1.0, abs=0.1)


def test_no_value_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Nested.fitted(np.zeros(0), [], between=1.0, within=1.0)
