"""Histories from the tables: what each figure and each test was, point by point, whatever the version of the software.

A configuration is one history across versions of its runtime, drivers, libraries and machines of one hardware (`alike_of`).
Its points are in the order of their times; a clock that runs ahead of the log counts as the log's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from domain.comparison.comparison_input import alike_of, contents_of
from domain.comparison.regression import FIRST_OF
from domain.comparison.thresholds import MEASURING
from domain.errors import UsageError
from domain.figures import FIGURES
from domain.history.branches import of_branch
from domain.history.history import History
from domain.history.history_rows import ALSO, histories_of_rows
from domain.payloads import BranchStart
from ingest.projection import Tables

__all__ = [
    "MOST",
    "NEWEST",
    "Configurations",
    "HistoryFilter",
    "histories",
    "histories_of",
    "touched_since",
]

MOST = 10_000
"""Configurations whose histories one answer examines."""
NEWEST = 300
"""Points of a history that are read."""
_BATCH = 200
_WHEN = "least(coalesce(time, recorded_at), recorded_at)"
_SUBJECT = (
    "configuration",
    "model_id",
    "hardware_id",
    "hardware_count",
    "mode",
    "batch_size",
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "arrival_rate_per_s",
    "platform",
    "precision",
    "runtime_name",
    "compiled",
    "threads",
    "options",
    "workload",
    "execution",
)
"""What names a configuration."""
_POINT = (
    "configuration",
    "position",
    "event_id",
    "run_id",
    "source",
    "origin",
    "time",
    "recorded_at",
    "runtime_name",
    "runtime_version",
    "environment_fingerprint",
)
_JUDGED = ("verdict", "verdict_reasons", "metric_verdicts", "latency_n", "latency_stddev_ms")
Row = dict[str, Any]

_SUBJECTS = f"""
SELECT DISTINCT {", ".join(_SUBJECT)} FROM subject
WHERE id IN ({{among}}){{conditions}} ORDER BY model_id, hardware_id, configuration
"""
_KIN = f"""
SELECT DISTINCT {", ".join(_SUBJECT)} FROM subject
SEMI JOIN (SELECT model_id, hardware_id, platform FROM subject WHERE id IN ({{among}})) AS touched USING (model_id, hardware_id, platform)
ORDER BY model_id, hardware_id, configuration
"""
_OF_ORIGIN = """
SELECT subject FROM measurement WHERE context IN (SELECT id FROM context WHERE origin IN ({origins}))
UNION SELECT subject FROM test WHERE context IN (SELECT id FROM context WHERE origin IN ({origins}))
"""
_TOUCHED = """
SELECT subject FROM measurement WHERE position > {after} UNION SELECT subject FROM test WHERE position > {after}
UNION SELECT subject FROM measurement WHERE position IN (SELECT position FROM voided WHERE since > {after} OR until > {after})
UNION SELECT subject FROM test WHERE position IN (SELECT position FROM voided WHERE since > {after} OR until > {after})
"""
_CONTEXTS = """
SELECT run_id, branch, commit, pull_request FROM run
WHERE run_id IN (SELECT unnest(?::VARCHAR[])) AND coalesce(branch, commit, pull_request) IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY run_id ORDER BY position) = 1
"""
_NEWEST = """
SELECT alike, chosen.* FROM (SELECT {columns} FROM {view} WHERE model_id IN ({models}) AND origin IN ({origins}){valid}) AS chosen
JOIN (SELECT unnest(?::VARCHAR[]) AS configuration, unnest(?::VARCHAR[]) AS alike) AS wanted USING (configuration)
QUALIFY row_number() OVER (PARTITION BY alike{each} ORDER BY {when} DESC, position DESC) <= {newest}
ORDER BY alike, {when}, position
"""


class HistoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which histories: by names and columns of the configuration, `metrics` (figures or tests), and beginnings of `alike`.

    Imported rows count where `origins` has `imported` and they say when they were measured.
    """

    model: str | None = None
    hardware: str | None = None
    platform: str | None = None
    precision: str | None = None
    metrics: Sequence[str] = ()
    branch: str | None = None
    alike: Sequence[str] = ()
    origins: Sequence[str] = ("measured",)


_ALL = HistoryFilter()


class Configurations(msgspec.Struct, frozen=True, kw_only=True):
    """Configurations of one history, which differ in the version of their software alone: what names each, by key."""

    alike: str
    model: str
    subjects: dict[str, Row]


def histories(tables: Tables, wanted: HistoryFilter) -> Iterator[History]:
    """Yield the histories that a filter chooses, by model, hardware and configuration; those of one batch are in memory.

    UsageError where there are more than MOST configurations, or where no figure and no test has the name of a metric.
    """
    _check_metrics(tables, wanted.metrics)
    chosen = _chosen(tables, wanted)
    if len(chosen) > MOST:
        raise UsageError(
            f"{len(chosen):,} configurations have a history; at most {MOST:,} are examined at once.",
            field="model",
            remedy="Name a model, hardware, platform or precision.",
        )
    yield from histories_of(tables, chosen, wanted)


def histories_of(
    tables: Tables, configurations: Sequence[Configurations], wanted: HistoryFilter = _ALL
) -> Iterator[History]:
    """Yield the histories of some configurations; of the filter metrics, branch and origins count."""
    restarts, starts = _restarts(tables), _starts(tables)
    for begin in range(0, len(configurations), _BATCH):
        yield from _read(tables, configurations[begin : begin + _BATCH], wanted, restarts, starts)


def touched_since(tables: Tables, after: int) -> list[Configurations]:
    """Return the configurations whose histories got or lost a point above a position of the log."""
    among = _TOUCHED.format(after=int(after))
    touched = {
        alike_of(row) for row in tables.select("subject", _SUBJECTS.format(among=among, conditions="")).to_pylist()
    }
    if not touched:
        return []
    return _by_history(tables.select("subject", _KIN.format(among=among)).to_pylist(), touched.__contains__)


def _check_metrics(tables: Tables, metrics: Sequence[str]) -> None:
    followed = [name for name, figure in FIGURES.items() if figure.better != "neither"]
    others = [name for name in metrics if name not in followed]
    if not others:
        return
    tests = {MEASURING, *tables.select("test", "SELECT DISTINCT test FROM test").column("test").to_pylist()}
    for name in others:
        if name not in tests:
            raise UsageError(
                f"{name!r} is neither a figure nor a test.",
                field="metric",
                remedy=f"Give the name of a test, or one of {', '.join(followed)}.",
            )


def _chosen(tables: Tables, wanted: HistoryFilter) -> list[Configurations]:
    filters = {
        "model_id": wanted.model and tables.resolve_model(wanted.model),
        "hardware_id": wanted.hardware and tables.resolve_hardware(wanted.hardware),
        "platform": wanted.platform,
        "precision": wanted.precision,
    }
    supplied = {name: value for name, value in filters.items() if value}
    origins = ", ".join("?" * len(wanted.origins))
    statement = _SUBJECTS.format(
        among=_OF_ORIGIN.format(origins=origins), conditions="".join(f" AND {name} = ?" for name in supplied)
    )
    values = [*wanted.origins, *wanted.origins, *supplied.values()]
    rows = tables.select("subject measurement test context", statement, values).to_pylist()
    return _by_history(rows, lambda alike: not wanted.alike or alike.startswith(tuple(wanted.alike)))


def _by_history(rows: Iterable[Row], chosen: Callable[[str], bool]) -> list[Configurations]:
    found: dict[str, Configurations] = {}
    for row in rows:
        name = alike_of(row)
        if chosen(name):
            new = Configurations(alike=name, model=row["model_id"], subjects={})
            found.setdefault(name, new).subjects[row["configuration"]] = row
    return list(found.values())


def _restarts(tables: Tables) -> dict[tuple[str, str], list[str]]:
    """Return, by `alike` and metric, the first events after changes that somebody expects."""
    restarts: dict[tuple[str, str], list[str]] = {}
    for row in tables.alerts(state="expected", columns=["changes"]).to_pylist():
        for change in json.loads(row["changes"]):
            restarts.setdefault((change["alike"], change["metric"]), []).append(change.get("level") or change["last"])
    return restarts


def _read(
    tables: Tables,
    chosen: Sequence[Configurations],
    wanted: HistoryFilter,
    restarts: Mapping[tuple[str, str], list[str]],
    starts: Mapping[str, BranchStart],
) -> Iterator[History]:
    figures = [name for name in (*FIRST_OF, *ALSO, *wanted.metrics) if name in FIGURES]
    intervals = [name for column in (*FIRST_OF, *figures) for name in FIGURES[column].interval or ()]
    measured = _newest(tables, "measurements", chosen, wanted, (*_POINT, *_JUDGED, *figures, *intervals), each="")
    outcomes = _newest(tables, "outcomes", chosen, wanted, (*_POINT, "outcome", "test"), each=", test")
    rows = [row for group in (*measured.values(), *outcomes.values()) for row in group]
    _add_context(tables, rows)
    environments = _environments(tables, rows)
    for item in chosen:
        of_rows = histories_of_rows(
            measured.get(item.alike, []), outcomes.get(item.alike, []), wanted.metrics, item.subjects
        )
        for history in of_rows:
            if (own := of_branch(history, wanted.branch, starts)) is None:
                continue
            used = {point.environment for point in own.points if point.environment}
            yield msgspec.structs.replace(
                own,
                environments={name: environments[name] for name in sorted(used) if name in environments},
                restarts=restarts.get((own.alike, own.metric), []),
            )


def _newest(
    tables: Tables,
    view: str,
    chosen: Sequence[Configurations],
    wanted: HistoryFilter,
    columns: Iterable[str],
    *,
    each: str,
) -> dict[str, list[Row]]:
    """Return the newest rows of each configuration in the order of time, by `alike`."""
    models = sorted({item.model for item in chosen})
    statement = _NEWEST.format(
        columns=", ".join(f'"{name}"' for name in dict.fromkeys(columns)),
        view=view,
        models=", ".join("?" * len(models)),
        origins=", ".join("?" * len(wanted.origins)),
        valid=" AND verdict IS DISTINCT FROM 'invalid'" if view == "measurements" else "",
        each=each,
        when=_WHEN,
        newest=NEWEST,
    )
    keys = [(key, item.alike) for item in chosen for key in item.subjects]
    values = [*models, *wanted.origins, [key for key, _ in keys], [alike for _, alike in keys]]
    rows = tables.select(view, statement, values).to_pylist()
    dated = [row for row in rows if row["origin"] != "imported" or row["time"] is not None]
    return {alike: list(group) for alike, group in groupby(dated, key=lambda row: row["alike"])}


def _environments(tables: Tables, rows: Iterable[Row]) -> dict[str, Row]:
    fingerprints = sorted({row["environment_fingerprint"] for row in rows} - {None})
    if not fingerprints:
        return {}
    existing = {row["fingerprint"]: row for row in tables.environments(fingerprint=fingerprints).to_pylist()}
    return {name: contents_of(row) for name, row in existing.items()}


def _add_context(tables: Tables, rows: Sequence[Row]) -> None:
    """Add to rows the branch, commit and pull request of their runs, where these say so."""
    runs = sorted({row["run_id"] for row in rows} - {None})
    contexts = {row.pop("run_id"): row for row in tables.select("run", _CONTEXTS, [runs]).to_pylist()} if runs else {}
    if contexts:
        for row in rows:
            row.update(contexts.get(row["run_id"], {}))


def _starts(tables: Tables) -> dict[str, BranchStart]:
    """Return where branches started, as their newest baselines say."""
    rows = tables.baselines(columns=["branch", "start_branch", "start_position", "position"]).to_pylist()
    return {
        row["branch"]: BranchStart(branch=row["start_branch"], position=row["start_position"])
        for row in sorted(rows, key=lambda row: row["position"])
        if row["start_branch"] is not None
    }
