"""What is found in literal histories: changes, causes, ids, levels and warnings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.history.examination import examine
from domain.history.history import Cause, History, Point

START = datetime(2026, 3, 1, tzinfo=UTC)
QUIET = [100.2, 99.1, 100.6, 99.7, 100.9, 99.4, 100.1, 100.4, 98.9, 99.8, 100.7, 99.5, 100.3, 99.9, 100.5, 99.2]
HIGHER = [110.3, 109.2, 110.8, 109.6, 110.1, 110.9, 109.4, 110.5, 109.9, 110.2]
ENVIRONMENTS = {
    "old": {"driver": "580.1", "os": "Linux 6.8", "libraries": {"torch": "2.12.0", "numpy": "2.4"}},
    "new": {"driver": "590.2", "os": "Linux 6.8", "libraries": {"torch": "2.13.0", "numpy": "2.4"}},
}


def point(place, value, **more):
    shape = {"time": START + timedelta(days=place), "environment": "old", "runtime": "torch 2.12.0", "machine": "m1"}
    return Point(event_id=f"e{place}", position=place + 1, value=value, **{**shape, **more})


def history(points, **more):
    shape = {
        "alike": "a1",
        "title": "bert · cpu",
        "model": "bert",
        "hardware": "cpu",
        "platform": "cpu",
        "precision": "fp32",
        "metric": "latency_p50_ms",
        "unit": "ms",
        "better": "lower",
    }
    return History(points=list(points), **{**shape, **more})


def series(values, start=0, **more):
    return [point(start + place, value, **more) for place, value in enumerate(values)]


def outcomes(text, **more):
    points = [point(place, float(letter == "+"), **more) for place, letter in enumerate(text)]
    return history(points, metric="verify", unit="passed", better="higher", kind="functional")


def stepped(**more):
    return series(QUIET) + series(HIGHER, len(QUIET), environment="new", runtime="torch 2.13.0", **more)


def test_driver_and_runtime_within_the_range_are_candidate_causes():
    report = examine(history(stepped(), environments=ENVIRONMENTS))
    (change,) = report.changes
    assert (change.state, change.kind, change.confirmed_by, change.level) == ("worse", "step", "e20", "e16")
    assert change.versions == ("torch 2.12.0", "torch 2.13.0")
    assert change.causes == [
        Cause(part="runtime", before="torch 2.12.0", after="torch 2.13.0"),
        Cause(part="driver", before="580.1", after="590.2"),
        Cause(part="library torch", before="2.12.0", after="2.13.0"),
    ]
    assert change.evidence_before[0] == change.first
    assert change.evidence_after[0] == change.last
    assert [(level.first, level.last, level.points) for level in report.levels] == [
        ("e0", "e15", 16),
        ("e16", "e25", 10),
    ]
    assert report.warnings == []


def test_part_that_holds_on_both_sides_is_named_before_one_that_wavers():
    points = [
        msgspec.structs.replace(each, machine="m2" if place % 2 else "m1", commit="c1" if place < 16 else "c2")
        for place, each in enumerate(series(QUIET + HIGHER))
    ]
    (change,) = examine(history(points)).changes
    assert [cause.part for cause in change.causes] == ["commit", "machine"]
    assert change.commits == ("c1", "c2")


@pytest.mark.parametrize(("better", "state"), [("lower", "worse"), ("higher", "better")])
def test_direction_follows_what_is_better(better, state):
    assert [change.state for change in examine(history(stepped(), better=better)).changes] == [state]


def test_id_stays_with_more_points_and_with_a_point_between():
    first = examine(history(stepped()))
    more = examine(history(stepped() + series(HIGHER, 40)))
    assert [change.id for change in more.changes] == [change.id for change in first.changes]
    without_level = [each for each in stepped() if each.event_id != "e16"]
    alone, matched = (examine(history(without_level), known).changes for known in ((), first.changes))
    assert alone[0].id != first.changes[0].id
    assert matched[0].id == first.changes[0].id


def test_improvement_after_a_change_has_another_id():
    points = [*stepped(), *series(QUIET, 26)]
    changes = examine(history(points)).changes
    assert [change.state for change in changes] == ["worse", "better"]
    assert len({change.id for change in changes}) == 2


def test_retraction_of_what_confirmed_removes_the_change():
    points = stepped()[:21]
    assert len(examine(history(points)).changes) == 1
    assert examine(history(points[:-1])).changes == []


def test_doubted_points_confirm_nothing_and_hide_nothing():
    doubted = [msgspec.structs.replace(each, doubts=["throttled"]) for each in stepped()]
    assert examine(history(stepped()[:18] + doubted[18:])).changes == []
    mixed = [*stepped()[:20], doubted[20], *stepped()[21:]]
    (change,) = examine(history(mixed)).changes
    assert change.confirmed_by == "e21"
    assert "1 of 26" in examine(history(mixed)).warnings[0]


def doubted(points, *doubts):
    return [msgspec.structs.replace(each, doubts=list(doubts)) for each in points]


def test_a_doubt_that_nearly_every_row_has_is_one_of_the_machine_and_the_change_names_it():
    points = doubted(stepped(), "throttled: the same loop ran at 72% of its speed after the series")
    points[5] = msgspec.structs.replace(points[5], doubts=[*points[5].doubts, "bimodal: 14% of the samples"])
    report = examine(history(points))
    (change,) = report.changes
    assert (change.state, change.doubts) == ("worse", ["throttled"])
    assert any("throttled" in warning for warning in report.warnings)
    assert any("1 of 26" in warning for warning in report.warnings)


@pytest.mark.parametrize("late", [True, False], ids=["load that begins", "load that ends"])
def test_a_doubt_on_one_side_alone_makes_no_change(late):
    quiet, loaded = series(QUIET, 0), doubted(series(HIGHER, len(QUIET)), "other work used 40% of the processors")
    more = doubted(series(HIGHER, len(QUIET) + len(HIGHER)), "other work used 30% of the processors")
    points = [*quiet, *loaded, *more]
    if not late:
        values = [each.value for each in reversed(points)]
        doubts = [each.doubts for each in reversed(points)]
        points = [
            msgspec.structs.replace(each, value=value, doubts=doubt)
            for each, value, doubt in zip(points, values, doubts, strict=True)
        ]
    report = examine(history(points))
    assert report.changes == []
    assert any("one side" in warning for warning in report.warnings)


def test_expected_change_restarts_the_level():
    report = examine(history(stepped(), restarts=["e16", "unknown"]))
    assert report.changes == []
    assert [level.first for level in report.levels] == ["e0", "e16"]


def test_points_of_another_unit_or_subject_are_set_aside():
    strange = [point(30, 0.11, unit="s"), point(31, 5.0, subject="other"), point(3, 1.0)]
    report = examine(history(series(QUIET, unit="ms", subject="ours") + strange, subject="ours"))
    assert report.points == 16
    assert len(report.warnings) == 3
    assert "'s'" in report.warnings[0]


def test_clock_that_goes_backward_keeps_the_order_of_the_log():
    points = [msgspec.structs.replace(each, recorded_at=each.time + timedelta(minutes=1)) for each in stepped()]
    points[16:] = [msgspec.structs.replace(each, time=each.time - timedelta(hours=20)) for each in points[16:]]
    points[16] = msgspec.structs.replace(points[16], time=points[15].time - timedelta(hours=1))
    points[17] = msgspec.structs.replace(points[17], recorded_at=None, time=START - timedelta(days=9))
    report = examine(history(points))
    assert [(change.level, change.confirmed_by) for change in report.changes] == [("e16", "e20")]
    assert "clock of m1" in report.warnings[0]


def test_clock_ahead_of_the_log_is_not_believed():
    points = [msgspec.structs.replace(each, recorded_at=each.time) for each in stepped()]
    points[2] = msgspec.structs.replace(points[2], time=START + timedelta(days=4000))
    report = examine(history(points))
    assert [level.last for level in report.levels] == ["e15", "e25"]
    assert "clock of m1" in report.warnings[0]
    assert "1 point," in report.warnings[0]


def test_file_that_is_posted_late_stands_at_its_own_time():
    late = [
        msgspec.structs.replace(each, position=each.position + 100, recorded_at=START + timedelta(days=50))
        for each in series(QUIET)
    ]
    others = [msgspec.structs.replace(each, recorded_at=each.time) for each in stepped()[16:]]
    report = examine(history(others + late))
    assert [change.level for change in report.changes] == ["e16"]
    assert report.warnings == []


def test_test_that_fails_twice_in_a_row_is_a_functional_change():
    report = examine(outcomes("++++++++--"))
    (change,) = report.changes
    assert (change.kind, change.state, change.before, change.after) == ("functional", "worse", 1.0, 0.0)
    assert (change.first, change.last, change.confirmed_by) == ("e7", "e8", "e9")
    assert report.suspect == []


def test_single_failure_is_suspect():
    assert examine(outcomes("++++++++-")).changes == []
    assert examine(outcomes("++++++++-")).suspect == ["e8"]
    assert examine(outcomes("++++-++++")).suspect == ["e4"]


def test_test_that_often_fails_needs_more_failures_in_a_row():
    assert examine(outcomes("++++-+++-++++-+++--+++")).changes == []
    assert len(examine(outcomes("++++-+++-++++-+++------")).changes) == 1


def test_repaired_test_is_better():
    changes = examine(outcomes("++++++------++++")).changes
    assert [(change.state, change.level) for change in changes] == [("worse", "e6"), ("better", "e12")]


@pytest.mark.parametrize("kind", ["performance", "functional"])
@pytest.mark.parametrize("values", [[], [1.0], [float("nan"), float("inf"), 0.0, -1.0] * 5])
def test_history_of_nothing_useful_has_a_report(kind, values):
    report = examine(history(series(values), kind=kind))
    assert report.changes == []
    assert report.points == len(values)


moments = st.datetimes(datetime(2026, 1, 1), datetime(2026, 6, 1), timezones=st.just(UTC))  # noqa: DTZ001
points = st.builds(
    Point,
    event_id=st.integers(0, 40).map("e{}".format),
    position=st.integers(1, 10**6),
    value=st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([1.0, 1.5, 100.0]),
    time=moments | st.none(),
    recorded_at=moments | st.none(),
    doubts=st.lists(st.just("throttled"), max_size=1),
    machine=st.sampled_from([None, "m1", "m2"]),
    environment=st.sampled_from([None, "old", "new", "unknown"]),
    unit=st.sampled_from([None, "ms", "s"]),
)


@given(st.lists(points, max_size=40, unique_by=lambda item: item.position), st.data())
@settings(max_examples=60, deadline=None)
def test_any_history_has_one_report_whatever_the_order_of_its_points(drawn, data):
    drawn = list({each.event_id: each for each in drawn}.values())
    shape = {
        "environments": ENVIRONMENTS,
        "kind": data.draw(st.sampled_from(["performance", "functional"])),
        "restarts": data.draw(st.lists(st.sampled_from(["e1", "e20", "e30"]), max_size=2)),
    }
    report = examine(history(drawn, **shape))
    assert report == examine(history(data.draw(st.permutations(drawn)), **shape), report.changes)
    named = {event for change in report.changes for event in (change.first, change.last, change.confirmed_by)}
    assert named | set(report.suspect) <= {each.event_id for each in drawn}
