"""Lists of what the tables hold: runs, measurements, tests, hardware, environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from api.catalogued import hardware_rows
from api.devices import about, row_of
from api.paging import DEPENDENCIES, At, Flag, Page, Row, Text, by_offset, by_position, told
from ingest.projection import Tables

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
    request: Request[Any, Any, Any], page: Page, view: str, filters: Mapping[str, Any]
) -> Response[bytes]:
    def fetch(tables: Tables, after: int, count: int) -> list[Row]:
        return _named(tables.view(view, filters, after=after, limit=count).to_pylist())

    return await by_position(request, page, fetch)


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
        "model": model, "hardware": hardware, "platform": platform, "precision": precision, "mode": mode,
        "origin": origin, "configuration": configuration, "run_id": run_id,
    }  # fmt: skip
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
        "model": model, "hardware": hardware, "platform": platform, "precision": precision, "outcome": outcome,
        "run_id": run_id,
    }  # fmt: skip
    return await _by_position(request, page, "failures" if failures else "tests", filters)


@get("/v1/environments", summary="Environments by position")
async def environments(
    request: Request[Any, Any, Any], page: NamedDependency[Page], fingerprint: Text = None
) -> Response[bytes]:
    """Return drivers, operating systems and libraries as they were seen, by fingerprint."""
    return await _by_position(request, page, "environments", {"fingerprint": fingerprint})


@get("/v1/runs", summary="Runs, newest first")
async def runs(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    run_id: Text = None,
    kind: Text = None,
    origin: Text = None,
) -> Response[bytes]:
    """Return runs with what became of them; a retracted one says why."""

    def fetch(tables: Tables, offset: int, count: int) -> list[Row]:
        filters = {"run_id": run_id, "kind": kind, "origin": origin}
        return _named(tables.view("runs", filters, descending=True, offset=offset, limit=count).to_pylist())

    return await by_offset(request, page, fetch)


@get("/v1/hardware", summary="Hardware: the catalogue and the log")
async def hardware(
    request: Request[Any, Any, Any], page: NamedDependency[Page], kind: Text = None, measured: Flag = False
) -> Response[bytes]:
    """Return every hardware by id, its specification with sources, and how much was measured on it."""

    def fetch(tables: Tables, offset: int, count: int) -> list[Row]:
        return _chosen(hardware_rows(tables), {"kind": kind}, measured)[offset : offset + count]

    return await by_offset(request, page, fetch)


def _chosen(rows: list[Row], wanted: Mapping[str, Any], measured: bool) -> list[Row]:
    return [
        row
        for row in rows
        if (not measured or row["measurements"])
        and all(value is None or row.get(name) == value for name, value in wanted.items())
    ]


@get("/v1/hardware/{hardware_id:str}", summary="One hardware")
async def one_hardware(request: Request[Any, Any, Any], at: NamedDependency[At], hardware_id: Name) -> Response[bytes]:
    """Return one hardware by id or alias: how it is known, environments, prices, machines, siblings, and what ran on it."""

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        row = row_of(tables, hardware_id)
        ran = tables.compatibility(by_hardware=True, hardware=row["id"]).to_pylist()
        return _named(ran), {"hardware": {**row, **about(tables, row)}}

    return await told(request, at, answer, key="compatibility")


router = Router(
    "/",
    route_handlers=[
        measurements, reported_tests, runs, environments, hardware, one_hardware,
    ],
    dependencies=DEPENDENCIES,
    tags=["tables"],
)  # fmt: skip
