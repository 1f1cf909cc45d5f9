"""What a picture of raw samples is made of, on literal series with known answers."""

from __future__ import annotations

import pytest

from domain.canonical import digest
from domain.errors import InvalidInput
from domain.payloads import SamplesRecorded
from domain.samples import MOST_BANDS, MOST_BINS, MOST_POINTS, picture


def recorded(values: list[float], warmup: list[float] | None = None, **more: object) -> SamplesRecorded:
    given = {"run_id": "run-1", "digest": digest(values), "n": len(values), **more}
    return SamplesRecorded(values=values, warmup=warmup or [], **given)  # type: ignore[arg-type]


def test_few_samples_are_all_there_warm_up_first() -> None:
    found = picture(recorded([2.0, 1.0, 3.0], [9.0, 5.0]))
    assert found.points == [9.0, 5.0, 2.0, 1.0, 3.0]
    assert found.bands is None
    assert (found.warmup_n, found.warmup_ms, found.steady_from, found.steady_ms) == (2, 14.0, 3, 6.0)
    assert (found.n, found.intact) == (3, True)


def test_many_samples_are_bands_that_keep_the_extremes_and_the_phases_apart() -> None:
    steady = [10.0 + (at % 7) for at in range(7000)]
    steady[4321] = 99.0
    found = picture(recorded(steady, [50.0] * 100))
    assert found.points is None
    assert found.bands is not None
    assert len(found.bands) <= MOST_BANDS
    assert max(band.high for band in found.bands) == 99.0
    assert [band.first for band in found.bands][1:] == [band.last + 1 for band in found.bands][:-1]
    assert (found.bands[0].first, found.bands[-1].last) == (1, 7100)
    assert any(band.first == found.steady_from for band in found.bands)
    assert sum(band.low <= 50.0 <= band.high and band.last <= 100 for band in found.bands) == sum(
        band.last <= 100 for band in found.bands
    )


def test_fewer_points_may_be_asked_for() -> None:
    values = [float(1 + at) for at in range(20)]
    assert picture(recorded(values), most=20).points == values
    bands = picture(recorded(values), most=10).bands
    assert bands is not None
    assert len(bands) <= 10
    assert len(picture(recorded([1.0] * (MOST_POINTS + 1))).bands or []) <= MOST_BANDS


def test_bins_hold_every_sample_and_what_lies_far_above_is_counted_apart() -> None:
    values = [1.0 + at % 50 / 100 for at in range(400)]
    whole = picture(recorded(values))
    assert sum(one.count for one in whole.histogram) == 400
    assert whole.beyond is None
    assert whole.histogram[0].low == 1.0
    assert whole.histogram[-1].high == pytest.approx(1.49)
    far = picture(recorded([*values, 80.0, 90.0]))
    assert far.beyond is not None
    assert (far.beyond.count, far.beyond.above, far.beyond.largest) == (2, 1.49, 90.0)
    assert sum(one.count for one in far.histogram) == 400
    assert 1 < len(far.histogram) <= MOST_BINS


def test_a_sample_on_an_edge_belongs_to_the_bin_above_it() -> None:
    bins = picture(recorded([10.0 + at % 5 / 10 for at in range(60)])).histogram
    assert [round(one.low, 6) for one in bins] == [10.0, 10.1, 10.2, 10.3]
    assert [one.count for one in bins] == [12, 12, 12, 24]


def test_samples_that_are_all_the_same_are_one_bin() -> None:
    found = picture(recorded([2.5] * 30))
    assert [(one.low, one.high, one.count) for one in found.histogram] == [(2.5, 2.5, 30)]
    # Half of them are the same: the middle half has no width, and nothing may be called far.
    assert sum(one.count for one in picture(recorded([2.5] * 30 + [3.0, 9.0])).histogram) == 32


def test_a_percentile_says_what_it_needs() -> None:
    found = picture(recorded([float(1 + at) for at in range(61)])).percentiles
    assert (found["p50"].ms, found["p50"].needs, found["p50"].has) == (31.0, 6, 61)
    assert found["p50"].low is not None
    assert found["p90"].ms == 55.0
    assert (found["p95"].ms, found["p95"].low, found["p95"].needs, found["p95"].has) == (None, None, 90, 61)
    assert found["p99"].needs == 459


def test_samples_that_are_not_those_of_the_digest_are_told() -> None:
    assert not picture(recorded([1.0, 2.0], digest=digest([1.0, 2.5]))).intact


def test_parts_are_counted_and_their_medians_given() -> None:
    found = picture(recorded([3.0], parts={"forward_ms": [1.0, 3.0, 2.0], "loss_ms": []})).parts
    assert {name: (one.n, one.median_ms) for name, one in found.items()} == {"forward_ms": (3, 2.0)}


def test_without_any_sample_there_is_no_picture() -> None:
    with pytest.raises(InvalidInput, match="no samples"):
        picture(recorded([]))
