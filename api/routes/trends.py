"""How a metric of a model went over time: one line a configuration, with what changed from one point to the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, At, Flag, Row, Text, rows_response
from api.reads.trend_histories import Window, history_of, lines, matching, measured, most, named, pointed, undated_of
from api.routes.comparisons import require_model
from domain.errors import UsageError
from ingest.projection import Tables
from ingest.projection.memory.histories import ModelHistory

__all__ = ["METRICS", "TrendQuestion", "router", "trends_of"]

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
    question = TrendQuestion(
        model=model,
        metric=metric,
        hardware=hardware,
        platform=platform,
        precision=precision,
        mode=mode,
        configuration=configuration,
        window=(_aware(since), _aware(until)),
        limit=limit,
        top=top,
        alike=alike,
        points_top=points_top,
        points_of=points_of or (),
        along=along,
        undated=undated,
    )
    return await rows_response(request, at, lambda tables: trends_of(tables, question), key="lines")


class TrendQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What `/v1/trends` is asked, with names as they were typed."""

    model: str
    metric: str = "latency_ms"
    hardware: Sequence[str] | None = None
    platform: Sequence[str] | None = None
    precision: Sequence[str] | None = None
    mode: str | None = None
    configuration: Sequence[str] | None = None
    window: Window = (None, None)
    limit: int | None = None
    top: int | None = None
    alike: Sequence[str] | None = None
    points_top: int | None = None
    points_of: Sequence[str] = ()
    along: Literal["time", "version"] = "time"
    undated: bool = True


def trends_of(tables: Tables, question: TrendQuestion) -> tuple[list[Row], dict[str, Any]]:
    """Return the lines that match a question, and the other members of the answer; points are JSON text."""
    name = tables.resolve_model(question.model)
    beside: dict[str, Any] = {"model": name, "metric": question.metric, "better": METRICS[question.metric]}
    with history_of(tables, name) as history:
        subjects = matching(history, _filters(tables, question))
        require_model(tables, question.model, subjects)
        if question.top is None and question.alike is None and question.points_top is None and question.limit != 0:
            return list(_lines(history, subjects, question.configuration, question).values()), beside
        every = named(history, subjects, _columns(question.metric), question.window, question.undated)
        every = [line for line in every if question.alike is None or line["alike"].startswith(tuple(question.alike))]
        beside["undated"] = undated_of(every)
        chosen, beside["histories"] = most(every, question.top or len(every), question.points_of)
        if question.top is not None:
            beside["metrics"] = measured(history, {metric: _columns(metric) for metric in METRICS})
        if question.limit == 0:
            return chosen, beside
        if question.points_top is None:
            return list(_lines(history, subjects, _keys(chosen), question).values()), beside
        beside["with_points"] = pointed(chosen, question.points_top, question.points_of)
        keys = _keys(line for line in chosen if line["alike"] in beside["with_points"])
        full = _lines(history, subjects, keys, question)
        return [full.get(line["configuration"], line) for line in chosen], beside


def _filters(tables: Tables, question: TrendQuestion) -> dict[str, Sequence[str] | None]:
    hardware = question.hardware
    return {
        "hardware_id": None if hardware is None else [tables.resolve_hardware(item) for item in hardware],
        "platform": question.platform,
        "precision": question.precision,
        "mode": [question.mode] if question.mode else None,
        "configuration": question.configuration,
    }


def _lines(
    history: ModelHistory, subjects: Iterable[int], keys: Collection[str] | None, question: TrendQuestion
) -> dict[str, Row]:
    """Return by configuration the lines with their points: those of `keys`, or all."""
    every = lines(
        history,
        [each for each in subjects if keys is None or history.parts.subjects[each]["configuration"] in keys],
        _columns(question.metric),
        question.window,
        question.limit,
        along=question.along,
        undated=question.undated,
    )
    return {line["configuration"]: line for line in every if keys is None or line["configuration"] in keys}


def _keys(lines: Iterable[Row]) -> set[str]:
    return {line["configuration"] for line in lines}


def _columns(metric: str) -> tuple[str, ...]:
    return _LATENCIES if metric == "latency_ms" else (metric,)


def _aware(moment: datetime | None) -> datetime | None:
    return moment if moment is None or moment.tzinfo else moment.replace(tzinfo=UTC)


router = Router("/", route_handlers=[trends], dependencies=DEPENDENCIES, tags=["comparisons"])
