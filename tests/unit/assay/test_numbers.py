from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from presentation import formatting

NAMES = (
    "latency",
    "throughput",
    "memory",
    "share",
    "factor",
    "change",
    "money",
    "count",
    "significant",
    "date",
    "digest",
)


@pytest.mark.parametrize("name", NAMES)
def test_missing_is_an_em_dash_and_never_zero(name: str) -> None:
    assert getattr(formatting, name)(None) == "—"


@pytest.mark.parametrize("name", ["latency", "throughput", "memory", "share", "factor", "significant"])
def test_what_is_no_number_is_missing(name: str) -> None:
    assert getattr(formatting, name)(float("nan")) == "—"
    assert getattr(formatting, name)(float("inf")) == "—"


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1.2, "1.20 ms"), (0.0412, "41.2 µs"), (12345.0, "12.3 s"), (9.996, "10.0 ms"), (0.0, "0 µs"), (999.0, "999 ms")],
)
def test_latency_has_three_figures_and_a_unit_that_fits(value: float, expected: str) -> None:
    assert formatting.plain(formatting.latency(value)) == expected


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((1.2, 1.19, 1.21), "1.20 ms (1.19–1.21)"),
        ((1.2, 0.9, 1.6), "1.2 ms (0.9–1.6)"),
        ((1.2, 1.1995, 1.2005), "1.200 ms (1.200–1.200)"),
        ((45.0, 39.0, 51.0), "45 ms (39–51)"),
        ((1.2, 1.2, 1.2), "1.20 ms (1.20–1.20)"),
        ((1.2, None, 1.3), "1.20 ms"),
    ],
)
def test_a_value_has_no_more_digits_than_its_interval_supports(ends: tuple[float, float, float], expected: str) -> None:
    assert formatting.plain(formatting.latency(*ends)) == expected


def test_a_mean_in_the_place_of_a_percentile_says_so() -> None:
    assert formatting.plain(formatting.latency(1.23, mean=True)) == "1.23 ms (mean)"
    assert formatting.latency(None, mean=True) == "—"


def test_one_unit_serves_a_column_and_follows_its_median() -> None:
    scale = formatting.latency_scale([0.01, 0.05, None, 4000.0])
    assert scale.unit == "µs"
    assert formatting.plain(scale.show(4000.0)) == "4,000,000 µs"
    assert scale.of(None) is None
    assert formatting.memory_scale([]).unit == "MB"


@pytest.mark.parametrize(
    ("value", "expected"), [(6612.0, "6,610/s"), (18234.0, "18.2 k/s"), (2.5e6, "2.50 M/s"), (0.5, "0.500/s")]
)
def test_throughput(value: float, expected: str) -> None:
    assert formatting.plain(formatting.throughput(value)) == expected


def test_memory_is_decimal() -> None:
    assert formatting.plain(formatting.memory(512e6)) == "512 MB"
    assert formatting.plain(formatting.memory(1.2e9)) == "1.20 GB"


@pytest.mark.parametrize(
    ("ratio", "expected"),
    [(1.18, "18 % faster"), (0.9, "10 % slower"), (3.1, "× 3.1 faster"), (0.25, "× 4.0 slower"), (1.001, "the same")],
)
def test_a_change_is_words_and_a_factor_from_twice_on(ratio: float, expected: str) -> None:
    assert formatting.plain(formatting.change(ratio)) == expected


@pytest.mark.parametrize("ratio", [0.0, -1.0])
def test_an_impossible_ratio_has_no_words(ratio: float) -> None:
    assert formatting.change(ratio) == "—"


def test_shares_are_per_cent_with_one_decimal() -> None:
    assert formatting.plain(formatting.share(0.082)) == "8.2 %"
    assert formatting.plain(formatting.share(0.0001)) == "< 0.1 %"
    assert formatting.plain(formatting.share(0.0)) == "0.0 %"


def test_interval_alone() -> None:
    assert formatting.plain(formatting.interval(1.19, 1.21)) == "1.19–1.21 ms"
    assert formatting.interval(7.0, 12.2, value=9.1, unit=False) == "7.0–12.2"
    assert formatting.interval(None, 2.0) == "—"


def test_samples_and_percentiles_say_what_they_lack() -> None:
    assert formatting.plain(formatting.samples(61, 3)) == "n 61 · 3 runs"
    assert formatting.plain(formatting.samples(61, 1)) == "n 61 · 1 run"
    assert formatting.plain(formatting.samples(None)) == "n —"
    assert formatting.percentile("p95", None, 61, 90) == "p95 — (needs 90, has 61)"
    assert formatting.plain(formatting.percentile("p95", 1.2, 100, 90)) == "p95 1.20 ms"


def test_dates_are_written_out_in_the_zone_of_the_reader() -> None:
    assert formatting.date("2026-11-20T13:05:00Z", ZoneInfo("Europe/Berlin")) == "20 Nov 2026 14:05 CET"
    assert formatting.date(datetime(2026, 1, 2, 3, 4)) == "2 Jan 2026 03:04 UTC"  # noqa: DTZ001
    assert formatting.date("") == "—"


def test_a_day_without_a_time_is_that_day_everywhere() -> None:
    assert formatting.when("2022-07-19T00:00:00Z", ZoneInfo("America/New_York")) == "19 Jul 2022"
    assert formatting.when("2022-07-19T00:00:00.000001Z") == "19 Jul 2022 00:00 UTC"
    assert formatting.when(None) == "—"


@pytest.mark.parametrize(
    ("then", "expected"),
    [("12:59:30", "just now"), ("12:30:00", "30 min ago"), ("03:00:00", "10 h ago"), ("13:10:00", "just now")],
)
def test_age_has_one_unit(then: str, expected: str) -> None:
    now = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
    assert formatting.plain(formatting.age(f"2026-11-20T{then}Z", now)) == expected


def test_older_ages() -> None:
    now = datetime(2026, 11, 20, 13, 0, tzinfo=UTC)
    assert formatting.plain(formatting.age("2026-11-10T13:00:00Z", now)) == "10 d ago"
    assert formatting.plain(formatting.age("2020-11-10T13:00:00Z", now)) == "6 y ago"
    assert formatting.age(None, now) == "—"


def test_small_marks_of_honesty() -> None:
    assert formatting.significant(0) == "0"
    assert formatting.significant(1e-9) == "< 0.0001"
    assert formatting.significant(-12.34) == "−12.3"
    assert formatting.count(184203) == "184,203"
    assert formatting.money(2.489) == "$2.49"
    assert formatting.digest("sha256:7f3a99aabb") == "7f3a99a"
    assert formatting.plain(formatting.factor(3.1)) == "× 3.10"


@given(st.floats(1e-4, 1e12))
def test_three_figures_are_within_half_of_the_last_one(value: float) -> None:
    written = float(formatting.significant(value).replace(",", ""))
    assert abs(written - value) <= value * 0.00501


@given(st.floats(1e-3, 1e6), st.floats(0, 3), st.floats(0, 3))
def test_what_is_written_keeps_the_value_within_its_interval(value: float, below: float, above: float) -> None:
    low, high = value / (1 + below), value * (1 + above)
    text = formatting.Scale("ms", 1.0).show(value, low, high).replace(",", "")
    shown, ends = formatting.plain(text).split(" ms (")
    first, last = ends.rstrip(")").split("–")
    assert float(first) <= float(shown) <= float(last)


def test_figures_of_devices_have_the_prefix_of_their_size() -> None:
    told = [formatting.plain(formatting.si(value, "FLOP/s")) for value in (9.894e14, 6.7e13, 3.3e11, 12.0, 0.0)]
    assert told == ["989 TFLOP/s", "67.0 TFLOP/s", "330 GFLOP/s", "12.0 FLOP/s", "0 FLOP/s"]
    assert formatting.si(None, "B/s") == formatting.MISSING


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (24 * 2**30, "24 GB"),
        (1.5 * 2**30, "1.5 GB"),
        (24564 * 2**20, "24 GB"),
        (24e9, "24.0 GB"),
        (80e9, "80.0 GB"),
        (512 * 2**20, "537 MB"),
        (None, formatting.MISSING),
    ],
)
def test_memory_of_a_device_is_written_as_it_is_sold(size: float | None, words: str) -> None:
    assert formatting.plain(formatting.capacity(size)) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (7_241_732_096, "7.2 B"),
        (109_482_240, "109 M"),
        (70.6e9, "70.6 B"),
        (13e9, "13 B"),
        (9.97e9, "9.97 B"),
        (640, "640"),
        (None, formatting.MISSING),
    ],
)
def test_parameters_are_written_as_people_say_them(number: float | None, words: str) -> None:
    assert formatting.plain(formatting.parameters(number)) == words
