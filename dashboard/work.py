"""One piece of work: the sizes of an input. Rows are put side by side only where their work is the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

from dashboard import answers
from dashboard.differences import EVIDENCE
from dashboard.ranking import completed
from dashboard.service import decoded
from domain.answers import ExcludedConfigurations
from domain.errors import AssayError

__all__ = ["Estimates", "Work", "estimated", "most_frequent", "most_measured", "work_of"]

Row = Mapping[str, Any]
MOST_ASKED = 1000


class Work(NamedTuple):
    """Sizes beside the batch; None where the input has no such size."""

    sequence_length: int | None = None
    image_size: int | None = None


class Estimates(NamedTuple):
    """What is predicted, what was measured of the same question, what was left out, and why nothing is where nothing is."""

    rows: list[dict[str, Any]]
    measured: list[dict[str, Any]]
    excluded: list[ExcludedConfigurations]
    unpredicted: str | None


class Worked(TypedDict, total=False):
    """The sizes of an item in a row."""

    sequence_length: int | None
    image_size: int | None


def work_of(row: Worked) -> Work:
    """Return the work that a row did."""
    return Work(row.get("sequence_length"), row.get("image_size"))


def most_measured(rows: Sequence[Worked]) -> Work:
    """Return the work that most rows did; without rows, the one that a model usually does."""
    counted = Counter(work_of(row) for row in rows)
    return counted.most_common(1)[0][0] if counted else Work()


def most_frequent(rows: Sequence[Row], key: str) -> Any:
    """Return the value that most rows have under a key; None where none has one."""
    counted = Counter(row[key] for row in rows if row.get(key) is not None)
    return counted.most_common(1)[0][0] if counted else None


def estimated(
    model: str, hardware: Sequence[str], mode: str, batches: Sequence[int], work: Work, position: int
) -> Estimates:
    """Ask for every configuration of a model on some hardware at these batches and this work, in one question.

    Where nothing can be predicted the answer is empty and says why.
    """
    sizes = {name: size for name, size in work._asdict().items() if size is not None}
    request = {
        "model": model,
        "mode": mode,
        "hardware": list(hardware),
        "batch_sizes": list(batches),
        "top": MOST_ASKED,
        "per_hardware": False,
    }
    try:
        answer = answers.recommend(request | sizes, position)
    except AssayError as problem:
        return Estimates([], [], [], str(problem))
    ranked = [completed({**row, "mode": mode}) for row in answer["ranked"]]
    return Estimates(
        [row for row in ranked if row.get("basis") not in EVIDENCE],
        [row for row in ranked if row.get("basis") in EVIDENCE],
        [decoded(item, ExcludedConfigurations) for item in answer["excluded"]],
        None,
    )
