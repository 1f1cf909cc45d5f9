"""Cells of the compatibility matrix: which are asked for, what class each is of, and what stands in it and behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo
from typing import NamedTuple
from urllib.parse import urlencode

import msgspec
import pandas as pd

from dashboard.address import Params, Read, one_of, parameters, position, slugs, text, understood, whole, yes_or_no
from dashboard.tables.result_table import Column, filled
from domain.answers.compatibility import CellCase, CompatibilityMatrix, MatrixCell, MatrixRow
from domain.compatibility.states import STATES, place, works
from domain.vocabulary import CATEGORIES
from presentation import formatting

__all__ = [
    "ANY",
    "CLASSES",
    "DID_NOT",
    "LEVELS",
    "PAGE_ROWS",
    "Class",
    "Matrix",
    "Parameters",
    "alone",
    "by_model",
    "cell_link",
    "cell_text",
    "class_of",
    "failing",
    "failing_columns",
    "known_cell",
    "known_columns",
    "name_of_cell",
    "outcomes",
    "read_matrix",
    "request",
    "sentence",
    "some_did_not",
    "stages",
    "wide",
]

Parameters = dict[str, str | int | bool | list[str]]
"""What the API is asked with."""
LEVELS = ("family", "model")
ANY = "any"
STALE = (ANY, "yes", "no")
PAGE_ROWS, MOST_ROWS = 25, 200
DID_NOT = tuple(state for state in STATES if works(state) is False)
"""States of what was tried and did not work, or not as asked."""
_WORST = ("wrong", "error", "out of memory", "timeout", "unsupported", "fell back")
"""The states of what did not work, the worst first."""
STAGES = ("resolve", "load", "convert", "compile", "first_run", "run", "verify")


class Matrix(msgspec.Struct, frozen=True, kw_only=True):
    """What the page asks: rows of which level, which of them, and the cell that is open (`name~platform`)."""

    level: str = "family"
    family: str = ""
    model: str = ""
    category: str = ""
    hw: str = ""
    platform: tuple[str, ...] = ()
    state: tuple[str, ...] = ()
    stale: str = ANY
    claims: bool = False
    page: int = 1
    sel: str = ""
    as_of: int | None = None


def _states(values: Sequence[str]) -> tuple[str, ...]:
    states = slugs(values)
    unknown = [word for word in states if word not in STATES]
    if unknown:
        raise ValueError(f"must be of {', '.join(STATES)}")
    return states


def _cell(values: Sequence[str]) -> str:
    if values[-1].count("~") != 1 or values[-1].startswith("~") or values[-1].endswith("~"):
        raise ValueError("must be a family or model, ~, and a platform")
    return values[-1]


_READERS = {
    "level": one_of(LEVELS),
    "family": text,
    "model": text,
    "category": one_of((*CATEGORIES, "unknown")),
    "hw": text,
    "platform": slugs,
    "state": _states,
    "stale": one_of(STALE),
    "claims": yes_or_no,
    "page": whole,
    "sel": _cell,
    "as_of": position,
}


def read_matrix(params: Params) -> Read:
    """Read the page's parameters."""
    return understood(Matrix, params, _READERS)


def request(matrix: Matrix) -> Parameters:
    """Return the question as the API takes it."""
    wanted = {
        "level": matrix.level,
        "family": matrix.family or None,
        "model": matrix.model or None,
        "category": matrix.category or None,
        "hardware": matrix.hw or None,
        "platform": list(matrix.platform) or None,
        "seen": list(matrix.state) or None,
        "claims": matrix.claims,
        "stale": {ANY: None, "yes": True, "no": False}[matrix.stale],
        "offset": (matrix.page - 1) * PAGE_ROWS,
        "limit": PAGE_ROWS,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def alone(matrix: Matrix) -> Parameters:
    """Return the question for the one row of the open cell, on whatever page it is."""
    # A family of several categories has a row for each, which its name says: `clip (vision)`.
    name = matrix.sel.partition("~")[0].partition(" (")[0]
    item = Matrix(level=matrix.level, hw=matrix.hw, claims=matrix.claims)
    return request(item) | {matrix.level: name}


def by_model(matrix: Matrix) -> Parameters:
    """Return the question for the totals of models under the same filters: a family's row counts a model of two families twice."""
    return request(msgspec.structs.replace(matrix, level="model", page=1)) | {"limit": 1}


def failing(matrix: Matrix) -> Parameters:
    """Return the question for the models that were tried under the same filters and did not work somewhere."""
    states = matrix.state or DID_NOT
    return request(msgspec.structs.replace(matrix, level="model", state=states, page=1)) | {"limit": MOST_ROWS}


def failing_columns(rows: Sequence[MatrixRow], matrix: Matrix) -> list[Column]:
    """Return the cells that do not work, the worst state first; a name opens its cell."""
    found = [(row.name, cell) for row in rows for cell in row.cells if cell.state in DID_NOT]
    found.sort(key=lambda item: (_WORST.index(item[1].state), item[0]))
    stopped = [cell.stopped if cell.stopped != cell.state else None for _, cell in found]
    columns = [
        Column(
            head="Did not work",
            values=[name for name, _ in found],
            links=[cell_link(matrix, "model", name_of_cell(name, cell.platform)) for name, cell in found],
        ),
        Column(head="Platform", values=[cell.platform for _, cell in found]),
        Column(head="What happened", values=[cell.state for _, cell in found]),
        Column(head="Runs", values=[cell.tries for _, cell in found]),
    ]
    return [*columns, Column(head="What stopped it", values=stopped)] if any(stopped) else columns


def cell_link(matrix: Matrix, level: str, name: str) -> str:
    """Return the address that opens a cell of the matrix over the page."""
    return f"compatibility?{urlencode(parameters(msgspec.structs.replace(matrix, level=level, sel=name)), doseq=True)}"


def some_did_not(answer: CompatibilityMatrix) -> bool:
    """Say whether something was tried under these filters and did not work."""
    return any(platform.working < platform.models for platform in answer.platforms)


class Class(NamedTuple):
    """What a cell looks like: its glyph and what that means."""

    glyph: str
    meaning: str


CLASSES = {
    "right": Class("✓", "ran, outputs right"),
    "ran": Class("○", "ran, outputs not compared"),
    "part": Class("≠", "some ran, or wrong, or fell back"),
    "failed": Class("✕", "tried, did not run"),
    "unsupported": Class("⊘", "unsupported, not there or skipped"),
    "claimed": Class("┄", "dashed: only a document claims it"),
}
"""Every class of cells, the best first; the last is no evidence."""
_OF_STATE = {
    "verified": "right",
    "ran": "ran",
    "wrong": "part",
    "fell back": "part",
    "out of memory": "failed",
    "timeout": "failed",
    "error": "failed",
    "unsupported": "unsupported",
    "unavailable": "unsupported",
    "skipped": "unsupported",
    "claimed": "claimed",
    "no evidence": "claimed",
}
_LETTERS = {"out of memory": "M", "timeout": "T", "error": "E", "fell back": "↘"}
"""What says more than the class does."""


def class_of(cell: MatrixCell) -> str:
    """Return the class of a cell; of a family that which all its models share, `part` where some ran and some did not."""
    states = cell.states or {cell.state: 1}
    classes = {_OF_STATE[state] for state in states}
    if len(classes) == 1:
        return classes.pop()
    if classes == {"right", "ran"}:
        return "ran"
    return "part" if classes & {"right", "ran", "part"} else "failed"


def cell_text(cell: MatrixCell) -> str:
    """Return what stands in a cell: `✓ 12/14` of a family, `✓ × 2.10` of a model, the claim's word where nobody tried."""
    kind = class_of(cell)
    if kind == "claimed":
        return (cell.claimed or "").partition(";")[0]
    if cell.states:
        return f"{CLASSES[kind].glyph} {cell.working}/{cell.models}"
    glyph = _LETTERS.get(cell.state, CLASSES[kind].glyph)
    return f"{glyph} {formatting.factor(cell.speedup)}" if cell.speedup else glyph


def name_of_cell(name: str, platform: str) -> str:
    """Return the id of a cell."""
    return f"{name}~{platform}"


def known_cell(rows: Sequence[MatrixRow], sel: str) -> tuple[MatrixRow, MatrixCell] | None:
    """Return the row and the cell of an id; None where this page of the matrix has none."""
    name, _, platform = sel.partition("~")
    return next(
        ((row, cell) for row in rows if row.name == name for cell in row.cells if cell.platform == platform),
        None,
    )


def sentence(totals: CompatibilityMatrix) -> str:
    """Return the answer in words: how many pairs of a model and a platform did not work of those tried, and where."""
    tried = [platform for platform in totals.platforms if platform.models]
    if not totals.total:
        return "Nothing matches."
    if not tried:
        return f"{formatting.count(totals.total)} model{'' if totals.total == 1 else 's'}: nobody tried them here."
    models = sum(item.models for item in tried)
    missed = {item.platform: item.models - item.working for item in tried if item.working < item.models}
    pairs = f"{formatting.count(models)} pair{'' if models == 1 else 's'} of model and platform"
    if not missed:
        return f"All {pairs} work." if models > 1 else f"The {pairs.removeprefix('1 ')} that was tried works."
    worst = sorted(missed.items(), key=lambda item: (-item[1], place(item[0])))
    where = ", ".join(f"{formatting.count(count)} on {platform}" for platform, count in worst)
    return f"{formatting.count(sum(missed.values()))} of {pairs} did not work: {where}."


def known_columns(rows: Sequence[MatrixRow], matrix: Matrix) -> list[Column]:
    """Return one line a cell for people: what was seen, how good that is, how much stands behind it, what documents claim."""
    cells = [(row.name, cell) for row in rows for cell in row.cells]
    ages = [cell.age_days for _, cell in cells]
    columns = [
        Column(
            head="Name",
            values=[name for name, _ in cells],
            links=[cell_link(matrix, matrix.level, name_of_cell(name, cell.platform)) for name, cell in cells],
        ),
        Column(head="Platform", values=[cell.platform for _, cell in cells]),
        Column(
            head="Seen",
            values=[f"{CLASSES[class_of(cell)].glyph} {cell.state}" if _tried(cell) else None for _, cell in cells],
        ),
        Column(head="Level", values=[cell.level for _, cell in cells]),
        Column(head="Ran", values=[cell.working if cell.models else None for _, cell in cells]),
        Column(head="Tried", values=[cell.models for _, cell in cells]),
        Column(
            head="Speed over CPU",
            values=[_speedup(cell) for _, cell in cells],
            shown=[_speed(cell) for _, cell in cells],
        ),
        Column(head="Runs", values=[cell.tries for _, cell in cells]),
        Column(head="Age days", values=ages, shown=[_age(cell) for _, cell in cells]),
        Column(head="What stopped it", values=[_first_line(cell.stopped) for _, cell in cells]),
        Column(head="Documents claim", values=[cell.claimed for _, cell in cells]),
    ]
    return filled(columns)


def _tried(cell: MatrixCell) -> bool:
    """Whether anybody tried the cell."""
    return class_of(cell) != "claimed"


def _speedup(cell: MatrixCell) -> float | None:
    return None if cell.platform == "cpu" else cell.speedup


def _speed(cell: MatrixCell) -> str:
    if not _speedup(cell):
        return formatting.MISSING
    works_n = cell.speedup_works
    return formatting.factor(cell.speedup) + (f" (n {works_n})" if works_n else "")


def _age(cell: MatrixCell) -> str:
    days = cell.age_days
    if days is None:
        return formatting.MISSING
    return formatting.count(days) + (" · stale" if cell.stale else "")


def _first_line(words: str | None) -> str | None:
    return words.partition("\n")[0] if words else None


def wide(rows: Sequence[MatrixRow], platforms: Sequence[str]) -> list[dict[str, str | None]]:
    """Return one row a family or model with a column a platform that holds the state; where nobody tried, null."""
    return [
        {
            "name": row.name,
            "category": row.category,
            "family": row.family,
            **dict.fromkeys(platforms),
            **{cell.platform: cell.state for cell in row.cells},
        }
        for row in rows
    ]


def outcomes(cells: Sequence[CellCase], zone: tzinfo | None = None) -> pd.DataFrame:
    """Return one line a model and precision: what came of it, where it stopped and why, and the event that says so."""
    ordered = sorted(cells, key=lambda cell: (_stopped_at(cell) is None, cell.model_id, str(cell.precision)))
    return pd.DataFrame(
        [
            {
                "Model": cell.model_id,
                "Precision": cell.precision,
                "Seen": f"{CLASSES[_OF_STATE[cell.state]].glyph} {cell.state}",
                "Stopped at": _stopped_at(cell),
                "Error": _first_line(cell.stopped_message or cell.stopped_error),
                "Measurements": cell.measurements,
                "Tests": cell.tests,
                "Failures": cell.failures,
                "Last seen": formatting.when(cell.last_seen, zone),
                "Evidence": cell.evidence_ids[0] if cell.evidence_ids else cell.evidence,
            }
            for cell in ordered
        ]
    )


def _stopped_at(cell: CellCase) -> str | None:
    return None if works(cell.state) else cell.stopped_stage


def stages(cells: Sequence[CellCase]) -> list[tuple[str, int, str]]:
    """Return where cases ended: each stage with how many stopped there and of what, then how many came through."""
    stopped = [cell for cell in cells if works(cell.state) is not True]
    names: list[tuple[str, int, str]] = []
    for stage in dict.fromkeys((*STAGES, *(cell.stopped_stage or "not said" for cell in stopped))):
        there = [cell for cell in stopped if (cell.stopped_stage or "not said") == stage]
        if there:
            kinds = Counter(cell.state for cell in there)
            names.append((stage, len(there), ", ".join(f"{count} {state}" for state, count in kinds.most_common())))
    through = sum(works(cell.state) is True for cell in cells)
    return [*names, *([("came through", through, "")] if through else [])]
