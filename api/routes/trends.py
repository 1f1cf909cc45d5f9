"""How a metric of a model went over time: one line a configuration, with what changed from one point to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, At, Flag, Row, Text, rows_response
from api.reads.trend_histories import LINE, WHOLE, begun, kin, measured, most, named, pointed, undated_of
from api.routes.comparisons import require_model
from domain.comparison.comparison_input import contents_of
from domain.comparison.comparison_sides import RUNS_KEPT
from domain.comparison.regression import change_of, judged, parts_changed, version_key
from domain.errors import UsageError
from domain.figures import FIGURES, Figure, figure_of
from domain.verdicts import ENERGY
from ingest.projection import Tables

__all__ = ["METRICS", "router"]

METRICS = {
    "latency_ms": "smaller",
    "latency_p50_ms": "smaller",
    "latency_p90_ms": "smaller",
    "latency_p95_ms": "smaller",
    "latency_p99_ms": "smaller",
    "latency_mean_ms": "smaller",
    "throughput_per_s": "larger",
    "tokens_per_s": "larger",
    "ttft_ms": "smaller",
    "tpot_ms": "smaller",
    "peak_memory_bytes": "smaller",
    "energy_j": "smaller",
    "energy_per_item_j": "smaller",
    "energy_per_token_j": "smaller",
    "power_w": "smaller",
    "load_ms": "smaller",
    "first_run_ms": "smaller",
}
"""Metrics that trends can follow, and which way is better; `latency_ms` is p50, or the mean where that is all."""
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

Name = Annotated[str, QueryParameter(min_length=1, max_length=500)]
Configurations = Annotated[
    list[str] | None, QueryParameter(max_items=100, description="Only these configurations, by their keys.")
]
Several = Annotated[list[str] | None, QueryParameter(max_items=100, description="One or more, by repeating it.")]
Top = Annotated[
    int | None,
    QueryParameter(
        ge=1,
        le=10_000,
        description="Only the lines of so many histories, those with the most points; `histories` says how many there are.",
    ),
]
Alike = Annotated[
    list[str] | None,
    QueryParameter(max_items=100, description="Only histories whose `alike` begins so; repeatable."),
]
Newest = Annotated[
    int | None,
    QueryParameter(ge=0, le=10_000, description="At most so many points a line, the newest; `count` has all."),
]
PointsTop = Annotated[
    int | None,
    QueryParameter(
        ge=1,
        le=100,
        description="Points only for so many histories, those with the most; other lines are named alone. `with_points` says which.",
    ),
]
PointsOf = Annotated[
    list[str] | None,
    QueryParameter(
        max_items=100,
        description="With `points_top`: points for the histories whose `alike` begins so, where there is one; repeatable.",
    ),
]
Along = Annotated[
    Literal["time", "version"],
    QueryParameter(
        description="In which order points are compared: of time, or of the version of the software where times are missing."
    ),
]
Moment = Annotated[datetime | None, QueryParameter(description="ISO 8601, UTC where it names no zone.")]


@get("/v1/trends", summary="A metric over time")
async def trends(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Name,
    metric: Annotated[str, QueryParameter(max_length=100)] = "latency_ms",
    hardware: Several = None,
    platform: Several = None,
    precision: Several = None,
    mode: Text = None,
    configuration: Configurations = None,
    since: Moment = None,
    until: Moment = None,
    limit: Newest = None,
    top: Top = None,
    alike: Alike = None,
    points_top: PointsTop = None,
    points_of: PointsOf = None,
    along: Along = "time",
    undated: Flag = True,
) -> Response[bytes]:
    """Return each configuration's values of a metric in the order of time (of the log where no time was said).

    A point has its 95 % interval (`low`, `high`), `changed`: the parts of environment and runtime that are not those of the
    point before, and `step`: where the value is worse, better or unclear beside the newest one that nobody doubts, by the
    rules of `/v1/regressions`.
    The `verdict` of a point is that of its row; of energy and power their own.
    Lines of one `alike` are one history: they differ in the version of their runtime alone, and the point before may be one
    of another line.
    `undated=false` leaves out rows that do not say when they were measured: in the order of time they stand at the moment when
    they came, which is none of theirs. Where histories are named, `undated` counts them by `alike`.
    With `top`, `metrics` names what can be followed: the metrics that some row of the model has, whatever the filters.
    """
    if metric not in METRICS:
        raise UsageError(f"{metric!r} cannot be followed.", field="metric", remedy=f"One of {', '.join(METRICS)}.")
    window = (_aware(since), _aware(until))
    columns = _columns(metric)

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
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

    return await rows_response(request, at, answer, key="lines")


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


def _aware(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


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


router = Router("/", route_handlers=[trends], dependencies=DEPENDENCIES, tags=["comparisons"])
