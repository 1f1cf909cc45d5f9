"""Noise does not alarm, and what is slower does: the rates of docs/regressions.md hold, at a smaller size."""

from __future__ import annotations

import pytest

from research.regressions import LAWS, alarms

BY_NAME = {law.name: law for law in LAWS}
PAIRS = 150


@pytest.mark.parametrize("name", [law.name for law in LAWS if not law.between_runs])
def test_calls_that_vary_do_not_alarm(name):
    assert alarms(BY_NAME[name], 0.0, 0.1, PAIRS) <= 0.01


def test_independent_calls_do_not_alarm_at_a_tight_threshold_either():
    assert alarms(BY_NAME["calls vary by 5 %, independent"], 0.0, 0.02, PAIRS) <= 0.01


def test_runs_that_differ_alarm_seldom_once_their_spread_is_known():
    unknown = alarms(BY_NAME["runs differ by 5 %"], 0.0, 0.1, PAIRS)
    known = alarms(BY_NAME["runs differ by 5 %, ten runs known"], 0.0, 0.1, PAIRS)
    assert unknown > 0.03
    assert known <= 0.03


@pytest.mark.parametrize("name", ["calls vary by 5 %, independent", "runs differ by 3 %"])
def test_half_as_slow_again_alarms(name):
    assert alarms(BY_NAME[name], 0.5, 0.1, PAIRS) >= 0.99
