"""How one figure stands to another, with the interval that follows from both, and in words only what that supports."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from presentation import formatting

__all__ = ["Ratio", "of", "words"]

NOTHING_SAID = formatting.MISSING


class Ratio(NamedTuple):
    """A value over another; the interval reaches from the least to the most that both intervals allow."""

    value: float | None
    low: float | None
    high: float | None


def of(above: Mapping[str, Any], below: Mapping[str, Any], key: str, low: str, high: str) -> Ratio:
    """Return `above` over `below` by the keys of a metric; a side that is missing or 0 makes none.

    A side without an interval is its value alone; where neither has one, the ratio has none either.
    """
    if not above.get(key) or not below.get(key):
        return Ratio(None, None, None)
    value = above[key] / below[key]
    if all(row.get(end) is None for row in (above, below) for end in (low, high)):
        return Ratio(value, None, None)
    return Ratio(
        value,
        _end(above, low, key) / _end(below, high, key),
        _end(above, high, key) / (_end(below, low, key) or below[key]),
    )


def words(ratio: Ratio, better: str = "faster", worse: str = "slower") -> str:
    """Say in one word which way a ratio goes, where more than 1 is better; that it is undecided where 1 lies within."""
    if ratio.value is None:
        return NOTHING_SAID
    if ratio.low is None or ratio.high is None:
        return f"{'▲ ' + better if ratio.value > 1 else '▼ ' + worse if ratio.value < 1 else '≈ alike'}, no interval"
    if ratio.low <= 1 <= ratio.high:
        return "≈ cannot tell"
    return f"▲ {better}" if ratio.low > 1 else f"▼ {worse}"


def _end(row: Mapping[str, Any], end: str, key: str) -> float:
    return float(row[key] if row.get(end) is None else row[end])
