"""The times of `assay jobs submit --at`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.cli.measure.jobs import moment
from domain.errors import UsageError

NOW = datetime(2026, 11, 26, 18, 0, tzinfo=timezone(timedelta(hours=2)))


@given(st.integers(0, 99), st.integers(0, 99), st.integers(0, 999), st.integers(1, 9999))
def test_a_span_is_added_to_now(days, hours, minutes, seconds):
    text = f"+{days}d{hours}h{minutes}m{seconds}s"
    assert moment(text, NOW) == NOW + timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)


@given(st.integers(0, 23), st.integers(0, 59))
def test_a_time_of_day_is_the_next_one(hour, minute):
    found = moment(f"{hour}:{minute:02}", NOW)
    assert (found.hour, found.minute, found.tzinfo) == (hour, minute, NOW.tzinfo)
    assert NOW < found <= NOW + timedelta(days=1)


@given(st.integers(1, 36_000), st.integers(0, 86_399))
def test_a_date_is_in_the_zone_of_now_unless_it_names_one(days, seconds):
    named = NOW.replace(tzinfo=None) + timedelta(days=days, seconds=seconds)
    assert moment(named.isoformat(), NOW) == named.replace(tzinfo=NOW.tzinfo)
    assert moment(named.replace(tzinfo=UTC).isoformat(), NOW) == named.replace(tzinfo=UTC)


@given(st.text(max_size=30))
def test_what_is_no_time_is_refused_with_the_field(text):
    try:
        found = moment(text, NOW)
    except UsageError as refused:
        field = refused.field
    else:
        assert found > NOW
        return
    assert field == "at"


@pytest.mark.parametrize(
    "text", ["2026-11-26T17:59", "2020-01-01", "2026-11-26T15:59:59+00:00", "+", "25:00", "+99999h1x"]
)
def test_times_that_are_past_or_none_are_refused(text):
    with pytest.raises(UsageError) as refused:
        moment(text, NOW)
    assert refused.value.field == "at"
    assert refused.value.remedy
