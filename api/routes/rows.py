"""Lists of what the tables hold: runs, measurements, tests, kernels, hardware, environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from api.http.paging import DEPENDENCIES, At, Flag, Page, Row, Text, by_offset, by_position, rows_response
from api.reads.catalogue import Search, Sort, hardware_rows, matching, sorted_by
from api.reads.device import about, row_of
from api.reads.runs import one_run, runs
from ingest.projection import Tables

if TYPE_CHECKING:
    from api.container import Container

__all__ = ["router"]

Name = Annotated[str, PathParameter(min_length=1, max_length=500)]


def _named(rows: list[Row]) -> list[Row]:
    """Add the short names of design section 4 to the columns."""
    for row in rows:
        if "event_id" in row:
            row["id"] = row["event_id"]
        for noun in ("model", "hardware"):
            if f"{noun}_id" in row and noun not in row:
                row[noun] = row[f"{noun}_id"]
    return rows


async def _by_position(
    request: Request[Any, Any, Any], page: Page, view: str, filters: Mapping[str, Any], key: str = "position"
) -> Response[bytes]:
    arrivals = request.app.state.parts.arrivals

    def fetch(tables: Tables, after: int, count: int) -> list[Row]:
        rows = _named(tables.view(view, filters, after=after, limit=count).to_pylist())
        return arrivals.beside(rows) if key == "position" else rows

    return await by_position(request, page, fetch, key=key)


@get("/v1/measurements", summary="Measurements by position")
async def measurements(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    mode: Text = None,
    origin: Text = None,
    configuration: Text = None,
    run_id: Text = None,
    best: Flag = False,
) -> Response[bytes]:
    """Return measurements that were not retracted; `best` gives one a configuration. Names may be aliases."""
    filters = {
        "model": model,
        "hardware": hardware,
        "platform": platform,
        "precision": precision,
        "mode": mode,
        "origin": origin,
        "configuration": configuration,
        "run_id": run_id,
    }
    return await _by_position(request, page, "best_measurements" if best else "measurements", filters)


@get("/v1/tests", summary="Test outcomes by position")
async def reported_tests(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    outcome: Text = None,
    run_id: Text = None,
    failures: Flag = False,
) -> Response[bytes]:
    """Return reported tests, or with `failures` the configurations that gave no measurement and at which stage."""
    filters = {
        "model": model,
        "hardware": hardware,
        "platform": platform,
        "precision": precision,
        "outcome": outcome,
        "run_id": run_id,
    }
    return await _by_position(request, page, "failures" if failures else "tests", filters)


@get("/v1/scaling", summary="Trainings on ranks, with their efficiency")
async def scaling(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    strategy: Text = None,
    run_id: Text = None,
) -> Response[bytes]:
    """Return trainings on several ranks by position. `efficiency` is derived from the throughput of the measurement on
    one rank that `baseline_event_id` names (strong scaling: the same batch); without one it is null.
    """
    filters = {
        "model": model,
        "hardware": hardware,
        "platform": platform,
        "precision": precision,
        "strategy": strategy,
        "run_id": run_id,
    }
    return await _by_position(request, page, "scaling", filters)


@get("/v1/kernels", summary="Timings of kernels, in the order of the log")
async def kernels(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    hardware: Text = None,
    operator: Text = None,
    name: Text = None,
    phase: Text = None,
    platform: Text = None,
    runtime: Text = None,
    precision: Text = None,
    origin: Text = None,
    run_id: Text = None,
) -> Response[bytes]:
    """Return timings of single operators that were not retracted, with their sizes; the hardware may be an alias."""
    filters = {
        "hardware": hardware,
        "operator": operator,
        "name": name,
        "phase": phase,
        "platform": platform,
        "runtime_name": runtime,
        "precision": precision,
        "origin": origin,
        "run_id": run_id,
    }
    return await _by_position(request, page, "kernels", filters, "timing_id")


@get("/v1/environments", summary="Environments by position")
async def environments(
    request: Request[Any, Any, Any], page: NamedDependency[Page], fingerprint: Text = None
) -> Response[bytes]:
    """Return drivers, operating systems and libraries as they were seen, by fingerprint."""
    return await _by_position(request, page, "environments", {"fingerprint": fingerprint})


@get("/v1/hardware", summary="Hardware: the catalogue and the log")
async def hardware(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    kind: Text = None,
    vendor: Text = None,
    search: Search = None,
    measured: Flag = False,
    sort: Sort = "id",
) -> Response[bytes]:
    """Return every hardware by id, its specification with sources, and how much was measured on it; `sort=measurements`
    gives what was measured most first. With `search` those that a text may mean, best first, each with `match`.
    """

    container: Container = request.app.state.parts

    def fetch(tables: Tables, offset: int, count: int) -> list[Row]:
        wanted = {"kind": kind, "vendor": vendor}
        every = container.kept(tables).of("hardware", lambda: hardware_rows(tables))
        rows = sorted_by(sort, _chosen(every, wanted, measured))
        if search is not None:
            rows = matching(search, rows, {row["id"]: [*row["aliases"], *filter(None, [row["name"]])] for row in rows})
        return rows[offset : offset + count]

    return await by_offset(request, page, fetch)


def _chosen(rows: list[Row], wanted: Mapping[str, Any], measured: bool) -> list[Row]:
    return [
        row
        for row in rows
        if (not measured or row["measurements"])
        and all(value is None or row.get(name) == value for name, value in wanted.items())
    ]


@get("/v1/hardware/{hardware_id:str}", summary="One hardware")
async def one_hardware(
    request: Request[Any, Any, Any], at: NamedDependency[At], hardware_id: Name, compatibility: Flag = True
) -> Response[bytes]:
    """Return one hardware by id or alias: how it is known, environments, prices, machines, siblings, and what ran on it.

    `compatibility=false` leaves what ran on it away, which is a row a model, platform and precision.
    """

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        row = row_of(tables, hardware_id)
        ran = tables.compatibility(by_hardware=True, hardware=row["id"]).to_pylist() if compatibility else []
        return _named(ran), {"hardware": {**row, **about(tables, row)}}

    return await rows_response(request, at, answer, key="compatibility")


router = Router(
    "/",
    route_handlers=[
        measurements,
        reported_tests,
        scaling,
        runs,
        one_run,
        kernels,
        environments,
        hardware,
        one_hardware,
    ],
    dependencies=DEPENDENCIES,
    tags=["tables"],
)
