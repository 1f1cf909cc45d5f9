"""Evaluations that the report tells of: those on the predictor's card, and those of the accuracy benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from domain.errors import UsageError
from predictor.learning.artifact import Card

__all__ = ["Bar", "Result", "of_benchmarks", "of_card"]

_SPLITS = {
    "random": "random rows: interpolation, the same model is on both sides",
    "configuration": "a configuration that never trained",
    "architecture": "an architecture that never trained, on known devices and software",
    "family": "a family that never trained, on known devices and software",
    "hardware": "a device that never trained",
    "hardware+family": "a device and a family that never trained",
    "time": "the last fifth by time",
}
_TARGETS = {
    "latency": "time of a call", "memory": "peak memory", "ttft": "time to first token", "tpot": "time per output token",
    "energy": "energy of a call",
}  # fmt: skip
_UNITS = {"memory": "bytes", "energy": "J"}


class Bar(NamedTuple):
    """What an error must be at the most, and what it is; None where it was not evaluated."""

    of: str
    figure: str
    most: float
    found: float | None

    @property
    def met(self) -> bool:
        """Whether the error is within the bar."""
        return self.found is not None and self.found <= self.most


class Result(NamedTuple):
    """One evaluation: a name that a file may have, a title, the answer of `evaluate`, and the bars it is held against."""

    name: str
    title: str
    answer: Mapping[str, Any]
    bars: tuple[Bar, ...] = ()

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The fields of the parity chart; empty where the answer has none."""
        return list(self.answer.get("fields") or ())

    @property
    def unit(self) -> str:
        """The unit of what was measured."""
        return _UNITS.get(self.answer["target"], "s")

    @property
    def calibration(self) -> list[dict[str, Any]]:
        """What each interval promised and held; from the two that a score has where the answer has no more."""
        overall = self.answer["overall"]
        two = [{"nominal": nominal, "covered": overall.get(f"coverage_{nominal * 100:.0f}")} for nominal in (0.8, 0.9)]
        return list(self.answer.get("calibration") or two)


def of_card(card: Card) -> list[Result]:
    """Return the evaluations on a predictor's card, in the order of their splits."""
    found = [Result(name, _title(answer), answer) for name, answer in card.scores.items()]
    order = list(_SPLITS)

    def place(one: Result) -> tuple[int, str, int, str]:
        split = one.answer["split"]
        return order.index(split) if split in order else len(order), one.answer["target"], one.answer["shots"], one.name

    return sorted(found, key=place)


def of_benchmarks(folder: Path) -> list[Result]:
    """Return the evaluations that `benchmarks.accuracy` left in a folder, in the order of their names; none without it.

    Raises UsageError for a file that holds none.
    """
    return [_result(path) for path in sorted(folder.glob("*.json"))]


def _result(path: Path) -> Result:
    try:
        answer = json.loads(path.read_text(encoding="utf-8"))
        line, parts = answer["line"], {"all": answer["overall"], **answer["by_hardware"]}
        figure = line.get("figure", "mape")
        bars = [Bar(of, figure, most, parts.get(of, {}).get(figure)) for of, most in line["bars"].items()]
        return Result(path.stem, line["title"], answer, tuple(bars))
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} holds no evaluation: {error!r}.",
            field="results",
            remedy="Make it again: python -m benchmarks.accuracy --help.",
        ) from error


def _title(answer: Mapping[str, Any]) -> str:
    split, shots, target = answer["split"], answer["shots"], answer["target"]
    words = [_SPLITS.get(split, str(split))]
    if "hardware" in split or shots:
        words.append(
            f"{shots} measurements a software configuration" if "hardware" in split else f"{shots} measurements"
        )
    if target in _TARGETS:
        words.append(_TARGETS[target])
    if answer.get("mode") == "training":
        words.append("training")
    return ", ".join(words)
