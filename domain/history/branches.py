"""The history of a branch: its own points, before them those of the branch that it started from, and requests as context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from domain.history.history import History, Point
from domain.payloads import BranchStart

__all__ = ["of_branch", "points_of"]


def of_branch(history: History, branch: str | None, starts: Mapping[str, BranchStart] | None = None) -> History | None:
    """Return the history of one branch, or of all code where `branch` is None; None where the branch has no point.

    Points of pull requests and merge requests are kept as `context`: they are shown, and confirm nothing.
    """
    points = points_of(history.points, branch, starts or {})
    if not points:
        return None
    context = [point for point in history.points if point.pull_request is not None]
    return msgspec.structs.replace(history, points=points, context=[*history.context, *context])


def points_of(points: Iterable[Point], branch: str | None, starts: Mapping[str, BranchStart]) -> list[Point]:
    """Return the points of a branch, in the order given.

    Its own count after its start; before it, those of the branch that it started from, which may have a start of its own.
    Where a branch has no start, its own points are all. A point of a pull request is of no branch.
    """
    merged = [point for point in points if point.pull_request is None]
    if branch is None:
        return merged
    spans = list(_spans(branch, starts))
    return [
        point
        for point in merged
        if any(point.branch == name and first < point.position <= last for name, first, last in spans)
    ]


def _spans(branch: str, starts: Mapping[str, BranchStart]) -> Iterable[tuple[str, float, float]]:
    """Yield the branches of a history, newest first, each with the positions between which its points count."""
    last, seen = float("inf"), set[str]()
    while branch not in seen:
        seen.add(branch)
        start = starts.get(branch)
        if start is None or start.branch in seen:
            yield branch, -1, last
            return
        yield branch, min(start.position, last), last
        branch, last = start.branch, min(start.position, last)
