"""Comparisons on literal sides whose answer is known."""

from __future__ import annotations

import math

import msgspec
import pytest

from domain.comparison.comparison_sides import RUNS_KEPT, NewestMeasurement, NewestOutcome, Side, merged
from domain.comparison.regression import compare, judged, run_deviation
from domain.errors import UsageError
from domain.figures import Figure

P50 = "latency_p50_ms"


def figure(value, spread=0.01, **more):
    ends = {} if spread is None else {"low": value * (1 - spread), "high": value * (1 + spread)}
    return Figure(value=value, **ends, **more)


def row(p50=1.0, *, key="k1", alike="a1", event="e1", **more):
    figures = more.pop("figures", None) or {P50: figure(p50)}
    shape = {"title": key, "hardware": "h", "origin": "measured", "environment": "env-1", "runtime": "torch 2.12"}
    return NewestMeasurement(key=key, alike=alike, event_id=event, figures=figures, **{**shape, **more})


def case(outcome, *, key="k1", alike="a1", event="t1", test="verify", **more):
    return NewestOutcome(
        key=key, alike=alike, title=key, hardware="h", outcome=outcome, event_id=event, test=test, **more
    )


def side(*rows, name="side", cases=(), environments=None):
    return Side(name=name, measured=list(rows), cases=list(cases), environments=environments or {})


@pytest.mark.parametrize(
    ("before", "after", "column", "state"),
    [
        (figure(1.0), figure(1.2), P50, "worse"),
        (figure(1.0), figure(1.09), P50, "same"),
        (figure(1.2), figure(1.0), P50, "better"),
        (figure(1.0, 0.15), figure(1.2, 0.15), P50, "unclear"),
        (figure(100.0), figure(80.0), "throughput_per_s", "worse"),
        (figure(80.0), figure(100.0), "throughput_per_s", "better"),
        # Half as fast is twice as slow: 100 to 91 is less than 10 %, 100 to 90 is more.
        (figure(100.0), figure(91.0), "throughput_per_s", "same"),
        (figure(100.0), figure(90.0), "throughput_per_s", "worse"),
        (figure(100, None), figure(120, None), "peak_memory_bytes", "worse"),
        (figure(1.0, None), figure(1.5), P50, "unclear"),
        (figure(1.0), figure(1.5, None), P50, "unclear"),
        (figure(1.0), figure(1.5, doubts=["drifting"]), P50, "unclear"),
        (figure(0.0, None), figure(1.0, None), "energy_j", "unclear"),
        (figure(0.0, None), figure(0.0, None), "energy_j", "same"),
    ],
)
def test_a_change_is_judged_by_its_size_its_intervals_and_its_doubts(before, after, column, state):
    assert judged(before, after, column)[0] == state


def test_what_is_unclear_says_why():
    assert judged(figure(1.0, None), figure(1.5), P50)[1] == "the baseline has no interval"
    assert judged(figure(1.0), figure(1.5, None), P50)[1] == "the candidate has no interval"
    assert judged(figure(1.0, 0.3), figure(1.5, 0.3), P50)[1] == "the intervals overlap"
    doubted = figure(1.0, doubts=["drifting", "held up", "throttled"])
    assert judged(doubted, figure(1.5, doubts=["drifting"]), P50)[1] == (
        "baseline: drifting and 2 more; candidate: drifting"
    )


def test_strict_lets_doubts_and_bare_values_alarm_and_never_an_overlap():
    assert judged(figure(1.0), figure(1.5, doubts=["drifting"]), P50, strict=True)[0] == "worse"
    assert judged(figure(1.0, None), figure(1.5, None), P50, strict=True)[0] == "worse"
    assert judged(figure(1.0, 0.3), figure(1.5, 0.3), P50, strict=True)[0] == "unclear"


def test_the_interval_of_a_change_is_that_of_the_ends():
    state, _, between = judged(figure(1.0, 0.1), figure(2.0, 0.1), P50)
    assert (state, between) == ("worse", pytest.approx((1.8 / 1.1 - 1, 2.2 / 0.9 - 1)))


def test_how_runs_differed_widens_both_sides():
    noisy = figure(1.0, runs=[1.0, 1.12, 0.98, 1.1, 1.0])
    assert judged(figure(1.0), figure(1.2), P50)[0] == "worse"
    assert judged(noisy, figure(1.2), P50)[0] == "unclear"
    assert judged(figure(1.0), figure(1.2, runs=[1.2, 1.08, 1.22, 1.1, 1.2]), P50)[0] == "unclear"
    assert judged(noisy, figure(3.0), P50)[0] == "worse"
    # Values without an interval of their own have that of the runs.
    assert judged(figure(1.0, None, runs=[1.0, 1.01, 0.99, 1.0]), figure(1.5, None), P50)[0] == "worse"


def test_the_deviation_of_runs_is_not_raised_by_one_true_step():
    assert run_deviation([1.0, 1.0, 1.0]) is None
    assert run_deviation([1.0, 1.02, 1.0, 1.02]) == pytest.approx(0.0208, rel=0.01)
    assert run_deviation([2.0, 2.04, 2.0, 1.0, 1.02, 1.0]) == pytest.approx(0.0208, rel=0.01)
    assert run_deviation([0.0, 1.0, 1.0, 1.0]) is None


def test_rows_are_compared_by_configuration_and_the_worst_comes_first():
    baseline = side(row(1.0), row(1.0, key="k2", alike="a2", event="e2"), row(key="k3", alike="a3", event="e3"))
    candidate = side(
        row(1.3, event="f1"), row(2.0, key="k2", alike="a2", event="f2"), row(key="k4", alike="a4", event="f4")
    )
    report = compare(baseline, candidate)
    assert [(one.title, one.state) for one in report.changes] == [("k2", "worse"), ("k1", "worse")]
    assert (report.new, report.gone, report.compared, report.worse) == (["k4"], ["k3"], 2, True)
    assert report.changes[0].evidence == ["e2", "f2"]
    assert report.changes[0].change == pytest.approx(1.0)


def test_a_row_that_was_not_measured_anew_is_counted_and_not_compared():
    report = compare(side(row(1.0)), side(row(5.0)))
    assert (report.compared, report.not_anew, report.changes, report.gone, report.worse) == (0, 1, [], [], False)


def test_another_version_of_the_runtime_is_compared_and_told_as_environment():
    newer = row(1.3, key="k9", event="f1", runtime="torch 2.13", environment="env-2")
    environments = {
        "env-1": {"os": "Linux", "libraries": {"torch": "2.12", "numpy": "2"}},
        "env-2": {"os": "Linux", "libraries": {"torch": "2.13", "numpy": "2"}},
    }
    report = compare(side(row(1.0), environments=environments), side(newer, environments=environments))
    assert [one.state for one in report.changes] == ["worse"]
    assert (report.new, report.gone) == ([], [])
    assert [(one.part, one.before, one.after, one.configurations) for one in report.environments] == [
        ("library torch", "2.12", "2.13", 1),
        ("runtime", "torch 2.12", "torch 2.13", 1),
    ]


def test_an_environment_of_unknown_content_is_told_by_its_fingerprint():
    report = compare(side(row()), side(row(event="f1", environment="env-2")))
    assert [(one.part, one.before, one.after) for one in report.environments] == [("fingerprint", "env-1", "env-2")]


def test_measured_and_imported_are_not_compared():
    report = compare(side(row(1.0, origin="imported")), side(row(9.0, event="f1")))
    assert (report.other_origin, report.changes, report.compared) == (["k1"], [], 0)


def test_a_test_that_passed_and_fails_is_worse_and_the_other_way_better():
    before = [
        case("passed"),
        case("failed", test="outputs", event="t2", stage="verify"),
        case("skipped", test="x", event="t3"),
    ]
    after = [
        case("failed", event="u1", stage="verify", message="cosine 0.2\nmore"), case("passed", test="outputs", event="u2"),
        case("failed", test="x", event="u3"), case("failed", test="fresh", event="u4"),
    ]  # fmt: skip
    report = compare(side(cases=before), side(cases=after))
    assert [(one.test, one.state, one.before, one.after) for one in report.turns] == [
        ("verify", "worse", "passed", "failed at verify"),
        ("outputs", "better", "failed at verify", "passed"),
    ]
    assert report.turns[0].message == "cosine 0.2"
    assert (report.worse, report.compared) == (True, 2)


def test_what_was_measured_and_fails_now_is_worse_and_not_gone():
    before = side(row(), cases=[case("passed", test=None, event="e1")])
    after = side(cases=[case("out_of_memory", test=None, event="f1", stage="load")])
    report = compare(before, after)
    assert [(one.state, one.after) for one in report.turns] == [("worse", "out_of_memory at load")]
    assert (report.gone, report.worse) == ([], True)


def test_another_way_of_failing_is_neither_worse_nor_better():
    before = side(cases=[case("error", test=None, stage="load")])
    report = compare(before, side(cases=[case("timeout", test=None, event="u1", stage="run")]))
    assert [one.state for one in report.turns] == ["other"]
    assert not report.worse


def test_one_word_for_speed_is_compared_and_memory_beside_it():
    def both(scale, event):
        return row(event=event, figures={
            P50: figure(scale), "latency_mean_ms": figure(scale), "throughput_per_s": figure(1 / scale),
            "peak_memory_bytes": figure(100, None), "load_ms": figure(5.0, None),
        })  # fmt: skip

    report = compare(side(both(1.0, "e1")), side(both(2.0, "f1")))
    assert {one.column for one in report.changes} == {P50, "peak_memory_bytes"}
    asked = compare(side(both(1.0, "e1")), side(both(2.0, "f1")), columns=["throughput_per_s", "load_ms"])
    assert {one.column: one.state for one in asked.changes} == {"throughput_per_s": "worse", "load_ms": "same"}


@pytest.mark.parametrize("column", ["speed", "utilisation"])
def test_what_cannot_be_compared_is_refused(column):
    with pytest.raises(UsageError, match=column):
        compare(side(), side(), columns=[column])


def test_merging_keeps_the_runs_of_one_environment_the_newest_ten():
    known = side(row(1.0), row(5.0, key="k2", alike="a2", event="e2"))
    for number in range(1, 14):
        known = merged(known, side(row(float(number), event=f"f{number}")))
    first = next(one for one in known.measured if one.key == "k1")
    assert first.figures[P50].runs == [float(number) for number in range(14 - RUNS_KEPT, 14)]
    assert {one.key for one in known.measured} == {"k1", "k2"}
    elsewhere = merged(known, side(row(9.0, event="g", environment="env-2")))
    assert next(one for one in elsewhere.measured if one.key == "k1").figures[P50].runs == []
    assert merged(known, known) == known


def test_a_side_is_the_same_after_writing_and_reading():
    known = side(row(1.0), cases=[case("failed", stage="load")], environments={"env-1": {"os": "Linux"}})
    assert msgspec.json.decode(msgspec.json.encode(known), type=Side) == known


@pytest.mark.parametrize("before", [5e-324, 1e-308, 1.0, 1.7e308])
@pytest.mark.parametrize("after", [5e-324, 1e-308, 1.0, 1.7e308])
def test_figures_at_the_ends_of_what_numbers_hold_are_judged(before, after):
    runs = [before, after, before, after]
    sides = [Figure(value=one, low=one, high=one, runs=runs) for one in (before, after)]
    for one in (sides, [Figure(value=side.value, low=side.low, high=side.high) for side in sides]):
        state, _, between = judged(*one, "latency_p50_ms")
        assert state == "same" if before == after else state in ("unclear", "worse" if after > before else "better")
        assert between is None or all(map(math.isfinite, between))
