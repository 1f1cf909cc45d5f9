"""The capacity table extrapolates along the line through the logarithms of what was measured, and says so."""

from __future__ import annotations

import pytest

from benchmarks.capacity import FAR, Size, extrapolated, picture, table


def size(events: int, scale: float = 1.0) -> Size:
    """Return a size whose bytes and times grow as events to the power of 1, and whose question by its root."""
    names = [name for name in Size.__struct_fields__ if name != "events"]
    linear = dict.fromkeys(names, 2.0 * scale * events)
    return Size(events=events, **{**linear, "question_p50_ms": scale * events**0.5, "append_per_s": 5000.0})


def test_power_laws_are_continued_with_their_slopes() -> None:
    far = extrapolated([size(10**5), size(10**6), size(10**7)])
    assert far["postgres_bytes"] == pytest.approx((2.0 * FAR, 1.0))
    assert far["question_p50_ms"] == pytest.approx((FAR**0.5, 0.5))
    assert far["append_per_s"] == pytest.approx((5000.0, 0.0), abs=1e-6)


def test_noisy_sizes_get_the_line_of_least_squares() -> None:
    value, slope = extrapolated([size(10**5, 1.1), size(10**6, 0.9), size(10**7, 1.1)], 10**6)["postgres_bytes"]
    assert slope == pytest.approx(1.0)
    assert value == pytest.approx(2e6 * (1.1 * 0.9 * 1.1) ** (1 / 3))


def test_only_the_far_column_is_marked_as_extrapolated() -> None:
    lines = table([size(10**5), size(10**6)]).splitlines()
    assert lines[0].count("extrapolated") == 1
    assert "1,000,000,000, extrapolated" in lines[0]
    assert {line.count("|") for line in lines} == {6}
    assert "extrapolated" not in table([size(10**5)])


def test_picture_reaches_from_the_smallest_size_to_the_far_one() -> None:
    drawn = picture([size(10**5), size(10**6)]).decode()
    assert "1G" in drawn
    assert "Postgres once trimmed" in drawn
