"""Evaluations that the report tells of: those on the predictor's card, and those of the accuracy benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dashboard.screens.predictor.words import in_order, title
from domain.errors import UsageError
from predictor.artifact.artifact import Card

__all__ = ["Bar", "Result", "of_benchmarks", "of_card"]


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
    def picture(self) -> str:
        """The name of its picture; a benchmark and the card may both have held out the same."""
        return f"parity-{self.name}" if "line" in self.answer else f"parity-shipped-{self.name}"

    @property
    def fields(self) -> list[dict[str, Any]]:
        """The fields of the parity chart; empty where the answer has none."""
        return list(self.answer.get("fields") or ())


def of_card(card: Card) -> list[Result]:
    """Return the evaluations on a predictor's card, in the order of their splits."""
    return [Result(name, title(answer), answer) for name, answer in in_order(card.scores).items()]


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
