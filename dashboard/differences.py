"""What compared rows share and in what they differ, method first: it stands before every number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from presentation.formatting import MISSING
from presentation.loads import STATED_WORDS

__all__ = ["FIELDS", "Difference", "Differences", "find"]

FIELDS = {
    "basis": "Basis",
    "mode": "Mode",
    "scenario": "Scenario",
    "concurrency": "Requests at once",
    "arrival_rate_per_s": "Requests a second",
    "target_latency_ms": "Target latency ms",
    "hardware_stated": "Where it ran is",
    "weights": "Weights",
    "runtime": "Runtime",
    "browser": "Browser",
    "compiled": "Compiled",
    "threads": "Threads",
    "layout": "Layout",
    "precision": "Precision",
    "sequence_length": "Sequence length",
    "image_size": "Image size",
    "batch_size": "Batch",
    "os": "Operating system",
    "driver": "Driver",
    "platform": "Platform",
    "hardware": "Hardware",
}
"""Keys of a row in the order of their weight: how it was measured, then what was asked, then where it ran."""


METHOD = frozenset(
    {
        "scenario",
        "concurrency",
        "arrival_rate_per_s",
        "target_latency_ms",
        "hardware_stated",
        "weights",
        "runtime",
        "browser",
        "compiled",
        "threads",
        "layout",
        "os",
        "driver",
    }
)
"""How a row was measured: an estimate has no such thing, so that only evidence is compared by it."""
EVIDENCE = ("measured", "imported")


class Difference(NamedTuple):
    """One field in which rows differ, with each value and how many rows have it."""

    field: str
    values: list[tuple[str, int]]


class Differences(NamedTuple):
    """Fields that all rows share, and those that they do not."""

    same: dict[str, str]
    differs: list[Difference]


def find(rows: Sequence[Mapping[str, Any]], fields: Mapping[str, str] = FIELDS) -> Differences:
    """Sort fields into shared and differing; a field that no row knows is in neither."""
    evidence = [row for row in rows if row.get("basis") in EVIDENCE]
    same: dict[str, str] = {}
    differs: list[Difference] = []
    for key, title in fields.items():
        counts: dict[str, int] = {}
        for row in evidence if key in METHOD and evidence else rows:
            word = _word(_value(row, key))
            counts[word] = counts.get(word, 0) + 1
        if len(counts) == 1 and MISSING not in counts:
            same[title] = next(iter(counts))
        elif len(counts) > 1:
            differs.append(Difference(title, sorted(counts.items(), key=_order)))
    return Differences(same, differs)


def _value(row: Mapping[str, Any], key: str) -> Any:
    if key == "hardware_stated":
        return STATED_WORDS if row.get(key) else None
    return row.get(key)


def _order(names: tuple[str, int]) -> tuple[int, float, str]:
    """The most frequent first; of those alike, numbers by their size."""
    word, rows = names
    return -rows, float(word) if word.replace(".", "", 1).isdigit() else 0.0, word


def _word(value: Any) -> str:
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return " ".join(str(part) for part in value.values() if part) or MISSING
    return str(value)
