"""Which changes are one alert, which are known already, and where an alert may go from its state."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import StateConflict, UsageError
from domain.history.alerts import STATES, Alert, KnownChanges, NewAlertState, check_transition, grouped
from domain.history.history import Cause, Change
from domain.payloads import AlertChanged
from tests import alerts as build

BEGIN = datetime(2026, 11, 1, tzinfo=UTC)
DRIVER = Cause(part="driver", before="550", after="560")
TORCH = Cause(part="library torch", before="2.12", after="2.13")


def change(name: str, days: tuple[float, float] | None = (1, 2), **members: object) -> Change:
    """A change of a history of its own, within a range of days."""
    times = dict.fromkeys(("first_time", "last_time"))
    if days:
        times = {"first_time": BEGIN + timedelta(days=days[0]), "last_time": BEGIN + timedelta(days=days[1])}
    about = {"alike": name, "first": f"{name}-1", "last": f"{name}-2", **times, **members}
    return msgspec.convert(build.change(name, float(about.pop("size", 0.2)), **about), Change, from_attributes=True)


def names(raised: list) -> list[set[str]]:
    return [{item.id for item in each.alert.changes} for each in raised]


def test_changes_with_a_cause_in_common_are_one_alert_whatever_their_times_and_platforms():
    changes = [
        change("a", causes=[DRIVER, TORCH]),
        change("b", (8, 9), causes=[DRIVER], platform="openvino", size=0.5),
        change("c", (9, 10), causes=[TORCH]),
        change("d"),
    ]
    raised = grouped(changes, [])
    assert sorted(map(sorted, names(raised))) == [["a", "b"], ["c"], ["d"]]
    (driver,) = [each.alert for each in raised if len(each.alert.changes) == 2]
    assert (driver.cause, driver.changes[0].id) == (DRIVER, "b")
    assert "driver 550 → 560" in driver.title and "+50.0%" in driver.title


@pytest.mark.parametrize(
    "other", [{"state": "better"}, {"hardware": "acme-two"}, {"platform": "openvino"}, {"days": (3, 4)}, {"days": None}]
)
def test_changes_without_a_cause_need_direction_hardware_platform_and_time_in_common(other):
    members = dict(other)
    days = members.pop("days", (1.5, 3))
    assert len(grouped([change("a"), change("b", (1.5, 3))], [])) == 1
    assert len(grouped([change("a"), change("b", days, **members)], [])) == 2


def test_figures_of_one_run_are_one_alert_without_times():
    ends = {"first": "run-1", "last": "run-2"}
    assert len(grouped([change("a", None, **ends), change("a", None, metric="ttft_ms", **ends)], [])) == 1


def test_a_chain_of_overlapping_ranges_is_not_one_alert():
    changes = [change("a", (1, 3)), change("b", (2, 5)), change("c", (4, 7))]
    assert names(grouped(changes, [])) == [{"a", "b"}, {"c"}]


def test_one_history_gives_an_alert_one_change():
    assert (
        len(grouped([change("a", causes=[DRIVER]), change("a", (7, 8), causes=[DRIVER], first="x", last="y")], [])) == 2
    )


def existing(*changes: Change, state: str = "new") -> Alert:
    (raised,) = grouped(changes, [])
    return msgspec.structs.replace(raised.alert, state=state)


@pytest.mark.parametrize("state", ["new", "acknowledged", "expected"])
def test_a_further_configuration_joins_the_alert_that_there_is(state):
    alert = existing(change("a", causes=[DRIVER]), state=state)
    (raised,) = grouped([change("b", (5, 6), causes=[DRIVER])], [alert])
    assert (raised.alert.id, [item.id for item in raised.added]) == (alert.id, ["b"])
    assert names([raised]) == [{"a", "b"}]


@pytest.mark.parametrize("state", ["fixed", "false"])
def test_an_alert_at_its_end_takes_nothing_more(state):
    alert = existing(change("a", causes=[DRIVER]), state=state)
    (raised,) = grouped([change("b", causes=[DRIVER])], [alert])
    assert raised.alert.id != alert.id


def test_a_withdrawn_alert_is_raised_again_under_its_id():
    alert = existing(change("a"), state="withdrawn")
    (raised,) = grouped([change("a")], [alert])
    assert raised.alert.id == alert.id


def test_a_change_whose_place_moved_by_a_point_is_known():
    known = KnownChanges([change("a", (1, 2))])
    assert change("a", (1, 2)) in known
    moved = {"alike": "a", "first": "x", "last": "y"}
    assert change("moved", (2, 3), **moved) in known
    assert change("later", (3, 4), **moved) not in known
    assert change("up", (1, 2), **moved, state="better") not in known
    assert change("other", (1, 2), **moved, metric="ttft_ms") not in known


CAUSES = st.lists(
    st.sampled_from([DRIVER, TORCH, Cause(part="kernel", before="6.1", after="6.2")]), max_size=2, unique=True
)
CHANGES = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 6), st.integers(0, 3), CAUSES, st.sampled_from(["worse", "better"])),
    max_size=8, unique_by=lambda item: item[0],
)  # fmt: skip


@settings(deadline=None)
@given(CHANGES, st.randoms(use_true_random=False))
def test_every_change_is_in_one_alert_and_their_order_does_not_matter(drawn, random):
    changes = [change(name, (day, day + days), causes=c, state=state) for name, day, days, c, state in drawn]
    raised = grouped(changes, [])
    assert sorted(itertools.chain(*names(raised))) == sorted(item.id for item in changes)
    assert all(len({item.state for item in each.alert.changes}) == 1 for each in raised)
    shuffled = list(changes)
    random.shuffle(shuffled)
    assert [each.alert for each in grouped(shuffled, [])] == [each.alert for each in raised]
    known = KnownChanges(item for each in raised for item in each.alert.changes)
    assert all(item in known for item in changes)


REASON = {"expected": "planned", "fixed": "done", "false": "noise"}


@pytest.mark.parametrize("before", STATES)
@pytest.mark.parametrize("after", STATES)
def test_an_alert_that_ended_has_to_be_opened_before_it_gets_another_state(before, after):
    allowed = {
        "new": {"acknowledged", "expected", "fixed", "false"},
        "acknowledged": {"new", "expected", "fixed", "false"},
        "expected": {"new"},
        "fixed": {"new"},
        "false": {"new"},
        "withdrawn": set(),
    }  # fmt: skip
    new = NewAlertState(state=after, reason=REASON.get(after))
    if after in allowed[before]:
        check_transition(before, new)
    else:
        with pytest.raises(UsageError if after == "withdrawn" else StateConflict) as raised:
            check_transition(before, new)
        assert raised.value.field == "state" and raised.value.remedy


@pytest.mark.parametrize("state", REASON)
def test_a_state_that_ends_an_alert_needs_a_reason(state):
    with pytest.raises(UsageError) as raised:
        check_transition("new", NewAlertState(state=state))
    assert raised.value.field == "reason"


@pytest.mark.parametrize(("field", "text"), [("reason", "a\x07"), ("reason", " "), ("author", "a\nb"), ("author", "")])
def test_text_that_is_not_one_line_is_refused_by_its_field(field, text):
    with pytest.raises(UsageError) as raised:
        check_transition("new", NewAlertState(**{"state": "false", "reason": "noise", field: text}))
    assert raised.value.field == field
    if field == "reason":
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(
                {"reason": text, "alert": build.alert_id("a"), "state": "false", "author": "ada"}, AlertChanged
            )
