"""Token buckets on a clock of the test's own."""

from __future__ import annotations

import math

import pytest

from api.http.access import KEPT, Buckets, limits
from api.http.problems import RateLimited
from api.settings import Rate, Settings
from domain.errors import UsageError


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_lets_a_burst_through_and_then_its_rate():
    clock = Clock()
    buckets = Buckets("requests", 5, clock=clock)
    for _ in range(10):
        buckets.take("one")
    with pytest.raises(RateLimited) as refused:
        buckets.take("one")
    assert refused.value.retry_after_s == 1
    assert buckets.take("other") == 9
    for _ in range(50):
        clock.now += 0.25
        buckets.take("one")
    clock.now += 1000
    assert buckets.take("one") == 9


def test_more_than_a_bucket_holds_is_owed():
    clock = Clock()
    buckets = Buckets("events", 100, clock=clock)
    assert buckets.take("one", 5000) == -4800
    with pytest.raises(RateLimited) as refused:
        buckets.take("one", 1)
    assert refused.value.retry_after_s == 49
    clock.now += 48.5
    assert buckets.take("one", 1) == pytest.approx(49.0)


def test_what_is_left_is_said():
    buckets = Buckets("requests", 5, clock=Clock())
    assert buckets.headers(buckets.take("one")) == [
        (b"ratelimit-policy", b'"requests";q=10;w=2'), (b"ratelimit", b'"requests";r=9;t=1'),
    ]  # fmt: skip


def test_buckets_of_strangers_are_forgotten():
    clock = Clock()
    buckets = Buckets("requests", 1, clock=clock)
    for number in range(3 * KEPT):
        buckets.take(str(number))
        clock.now += 1
    assert len(buckets._buckets) <= KEPT


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("", None), ("20", (20, math.inf)), ("20,3000", (20, 3000)), ("off", (math.inf, math.inf)),
    ],
)  # fmt: skip
def test_the_setting(text, rate):
    found = Settings.from_environment({"ASSAY_HOME": "/x", "ASSAY_RATE_LIMIT": text}).rate
    assert found == (rate if rate is None else Rate(requests_per_s=rate[0], events_per_s=rate[1]))
    assert found is None or (limits(found) is None) == (text == "off")


@pytest.mark.parametrize("text", ["0", "-1", "many", "1,2,3", "1,", "nan"])
def test_a_setting_that_makes_no_sense_is_named(text):
    with pytest.raises(UsageError) as refused:
        Settings.from_environment({"ASSAY_HOME": "/x", "ASSAY_RATE_LIMIT": text})
    assert refused.value.field == "ASSAY_RATE_LIMIT"
