"""Times of schedules: five fields of cron, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.jobs.schedules import next_time
from domain.errors import UsageError

AFTER = datetime(2026, 11, 26, 18, 30, 12, tzinfo=UTC)  # a Thursday


@pytest.mark.parametrize(
    ("cron", "time"),
    [
        ("0 3 * * *", (2026, 11, 27, 3, 0)),
        ("*/5 * * * *", (2026, 11, 26, 18, 35)),
        ("15  2 1 jan *", (2027, 1, 1, 2, 15)),
        ("0 12 * * mon-fri", (2026, 11, 27, 12, 0)),
        ("0 0 29 2 *", (2028, 2, 29, 0, 0)),
    ],
)
def test_the_next_time_is_in_utc_and_after_the_moment(cron, time):
    assert next_time(cron, AFTER) == datetime(*time, tzinfo=UTC)
    assert next_time(cron, AFTER.astimezone(timezone(timedelta(hours=9)))) == datetime(*time, tzinfo=UTC)


@given(st.text(max_size=40) | st.text("0123456789*/,-# LRHmonja", max_size=20))
def test_any_other_text_is_refused_by_its_field(text):
    time = error = None
    try:
        time = next_time(text, AFTER)
    except UsageError as refused:
        error = refused
    if time is None:
        assert error.field == "cron" and error.remedy
    else:
        assert len(text.split()) == 5 and time - AFTER >= timedelta(seconds=1) and time.second == 0


def test_an_expression_with_random_parts_is_refused():
    for cron in ("R 3 * * *", "H 3 * * *", "r(0-9) 3 * * *"):
        with pytest.raises(UsageError):
            next_time(cron, AFTER)
