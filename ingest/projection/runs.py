"""Runs as the tables know them: what has come of each, in which environment, and what that changed since the one before."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ingest.projection.rows import fetched
from ingest.projection.tables import Tables

__all__ = ["RETRACTED", "UNFINISHED", "RunPage", "found", "one"]

UNFINISHED, RETRACTED = "unfinished", "retracted"
"""What may be asked for beside the outcomes that runs end with."""
Row = dict[str, Any]

# What is there of some runs: rows by verdict, what failed, tests, models, hardware, and when the last of it was made: what
# is loaded from a file later is nothing that goes on now.
_TALLY = """
SELECT run_id,
    count(*) FILTER (kind = 'measurement') AS rows,
    count(*) FILTER (word = 'valid') AS rows_valid, count(*) FILTER (word = 'suspect') AS rows_suspect,
    count(*) FILTER (word = 'invalid') AS rows_invalid,
    count(*) FILTER (kind = 'measurement' AND word IS NULL) AS rows_unjudged,
    coalesce(sum(timings), 0)::BIGINT AS kernels,
    count(*) FILTER (kind = 'failure') AS rows_failed, count(*) FILTER (kind = 'test') AS rows_tested,
    count(*) FILTER (kind = 'test' AND word = 'passed') AS tests_passed,
    count(DISTINCT model_id) AS models, count(DISTINCT hardware_id) AS devices,
    list_sort(list(DISTINCT hardware_id))[:5] AS hardware_ids,
    list_sort(list(DISTINCT platform)) AS platforms, max(least(recorded_at, time)) AS last_at
FROM (
    SELECT run_id, model_id, hardware_id, platform, recorded_at, time, 'measurement' AS kind, verdict AS word,
        NULL AS timings FROM measurements
    UNION ALL SELECT run_id, model_id, hardware_id, platform, recorded_at, time, kind, outcome, NULL FROM outcomes
    UNION ALL SELECT run_id, NULL, hardware_id, platform, recorded_at, time, 'kernels', NULL, timings FROM kernel_tables
) WHERE run_id IN (SELECT unnest($runs)) GROUP BY run_id
"""
_NOTHING: Row = {
    "rows": 0,
    "rows_valid": 0,
    "rows_suspect": 0,
    "rows_invalid": 0,
    "rows_unjudged": 0,
    "kernels": 0,
    "rows_failed": 0,
    "rows_tested": 0,
    "tests_passed": 0,
    "models": 0,
    "devices": 0,
    "hardware_ids": [],
    "platforms": [],
    "last_at": None,
}
# Facts of some runs that were taken back, one by one or with their run.
_VOIDED = """
SELECT run_id, count(DISTINCT position) AS rows_retracted
FROM (
    SELECT position, run_id
    FROM (SELECT position, context FROM main.measurement UNION ALL SELECT position, context FROM main.test) AS fact
    JOIN main.context ON fact.context = context.id
    UNION ALL SELECT position, run_id FROM main.kernel_table UNION ALL SELECT position, run_id FROM main.variant
    UNION ALL SELECT position, run_id FROM main.quality_comparison
) JOIN main.voided USING (position)
WHERE position <= $at AND since <= $at AND coalesce(until > $at, true) AND run_id IN (SELECT unnest($runs)) GROUP BY run_id
"""
# Which runs have any fact of a hardware.
_ON = """
SELECT DISTINCT run_id FROM (
    SELECT run_id, hardware_id FROM measurements UNION ALL SELECT run_id, hardware_id FROM outcomes
    UNION ALL SELECT run_id, hardware_id FROM kernel_tables
) WHERE hardware_id = $hardware
"""
# Why rows of a run are not valid: reasons that differ in their figures alone are one, with the texts that it has.
_REASONS = r"""
SELECT count(DISTINCT position) AS rows, list_sort(list(DISTINCT reason)) AS said FROM (
    SELECT position, unnest(from_json(verdict_reasons, '["VARCHAR"]')) AS reason FROM measurements WHERE run_id = $run
) GROUP BY regexp_replace(reason, $figure, '…', 'g') ORDER BY rows DESC, said LIMIT 20
"""
_FIGURE = r"\b\d+(?:,\d{3})*(?:\.\d+)?"
# Facts of a run that were taken back one by one, with the reason.
_TAKEN_BACK = """
SELECT target_event_id AS event_id, reason, retraction.position
FROM main.retraction
JOIN (
    SELECT event_id, run_id
    FROM (SELECT event_id, context FROM main.measurement UNION ALL SELECT event_id, context FROM main.test) AS fact
    JOIN main.context ON fact.context = context.id
    UNION ALL SELECT event_id, run_id FROM main.kernel_table
    UNION ALL SELECT DISTINCT event_id, run_id FROM main.variant
    UNION ALL SELECT event_id, run_id FROM main.quality_comparison
) AS fact ON fact.event_id = try_cast(target_event_id AS UUID)
WHERE retraction.position <= $at AND run_id = $run AND NOT EXISTS (
    FROM main.retraction AS undo WHERE undo.target_event_id = retraction.event_id AND undo.position <= $at
) ORDER BY retraction.position LIMIT 1000
"""
_HARDWARE = """
SELECT coalesce(list_sort(list(DISTINCT hardware_id)), []) FROM (
    SELECT hardware_id FROM main.subject WHERE id <= $at
    UNION ALL SELECT hardware_id FROM main.kernel_table WHERE position <= $at
)
"""
_NARROW = (
    "run_id",
    "position",
    "started_at",
    "recorded_at",
    "kind",
    "origin",
    "outcome",
    "hardware",
    "retracted_because",
)
_PLAIN = ("driver", "os", "kernel", "python", "cpu", "machine", "hypervisor", "memory_bytes")


class RunPage(NamedTuple):
    """A page of runs, newest first by when they began, how many there are of the kind asked for, and what may be asked for."""

    rows: list[Row]
    total: int
    choices: dict[str, list[str]]


def found(tables: Tables, filters: Mapping[str, str | None], offset: int, limit: int) -> RunPage:
    """Return runs by `run_id`, `kind`, `origin`, `outcome` and `hardware`, the newest first, each with what is there of it.

    A run is on a hardware that it named or that it has facts of; names may be aliases.
    """
    every = _by_time(tables, _NARROW)
    wanted = [row for row in every if _fits(row, filters)]
    if hardware := filters.get("hardware"):
        name = tables.resolve_hardware(hardware)
        facts = {row["run_id"] for row in _rows(tables, _ON, {"hardware": name})}
        wanted = [row for row in wanted if row["run_id"] in facts or name in _named(tables, row)]
    ids = [row["run_id"] for row in wanted[offset : offset + limit]]
    return RunPage(_whole(tables, ids), len(wanted), _choices(tables, every))


def one(tables: Tables, run_id: str) -> Row | None:
    """Return a run as `run`, why its rows are not valid, what of it was taken back, and its environment.

    `previous` is the run before it on any of its devices, and `differs` maps what changed of the environment since to
    [before, now]; both are null where there is none. None for a run that is not known.
    """
    whole = _whole(tables, [run_id])
    if not whole:
        return None
    (run,) = whole
    previous = _before(tables, run)
    now, before = (_environment(tables, row) for row in (run, previous))
    return {
        "run": run,
        "reasons": [
            {"reason": _spanned(row["said"]), "rows": row["rows"]}
            for row in _rows(tables, _REASONS, {"run": run_id, "figure": _FIGURE})
        ],
        "retractions": fetched(
            tables.cursor.sql(_TAKEN_BACK, params={"at": tables.position, "run": run_id})
        ).to_pylist(),
        "environment": now,
        "previous": previous,
        "differs": None if now is None or before is None else differs(before, now),
    }


def _began(row: Row) -> tuple[datetime, int]:
    """Return by what runs are ordered: when one began, or when it came where it does not say, then its position."""
    return row["started_at"] or row["recorded_at"], row["position"]


def _by_time(tables: Tables, columns: Sequence[str]) -> list[Row]:
    """Return all runs, the newest first."""
    return sorted(tables.view("runs", columns=columns).to_pylist(), key=_began, reverse=True)


def _spanned(said: Sequence[str]) -> str:
    """Write reasons that differ in their figures alone as one, with the least and the most of each figure."""
    figure = re.compile(_FIGURE, re.ASCII)
    words = figure.split(said[0])
    columns = zip(*(figure.findall(text) for text in said), strict=True)
    return words[0] + "".join(f"{_span(figures)}{word}" for figures, word in zip(columns, words[1:], strict=True))


def _span(figures: Sequence[str]) -> str:
    ordered = sorted(set(figures), key=lambda figure: float(figure.replace(",", "")))
    return ordered[0] if len(ordered) == 1 else f"{ordered[0]}–{ordered[-1]}"


def differs(before: Row, now: Row) -> dict[str, list[Any]]:
    """Return what two environments do not share, as [before, now]; a library that one has not is null there."""
    first, second = _flat(before), _flat(now)
    names = dict.fromkeys([*first, *second])
    return {name: [first.get(name), second.get(name)] for name in names if first.get(name) != second.get(name)}


def _flat(environment: Row) -> Row:
    libraries = environment.get("libraries") or {}
    if isinstance(libraries, str):
        libraries = json.loads(libraries)
    return {name: environment.get(name) for name in _PLAIN} | dict(libraries)


def _fits(row: Row, filters: Mapping[str, str | None]) -> bool:
    wanted = dict(filters)
    outcome = wanted.pop("outcome", None)
    if outcome == UNFINISHED and (row["outcome"] is not None or row["retracted_because"] is not None):
        return False
    if outcome == RETRACTED and row["retracted_because"] is None:
        return False
    if outcome not in (None, UNFINISHED, RETRACTED) and row["outcome"] != outcome:
        return False
    wanted.pop("hardware", None)
    return all(value is None or row[name] == value for name, value in wanted.items())


def _choices(tables: Tables, every: Sequence[Row]) -> dict[str, list[str]]:
    rows = {name: sorted({row[name] for row in every if row[name]}) for name in ("kind", "origin", "outcome")}
    extra = [word for word in (UNFINISHED, RETRACTED) if any(_fits(row, {"outcome": word}) for row in every)]
    ((hardware,),) = tables.cursor.execute(_HARDWARE, {"at": tables.position}).fetchall()
    return {**rows, "outcome": [*rows["outcome"], *extra], "hardware": list(hardware)}


def _whole(tables: Tables, ids: Sequence[str]) -> list[Row]:
    """Return runs in the order of their ids, with what is there of each."""
    if not ids:
        return []
    rows = {row["run_id"]: row for row in tables.view("runs", {"run_id": list(ids)}).to_pylist()}
    document = {row["run_id"]: row for row in _rows(tables, _TALLY, {"runs": list(ids)})}
    voided = tables.cursor.execute(_VOIDED, {"at": tables.position, "runs": list(ids)}).fetchall()
    taken = dict(voided)
    return [
        {**rows[item], **_NOTHING, **document.get(item, {}), "rows_retracted": taken.get(item, 0)}
        for item in ids
        if item in rows
    ]


def _before(tables: Tables, run: Row) -> Row | None:
    """Return the newest earlier run that named a device of this one."""
    devices = _named(tables, run)
    earlier = (row for row in _by_time(tables, (*_NARROW, "environment_fingerprint")) if _began(row) < _began(run))
    keep = ("run_id", "position", "started_at", "environment_fingerprint")
    return next(({name: row[name] for name in keep} for row in earlier if devices & _named(tables, row)), None)


def _environment(tables: Tables, run: Row | None) -> Row | None:
    if run is None or not run["environment_fingerprint"]:
        return None
    rows = tables.view("environments", {"fingerprint": run["environment_fingerprint"]}).to_pylist()
    return rows[0] if rows else None


def _named(tables: Tables, run: Row) -> set[str]:
    hardware = run["hardware"]
    listed = json.loads(hardware) if isinstance(hardware, str) else hardware
    return {tables.resolve_hardware(item["id"]) for item in listed or []}


def _rows(tables: Tables, query: str, values: Mapping[str, Any]) -> list[Row]:
    """Return what a query over the views of facts gives, as of the position that the tables tell of."""
    then = tables.views_then()
    parts = [
        f"{name} AS ({then[name]})" for name in ("measurements", "outcomes", "kernel_tables") if then and name in query
    ]
    statement = f"WITH {', '.join(parts)} {query}" if parts else query
    return list(fetched(tables.cursor.sql(statement, params=dict(values))).to_pylist())
