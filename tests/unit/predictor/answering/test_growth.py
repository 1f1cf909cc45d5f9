"""More items never take less time, whatever was predicted of each number of items alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from predictor.answering.estimates import growing

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
