"""Alerts: confirmed changes with a common cause, and the states that people give them."""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec

from domain.errors import StateConflict, UsageError
from domain.history.history import Cause, Change
from domain.measured import Sentence, Shape

__all__ = [
    "OPEN",
    "STATES",
    "Alert",
    "AlertChanged",
    "AlertRaised",
    "KnownChanges",
    "NewAlertState",
    "Raised",
    "Reason",
    "State",
    "StateChange",
    "check_transition",
    "grouped",
    "severity",
]

State = Literal["new", "acknowledged", "expected", "fixed", "false", "withdrawn"]
STATES: tuple[State, ...] = ("new", "acknowledged", "expected", "fixed", "false", "withdrawn")
_LINE = r"[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*"
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=4000, pattern=rf"^{_LINE}$(?!\n)")]
"""One line of text that is not blank and has no control characters."""
OPEN: tuple[State, ...] = ("new", "acknowledged")
"""States of an alert that somebody still has to do something about."""
_REASONED: tuple[State, ...] = ("expected", "fixed", "false")
"""States that end an alert, and for which a reason is needed."""


class StateChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A state that an author gave an alert, with the reason."""

    state: State
    author: str
    reason: str | None = None
    time: datetime | None = None
    event_id: str | None = None


class Alert(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One alert: changes of one direction that have a cause in common, the largest first; `event_ids` are those that raised it.

    `owners` are the names that the routes give its models and hardware.
    """

    id: str
    title: str
    direction: Literal["worse", "better"]
    kind: Literal["performance", "functional"]
    state: State
    changes: list[Change]
    cause: Cause | None = None
    raised_at: datetime | None = None
    position: int | None = None
    states: list[StateChange] = []
    event_ids: list[str] = []
    owners: list[str] = []


AlertId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$(?!\n)")]


class AlertRaised(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """Changes with a common cause. Raised again under the same id, it adds `changes` to those that the alert has.

    `position` is the position of the log that the histories were examined at; the newest title, kind and cause count.
    """

    alert: AlertId
    title: Sentence
    direction: Literal["worse", "better"]
    kind: Literal["performance", "functional"]
    changes: Annotated[list[Change], msgspec.Meta(min_length=1, max_length=1000)]
    position: Annotated[int, msgspec.Meta(ge=0)]
    cause: Cause | None = None


class AlertChanged(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """The state of an alert from here on, by whom and why. `gone` are ids of its changes that no longer hold."""

    alert: AlertId
    state: State
    author: Sentence
    reason: Reason | None = None
    gone: list[str] = msgspec.field(default_factory=list)


class NewAlertState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A state for an alert. `author` is a person on whose behalf a program asks; the name of its token stands beside."""

    state: State
    reason: Annotated[str, msgspec.Meta(max_length=4000)] | None = None
    author: Annotated[str, msgspec.Meta(max_length=200)] | None = None


def check_transition(before: State, new: NewAlertState) -> None:
    """Raise UsageError for a text that is no line, or without a needed reason, and StateConflict where the alert cannot go from its state to the new one.

    `withdrawn` is given by the service alone. An alert that ended is opened again (`new`) before it gets another state.
    """
    for field, text in (("reason", new.reason), ("author", new.author)):
        if text is not None and not re.fullmatch(_LINE, text):
            raise UsageError(
                "blank, or with control characters.", field=field, remedy="Write one line of text, or leave it out."
            )
    if new.state == "withdrawn":
        raise UsageError(
            "the service alone withdraws alerts.",
            field="state",
            remedy="Give `false` and the reason, or retract the rows.",
        )
    if new.state in _REASONED and new.reason is None:
        raise UsageError(f"{new.state} needs a reason.", field="reason", remedy="Say in a sentence why.")
    if before == "withdrawn":
        raise StateConflict(
            "the alert was withdrawn.", field="state", remedy="It is raised again where the change comes again."
        )
    if before == new.state:
        raise StateConflict(f"the alert is {before} already.", field="state", remedy="Give another state.")
    if before in _REASONED and new.state != "new":
        raise StateConflict(
            f"the alert is {before}.",
            field="state",
            remedy="Open it again first: state `new`, or `assay alerts reopen`.",
        )


_NAMESPACE = uuid.UUID("0b6f5b1e-2a52-5f5c-9d6a-6f1d7f4f8a26")
_ENDLESS = datetime.max.replace(tzinfo=UTC)
_Span = tuple[datetime, datetime]
_Place = tuple[str, str, Cause | str]


class Raised(msgspec.Struct, frozen=True, kw_only=True):
    """An alert to be raised or extended: as it is with the changes in `added`."""

    alert: Alert
    added: list[Change]


class KnownChanges:
    """Changes that are known already: by id, or in the same direction of the same history within overlapping ranges of time.

    With more points the place of a change may move by one, and it is the same change all the same.
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self._changes: dict[tuple[str, str, str], list[Change]] = {}
        for change in changes:
            self._changes.setdefault(_history_of(change), []).append(change)

    def __contains__(self, change: Change) -> bool:
        return any(_is_same(change, other) for other in self._changes.get(_history_of(change), ()))


def grouped(changes: Iterable[Change], alerts: Sequence[Alert]) -> list[Raised]:
    """Return the alerts that new changes raise, or extend where one that is not at its end has the cause in common.

    Changes have a cause in common where they go in one direction on one hardware, and share a candidate cause; or have none,
    and happened on one platform within ranges of time that overlap. The same changes always give the same ids.
    """
    groups: list[_Group] = []
    by_place: dict[_Place, list[_Group]] = {}

    def keep(group: _Group, places: Iterable[_Place]) -> None:
        groups.append(group)
        for place in places:
            by_place.setdefault(place, []).append(group)

    for alert in alerts:
        if alert.state in (*OPEN, "expected"):
            keep(_Group(alert), {place for change in alert.changes for place in _places(change)})
    taken = {alert.id for alert in alerts if alert.state != "withdrawn"}
    for change in sorted(changes, key=_moment):
        near = (group for place in _places(change) for group in by_place.get(place, ()))
        group = next((group for group in near if group.takes(change)), None)
        if group is None:
            group = _Group(_new_alert(change, taken))
            taken.add(group.alert.id)
            keep(group, _places(change))
        group.add(change)
    return [group.raised() for group in groups if group.added]


class _Group:
    """An alert, and what all its changes have in common."""

    def __init__(self, alert: Alert) -> None:
        self.alert = alert
        self.added: list[Change] = []
        self._histories: set[tuple[str, str, str]] = set()
        self._causes: list[Cause] | None = None
        self._span: _Span | None = None
        self._members: list[Change] = []
        for change in alert.changes:
            self._take(change)

    def takes(self, change: Change) -> bool:
        """Whether a change has its cause in common with those of the alert; a history has one change in it."""
        member = self._members[0]
        if (change.state, change.hardware) != (self.alert.direction, member.hardware) or _history_of(
            change
        ) in self._histories:
            return False
        if self._causes or change.causes:
            return any(cause in (self._causes or ()) for cause in change.causes)
        if (change.first, change.last) == (member.first, member.last):
            return True
        return change.platform == member.platform and _overlap(self._span, _span(change)) is not None

    def add(self, change: Change) -> None:
        """Take a new change."""
        self.added.append(change)
        self._take(change)

    def raised(self) -> Raised:
        """Return the alert with all its changes, the largest first."""
        members = sorted(self._members, key=lambda change: (-severity(change), change.id))
        causes = self._causes or []
        alert = msgspec.structs.replace(
            self.alert,
            title=_title(members, causes[0] if causes else None),
            kind="functional" if any(change.kind == "functional" for change in members) else "performance",
            changes=members,
            cause=causes[0] if causes else None,
        )
        return Raised(alert=alert, added=self.added)

    def _take(self, change: Change) -> None:
        self._causes = list(change.causes) if self._causes is None else [c for c in self._causes if c in change.causes]
        self._members.append(change)
        self._histories.add(_history_of(change))
        span = _span(change)
        self._span = span if len(self._members) == 1 else _overlap(self._span, span)


def severity(change: Change) -> float:
    """Return how large a change is whatever its direction: the logarithm of its ratio, infinite for a test or a zero."""
    if change.kind == "functional" or change.change <= -1:
        return math.inf
    return abs(math.log1p(change.change))


def _new_alert(change: Change, taken: set[str]) -> Alert:
    name = str(uuid.uuid5(_NAMESPACE, f"{change.state}:{change.id}"))
    while name in taken:
        name = str(uuid.uuid5(_NAMESPACE, name))
    kind: Literal["performance", "functional"] = "functional" if change.kind == "functional" else "performance"
    return Alert(id=name, title="", direction=change.state, kind=kind, state="new", changes=[])


def _history_of(change: Change) -> tuple[str, str, str]:
    return change.alike, change.metric, change.state


def _is_same(change: Change, other: Change) -> bool:
    if change.id == other.id or (change.first, change.last) == (other.first, other.last):
        return True
    return _overlap(_span(change), _span(other)) is not None


def _places(change: Change) -> list[_Place]:
    """Return where changes lie that may have their cause in common with this one."""
    near: Sequence[Cause | str] = change.causes or [change.platform]
    return [(change.state, change.hardware, place) for place in near]


def _span(change: Change) -> _Span | None:
    """Return the range of time in which it happened, None where that is not known."""
    return (change.first_time, change.last_time) if change.first_time and change.last_time else None


def _overlap(span: _Span | None, other: _Span | None) -> _Span | None:
    """Return what two ranges have in common; None where they are apart or one is not known."""
    if span is None or other is None:
        return None
    begin, end = max(span[0], other[0]), min(span[1], other[1])
    return (begin, end) if begin <= end else None


def _moment(change: Change) -> tuple[datetime, datetime, str]:
    return change.first_time or _ENDLESS, change.last_time or _ENDLESS, change.id


def _title(changes: Sequence[Change], cause: Cause | None) -> str:
    """Return what changed, the largest change first, with the cause that all have in common."""
    worst = changes[0]
    configurations = len({change.alike for change in changes})
    where = worst.title if configurations == 1 else f"{configurations} configurations on {worst.hardware}"
    metrics = {change.metric for change in changes}
    if worst.kind == "functional":
        what = f"{worst.metric} {'fails' if worst.state == 'worse' else 'passes'}"
    elif len(changes) == 1 or len(metrics) == 1:
        what = f"{worst.metric} {'up to ' if len(changes) > 1 else ''}{worst.change:+.1%}"
    else:
        what = f"{len(changes)} figures {worst.state}, {worst.metric} {worst.change:+.1%}"
    since = f", {cause.part} {cause.before or 'absent'} → {cause.after or 'absent'}" if cause else ""
    return f"{where}: {what}{since}"
