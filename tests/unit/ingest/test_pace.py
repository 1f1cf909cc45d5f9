"""The pace of the projector: at once after a pause, half of the time in the long run."""

import pytest

from ingest.projection.projector import Pace


def test_after_a_pause_nothing_is_waited_for():
    pace = Pace(share=0.5, saved_s=0.2)
    assert pace.rest_s(10.0, 10.05) == 0.0
    assert pace.rest_s(10.06, 10.11) == 0.0


def test_steady_work_takes_half_of_the_time():
    pace = Pace(share=0.5, saved_s=0.2)
    now = worked = 0.0
    while now < 60.0:
        begun, now = now, now + 0.03
        worked += 0.03
        now += pace.rest_s(begun, now)
    assert worked / now == pytest.approx(0.5, abs=0.02)


def test_long_work_is_not_followed_by_a_long_rest():
    assert Pace(most_s=0.1).rest_s(0.0, 30.0) == pytest.approx(0.1)


def test_steady_work_with_a_small_share_is_bounded_by_the_longest_rest():
    pace = Pace(share=0.1, saved_s=0.0, most_s=0.25)
    assert pace.rest_s(0.0, 0.01) == pytest.approx(0.1)
    assert pace.rest_s(0.1, 0.4) == pytest.approx(0.25)
