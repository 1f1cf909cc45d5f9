"""When a service trains by itself: something new, and time or drift."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from api.background.watch import Training, reason_to_train
from api.settings import Settings
from domain.errors import UsageError
from predictor.live.drift import Drift

NOW = datetime(2026, 11, 22, tzinfo=UTC)
DAY_S = 86400.0
CALM = Drift(flag=False, said="", predictor="p", scored=0, held=0)
DRIFTS = Drift(flag=True, said="", predictor="p", scored=30, held=10, newest_position=120)


def last(age_s: float, position: int = 100) -> Training:
    return Training(position=position, trained_at_position=position - 1, recorded_at=NOW - timedelta(seconds=age_s))


@pytest.mark.parametrize(
    ("drift", "newest", "measured", "expected"),
    [
        (CALM, None, 0, None),
        (CALM, None, 5, "on schedule, for the first time"),
        (CALM, last(DAY_S + 1), 120, "on schedule"),
        (CALM, last(DAY_S - 1), 120, None),
        (CALM, last(9 * DAY_S), 99, None),
        (DRIFTS, last(7200), 120, "because the predictor in force drifts"),
        (DRIFTS, last(1800), 120, None),
        (DRIFTS, last(7200, position=125), 130, None),
        (DRIFTS, last(7200), 99, None),
    ],
)
def test_it_is_time_where_something_is_new_and_time_or_drift_says_so(
    drift: Drift, newest: Training | None, measured: int, expected: str | None
) -> None:
    assert reason_to_train(drift, newest, measured, DAY_S, NOW) == expected


@pytest.mark.parametrize(
    ("text", "seconds"), [("", None), ("off", None), ("24h", 86400.0), ("1.5m", 90.0), ("7d", 604800.0), ("2s", 2.0)]
)
def test_how_often_is_read(text: str, seconds: float | None) -> None:
    settings = Settings.from_environment({"ASSAY_HOME": str(Path("/x")), "ASSAY_RETRAIN_EVERY": text})
    assert settings.retrain_every_s == seconds


@pytest.mark.parametrize("text", ["daily", "0h", "-1h", "24", "1e9s", "h"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        Settings.from_environment({"ASSAY_HOME": "/x", "ASSAY_RETRAIN_EVERY": text})
    assert refused.value.field == "ASSAY_RETRAIN_EVERY"
