"""Drift: raised by misses that chance does not explain, by nothing else, and seldom in vain."""

from __future__ import annotations

import random
from typing import Any

import pytest

from predictor.live.drift import CHANCE, WINDOW, drift, lower_tail
from predictor.live.scored_predictions import Scored

IN_FORCE = "sha256:" + "a" * 64


def scored(index: int, *, held: bool, **changes: Any) -> Scored:
    told: dict[str, Any] = {
        "target": "latency", "basis": "calibrated", "model": f"m{index}", "hardware": "h", "platform": "cuda",
        "precision": "fp16", "configuration": f"c{index}", "predicted": 2.0, "low": 1.8, "high": 2.2, "interval": 0.8,
        "measured": 2.1 if held else 3.0, "supported": True, "predictor": IN_FORCE, "position": index + 1,
        "event_id": f"p{index}", "measured_position": 1000 + index, "measured_event_id": f"e{index}",
    }  # fmt: skip
    return Scored(**{**told, **changes})


def series(held: int, missed: int, **changes: Any) -> list[Scored]:
    return [scored(index, held=index < held, **changes) for index in range(held + missed)]


def test_a_kept_promise_is_no_drift_and_a_broken_one_is() -> None:
    kept = drift(series(16, 4), IN_FORCE)
    assert (kept.flag, kept.scored, kept.held, kept.promised) == (False, 20, 16, 0.8)
    broken = drift(series(8, 12), IN_FORCE)
    assert broken.flag
    assert broken.said.startswith("Drift: The intervals held 8 of the last 20 models on a device")
    assert broken.newest_position == 1019
    assert [one["measurement"] for one in broken.evidence] == [f"e{index}" for index in range(19, 7, -1)]
    assert broken.evidence[0]["prediction"] == "p19"


def test_wide_intervals_that_hold_are_right_however_large_the_error() -> None:
    assert not drift(series(0, 30, low=0.1, high=9.0), IN_FORCE).flag


@pytest.mark.parametrize(
    "changes",
    [{"supported": False}, {"predictor": "sha256:" + "b" * 64}, {"low": None, "high": None}, {"interval": None}],
)
def test_what_promises_nothing_breaks_no_promise(changes: dict[str, Any]) -> None:
    told = drift(series(0, 30, **changes), IN_FORCE)
    assert (told.flag, told.scored) == (False, 0)
    assert "measured yet" in told.said


def test_a_model_on_a_device_counts_once_by_its_newest_score() -> None:
    many = [scored(index, held=False, model="one") for index in range(30)]
    assert drift(many, IN_FORCE).scored == 1
    assert not drift(many, IN_FORCE).flag
    newest = drift([scored(0, held=False), scored(1, held=True, model="m0")], IN_FORCE)
    assert (newest.scored, newest.held) == (1, 1)


def test_only_the_newest_count() -> None:
    old = series(0, 40)
    new = [scored(100 + index, held=True) for index in range(WINDOW)]
    told = drift([*old, *new], IN_FORCE)
    assert (told.flag, told.scored, told.held) == (False, WINDOW, WINDOW)


def test_the_tail_is_the_binomials() -> None:
    assert lower_tail(0, 3, 0.8) == pytest.approx(0.008)
    assert lower_tail(2, 3, 0.8) == pytest.approx(1 - 0.512)
    assert lower_tail(3, 3, 0.8) == pytest.approx(1.0)


def first_alarm(holds: float, looks: int, chance: random.Random, alarms: list[list[bool]]) -> int | None:
    """Return after how many scores the flag goes up, as `drift` looks at them one after the other."""
    window: list[bool] = []
    for look in range(1, looks + 1):
        window = [*window, chance.random() < holds][-WINDOW:]
        if alarms[len(window)][sum(window)]:
            return look
    return None


def test_two_hundred_looks_raise_it_seldom_in_vain_and_find_what_is_broken() -> None:
    alarms = [[lower_tail(held, count, 0.8) < CHANCE for held in range(count + 1)] for count in range(WINDOW + 1)]
    chance = random.Random(0)
    in_vain = [first_alarm(0.8, 200, chance, alarms) for _ in range(1000)]
    assert sum(look is not None for look in in_vain) / 1000 < 0.035
    half = sorted(look or 999 for look in (first_alarm(0.5, 200, chance, alarms) for _ in range(1000)))
    assert half[-1] < 200
    assert half[500] <= 25


def test_a_model_that_is_measured_again_is_among_the_newest() -> None:
    others = [scored(index, held=True) for index in range(1, WINDOW + 1)]
    told = drift([scored(0, held=True), *others, scored(0, held=False, measured_position=5000)], IN_FORCE)
    assert (told.scored, told.held, told.newest_position) == (WINDOW, WINDOW - 1, 5000)
