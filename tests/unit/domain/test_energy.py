"""Readings whose energy is known."""

from __future__ import annotations

import pytest

from domain.performance.energy import Energy, PowerReading, doubts, energy_of, figures, per_item_j


def of(
    *readings: tuple[float, float | None, float | None], idle: Energy | None = None, update_s: float = 0.01
) -> Energy:
    made = [PowerReading(at_s=at, power_w=power, energy_j=energy) for at, power, energy in readings]
    return energy_of(made, meter="nvml", scope="the GPU board", update_s=update_s, idle=idle)


def test_the_integral_is_the_area_under_power_and_the_count_is_the_counters_difference() -> None:
    found = of((10.0, 100.0, 5000.0), (11.0, 300.0, 5200.0), (13.0, 300.0, 5801.0))
    assert found.integrated_j == pytest.approx(200 + 600)
    assert found.counted_j == pytest.approx(801)
    assert found.joules == found.counted_j
    assert (found.seconds, found.longest_gap_s, found.readings) == (3.0, 2.0, 3)
    assert found.power_w == pytest.approx(267)
    assert doubts(found) == ("valid", [])


def test_the_ends_of_the_integral_are_held_where_the_meter_showed_nothing_yet() -> None:
    assert of((0.0, None, None), (1.0, 50.0, None), (2.0, None, None)).integrated_j == pytest.approx(100)


def test_nothing_read_is_a_reason_and_never_a_zero() -> None:
    for found in (of(), of((1.0, 5.0, None)), of((1.0, None, None), (2.0, None, None))):
        assert found.unread and found.joules is None and found.power_w is None
        assert figures(found, calls=10, batch_size=1, tokens=None) == {}
    assert figures(None, calls=10, batch_size=1, tokens=None) == {}


def test_a_counter_that_fell_was_reset_and_counts_nothing() -> None:
    found = of((0.0, 10.0, 900.0), (1.0, 10.0, 3.0))
    assert found.counted_j is None and found.joules == pytest.approx(10)


@pytest.mark.parametrize(("gap", "verdict"), [(2.9, "valid"), (3.1, "invalid")])
def test_a_gap_of_more_than_three_seconds_is_invalid(gap: float, verdict: str) -> None:
    found = of((0.0, 20.0, 0.0), (1.0, 20.0, 20.0), (1.0 + gap, 20.0, 20 + 20 * gap))
    assert doubts(found)[0] == verdict


def test_silence_between_readings_that_show_nothing_is_a_gap_too() -> None:
    assert doubts(of((0.0, 20.0, None), (2.0, None, None), (4.0, 20.0, None)))[0] == "invalid"


@pytest.mark.parametrize(
    ("counted", "verdict"), [(104.0, "valid"), (96.0, "valid"), (106.0, "suspect"), (94.0, "suspect")]
)
def test_the_integral_is_held_against_the_counter(counted: float, verdict: str) -> None:
    found, reasons = doubts(of((0.0, 100.0, 0.0), (1.0, 100.0, counted)))
    assert found == verdict
    assert all("energy counter" in reason for reason in reasons)


@pytest.mark.parametrize(("seconds", "verdict"), [(0.4, "invalid"), (1.5, "suspect"), (2.1, "valid")])
def test_a_series_must_outlast_the_meters_own_interval(seconds: float, verdict: str) -> None:
    found = of((0.0, 50.0, None), (seconds, 50.0, None), update_s=0.1)
    assert doubts(found)[0] == verdict


def test_rest_is_stated_and_taken_off_beside_the_whole() -> None:
    rest = of((0.0, 20.0, None), (1.0, 20.0, None))
    found = of((5.0, 100.0, None), (9.0, 100.0, None), idle=rest)
    assert (found.idle_w, found.idle_seconds) == (20.0, 1.0)
    told = figures(found, calls=8, batch_size=5, tokens=2)
    assert told == pytest.approx({
        "energy_j": 50.0, "power_w": 100.0, "energy_per_item_j": 10.0, "energy_per_token_j": 5.0,
        "idle_power_w": 20.0, "energy_above_idle_j": 40.0,
    })  # fmt: skip


def test_work_that_draws_less_than_rest_is_suspect_and_has_no_energy_above_it() -> None:
    rest = of((0.0, 200.0, None), (1.0, 200.0, None))
    found = of((5.0, 100.0, None), (7.0, 100.0, None), idle=rest)
    assert doubts(found)[0] == "suspect"
    assert "energy_above_idle_j" not in figures(found, calls=8, batch_size=1, tokens=None)


@pytest.mark.parametrize(
    ("row", "each"),
    [
        ({"energy_per_item_j": 0.5, "energy_j": 8.0, "batch_size": 4}, 0.5),
        ({"energy_j": 8.0, "batch_size": 4}, 2.0),
        ({"energy_j": 8.0, "concurrency": 16}, 8.0),
        ({"energy_j": 8.0}, None),
        ({"energy_j": 8.0, "batch_size": 4, "energy_verdict": "invalid"}, None),
        ({"energy_j": 8.0, "batch_size": 4, "energy_verdict": "suspect"}, 2.0),
        ({"batch_size": 4}, None),
    ],
)
def test_energy_of_an_item_is_said_or_that_of_a_call_over_its_batch(row, each):
    assert per_item_j(row) == each
