"""How the rows of a view are asked for, so that a question costs what its answer costs and not what the log holds.

Facts are wide and refer to wide parts. Which rows are wanted is found on their narrow columns first; only those rows and
only their parts are then put together.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from ingest.projection.statements import VIEWS, select_list

__all__ = [
    "CONTEXT",
    "FACTS",
    "FEW",
    "KEYS",
    "ORDER",
    "SUBJECT",
    "SUBJECT_OF",
    "Page",
    "Piece",
    "chosen",
    "column",
    "may_be_few",
    "narrow_first",
    "narrowed",
    "pieces",
    "plain",
]

FACTS: Mapping[str, tuple[str, str]] = {
    "measurements": ("measurement", "true"),
    "best_measurements": ("measurement", "true"),
    "outcomes": ("test", "true"),
    "tests": ("test", "kind = 'test'"),
    "failures": ("test", "kind = 'failure'"),
}
"""Views of facts: the table behind each, and which of its rows."""
_OF_CONFIGURATION = (
    "configuration",
    "model_id",
    "hardware_id",
    "platform",
    "precision",
    "mode",
    "scenario",
    "batch_size",
    "sequence_length",
    "image_size",
)
SUBJECT = frozenset((*_OF_CONFIGURATION, "category", "family", "hardware_kind", "hardware_count", "runtime_name"))
"""Columns of `subject` that questions filter by."""
SUBJECT_OF = {**dict.fromkeys(FACTS, SUBJECT), "best_measurements": frozenset(_OF_CONFIGURATION)}
"""By view, the columns by which subjects are chosen before anything else. For the best row those that its configuration
says: another filter asks whether the best row has it, not for the best of those that have it."""
CONTEXT = frozenset(("source", "attestation", "run_id", "environment_fingerprint", "origin", "provenance_source"))
"""Columns of `context`."""
ORDER = {
    **dict.fromkeys(
        (*FACTS, "runs", "traces", "prices", "environments", "operations", "kernel_tables", "scaling"), "position"
    ),
    "kernels": "timing_id",
    **dict.fromkeys(
        (
            "retractions",
            "aliases",
            "predictors",
            "predictor_choices",
            "recommendations",
            "dead_letters",
            "state",
            "baseline",
            "snapshot",
            "alerts",
            "alert_raised",
            "alert_changed",
            "jobs",
            "job_requested",
            "job_changed",
            "quality",
            "deliveries",
            "endpoints",
        ),
        "position",
    ),
    "predictions": "position, rank",
    "scored_predictions": "measured_position, position, rank, target",
    "variants": "position, form",
    "baselines": "name",
    "snapshots": "name",
    **dict.fromkeys(
        (
            "run",
            "run_end",
            "environment",
            "alias",
            "retraction",
            "predictor",
            "predictor_choice",
            "recommendation",
            "prediction",
            "operation",
            "dead_letter",
            "price",
            "hardware_description",
        ),
        "position",
    ),
    "models": "model_id",
    "hardware": "hardware_id",
    "compatibility": "model_id, platform, precision",
    "cells": "model_id, platform, precision",
    "compatibility_by_hardware": "model_id, hardware_id, platform, precision",
    "matrix": "model_id, platform",
}

KEYS = frozenset(("position", "timing_id"))
"""Columns that are an order by themselves: of a list in such an order, a page begins after a value."""

FEW = 128
"""Rows up to which a statement for each table takes less time than one for all."""
_KEYS_OF = {
    "measurement": {"m": "position", "s": "subject", "c": "context", "j": "judgement"},
    "test": {"t": "position", "s": "subject", "c": "context"},
}
"""By table of facts, the letters by which views name it and its parts, and its columns that say which row of each."""
_MEASUREMENT = select_list("measurements")
_OF_SUBJECT = re.compile(r"\bs\.(\w+)")
_POSITION = 2**60 - 1
"""What of `standing.best` is the position; the rest is the rank."""
_PARTS = (("context", "c"), ("judgement", "j"))


class Page(NamedTuple):
    """Which part of the rows: above `after` (a position, or another key), not above `upto`, so many after so many."""

    after: int | None = None
    upto: int | None = None
    limit: int | None = None
    offset: int | None = None
    descending: bool = False

    def conditions(self, key: str = "position") -> list[str]:
        """Return what it says of the column that the rows are ordered by."""
        result = [] if self.after is None else [f"{key} > {int(self.after)}"]
        return result if self.upto is None else [*result, f"{key} <= {int(self.upto)}"]

    def tail(self, order: str) -> str:
        """Return ORDER BY, LIMIT and OFFSET."""
        text = " ORDER BY " + ", ".join(f"{part} DESC" if self.descending else part for part in order.split(", "))
        text += "" if self.limit is None else f" LIMIT {int(self.limit)}"
        return text + (f" OFFSET {int(self.offset)}" if self.offset else "")


def column(name: str) -> str:
    """Return the column that a filter of this name is on: `model` and `hardware` are ids."""
    return f"{name}_id" if name in ("model", "hardware") else name


def plain(name: str, columns: Sequence[str] | None, page: Page, conditions: Sequence[str]) -> str:
    """Return the statement that reads a view as it stands."""
    order = ORDER[name]
    key = order if order in KEYS else "position"
    return _select(name, columns, [*conditions, *page.conditions(key)]) + page.tail(order)


def narrowed(name: str, page: Page) -> bool:
    """Whether rows of a view are found on narrow columns first. All measurements of a condition are not: DuckDB filters its
    scan of them by what it joins, and finding them first costs up to twice as much.
    """
    return name in FACTS and (name != "measurements" or page.limit is not None)


def may_be_few(
    name: str, columns: Sequence[str] | None, page: Page, contexts: Sequence[str], rest: Sequence[str]
) -> bool:
    """Whether a page of facts is to be found by `chosen` first: it may have no more rows than FEW, as those of most runs."""
    if name not in FACTS or name == "best_measurements" or page.limit is None or rest:
        return False
    if columns is not None and not set(columns).issubset(_columns(name)):
        return False  # The statement for all says what it does not know.
    return page.limit <= FEW or bool(contexts)


def chosen(name: str, page: Page, subjects: Sequence[str], contexts: Sequence[str]) -> str:
    """Return the statement that finds the rows of a page of facts: the position of each, and the ids of its parts."""
    parts = _KEYS_OF[FACTS[name][0]].values()
    return _select(f"({_narrow(name, page, subjects, contexts)})", [*parts], []) + page.tail("position")


class Piece(NamedTuple):
    """Columns that come from the same tables: `select` gives them, beside a `key` that is at `place` in a row of `chosen`.

    `keys` says by which expression each of its tables is asked for what is at which place in those rows.
    """

    place: int
    select: str
    keys: tuple[tuple[str, int], ...]

    def of(self, rows: Sequence[Sequence[int]]) -> str:
        """Return the statement for rows of `chosen`."""
        among = (_one_of(key, {row[place] for row in rows}) for key, place in self.keys)
        return f"{self.select} WHERE {' AND '.join(among) if rows else 'false'}"


def _one_of(key: str, ids: set[int]) -> str:
    """Return that a key is one of some: for a list of several DuckDB looks at all rows, for those of a query at the blocks that may have them."""
    texts = [*map(str, ids)]
    return f"{key} = {texts[0]}" if len(texts) == 1 else f"{key} IN (SELECT unnest([{', '.join(texts)}]))"


@lru_cache(64)
def pieces(name: str, columns: tuple[str, ...] | None) -> tuple[tuple[str, ...], tuple[Piece, ...]]:
    """Return the names of the columns of a page of facts, and the pieces that have them.

    DuckDB plans a statement for each table in half the time that it needs for the join of them all.
    """
    table, _ = FACTS[name]
    expressions = select_list(_view_of(name))
    columns = columns or _columns(name)
    fact, *_ = keys = [*_KEYS_OF[table]]
    # An expression over a fact and one of its parts is read with the columns of the fact.
    groups: dict[str, list[str]] = {}
    joined = dict.fromkeys((fact,))
    for item in columns:
        used = [letter for letter in keys if re.search(rf"\b{letter}\.\w", expressions[item])]
        first = used[0] if len(used) == 1 else fact
        groups.setdefault(first, []).append(expressions[item])
        joined |= dict.fromkeys(used) if len(used) > 1 else {}
    return columns, tuple(
        _piece(table, [*joined] if first == fact else [first], texts) for first, texts in groups.items()
    )


def _view_of(name: str) -> str:
    return "measurements" if FACTS[name][0] == "measurement" else "outcomes"


@lru_cache
def _columns(name: str) -> tuple[str, ...]:
    left_out = re.search(r"EXCLUDE \((.*?)\)", VIEWS[name])
    return tuple(
        item for item in select_list(_view_of(name)) if left_out is None or item not in left_out[1].split(", ")
    )


def _piece(table: str, letters: Sequence[str], texts: Sequence[str]) -> Piece:
    of = _KEYS_OF[table]
    places = {letter: place for place, letter in enumerate(of)}
    keys = [(f"{letter}.{'id' if places[letter] else 'position'}", places[letter]) for letter in letters]
    first, *others = letters
    source = f"main.{of[first] if places[first] else table} AS {first}"
    joins = "".join(f" JOIN main.{of[other]} AS {other} ON {first}.{of[other]} = {other}.id" for other in others)
    return Piece(places[first], f"SELECT {keys[0][0]} AS key, {', '.join(texts)} FROM {source}{joins}", tuple(keys))


def narrow_first(
    name: str,
    columns: Sequence[str] | None,
    page: Page,
    subjects: Sequence[str],
    contexts: Sequence[str],
    rest: Sequence[str],
) -> str:
    """Return the statement that reads a view of facts, by conditions on subjects, on contexts and on whole rows.

    Their parameters are taken in that order.
    """
    if name == "best_measurements" and not rest:
        return _best(columns, page, subjects)
    table, _ = FACTS[name]
    early = page if not rest else Page(page.after, page.upto)
    if name == "best_measurements":
        source = _select("main.best", None, [*subjects, *early.conditions()])
    else:
        source = _narrow(name, early, subjects, contexts)
    parts = {
        "chosen": f"SELECT position, subject FROM ({source}){early.tail('position') if early.limit is not None else ''}",
        "subject": "SELECT * FROM main.subject WHERE id IN (SELECT subject FROM chosen)",
        table: f"SELECT * FROM main.{table} WHERE position IN (SELECT position FROM chosen)",
        # What is chosen is not void. Asked a second time, DuckDB 2.0 shares that with the first and reads all rows with all columns.
        "void": "SELECT * FROM main.void WHERE false",
        "measurements": VIEWS["measurements"],
        "outcomes": VIEWS["outcomes"],
        "tests": VIEWS["tests"],
        "failures": VIEWS["failures"],
    }
    view = "measurements" if name == "best_measurements" else name
    unneeded = {"measurements", "outcomes", "tests", "failures"} - {view} - ({"outcomes"} if table == "test" else set())
    clause = ", ".join(
        f"{part} AS {'MATERIALIZED ' if part == 'chosen' else ''}({query})"
        for part, query in parts.items()
        if part not in unneeded
    )
    late = page if rest else Page(descending=page.descending)
    return f"WITH {clause} {_select(view, columns, rest)}{late.tail('position')}"


def _narrow(name: str, page: Page, subjects: Sequence[str], contexts: Sequence[str]) -> str:
    table, kind = FACTS[name]
    among = [kind, *page.conditions()]
    if subjects:
        among.append(f"subject IN (SELECT id FROM main.subject WHERE {' AND '.join(subjects)})")
    if contexts:
        among.append(f"context IN (SELECT id FROM main.context WHERE {' AND '.join(contexts)})")
    return _select(f"main.{table} ANTI JOIN main.void USING (position)", None, among)


def _best(columns: Sequence[str] | None, page: Page, subjects: Sequence[str]) -> str:
    """Return the statement for the rows that `best` names.

    It reads only the parts that the columns need: planning is most of what a small answer costs. Which subjects are chosen
    is found on narrow columns, all that a subject says only for those: through `best` that costs a third of the answer.
    """
    text = ", ".join(_MEASUREMENT.get(column, f'"{column}"') for column in columns or _MEASUREMENT)
    fromkeys = dict.fromkeys(_OF_SUBJECT.findall(text))
    among = " AND ".join(["best IS NOT NULL", *subjects])
    best = (
        f"SELECT best & {_POSITION} AS position, subject FROM main.standing JOIN main.subject ON subject = id WHERE {among} "
        "QUALIFY row_number() OVER (PARTITION BY configuration ORDER BY best DESC) = 1"
    )
    chosen = _select(f"({best})", None, page.conditions())
    chosen += page.tail("position") if page.limit is not None else ""
    wide = ", ".join(["chosen.position", *(f'subject."{item}"' for item in fromkeys)])
    joins = [
        f"JOIN main.{part} AS {short} ON m.{part} = {short}.id"
        for part, short in _PARTS
        if re.search(rf"\b{short}\.", text)
    ]
    return (
        f"WITH chosen AS MATERIALIZED ({chosen}), "
        f"s AS (SELECT {wide} FROM chosen JOIN main.subject AS subject ON chosen.subject = subject.id) "
        f"SELECT {text} FROM s JOIN main.measurement AS m USING (position) "
        f"{' '.join(joins)}{Page(descending=page.descending).tail('m.position')}"
    )


def _select(source: str, columns: Sequence[str] | None, conditions: Sequence[str]) -> str:
    chosen = ", ".join(f'"{column}"' for column in columns) if columns else "*"
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return f"SELECT {chosen} FROM {source}{where}"
