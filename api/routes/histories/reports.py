"""What changed in the histories of figures and tests: confirmed changes, levels and suspect points."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.container import Container
from api.http.paging import DEPENDENCIES, At, Text, rows_response
from api.reads.histories import HistoryFilter, histories
from domain.history.alerts import severity
from domain.history.history import History, HistoryReport
from ingest.projection import Tables

__all__ = ["router"]

Metrics = Annotated[
    list[str] | None,
    QueryParameter(
        max_items=20, description="Only these figures or tests; by default speed, ttft, tpot, memory and all tests."
    ),
]
Alike = Annotated[
    list[str] | None, QueryParameter(max_items=100, description="Only histories whose `alike` begins so; repeatable.")
]
Origins = Annotated[
    list[Literal["measured", "imported"]] | None,
    QueryParameter(
        max_items=2, description="Whose rows: `measured` by default. Imported ones count where they are dated."
    ),
]
Everything = Annotated[bool, QueryParameter(name="all", description="Every history, also where nothing changed.")]


@get("/v1/regressions/history", summary="What changed in the histories of figures and tests")
async def history_reports(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    metric: Metrics = None,
    branch: Text = None,
    alike: Alike = None,
    origins: Origins = None,
    everything: Everything = False,
) -> Response[bytes]:
    """Return the reports of histories with a confirmed change or a suspect newest point; those worse now come first.

    One history continues across versions of the runtime, drivers and machines of one hardware; what of these changed within
    the range of a change is its candidate cause. `histories` counts all that were examined. `alike` and `all=true` give the
    reports of those too in which nothing changed. At most 10,000 configurations are examined, the newest 300 points of each.
    """
    container: Container = request.app.state.parts
    wanted = HistoryFilter(
        model=model,
        hardware=hardware,
        platform=platform,
        precision=precision,
        metrics=metric or (),
        branch=branch,
        alike=alike or (),
        origins=origins or ("measured",),
    )

    def answer(tables: Tables) -> tuple[list[HistoryReport], dict[str, Any]]:
        reports: list[HistoryReport] = []
        examined = 0
        for history, report in container.examinations.reports(histories(tables, wanted)):
            examined += 1
            if everything or alike or _is_notable(history, report):
                reports.append(report)
        return sorted(reports, key=_urgency), {"histories": examined}

    return await rows_response(request, at, answer, key="reports")


def _is_notable(history: History, report: HistoryReport) -> bool:
    return bool(report.changes) or history.points[-1].event_id in report.suspect


def _urgency(report: HistoryReport) -> tuple[int, float, str, str]:
    """Return what orders reports: those that got worse by most, then suspect ones, then those that got better."""
    worse = max((severity(change) for change in report.changes if change.state == "worse"), default=0.0)
    rank = 0 if worse else 1 if report.suspect else 2
    return rank, -worse, report.title, report.metric


router = Router("/", route_handlers=[history_reports], dependencies=DEPENDENCIES, tags=["comparisons"])
