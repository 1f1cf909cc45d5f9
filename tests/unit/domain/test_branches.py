"""Histories of branches: own points after the start, those of the branch before it, requests beside them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from domain.history.branches import of_branch, points_of
from domain.history.history import History, Point
from domain.payloads import BranchStart


def point(position, branch="main", pull_request=None):
    return Point(event_id=str(position), position=position, value=1.0, branch=branch, pull_request=pull_request)


def places(points, branch, **starts):
    chosen = points_of(
        points, branch, {name: BranchStart(branch=item[0], position=item[1]) for name, item in starts.items()}
    )
    return [each.position for each in chosen]


POINTS = [point(1), point(2), point(3, "topic"), point(4), point(5, "topic"), point(6, "other"), point(7, None)]


def test_a_branch_without_a_start_has_its_own_points_alone():
    assert places(POINTS, "main") == [1, 2, 4]
    assert places(POINTS, "topic") == [3, 5]
    assert places(POINTS, None) == [1, 2, 3, 4, 5, 6, 7]


def test_before_its_start_a_branch_has_the_points_of_the_branch_it_started_from():
    assert places(POINTS, "topic", topic=("main", 2)) == [1, 2, 3, 5]
    assert places(POINTS, "topic", topic=("main", 4)) == [1, 2, 4, 5]
    # What stands at the start itself is still of the other branch.
    assert places(POINTS, "topic", topic=("main", 3)) == [1, 2, 5]
    assert places(POINTS, "other", other=("topic", 5), topic=("main", 1)) == [1, 3, 5, 6]


def test_branches_that_started_from_each_other_end():
    assert places(POINTS, "topic", topic=("main", 2), main=("topic", 4)) == [1, 2, 3, 5]
    assert places(POINTS, "main", main=("main", 1)) == [1, 2, 4]


def test_points_of_requests_are_context_and_never_of_the_history():
    history = History(
        alike="a", title="t", model="m", hardware="h", platform="cpu", precision=None, metric="latency_p50_ms",
        unit="ms", better="lower", points=[*POINTS, point(8, "main", "7")],
    )  # fmt: skip
    main = of_branch(history, "main")
    assert [each.position for each in main.points] == [1, 2, 4]
    assert [each.position for each in main.context] == [8]
    assert len(of_branch(history, None).points) == 7
    assert of_branch(history, "absent") is None


names = st.sampled_from(["a", "b", "c"])


@given(
    st.lists(st.builds(point, st.integers(1, 20), names | st.none(), st.none() | st.just("7")), max_size=12),
    names,
    st.dictionaries(names, st.builds(lambda branch, position: BranchStart(branch=branch, position=position), names, st.integers(0, 20))),
)  # fmt: skip
def test_a_history_holds_each_point_once_and_no_request_whatever_the_starts(points, branch, starts):
    chosen = points_of(points, branch, starts)
    assert all(each.pull_request is None for each in chosen)
    assert chosen == [each for each in points if any(each is other for other in chosen)]
    start = starts.get(branch)
    if start is not None and start.branch != branch:
        assert all(each.branch != branch or each.position > start.position for each in chosen)
