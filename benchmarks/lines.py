"""One comparison of a run: what was measured, against what, the bar, and whether it is met. Statistics are pure."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

__all__ = ["HEADER", "Limit", "Line", "growth", "interleaved", "plain", "quantile", "rates", "share", "times"]

HEADER = "what | ours | peer | ratio | bar | reach | pass?"


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """What a value must be: `bar` at the least (at the most where `most`); `reach` is what would be good."""

    bar: float
    reach: float | None = None
    most: bool = False

    def met(self, value: float) -> bool:
        """Return whether the bar is met."""
        return value <= self.bar if self.most else value >= self.bar

    def reached(self, value: float) -> bool:
        """Return whether the reach is met too; without one the bar is it."""
        goal = self.bar if self.reach is None else self.reach
        return value <= goal if self.most else value >= goal


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A comparison. `ours` and `peer` are all samples in `unit`; `value` is what the limit judges.

    `ratio` says whether `value` is a ratio (or a share) or a figure in `unit`; without a limit the line only tells.
    """

    what: str
    unit: str
    ours: list[float]
    value: float
    against: str = ""
    peer: list[float] = []
    ratio: bool = True
    limit: Limit | None = None
    details: dict[str, Any] = {}

    @property
    def passed(self) -> bool | None:
        """Whether the bar is met; None where there is none."""
        return None if self.limit is None else self.limit.met(self.value)

    def text(self) -> str:
        """Return the line as it is printed."""
        limit = self.limit
        sign = "≤" if limit and limit.most else "≥"
        cells = [
            f"{self.what} [against {self.against}]" if self.against else self.what,
            f"{_short(statistics.median(self.ours) if self.ratio else self.value)} {self.unit}",
            f"{_short(statistics.median(self.peer))} {self.unit}" if self.peer else "–",
            _short(self.value) if self.ratio else "–",
            f"{sign} {_short(limit.bar)}" if limit else "–",
            f"{sign} {_short(limit.reach)}" if limit and limit.reach is not None else "–",
            "–"
            if limit is None
            else "no"
            if not limit.met(self.value)
            else "yes"
            if limit.reached(self.value)
            else "bar",
        ]
        return " | ".join(cells)


def rates(
    what: str, unit: str, ours: Sequence[float], peer: Sequence[float], against: str, limit: Limit | None = None,
    **details: Any,
) -> Line:  # fmt: skip
    """Return the comparison of two rates, measured in turns: the median of ours over peer's, turn by turn."""
    ratio = statistics.median(mine / other for mine, other in zip(ours, peer, strict=True))
    return _ratio(ratio, what, unit, ours, peer, against, limit, details)


def times(
    what: str, unit: str, ours: Sequence[float], peer: Sequence[float], against: str, limit: Limit | None = None,
    **details: Any,
) -> Line:  # fmt: skip
    """Return how many times quicker we are: the median of peer's time over ours."""
    ratio = statistics.median(peer) / statistics.median(ours)
    return _ratio(ratio, what, unit, ours, peer, against, limit, details)


def growth(
    what: str, unit: str, large: Sequence[float], small: Sequence[float], against: str, limit: Limit | None = None,
    **details: Any,
) -> Line:  # fmt: skip
    """Return how many times more the large case takes than the small one."""
    ratio = statistics.median(large) / statistics.median(small)
    return _ratio(ratio, what, unit, large, small, against, limit, details)


def share(what: str, part: float, whole: float, against: str, limit: Limit | None = None, **details: Any) -> Line:
    """Return which share of `whole` bytes `part` is."""
    return _ratio(part / whole, what, "bytes", [part], [whole], against, limit, details)


def plain(
    what: str, unit: str, values: Sequence[float], limit: Limit | None = None, *, value: float | None = None,
    **details: Any,
) -> Line:  # fmt: skip
    """Return a figure that stands for itself: `value`, or the median."""
    judged = statistics.median(values) if value is None else value
    return Line(what=what, unit=unit, ours=list(values), value=judged, ratio=False, limit=limit, details=details)


def interleaved(repeats: int, *sides: Callable[[], float]) -> list[list[float]]:
    """Return `repeats` results of each side, taken in turns; who goes first changes with every turn."""
    found: list[list[float]] = [[] for _ in sides]
    for turn in range(repeats):
        order = list(range(len(sides)))
        for side in order[turn % len(sides) :] + order[: turn % len(sides)]:
            found[side].append(sides[side]())
    return found


def quantile(values: Sequence[float], share_below: float) -> float:
    """Return the value that `share_below` of the sorted values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share_below * len(ordered)))]


def _ratio(
    value: float, what: str, unit: str, ours: Sequence[float], peer: Sequence[float], against: str,
    limit: Limit | None, details: dict[str, Any],
) -> Line:  # fmt: skip
    return Line(
        what=what, unit=unit, ours=list(ours), peer=list(peer), against=against, value=value, limit=limit,
        details=details,
    )  # fmt: skip


def _short(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
