from __future__ import annotations

import pytest

from domain.comparison.parity import FIELDS_A_DECADE, fields


def test_every_pair_lies_in_the_field_that_begins_at_or_below_it() -> None:
    pairs = [(0.0031, 0.0029), (1.0, 1.0), (9.99, 10.0), (123.4, 56.7)]
    width = 10 ** (1 / FIELDS_A_DECADE)
    for measured, predicted in pairs:
        (field,) = fields([(measured, predicted)])
        assert field["x"] <= measured * (1 + 1e-6) and measured < field["x"] * width * (1 + 1e-6)
        assert field["y"] <= predicted * (1 + 1e-6) and predicted < field["y"] * width * (1 + 1e-6)


def test_pairs_near_each_other_share_a_field_and_far_ones_do_not() -> None:
    found = fields([(1.01, 1.02), (1.1, 1.2), (1.01, 2.0)])
    assert [field["rows"] for field in found] == [2, 1]


@pytest.mark.parametrize("pair", [(0.0, 1.0), (1.0, -1.0), (float("nan"), 1.0), (1.0, float("inf"))])
def test_what_has_no_place_on_a_log_axis_is_left_out(pair: tuple[float, float]) -> None:
    assert fields([pair]) == []
