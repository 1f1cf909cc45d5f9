"""The tables as a whole: how much they hold, and making them anew."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.background import child
from api.container import Container
from api.http.media import JSON
from api.http.paging import DEPENDENCIES, At, Row, document
from api.routes.operations import ADMIN, performed
from domain.errors import TooBusy, UsageError
from domain.upcasting import UPCASTERS
from ingest.archive.archive import archive_folder
from ingest.parallel.ranges import LogAddress
from ingest.parallel.rebuilding import Rebuild, Report
from ingest.projection import Tables
from ingest.projection import overview as glance
from ingest.projection.definitions import definitions_digest
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["router"]

MOST_WORKERS = 64
CHILD: dict[str, Any] = {"timeout_s": 24 * 3600.0, "most_bytes": 2**20, "secrets": True}
DAYS = 400
"""More days than a freshness is asked over."""
_COUNTED = {
    "models": "models",
    "hardware": "hardware",
    "runs": "runs",
    "measurements": "measurements",
    "tests": "tests",
    "failures": "failures",
    "retractions": "retraction",
    "dead_letters": "dead_letter",
}


@get("/v1/summary", summary="How much is known")
async def summary(request: Request[Any, Any, Any], at: NamedDependency[At]) -> Response[bytes]:
    """Return counts of what the tables hold, the newest measurement's time, event types and the predictor's digest."""
    container: Container = request.app.state.parts

    def answer(tables: Tables) -> Row:
        digest, shipped = container.answerer.in_force(tables.position)
        return {
            "position": tables.position,
            "schema": SCHEMA_VERSION,
            **{noun: tables.count(view) for noun, view in _COUNTED.items()},
            "kernels": sum(tables.kernel_tables(columns=["timings"])["timings"].to_pylist()),
            "newest": tables.newest(),
            "event_types": tables.event_type_counts().to_pylist(),
            "predictor": digest,
            "shipped": shipped,
        }

    return await document(request, at, answer)


@get("/v1/overview", summary="All that is known at a glance")
async def overview(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    families: Annotated[int, QueryParameter(ge=1, le=100)] = 15,
    failures: Annotated[int, QueryParameter(ge=1, le=100)] = 5,
) -> Response[bytes]:
    """Return coverage by family and platform, freshness by day, and what fails most; counted here, never as rows.

    `cells` are of the `families` with most measurements, `families_total` says how many there are. `days` are the last
    days of configurations: on how many of them the newest measurement is of that day. `failing` are so many `failures`.
    """

    def answer(tables: Tables) -> Row:
        cells, days = glance.cells(tables), glance.fresh(tables)
        measured: Counter[str] = Counter()
        for cell in cells:
            measured[cell["family"]] += cell["measurements"]
        kept = [family for family, _ in measured.most_common(families)]
        return {
            "position": tables.position,
            "families": kept,
            "families_total": len(measured),
            "cells": [cell for cell in cells if cell["family"] in kept],
            "configurations": sum(day["configurations"] for day in days),
            "days": days[:DAYS],
            "failing": glance.failing(tables, failures),
        }

    return await document(request, at, answer)


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The position that the new tables tell of, and how several processes made them."""

    position: int
    parallel: Report | None = None


@post("/v1/projection/rebuild", opt=ADMIN, status_code=200, summary="Make the tables anew")
async def rebuild(
    request: Request[Any, Any, Any],
    workers: Annotated[
        int | None,
        QueryParameter(ge=1, le=MOST_WORKERS, description="Processes that fold ranges of the log side by side."),
    ] = None,
    ray: Annotated[
        str | None,
        QueryParameter(max_length=200, description="Ray cluster that folds the ranges, the one of ASSAY_RAY."),
    ] = None,
) -> Response[Rebuilt]:
    """Project the whole log into a new file beside the old one, and swap; answers go on meanwhile.

    With `workers` or `ray`, ranges of the log are folded by several processes, and merged; the tables are the same.
    """
    container: Container = request.app.state.parts
    _require_cluster(container, workers, ray)
    if container.training.locked():
        raise TooBusy("a training, evaluation or rebuild is under way.", remedy="Ask again when it is done.")
    container.circuit.require()
    async with container.training:
        loop = asyncio.get_running_loop()
        reports: list[dict[str, Any]] = []

        def fill(path: Path) -> None:
            work = child.run("rebuild", _question(container, path, workers, ray), **CHILD)
            reports.append(asyncio.run_coroutine_threadsafe(work, loop).result().document)

        position = await asyncio.to_thread(container.projection.rebuild, fill if workers or ray else None)
        rebuilt = Rebuilt(position=position, parallel=msgspec.convert(reports[0], Report) if reports else None)
        await performed(request, "projection.rebuilt", None, msgspec.to_builtins(rebuilt))
    return Response(rebuilt, media_type=JSON)


def _require_cluster(container: Container, workers: int | None, ray: str | None) -> None:
    """Raise unless the service was started for this cluster: its processes get the address of the database."""
    if workers and ray:
        raise UsageError("workers and ray are two ways to do it.", field="ray", remedy="Name one of them.")
    if ray and ray != container.settings.ray:
        raise UsageError(
            "this service was not started for that Ray cluster, whose nodes would get the address of its database.",
            field="ray",
            remedy=f"Start it with ASSAY_RAY={ray}, or stop it and run `assay rebuild --ray` on its machine.",
        )


def _question(container: Container, path: Path, workers: int | None, ray: str | None) -> dict[str, Any]:
    home = container.settings.home
    log = LogAddress(uri=container.database.adbc_uri, archive=str(archive_folder(home).absolute()))
    digest = definitions_digest(UPCASTERS)
    question = Rebuild(log=log, path=str(path.absolute()), definitions=digest, workers=workers or 1, ray=ray)
    document: dict[str, Any] = msgspec.to_builtins(question)
    return document


router = Router("/", route_handlers=[summary, overview, rebuild], dependencies=DEPENDENCIES, tags=["operations"])
