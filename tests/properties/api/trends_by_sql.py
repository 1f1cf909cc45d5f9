"""Trends as rows of the view `measurements` give them, a row at a time: what answers from memory are compared with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from api.reads.trend_histories import most, pointed, undated_of
from api.routes.comparisons import require_model
from api.routes.trends import METRICS, TrendQuestion
from domain.comparison.comparison_input import alike_of, contents_of
from domain.comparison.comparison_sides import RUNS_KEPT
from domain.comparison.regression import change_of, judged, parts_changed, version_key
from domain.configuration import browser_of, decoded_options
from domain.figures import FIGURES, Figure, figure_of
from domain.measured import STATED
from domain.verdicts import ENERGY
from ingest.projection import Tables

__all__ = ["trends_by_sql"]

Row = dict[str, Any]
LINE = (
    "configuration",
    "platform",
    "precision",
    "mode",
    "scenario",
    "batch_size",
    "sequence_length",
    "image_size",
    "compiled",
    "layout",
    "threads",
    "weights",
    "runtime_version",
    "hardware_count",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "arrival_rate_per_s",
)
WHOLE = ("model_id", "hardware_id", "device", "runtime_name", "workload", "execution")
"""What is read of a configuration for its line, and for what it is alike in."""
_NAMED = """
SELECT {columns}, points, undated FROM (
    SELECT subject, count(*) FILTER (WHERE inside) AS points, count(*) FILTER (WHERE inside AND time IS NULL) AS undated,
        min({{'moment': moment, 'position': position}}) AS first
    FROM (
        SELECT *, coalesce(time, recorded_at) AS moment,
            moment >= coalesce(?, moment) AND moment < coalesce(?, 'infinity'::TIMESTAMPTZ) AS inside
        FROM measurement ANTI JOIN void USING (position)
    )
    WHERE ({there}) AND subject IN (SELECT id FROM subject WHERE {conditions}) GROUP BY subject
) AS counted JOIN subject ON counted.subject = subject.id ORDER BY first
"""
_KIN = """
SELECT DISTINCT configuration, model_id, hardware_id, hardware_count, workload, execution FROM subject SEMI JOIN (
    SELECT model_id, hardware_id, hardware_count, platform, mode FROM subject WHERE model_id = ? AND configuration IN ({chosen})
) AS chosen USING (model_id, hardware_id, hardware_count, platform, mode)
"""
_MEASURED = """
SELECT {counts} FROM (FROM measurement ANTI JOIN void USING (position))
WHERE subject IN (SELECT id FROM subject WHERE model_id = ?)
"""
Window = tuple[datetime | None, datetime | None]


def begun(row: Mapping[str, Any]) -> Row:
    """Return the line of a configuration, without points, from its first row."""
    line = {name: row[name] for name in LINE}
    return line | {
        "hardware": row["hardware_id"],
        "hardware_id": row["hardware_id"],
        "runtime": row["runtime_name"],
        "browser": browser_of(decoded_options(row["execution"]).get("options"))[0],
        "hardware_stated": row["device"] == STATED,
        "alike": alike_of(row),
        "points": [],
    }


def named(
    tables: Tables,
    filters: Mapping[str, Sequence[str] | None],
    columns: Sequence[str],
    window: Window,
    undated: bool = True,
) -> list[Row]:
    """Return the lines of measurements that have one of the columns, by their first points; `count` is of those in the window.

    Those that do not say when they were measured are counted as `undated`, and in `count` where `undated` is true.

    `filters` are on columns of `subject`. No point is read, so that this costs what the answer does and not what there is.
    """
    supplied = {name: values for name, values in filters.items() if values is not None}
    conditions = [
        f"{name} IN ({', '.join('?' * len(values))})" if values else "false" for name, values in supplied.items()
    ]
    statement = _NAMED.format(
        columns=", ".join(f"subject.{name}" for name in (*LINE, *WHOLE)),
        there=" OR ".join(f"{name} IS NOT NULL" for name in columns),
        conditions=" AND ".join(conditions),
    )
    values = [*window, *(value for each in supplied.values() for value in each)]
    lines: dict[str, Row] = {}
    for row in tables.select("measurement void subject", statement, values).to_pylist():
        line = lines.get(row["configuration"]) or lines.setdefault(
            row["configuration"], begun(row) | {"count": 0, "undated": 0}
        )
        line["count"] += row["points"] - (0 if undated else row["undated"])
        line["undated"] += row["undated"]
    return list(lines.values())


def kin(tables: Tables, model: str, configurations: Sequence[str]) -> list[str]:
    """Return these configurations of a model and those that differ from them in the version of their runtime alone."""
    if not configurations:
        return []
    statement = _KIN.format(chosen=", ".join("?" * len(configurations)))
    rows = tables.select("subject", statement, [model, *configurations]).to_pylist()
    alike = {str(row["configuration"]): alike_of(row) for row in rows}
    wanted = {alike[name] for name in configurations if name in alike}
    return sorted(name for name, value in alike.items() if value in wanted)


def measured(tables: Tables, model: str, metrics: Mapping[str, Sequence[str]]) -> list[str]:
    """Return which metrics, by name with the columns that may hold each, some row of a model has."""
    counts = ", ".join(f'count(coalesce({", ".join(columns)})) AS "{name}"' for name, columns in metrics.items())
    (result,) = tables.select("measurement void subject", _MEASURED.format(counts=counts), [model]).to_pylist()
    return [name for name, rows in result.items() if rows]


_LATENCIES = ("latency_p50_ms", "latency_mean_ms")
_POINT = ("time", "recorded_at", "position", "event_id", "run_id", "origin", "verdict", "runtime_version")
_DOUBTED = ("simulated", "page", "invalid")
_READ = (
    *LINE,
    *WHOLE,
    *_POINT,
    "environment_fingerprint",
    "energy_verdict",
    "verdict_reasons",
    "metric_verdicts",
    "latency_n",
    "latency_stddev_ms",
    *(column for name in _LATENCIES for column in (name, *(FIGURES[name].interval or ()))),
)
"""What names a line, what a point says, and what `domain.figures` needs for the interval of any metric."""


def trends_by_sql(tables: Tables, question: TrendQuestion) -> tuple[list[Row], dict[str, Any]]:
    """Return what `api.routes.trends.trends_of` returns, with points as dictionaries."""
    (
        model,
        metric,
        hardware,
        platform,
        precision,
        mode,
        configuration,
        window,
        limit,
        top,
        alike,
        points_top,
        points_of,
        along,
        undated,
    ) = (getattr(question, name) for name in question.__struct_fields__)
    columns = _columns(metric)
    name = tables.resolve_model(model)
    filters = {
        "model_id": [name],
        "hardware_id": hardware and [tables.resolve_hardware(item) for item in hardware],
        "platform": platform,
        "precision": precision,
        "mode": [mode] if mode else None,
        "configuration": configuration,
    }
    beside: dict[str, Any] = {"model": name, "metric": metric, "better": METRICS[metric]}

    def read(keys: Sequence[str] | None) -> dict[str, Row]:
        """Return by configuration the lines with their points: those of `keys`, or all."""
        among = kin(tables, name, keys) if configuration and keys else keys
        rows = _read(tables, model, columns, filters | {"configuration": among}, undated)
        result = _lines(tables, rows, columns, along).chosen(keys)
        return {line["configuration"]: _cut(line, window, limit) for line in result}

    if top is None and alike is None and points_top is None and limit != 0:
        return list(read(configuration).values()), beside
    every = named(tables, filters, columns, window, undated)
    require_model(tables, model, every)
    every = [line for line in every if alike is None or line["alike"].startswith(tuple(alike))]
    beside["undated"] = undated_of(every)
    lines, beside["histories"] = most(every, top or len(every), points_of or ())
    if top is not None:
        beside["metrics"] = measured(tables, name, {item: _columns(item) for item in METRICS})
    if limit == 0:
        return lines, beside
    if points_top is None:
        return list(read([line["configuration"] for line in lines]).values()), beside
    beside["with_points"] = pointed(lines, points_top, points_of or ())
    full = read([line["configuration"] for line in lines if line["alike"] in beside["with_points"]])
    return [full.get(line["configuration"], line) for line in lines], beside


def _read(
    tables: Tables, model: str, columns: Sequence[str], filters: Mapping[str, Any], undated: bool
) -> list[dict[str, Any]]:
    """Return the rows of measurements from which points are made."""
    read = dict.fromkeys((*_READ, *(name for name in columns if name in FIGURES)))
    rows = tables.view("measurements", filters, columns=list(read)).to_pylist()
    require_model(tables, model, rows)
    return [row for row in rows if undated or row["time"] is not None]


def _lines(tables: Tables, rows: Sequence[Row], columns: Sequence[str], along: str) -> _Lines:
    """Return the lines of these rows, each point compared with those before it in the order asked for."""

    def order(row: Row) -> tuple[Any, ...]:
        moment = (_moment(row), row["position"])
        return (version_key(row["runtime_version"]), *moment) if along == "version" else moment

    lines = _Lines(columns, _environments(tables, rows))
    for row in sorted(rows, key=order):
        lines.take({**row, "verdict": row["energy_verdict"]} if columns[0] in ENERGY else row)
    return lines


def _columns(metric: str) -> tuple[str, ...]:
    return _LATENCIES if metric == "latency_ms" else (metric,)


def _moment(row: Row) -> datetime:
    moment: datetime = row["time"] or row["recorded_at"]
    return moment


def _environments(tables: Tables, rows: Iterable[Row]) -> dict[str, Row]:
    fingerprints = sorted({row["environment_fingerprint"] for row in rows} - {None})
    if not fingerprints:
        return {}
    existing = {row["fingerprint"]: row for row in tables.environments(fingerprint=fingerprints).to_pylist()}
    return {name: contents_of(row) for name, row in existing.items()}


class _Lines:
    """Takes rows in the order of time and gives one line a configuration."""

    def __init__(self, columns: Sequence[str], environments: Mapping[str, Row]) -> None:
        self._columns = columns
        self._environments = environments
        self._lines: dict[str, Row] = {}
        self._before: dict[str, Row] = {}
        """By `alike`, the row before."""
        self._sure: dict[str, tuple[Row, dict[str, Figure]]] = {}
        """By `alike`, the newest row that nobody doubts, and its figures: what is suspect is compared, and nothing with it."""

    def take(self, row: Row) -> None:
        figures = {name: figure for name in self._columns if (figure := figure_of(row, name)) is not None}
        if not figures:
            return
        line = self._lines.get(row["configuration"]) or self._lines.setdefault(row["configuration"], begun(row))
        statistic, shown = next(iter(figures.items()))
        changed, step = self._beside(line["alike"], row, figures)
        point = {name: row[name] for name in _POINT}
        line["points"].append(
            {
                **point,
                "environment": row["environment_fingerprint"],
                "value": shown.value,
                "low": shown.low,
                "high": shown.high,
                "n": row["latency_n"],
                "is_mean": statistic == "latency_mean_ms",
                "changed": changed,
                "step": step,
            }
        )

    def chosen(self, configurations: Sequence[str] | None) -> list[Row]:
        """Return the lines, or those of some configurations, in the order of their first points."""
        return [line for key, line in self._lines.items() if configurations is None or key in configurations]

    def _beside(self, alike: str, row: Row, figures: dict[str, Figure]) -> tuple[list[Row], Row | None]:
        """Return what changed since the row before of the same, and how the value stands beside its."""
        if row["origin"] in _DOUBTED or row["verdict"] in _DOUBTED:
            return [], None
        before = self._before.get(alike)
        self._before[alike] = row
        changed = (
            [_part(*each) for each in self._parts(before, row)] if before and before["origin"] == row["origin"] else []
        )
        sure, existing = self._sure.get(alike, (None, {}))
        kept = _with_runs(sure, row, existing, figures)
        if sure is None or sure["origin"] != row["origin"] or not any(figure.doubts for figure in figures.values()):
            self._sure[alike] = (row, kept)
        if sure is None or sure["origin"] != row["origin"]:
            return changed, None
        return changed, self._step(sure, existing, kept)

    def _step(self, sure: Row, figures: Mapping[str, Figure], kept: Mapping[str, Figure]) -> Row | None:
        column = next((name for name in self._columns if name in figures and name in kept), None)
        if column is None:
            return None
        state, why, between = judged(figures[column], kept[column], column)
        if state == "same":
            return None
        ratio = change_of(figures[column].value, kept[column].value) if figures[column].value else None
        low, high = between or (None, None)
        return {"state": state, "change": ratio, "low": low, "high": high, "why": why, "from": sure["event_id"]}

    def _parts(self, before: Row, row: Row) -> Iterable[tuple[str, str | None, str | None]]:
        old, new = before["environment_fingerprint"], row["environment_fingerprint"]
        yield from parts_changed(old, new, self._environments, self._environments)
        if before["runtime_version"] != row["runtime_version"]:
            yield f"runtime {row['runtime_name'] or ''}".strip(), before["runtime_version"], row["runtime_version"]


def _with_runs(
    before: Row | None, row: Row, existing: Mapping[str, Figure], figures: Mapping[str, Figure]
) -> dict[str, Figure]:
    """Return the figures with the runs up to them: of one configuration in one environment, the newest ten."""
    alone = ("configuration", "environment_fingerprint", "origin")
    if before is None or any(before[name] != row[name] for name in alone):
        return dict(figures)
    kept = {}
    for name, figure in figures.items():
        earlier = existing.get(name)
        runs = [*((earlier.runs or [earlier.value]) if earlier else []), figure.value]
        kept[name] = msgspec.structs.replace(figure, runs=runs[-RUNS_KEPT:])
    return kept


def _part(name: str, before: str | None, after: str | None) -> Row:
    return {"part": name, "before": before, "after": after}


def _cut(line: Row, window: tuple[datetime | None, datetime | None], limit: int | None) -> Row:
    """Return a line with the points within a window of time, the newest of them, and how many there are."""
    since, until = window
    points = [
        point
        for point in line["points"]
        if (since is None or _moment(point) >= since) and (until is None or _moment(point) < until)
    ]
    return {
        **line,
        "count": len(points),
        "points": points if limit is None else points[len(points) - min(limit, len(points)) :],
    }
