"""The tables as a whole: how much they hold, and making them anew."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.container import Container
from api.http.media import JSON
from api.http.paging import DEPENDENCIES, At, Row, document
from api.routes.operations import ADMIN, performed
from domain.errors import TooBusy
from ingest.projection import Tables
from ingest.projection import overview as glance
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["router"]

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


class Rebuilt(msgspec.Struct, frozen=True, kw_only=True):
    """The position that the new tables tell of."""

    position: int


@post("/v1/projection/rebuild", opt=ADMIN, status_code=200, summary="Make the tables anew")
async def rebuild(request: Request[Any, Any, Any]) -> Response[Rebuilt]:
    """Project the whole log into a new file beside the old one, and swap; answers go on meanwhile."""
    container: Container = request.app.state.parts
    if container.training.locked():
        raise TooBusy("a training, evaluation or rebuild is under way.", remedy="Ask again when it is done.")
    container.circuit.require()
    async with container.training:
        position = await asyncio.to_thread(container.projection.rebuild)
        await performed(request, "projection.rebuilt", None, {"position": position})
    return Response(Rebuilt(position=position), media_type=JSON)


router = Router("/", route_handlers=[summary, overview, rebuild], dependencies=DEPENDENCIES, tags=["operations"])
