from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from api.background.lag_history import KEPT, LagHistory
from ingest.projection.lag import Health

START = datetime(2026, 11, 22, 12, 0, 5, tzinfo=UTC)


def health(lag: int | None) -> Health:
    return Health(
        position=1, log_position=None, lag_events=lag, lag_seconds=None if lag is None else lag / 10, dead_letters=0,
        error=None, running=True,
    )  # fmt: skip


def looked(*seen: tuple[int, int | None]) -> LagHistory:
    """Look at so many seconds after the start, and see so many events of lag."""
    at: Iterator[tuple[int, int | None]] = iter(seen)
    now = START

    def ask() -> Health:
        nonlocal now
        seconds, lag = next(at)
        now = START + timedelta(seconds=seconds)
        return health(lag)

    minutes = LagHistory(ask, clock=lambda: now)
    for _ in seen:
        minutes.look()
    return minutes


def test_the_worst_of_a_minute_is_kept() -> None:
    (first, second) = looked((0, 3), (10, 70), (20, 1), (60, 2)).kept()
    assert (first.at, first.lag_events, first.lag_seconds) == (START.replace(second=0), 70, 7.0)
    assert (second.at - first.at, second.lag_events) == (timedelta(minutes=1), 2)


def test_what_is_not_known_is_null_and_a_minute_that_nobody_saw_is_missing() -> None:
    kept = looked((0, None), (10, None), (180, None), (190, 4)).kept()
    assert [one.lag_events for one in kept] == [None, 4]
    assert kept[1].at - kept[0].at == timedelta(minutes=3)


def test_a_day_is_kept_at_most() -> None:
    kept = looked(*((60 * minute, minute) for minute in range(KEPT + 5))).kept()
    assert (len(kept), kept[0].lag_events, kept[-1].lag_events) == (KEPT, 5, KEPT + 4)
