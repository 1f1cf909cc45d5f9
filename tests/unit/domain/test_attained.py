from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from domain.performance.achieved_roofline import grid, point_of, ridge, work_of
from domain.performance.roofline import Limits

LIMITS = Limits(peak_flops=1e12, bandwidth_bytes_per_s=1e11, launch_s=1e-6, activation_bytes=2.0, weight_bytes=4.0)
TOTALS = {"flops": 1e9, "read_elements": 3e6, "write_elements": 1e6, "weight_elements": 1e6}


def test_work_grows_with_the_batch_and_weights_are_read_once() -> None:
    assert work_of(TOTALS, LIMITS, batch_size=1) == (1e9, 4e6 * 2 + 1e6 * 4)
    assert work_of(TOTALS, LIMITS, batch_size=8) == (8e9, 8 * 4e6 * 2 + 1e6 * 4)
    step = work_of(TOTALS, LIMITS, batch_size=1, forward_for_training=True)
    assert step == pytest.approx((3e9, 3 * 12e6))


@pytest.mark.parametrize("missing", ["flops", "read_elements", "write_elements", "weight_elements"])
def test_totals_that_lack_a_figure_have_no_work(missing: str) -> None:
    assert work_of({**TOTALS, missing: None}, LIMITS, batch_size=1) is None


def test_a_point_below_its_roof_has_the_share_that_it_reached() -> None:
    work = work_of(TOTALS, LIMITS, batch_size=1)
    assert work is not None
    point = point_of(work, LIMITS, latency_ms=4.0)
    assert point.intensity == pytest.approx(1e9 / 12e6)
    assert point.flops_per_s == pytest.approx(2.5e11)
    assert (point.roof_flops_per_s, point.over) == (1e12, None)
    assert point.share == pytest.approx(0.25)


def test_the_limit_that_a_point_is_over_is_named() -> None:
    work = work_of(TOTALS, LIMITS, batch_size=1)
    assert work is not None
    assert point_of(work, LIMITS, latency_ms=0.9).over == "peak"
    moving = work._replace(flops=work.bytes)
    point = point_of(moving, LIMITS, latency_ms=0.06)
    assert (point.over, point.roof_flops_per_s) == ("bandwidth", pytest.approx(1e11))
    assert point.share == pytest.approx(2.0)


def test_the_ridge_is_where_traffic_stops_to_be_the_limit() -> None:
    assert ridge(1e12, 1e11) == pytest.approx(10)


Places = st.lists(
    st.tuples(st.floats(1e-3, 1e5), st.floats(1e6, 1e16), st.sampled_from(["cpu", "cuda"])), min_size=1, max_size=300
)


@given(Places, st.integers(40, 400))
def test_every_point_is_in_one_group_of_its_kind_led_by_its_best(
    places: list[tuple[float, float, str]], most: int
) -> None:
    groups = grid(places, most)
    assert sorted(index for group in groups for index in group) == list(range(len(places)))
    assert all(group == sorted(group) for group in groups)
    assert all(len({places[index][2] for index in group}) == 1 for group in groups)
    assert len(groups) <= len(places)


def test_points_are_joined_only_where_there_are_too_many() -> None:
    apart = [(1.0 + place / 10, 1e9, "cpu") for place in range(50)]
    assert len(grid(apart, 50)) == 50
    assert len(grid(apart, 10)) <= 10
