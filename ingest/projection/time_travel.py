"""The state at a position: every table and view that a question needs, as it was then."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.projection.statements import STANDING, VIEWS

__all__ = ["POSTED", "state_at", "views_at"]

_MODEL, _BASE, _HARDWARE = ("model", "model"), ("base", "model"), ("hardware", "hardware")
_NAMED = {
    "subject": (_MODEL, _HARDWARE),
    "model": (_MODEL,),
    "model_trace": (_MODEL,),
    "hardware_description": (_HARDWARE,),
    "price": (_HARDWARE,),
    "kernel_table": (_HARDWARE,),
    "variant": (_MODEL, _BASE),
    "quality_comparison": (_MODEL, _BASE, _HARDWARE),
    "endpoint_change": (_MODEL, _HARDWARE),
    "delivery": (_MODEL, _HARDWARE),
}
"""Tables whose rows hold canonical ids, which other aliases then made others: the noun of each such column, and its kind."""
POSTED = {
    "model": tuple(
        [("model_part", "model")]
        + [
            (table, noun)
            for table, ids in _NAMED.items()
            for noun, kind in ids
            if kind == "model" and table != "subject"
        ]
    ),
    "hardware": tuple(
        [("hardware_part", "hardware")]
        + [
            (table, noun)
            for table, ids in _NAMED.items()
            for noun, kind in ids
            if kind == "hardware" and table != "subject"
        ]
    ),
}
"""Tables that hold every id of a kind as it was posted, each with the noun of its column."""
_PLAIN = (
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
    "baseline",
    "snapshot",
    "alert_raised",
    "alert_changed",
    "job_requested",
    "job_changed",
    "measurement",
    "test",
    "kernel",
)
_KEY = "configuration_key(execution::VARCHAR, hardware_id, hardware_count, model_id, workload::VARCHAR)"
_PLACE = {"model_then": 0, "hardware_then": 1, "subject": 2, "visible": 3}
"""What is read by others has to stand before them."""
_QUOTED = re.compile(r"'[^']*'")
_WORD = re.compile(r"(?<![.\w])\w+")
"""What may be a relation: no word within quotes, and no column of something."""


def state_at(
    at: int, renamed: Mapping[str, Mapping[str, str]], wanted: str, subjects: str = "true"
) -> tuple[str, list[Any]]:
    """Return the WITH clause for the relations `wanted` (names with spaces between) as of position `at`, and its values.

    `renamed` gives, by kind, the posted names that stood for another id then than they do now. Rows of subjects for which
    the condition `subjects` is not true are left out; its parameters come after those values.
    """
    values: list[Any] = []
    relations: dict[str, str] = {}
    for kind, pairs in renamed.items():
        if pairs:
            relations[f"{kind}_then"] = "SELECT unnest(?::VARCHAR[]) AS posted, unnest(?::VARCHAR[]) AS canonical"
    relations |= {table: f"SELECT * FROM main.{table} WHERE position <= {at}" for table in _PLAIN}
    relations |= {table: _named(table, at, renamed) for table in _NAMED}
    if subjects != "true":
        # Reading all rows of a long log takes seconds; those of one model take none.
        relations["visible"] = f"SELECT id FROM subject WHERE {subjects}"
        for table in ("measurement", "test"):
            relations[table] = (
                f"SELECT * FROM main.{table} WHERE position <= {at} AND subject IN (SELECT id FROM visible)"
            )
    relations["void"] = f"SELECT position, since FROM main.voided WHERE since <= {at} AND coalesce(until > {at}, true)"
    relations["projection"] = f"SELECT {at}::BIGINT AS position FROM main.projection"
    relations |= {"live": STANDING["live"], "standing": STANDING["standing"], **VIEWS}
    needed = _needed(wanted, relations)
    for kind, pairs in renamed.items():
        if f"{kind}_then" in needed:
            values += [list(pairs), list(pairs.values())]
    order = sorted(needed, key=lambda name: _PLACE.get(name, len(_PLACE) + list(relations).index(name)))
    chosen = [f"{name} AS ({relations[name]})" for name in order]
    return "WITH " + ",\n".join(chosen) + "\n" if chosen else "", values


def views_at(at: int, renamed: Mapping[str, Mapping[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the stable views by name, each as a SELECT without parameters of what it held at position `at`."""
    for name in VIEWS:
        clause, values = state_at(at, renamed, name)
        first, *pieces = clause.split("?")
        for value, piece in zip(values, pieces, strict=True):
            first += f"[{', '.join(_quoted(item) for item in value)}]{piece}"
        yield name, f"{first}SELECT * FROM {name}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _named(table: str, at: int, renamed: Mapping[str, Mapping[str, str]]) -> str:
    key = "id" if table == "subject" else "position"
    query = f"SELECT * FROM main.{table} WHERE {key} <= {at}"
    changed = [(noun, kind) for noun, kind in _NAMED[table] if renamed[kind]]
    for noun, kind in changed:
        query = (
            f"SELECT rows.* REPLACE (coalesce(name.canonical, {noun}_id) AS {noun}_id) FROM ({query}) AS rows "
            f"LEFT JOIN {kind}_then AS name ON {noun}_id_posted = name.posted"
        )
    return f"SELECT * REPLACE ({_KEY} AS configuration) FROM ({query})" if changed and table == "subject" else query


def _needed(wanted: str, relations: Mapping[str, str]) -> set[str]:
    """Return the relations that `wanted` reads, itself included; a column of the same name makes it one more, not one less."""
    needed: set[str] = set()
    waiting = wanted.split()
    while waiting:
        name = waiting.pop()
        if name in relations and name not in needed:
            needed.add(name)
            waiting += _WORD.findall(_QUOTED.sub("", relations[name]))
    return needed
