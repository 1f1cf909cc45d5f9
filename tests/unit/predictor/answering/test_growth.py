"""More items never take less time, whatever was predicted of each number of items alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from predictor.answering.estimates import growing, nested
from predictor.answering.option import Option

PREDICTED = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([1, 2, 4, 8, 16]), st.floats(0.01, 1e4), st.booleans()),
    max_size=30,
)


@given(PREDICTED)
def test_no_latency_falls_and_what_did_not_fall_stays(rows: list[tuple[str, int, float, bool]]) -> None:
    cells, batches, latencies, sure = zip(*rows, strict=True) if rows else ((), (), (), ())
    before = np.array(latencies, dtype=float)
    after = growing(before, cells, batches, np.array(sure, dtype=bool))
    for cell in set(cells):
        here = sorted((index for index in range(len(rows)) if cells[index] == cell), key=lambda index: batches[index])
        assert (np.diff(after[here]) >= 0).all()
        assert before[here].min() * (1 - 1e-12) <= after[here].min()
        assert after[here].max() <= before[here].max() * (1 + 1e-12)
        if (np.diff(before[here]) >= 0).all():
            np.testing.assert_array_equal(after[here], before[here])


def test_a_fall_is_shared_and_who_is_unsure_yields() -> None:
    def ordered(latencies: list[float], sure: list[bool]) -> list[float]:
        numbers = [1, 2, 4, 8][: len(latencies)]
        return growing(np.array(latencies), ["one"] * len(numbers), numbers, np.array(sure)).tolist()

    np.testing.assert_allclose(ordered([4.0, 1.0, 9.0], [True] * 3), [2.0, 2.0, 9.0])
    np.testing.assert_allclose(ordered([7.0, 3.0, 5.0, 1.0], [False, True, True, False]), [3.0, 3.0, 5.0, 5.0])


def at(batch: int, low: float, value: float, high: float, covered: bool = True) -> Option:
    return Option(
        hardware="a", platform="cuda", precision="fp16", batch_size=batch, basis="predicted", latency_ms=value, low_ms=low,
        high_ms=high, covered=covered,
    )  # fmt: skip


def test_an_interval_ends_where_a_covered_one_at_another_batch_bounds_it() -> None:
    options = [at(8, 3.0, 5.0, 40.0), at(1, 0.5, 4.0, 30.0), at(4, 2.0, 4.5, 8.0)]
    assert [(one.batch_size, one.low_ms, one.high_ms) for one in nested(options, ["one"] * 3)] == [
        (8, 3.0, 40.0), (1, 0.5, 8.0), (4, 2.0, 8.0),
    ]  # fmt: skip
    assert nested(options, ["one", "two", "three"]) == options
    unsure = [at(1, 0.5, 4.0, 30.0), at(4, 2.0, 4.5, 8.0, covered=False)]
    assert nested(unsure, ["one", "one"]) == unsure
    assert nested([at(1, 2.0, 4.0, 5.0), at(4, 0.1, 4.5, 8.0)], ["one", "one"])[1].low_ms == 2.0


@given(st.lists(st.tuples(st.floats(0.1, 10), st.floats(1, 5), st.floats(1, 5), st.booleans()), min_size=1, max_size=6))
def test_the_value_stays_within_the_ends_that_others_bound(rows: list[tuple[float, float, float, bool]]) -> None:
    values = np.cumsum([step for step, *_ in rows]).tolist()
    options = [
        at(2**place, value / down, value, value * up, covered)
        for place, (value, (_, down, up, covered)) in enumerate(zip(values, rows, strict=True))
    ]
    for before, after in zip(options, nested(options, [0] * len(rows)), strict=True):
        wider = 1 if before.covered else before.high_ms / before.latency_ms
        assert before.low_ms <= after.low_ms <= after.latency_ms <= after.high_ms <= before.high_ms * wider


def test_the_upper_end_of_an_uncovered_interval_is_supported_where_a_covered_larger_batch_lies_near_it() -> None:
    covered = at(4, 2.0, 4.5, 8.0)

    def bounded(high: float, limit: Option = covered) -> tuple[bool, float | None]:
        option = nested([at(1, 0.5, 4.0, high, covered=False), limit], ["one", "one"])[0]
        return option.bounded, option.high_ms

    assert bounded(30.0) == (True, 8.0)
    assert bounded(6.0) == (True, 8.0)
    # Twice as wide, in logs, is 4 × (5 / 4)² = 6.25 ms, and the bound lies at 8.
    assert bounded(5.0) == (False, 5.0)
    assert bounded(30.0, replace(covered, covered=False)) == (False, 30.0)
