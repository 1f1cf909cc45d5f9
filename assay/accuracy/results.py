"""Evaluations that the report tells of: those on the predictor's card, and those of the accuracy benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from dashboard.screens.predictor.words import in_order, title
from domain.errors import UsageError
from predictor.artifact.artifact import Card

__all__ = ["CHOICE_BAR", "CHOICE_REACH", "Bar", "Choice", "Result", "choice_in", "of_benchmarks", "of_card"]


COVERAGE_TOLERANCE = 0.04
"""How far the share of intervals that hold may lie from what they promise."""


class Bar(NamedTuple):
    """What an error must be at the most, what would be good, and what it is; None where it was not evaluated.

    `coverage` has the shares of intervals that held, by what they promise; empty where none was given.
    """

    of: str
    figure: str
    most: float
    reach: float | None
    found: float | None
    coverage: Mapping[float, float] = {}

    @property
    def met(self) -> bool:
        """Whether the error is within the bar."""
        return self.found is not None and self.found <= self.most

    @property
    def reached(self) -> bool:
        """Whether the error is within the reach."""
        return self.found is not None and self.reach is not None and self.found <= self.reach

    @property
    def off_coverage(self) -> float | None:
        """The largest difference of what intervals hold and promise, positive where they are too wide; None without any."""
        return max((held - promise for promise, held in self.coverage.items()), key=abs, default=None)

    @property
    def covered(self) -> bool:
        """Whether every interval holds what it promises, within the tolerance."""
        # Shares are kept to six digits: a difference of exactly the tolerance is within it.
        return self.off_coverage is not None and abs(self.off_coverage) <= COVERAGE_TOLERANCE + 1e-9


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


CHOICE_BAR, CHOICE_REACH = (0.88, 0.20), (0.92, 0.12)
"""The least success of choices and their largest overspend: what must be, and what would be good."""


class Choice(NamedTuple):
    """How often a choice of machines meets its latency limits, and what it costs above the cheapest that does."""

    questions: int
    success: float
    overspend: float

    def meets(self, limit: tuple[float, float]) -> bool:
        """Whether success and overspend are both within a limit."""
        return self.success >= limit[0] and self.overspend <= limit[1]


def choice_in(path: Path) -> Choice | None:
    """Return what `benchmarks.choices` left of choices with nothing measured; None without the file."""
    if not path.exists():
        return None
    try:
        line = json.loads(path.read_text(encoding="utf-8"))["served"]["lines"]["ours, nothing measured"]
        return Choice(line["questions"], line["success"], line["overspend"])
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} holds no choices: {error!r}.",
            field="results",
            remedy="Make it again: python -m benchmarks.choices --help.",
        ) from error


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
        bars = tuple(_bar(line, of, parts.get(of, {})) for of in line["bars"])
        return Result(path.stem, line["title"], answer, bars)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"{path} holds no evaluation: {error!r}.",
            field="results",
            remedy="Make it again: python -m benchmarks.accuracy --help.",
        ) from error


def _bar(line: Mapping[str, Any], of: str, part: Mapping[str, Any]) -> Bar:
    reaches, figure = line.get("reach") or {}, line.get("figure", "mape")
    coverage = {nominal: part.get(f"coverage_{round(nominal * 100)}") for nominal in (0.8, 0.9)}
    return Bar(
        of=of,
        figure=figure,
        most=line["bars"][of],
        # Results of before lines had a reach for each bar hold one figure.
        reach=reaches.get(of) if isinstance(reaches, dict) else reaches,
        found=part.get(figure),
        coverage={nominal: held for nominal, held in coverage.items() if held is not None},
    )
