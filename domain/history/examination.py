"""What is found in a history: its order, its confirmed changes with their candidate causes, its levels and suspect points.

Points are in the order of time. Where the clock of a machine went backward, or is ahead of the log's, its points keep the
order of the log. A point in another unit, of another subject or of an event that was there before is set aside. A doubted
point takes no part in a change: it confirms none and hides none. A doubt of a kind that at least half of the points have says
something of the machine and nothing of a run: such points take part, and a change counts where the kind is as usual on
one side of it as on the other. Each of these gives a warning.

A test that passed fails from the first of `FAILURES` failures in a row; a test that fails now and then needs as many as it
has in a row by chance once in a thousand runs. It passes again by the same rule.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from domain.comparison.regression import parts_changed
from domain.history.detector import FEWEST, ChangePoint, detect
from domain.history.history import Cause, Change, History, HistoryReport, Level, Point
from domain.sharing.bundles import derived_uuid

__all__ = ["FAILURES", "examine", "ordered"]

FAILURES = 2
PASSES_BEFORE = 3
"""A test has a state after as many equal outcomes."""
_BY_CHANCE = 1e-3
_CLOCK_SLACK = timedelta(minutes=5)
_POSTED_LATE = timedelta(days=1)
"""A point that came later than this after its time was kept in a file; one that came sooner and is older than the point before
has a clock that went backward."""
_FIGURES = re.compile(r"[:±0-9]")
_EVIDENCE = 5
_NEAR = 10
"""Points on each side of a change whose environments are compared."""


def examine(history: History, known: Sequence[Change] = ()) -> HistoryReport:
    """Return what is found in a history.

    The same history with more points gives the same changes with the same ids. Where points are added between others or are
    retracted, a change that overlaps one of `known` in the same direction keeps its id.
    """
    kept, warnings = _kept(history)
    points, clocks = ordered(kept)
    warnings += clocks
    places = {point.event_id: place for place, point in enumerate(points)}
    restarts = sorted(places[event] for event in history.restarts if event in places)
    examined = _functional if history.kind == "functional" else _performance
    usual = [] if history.kind == "functional" else _usual_doubts(points)
    found, levels, suspect, doubted = examined(history, _without(points, usual), restarts)
    alike = [
        msgspec.structs.replace(each, doubts=usual) for each in found if _doubted_alike(points, usual, each, places)
    ]
    changes = list(_named(alike, known, places))
    if doubted:
        warnings.append(f"Doubted: {doubted} of {_points(len(points))}, without a part in changes.")
    if usual:
        warnings.append(f"Most points are doubted for the same reason and take part: {', '.join(usual)}.")
    if len(alike) < len(found):
        warnings.append(f"Not counted: {len(found) - len(alike)} changes with rows that are doubted on one side alone.")
    return HistoryReport(
        **{name: getattr(history, name) for name in _OF_BOTH},
        better=history.better,
        kind=history.kind,
        points=len(points),
        changes=changes,
        levels=levels,
        suspect=[points[place].event_id for place in suspect],
        warnings=warnings,
    )


_OF_BOTH = (
    "alike",
    "title",
    "model",
    "hardware",
    "platform",
    "precision",
    "metric",
    "unit",
    "configuration",
    "mode",
    "batch_size",
)
_Found = tuple[list[Change], list[Level], list[int], int]


def ordered(points: Sequence[Point]) -> tuple[list[Point], list[str]]:
    """Return points in the order of time, and a warning for each machine whose clock cannot be believed."""
    newest: dict[str | None, datetime] = {}
    wrong: Counter[str] = Counter()
    moments: list[tuple[datetime, int, Point]] = []
    for point in sorted(points, key=lambda point: point.position):
        moment = _aware(point.time or point.recorded_at)
        recorded = _aware(point.recorded_at) if point.recorded_at else None
        if recorded and moment > recorded + _CLOCK_SLACK:
            wrong[point.machine or "?"] += 1
            moment = recorded
        before = newest.get(point.machine) if point.machine else None
        if before and moment < before and (recorded is None or recorded - moment < _POSTED_LATE):
            wrong[point.machine or "?"] += 1
            moment = before
        if point.machine:
            newest[point.machine] = max(moment, before or moment)
        moments.append((moment, point.position, point))
    warnings = [
        f"The clock of {machine} went backward or was ahead at {_points(count)}, kept in the order of the log."
        for machine, count in wrong.items()
    ]
    return [point for _, _, point in sorted(moments, key=lambda item: item[:2])], warnings


def _points(count: int) -> str:
    return f"{count} point{'' if count == 1 else 's'}"


def _aware(moment: datetime | None) -> datetime:
    moment = moment or datetime.min.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _kept(history: History) -> tuple[list[Point], list[str]]:
    """Return the points that belong to the history, and why others do not."""
    kept: dict[str, Point] = {}
    aside: Counter[str] = Counter()
    for point in history.points:
        if point.event_id in kept:
            aside["of an event that was there before"] += 1
        elif point.unit is not None and point.unit != history.unit:
            aside[f"in {point.unit!r} instead of {history.unit!r}"] += 1
        elif history.subject is not None and point.subject not in (None, history.subject):
            aside["of another configuration with the same key"] += 1
        else:
            kept[point.event_id] = point
    return list(kept.values()), [f"Set aside: {_points(count)} {reason}." for reason, count in aside.items()]


def _usual_doubts(points: Sequence[Point]) -> list[str]:
    """Return the kinds of doubt that at least half of the points have."""
    counts = Counter(kind for point in points for kind in _kinds(point))
    return sorted(kind for kind, count in counts.items() if 2 * count >= len(points) and count >= FEWEST)


def _kinds(point: Point) -> set[str]:
    """Return the kinds of a point's doubts: their words before the first figure or colon."""
    return {_FIGURES.split(doubt, maxsplit=1)[0].strip() or doubt for doubt in point.doubts}


def _without(points: Sequence[Point], usual: Sequence[str]) -> list[Point]:
    """Return the points without doubts of these kinds."""
    return [
        msgspec.structs.replace(point, doubts=[]) if point.doubts and _kinds(point) <= set(usual) else point
        for point in points
    ]


def _doubted_alike(points: Sequence[Point], usual: Sequence[str], change: Change, places: Mapping[str, int]) -> bool:
    """Return whether most rows near a change have the same of these doubts on both of its sides."""
    sides = (
        points[max(0, places[change.first] + 1 - _NEAR) : places[change.first] + 1],
        points[places[change.last] : places[change.last] + _NEAR],
    )
    return all(
        len({2 * sum(kind in _kinds(point) for point in side) >= len(side) for side in sides}) == 1 for kind in usual
    )


def _performance(history: History, points: Sequence[Point], restarts: Sequence[int]) -> _Found:
    values = [None if point.doubts else point.value for point in points]
    detection = detect(values, restarts, logarithm=True)
    changes = [_performance_change(history, points, change) for change in detection.changes]
    levels = []
    for segment in detection.segments:
        count = sum(value is not None for value in values[segment.start : segment.stop])
        first, last = points[segment.start].event_id, points[segment.stop - 1].event_id
        levels.append(
            Level(first=first, last=last, value=segment.value, low=segment.low, high=segment.high, points=count)
        )
    return changes, levels, list(detection.suspect), sum(value is None for value in values)


def _performance_change(history: History, points: Sequence[Point], found: ChangePoint) -> Change:
    worse = (found.after > found.before) == (history.better == "lower")
    change = _change(history, points, (found.start, found.end, found.index, found.confirmed_at), worse)
    return msgspec.structs.replace(
        change,
        kind=found.kind,
        before=found.before,
        after=found.after,
        change=found.effect or 0.0,
        low=found.low,
        high=found.high,
        votes=list(found.votes),
    )


def _functional(history: History, points: Sequence[Point], restarts: Sequence[int]) -> _Found:
    usable = [place for place, point in enumerate(points) if not point.doubts and math.isfinite(point.value)]
    outcomes = [points[place].value > 0 for place in usable]
    begins = sorted({sum(place < restart for place in usable) for restart in restarts})
    turns, odd = _turns(outcomes, begins)
    changes = []
    for first, confirmed in turns:
        places = (usable[first - 1], usable[first], usable[first], usable[confirmed])
        changes.append(_change(history, points, places, worse=not outcomes[first]))
    levels = []
    starts = sorted({0, *begins, *(first for first, _ in turns)} - {len(usable)})
    for begin, stop in itertools.pairwise([*starts, len(usable)]):
        share = sum(outcomes[begin:stop]) / (stop - begin)
        ends = (points[usable[begin]].event_id, points[usable[stop - 1]].event_id)
        levels.append(Level(first=ends[0], last=ends[1], value=share, low=share, high=share, points=stop - begin))
    return changes, levels, [usable[place] for place in odd], len(points) - len(usable)


def _turns(outcomes: Sequence[bool], restarts: Sequence[int]) -> tuple[list[tuple[int, int]], list[int]]:
    """Return where a test turns, as its first other outcome and the one that confirms, and the outcomes that no turn explains."""
    turns: list[tuple[int, int]] = []
    odd: list[int] = []
    state, seen, others, row = None, 0, 0, 0
    for place, outcome in enumerate(outcomes):
        if place in restarts or state is None:
            odd += range(place - row, place)
            state, seen, others, row = outcome, 1, 0, 0
        elif outcome == state:
            odd += range(place - row, place)
            seen, others, row = seen + 1 + row, others + row, 0
        elif seen < PASSES_BEFORE:
            state, seen, others, row = outcome, 1, 0, 0
        else:
            row += 1
            if row >= _needed(others, seen):
                turns.append((place - row + 1, place))
                state, seen, others, row = outcome, row, 0, 0
    odd += range(len(outcomes) - row, len(outcomes))
    return turns, odd


def _needed(others: int, seen: int) -> int:
    """Return how many other outcomes in a row confirm, where `others` of those `seen` were not of the state."""
    share = min((others + 0.5) / (seen + 1), 0.5)
    return max(FAILURES, math.ceil(math.log(_BY_CHANCE) / math.log(share)) if others else FAILURES)


def _change(history: History, points: Sequence[Point], places: tuple[int, int, int, int], worse: bool) -> Change:
    """Return a change by the places before it, no later than it, of its level and of what confirmed it."""
    start, end, level, confirmed = places
    first, last = points[start], points[end]
    state: Literal["worse", "better"] = "worse" if worse else "better"
    passed = (0.0, 1.0)[worse]
    name = "\0".join((history.alike, history.metric, state, points[level].event_id))
    return Change(
        id=derived_uuid(hashlib.sha256(name.encode()).digest()),
        **{name: getattr(history, name) for name in _OF_BOTH},
        bench=history.bench,
        kind="functional",
        state=state,
        before=passed,
        after=1 - passed,
        change=-1.0 if worse else 1.0,
        low=None,
        high=None,
        first=first.event_id,
        last=last.event_id,
        confirmed_by=points[confirmed].event_id,
        level=points[level].event_id,
        first_time=first.time,
        last_time=last.time,
        versions=(first.runtime, last.runtime),
        commits=(first.commit, last.commit),
        causes=_causes(points, start, end, history.environments),
        evidence_before=_evidence(points[start::-1]),
        evidence_after=_evidence(points[end:]),
    )


def _evidence(points: Sequence[Point]) -> list[str]:
    return [point.event_id for point in itertools.islice((each for each in points if not each.doubts), _EVIDENCE)]


def _causes(points: Sequence[Point], start: int, end: int, environments: Mapping[str, dict[str, Any]]) -> list[Cause]:
    """Return what differs between both ends of a range: first the parts that are the same on each side of it."""
    sides = points[max(0, start + 1 - _NEAR) : start + 1], points[end : end + _NEAR]
    steady = [Counter(part for point in side for part in _parts(point, environments).items()) for side in sides]
    before, after = (_parts(points[place], environments) for place in (start, end))

    def held(cause: Cause) -> float:
        counts = (steady[0][cause.part, cause.before], steady[1][cause.part, cause.after])
        return min(count / len(side) for count, side in zip(counts, sides, strict=True))

    causes = list(_differences(points[start], points[end], before, after, environments))
    return sorted(causes, key=lambda cause: -held(cause))


def _differences(
    first: Point,
    last: Point,
    before: Mapping[str, str | None],
    after: Mapping[str, str | None],
    environments: Mapping[str, dict[str, Any]],
) -> Iterator[Cause]:
    for part in ("runtime", "machine", "commit"):
        if before.get(part) != after.get(part):
            yield Cause(part=part, before=before.get(part), after=after.get(part))
    for part, old, new in parts_changed(first.environment, last.environment, environments, environments):
        yield Cause(part=part, before=old, after=new)


def _parts(point: Point, environments: Mapping[str, dict[str, Any]]) -> dict[str, str | None]:
    """Return the parts of a point's environment, by the names that `parts_changed` gives them."""
    parts: dict[str, str | None] = {"runtime": point.runtime, "machine": point.machine, "commit": point.commit}
    if point.environment is None or point.environment not in environments:
        return parts | {"fingerprint": point.environment}
    empty = {point.environment: environments[point.environment], "": {"": None}}
    return parts | {part: value for part, value, _ in parts_changed(point.environment, "", empty, empty)}


def _named(changes: Sequence[Change], known: Sequence[Change], places: Mapping[str, int]) -> Iterator[Change]:
    """Yield changes, each with the id of the one in `known` that it is."""
    names, taken = {other.id for other in known}, {change.id for change in changes}
    free = [other for other in known if other.id not in taken]
    for change in changes:
        match = None if change.id in names else next((other for other in free if _same(change, other, places)), None)
        if match is not None:
            free.remove(match)
            change = msgspec.structs.replace(change, id=match.id)
        yield change


def _same(change: Change, other: Change, places: Mapping[str, int]) -> bool:
    """Return whether both are of one direction and their ranges overlap; `other` may have lost an event of its range."""
    if (other.alike, other.metric, other.state) != (change.alike, change.metric, change.state):
        return False
    ends = [places[event] for event in (other.first, other.level, other.last) if event is not None and event in places]
    first, last = places[change.first], places[change.last]
    return bool(ends) and max(first, min(ends)) <= min(last, max(ends))
