"""What got worse since a position or over the last days: the rules of `assay regressions` over everything tried again."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.as_of import AsOf, resolved
from api.http.paging import DEPENDENCIES, At, Row, Text, rows_response
from domain.comparison.comparison_input import COLUMNS, OUTCOME_COLUMNS, ComparisonInput
from domain.comparison.regression import ALERT, Report, compare
from domain.errors import UsageError
from ingest.projection import Tables

__all__ = ["router"]

DAYS = 7.0
MOST = 10_000
"""Configurations that one answer compares; each takes half a millisecond."""
_TOLD = ("model", "hardware", "platform", "precision", "mode", "batch_size", "run_id", "time")
_OUTCOMES = (*OUTCOME_COLUMNS, "time")

State = Literal["worse", "unclear", "better", "same"]
Days = Annotated[float, QueryParameter(gt=0, le=3660, description="How far back, where no baseline is named.")]
Alert = Annotated[float, QueryParameter(ge=0, le=10, description="A share: 0.1 lets a figure get 10 % worse.")]
States = Annotated[
    list[State] | None, QueryParameter(description="Which changes are listed; by default those that are worse.")
]
Figures = Annotated[list[str] | None, QueryParameter(max_items=20, description="Only these figures.")]
Most = Annotated[int, QueryParameter(ge=1, le=1000)]


@get("/v1/regressions", summary="What got worse since a position, or over the last days")
async def regressions(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    baseline: AsOf = None,
    days: Days = DAYS,
    alert: Alert = ALERT,
    changes: States = None,
    metric: Figures = None,
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    limit: Most = 100,
) -> Response[bytes]:
    """Return the changes of figures, the worst first, and beside them `turns` of outcomes and changed `environments`.

    The baseline is a position, a snapshot, or what was known so many days before the newest event. Only what was tried on
    both sides of it is compared, and a measurement only with earlier ones: `unordered` counts imported ones that do not say
    when they were made, and those that were made before what the log had. `counts` has the number of changes by state, whatever is listed.
    """
    since = await resolved(request.app.state.parts, baseline, field="baseline")

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        position = _days_ago(tables, days) if since is None else min(since, tables.position)
        filters = {"model": model, "hardware": hardware, "platform": platform, "precision": precision}
        report, rows, unordered = _compared(tables, position, filters, alert=alert, columns=metric or ())
        beside = {
            "baseline_position": position,
            "baseline_at": tables.recorded_at(position),
            "alert": alert,
            "compared": report.compared,
            "unordered": unordered,
            "counts": dict(Counter(change.state for change in report.changes)),
            "turns": [_placed(turn, rows) for turn in report.turns if turn.state != "other"][:limit],
            "environments": msgspec.to_builtins(report.environments[:limit]),
        }
        listed = [change for change in report.changes if change.state in (changes or ("worse",))]
        return [_placed(item, rows) for item in listed[:limit]], beside

    return await rows_response(request, at, answer, key="changes")


def _days_ago(tables: Tables, days: float) -> int:
    now = tables.recorded_at()
    return 0 if now is None else tables.position_at(now - timedelta(days=days))


def _compared(
    tables: Tables, since: int, filters: Mapping[str, Any], *, alert: float, columns: Iterable[str]
) -> tuple[Report, dict[str, Row], int]:
    """Return what came of comparing everything tried again since a position, the rows behind it by event, and how many have no order."""
    again = tables.tried_again(since, filters)
    if len(again) > MOST:
        raise UsageError(
            f"{len(again)} configurations were tried again since position {since}; at most {MOST} are compared at once.",
            field="model",
            remedy="Name a model, hardware or platform, or a later baseline.",
        )
    before, after = ComparisonInput("baseline", since), ComparisonInput("candidate", tables.position)
    rows: dict[str, Row] = {}
    facts = list(_facts(tables, again))
    unordered = _unordered(facts, since)
    for kind, row in facts:
        if row["event_id"] in unordered:
            continue
        rows[row["event_id"]] = row
        for side in (after, before) if row["position"] <= since else (after,):
            if kind == "measurements":
                side.measured(row)
            else:
                side.outcome(row, row.get("test"))
    fingerprints = sorted({row["environment_fingerprint"] for row in rows.values()} - {None})
    for row in tables.environments(fingerprint=fingerprints).to_pylist():
        before.environment(row["fingerprint"], row)
        after.environment(row["fingerprint"], row)
    return compare(before.side(), after.side(), alert=alert, columns=tuple(columns)), rows, len(unordered)


def _unordered(facts: Iterable[tuple[str, Row]], since: int) -> set[str]:
    """Return what was imported without a time, and what came since and was made before the newest that the log had."""
    measured = [row for kind, row in facts if kind == "measurements"]
    newest: dict[str, Any] = {}
    for row in measured:
        if row["position"] <= since and row["time"] is not None:
            newest[row["configuration"]] = max(row["time"], newest.get(row["configuration"], row["time"]))
    return {
        row["event_id"]
        for row in measured
        if (row["time"] is None and row["origin"] == "imported")
        or (row["position"] > since and row["time"] and row["time"] < newest.get(row["configuration"], row["time"]))
    }


def _facts(tables: Tables, configurations: list[str]) -> Iterable[tuple[str, Row]]:
    """Yield the measurements, failures and tests of some configurations in the order of the log."""
    if not configurations:
        return ()
    request = {
        "measurements": (*COLUMNS, "time", "origin"),
        "failures": _OUTCOMES,
        "tests": (*_OUTCOMES, "test"),
    }
    read = [
        [(view, row) for row in tables.view(view, {"configuration": configurations}, columns=columns).to_pylist()]
        for view, columns in request.items()
    ]
    return heapq.merge(*read, key=lambda item: int(item[1]["position"]))


def _placed(item: Any, rows: Mapping[str, Row]) -> Row:
    """Return a change or a turn with where and when it was seen."""
    earlier, later = (rows[event] for event in item.evidence)
    place = {name: later.get(f"{name}_id", later.get(name)) for name in _TOLD}
    return {**msgspec.to_builtins(item), **place, "time_before": earlier["time"], "run_id_before": earlier["run_id"]}


router = Router("/", route_handlers=[regressions], dependencies=DEPENDENCIES, tags=["comparisons"])
