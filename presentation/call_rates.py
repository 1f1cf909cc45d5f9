"""What one call of an answer is, in a line, and the rate by which calls of its kind are told."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from domain.answers import Call, Figures
from presentation import formatting

__all__ = ["Rate", "call_line", "rate_of"]


class Rate(NamedTuple):
    """The head of a column, and how the rate of an option is written."""

    head: str
    text: Callable[[Figures], str]


def call_line(call: Call | None) -> str | None:
    """Return `one call: 30 s of audio: one encoder pass and 100 generated tokens`; None for an answer that does not say."""
    return None if call is None else f"one call: {call.what}"


def rate_of(call: Call | None) -> Rate:
    """Return the rate for a kind of call: a multiple of real time, images a minute, tokens or items a second."""
    return _RATES.get("" if call is None else call.unit, _ITEMS)


def _images(row: Figures) -> str:
    """Images a minute, or a second where there are many."""
    rate = row.throughput_per_s
    if rate is None or rate >= 1:
        return formatting.throughput(rate)
    return f"{formatting.significant(rate * 60)}/min"


_ITEMS = Rate("items", lambda row: formatting.throughput(row.throughput_per_s))
_REAL_TIME = Rate("real time", lambda row: formatting.factor(row.realtime_factor))
_RATES = {
    "transcription": _REAL_TIME,
    "recording": _REAL_TIME,
    "image": Rate("images", _images),
    "generation": Rate("tokens", lambda row: formatting.throughput(row.tokens_per_s)),
}
