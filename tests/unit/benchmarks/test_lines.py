"""What a comparison comes to: literal samples with the answer known."""

from __future__ import annotations

from benchmarks.lines import Limit, growth, interleaved, plain, quantile, rates, share, times


def test_rates_are_compared_turn_by_turn() -> None:
    # A machine that is slow in one turn is slow for both: the ratio of that turn is as good as any.
    line = rates("append", "events/s", [50, 5, 60], [100, 10, 100], "COPY", Limit(bar=0.5, reach=0.75))
    assert line.value == 0.5
    assert line.passed
    assert line.text() == "append [against COPY] | 50 events/s | 100 events/s | 0.5 | ≥ 0.5 | ≥ 0.75 | bar"


def test_times_say_how_many_times_quicker() -> None:
    line = times("compare", "ms", [10, 11, 9], [600, 500, 700], "search", Limit(bar=50, reach=60))
    assert line.value == 60
    assert line.text().endswith("| yes")


def test_growth_and_shares_are_bounded_from_above() -> None:
    assert growth("rebuild", "s", [100], [10], "a tenth", Limit(bar=11, most=True)).passed
    assert not growth("rebuild", "s", [120], [10], "a tenth", Limit(bar=11, most=True)).passed
    assert not share("bytes", 13.0, 100.0, "JSON", Limit(bar=0.12, most=True)).passed


def test_a_plain_figure_is_judged_and_shown_by_the_value_that_is_named() -> None:
    line = plain("p99", "ms", [1, 2, 400], Limit(bar=300, most=True), value=400)
    assert line.passed is False
    assert line.text() == "p99 | 400 ms | – | – | ≤ 300 | – | no"
    assert plain("fsync", "ms", [1, 2, 3]).passed is None


def test_sides_take_turns_at_going_first() -> None:
    order: list[str] = []

    def side(name: str) -> float:
        order.append(name)
        return float(len(order))

    found = interleaved(2, lambda: side("ours"), lambda: side("peer"))
    assert order == ["ours", "peer", "peer", "ours"]
    assert found == [[1, 4], [2, 3]]


def test_a_quantile_is_one_of_the_samples() -> None:
    assert quantile([5, 1, 3, 2, 4], 0.5) == 3
    assert quantile(list(range(100)), 0.99) == 99
