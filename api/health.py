"""Whether the service lives, is ready, how far its tables are, and what it counts."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pyarrow.compute as pc
from litestar import MediaType, Request, Response, Router, get, post

from api.access import OPEN
from api.parts import Parts
from api.problems import problem, problem_response
from api.rows import AsOf, MinPosition
from domain.errors import AssayError, ServiceUnavailable
from ingest.projection.store import SCHEMA_VERSION

__all__ = ["router"]

Json = dict[str, Any]


@get("/health/live", opt={"scope": OPEN}, summary="The process lives", media_type=MediaType.JSON)
async def live(request: Request[Any, Any, Any]) -> Json:
    """Answer at all, without asking any part."""
    return {"status": "live", "role": request.app.state.parts.settings.role}


@get("/health/ready", opt={"scope": OPEN}, summary="Position and lag", media_type=MediaType.JSON)
async def ready(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return position, lag in events and seconds and dead letters; 503 where the log or the projector stands still."""
    parts: Parts = request.app.state.parts
    try:
        told = await _state(parts)
    except AssayError as away:
        return problem_response(problem(away))
    if told["error"] or (parts.projects and not told["running"]):
        error = ServiceUnavailable(
            f"the tables are not kept up: {told['error'] or 'the projector has stopped'}.",
            field="projection",
            remedy="`assay doctor` says what to do; a restart begins where it stopped.",
        )
        return problem_response(problem(error, **told))
    return Response(msgspec.json.encode({"status": "ready", **told}), media_type=MediaType.JSON)


async def _state(parts: Parts) -> Json:
    role = {"role": parts.settings.role, "schema": SCHEMA_VERSION, "embedded_postgres": parts.database.embedded}
    if not parts.projects:
        last = await parts.log.last_position()
        return {
            **role, "position": last, "log_position": last, "lag_events": None, "lag_seconds": None,
            "dead_letters": None, "error": None, "running": False,
        }  # fmt: skip
    told = await asyncio.to_thread(parts.projection.health)
    return {**role, **msgspec.to_builtins(told)}


_GAUGES = (
    ("assay_log_position", "log_position", "Highest position of the event log."),
    ("assay_projection_position", "position", "Position that the tables tell of."),
    ("assay_projection_lag_events", "lag_events", "Events that the tables have not yet: the main alert."),
    ("assay_projection_lag_seconds", "lag_seconds", "Age of the oldest event that the tables have not yet."),
    ("assay_dead_letters", "dead_letters", "Events that could not be projected."),
)


@get("/metrics", summary="Prometheus", media_type="text/plain")
async def metrics(request: Request[Any, Any, Any]) -> Response[str]:
    """Return positions, lag and counts in Prometheus' text format; what is not known is left out."""
    parts: Parts = request.app.state.parts
    told = await _state(parts)
    lines: list[str] = []
    for name, key, words in _GAUGES:
        if told[key] is not None:
            lines += [f"# HELP {name} {words}", f"# TYPE {name} gauge", f"{name} {told[key]}"]
    lines += ["# HELP assay_up Whether the tables are kept up.", "# TYPE assay_up gauge"]
    lines.append(f"assay_up {int(not told['error'])}")
    lines += ["# HELP assay_events_total Events of request bodies by what became of them, since the start."]
    lines += ["# TYPE assay_events_total counter"]
    lines += [
        f'assay_events_total{{status="{name}"}} {parts.counted[name]}' for name in ("accepted", "duplicate", "rejected")
    ]
    return Response("\n".join(lines) + "\n", media_type="text/plain; version=0.0.4")


@get("/v1/summary", summary="How much is known", media_type=MediaType.JSON)
async def summary(request: Request[Any, Any, Any], as_of: AsOf = None, min_position: MinPosition = None) -> Json:
    """Return counts of what the tables hold, the newest measurement's time, event types and the predictor's digest."""
    parts: Parts = request.app.state.parts
    await parts.reach(min_position)
    await parts.reach(as_of, "as_of")

    def read() -> Json:
        info = parts.answerer.predictor_info(as_of)
        with parts.tables(as_of) as tables:
            measurements = tables.measurements(columns=["time", "recorded_at"])
            moments = pc.coalesce(measurements.column("time"), measurements.column("recorded_at"))
            return {
                "position": tables.position,
                "models": tables.models().num_rows,
                "hardware": tables.hardware().num_rows,
                "runs": tables.runs().num_rows,
                "measurements": measurements.num_rows,
                "tests": tables.tests().num_rows,
                "failures": tables.failures().num_rows,
                "retractions": tables.retractions().num_rows,
                "dead_letters": tables.dead_letters().num_rows,
                "newest": pc.max(moments).as_py(),
                "event_types": tables.event_type_counts().to_pylist(),
                "predictor": info["digest"],
                "shipped": info["shipped"],
            }

    return await asyncio.to_thread(read)


@post("/v1/projection/rebuild", opt={"scope": "admin"}, status_code=200, summary="Make the tables anew")
async def rebuild(request: Request[Any, Any, Any]) -> Json:
    """Project the whole log into a new file beside the old one, and swap; answers go on meanwhile."""
    parts: Parts = request.app.state.parts
    async with parts.training:
        return {"position": await asyncio.to_thread(parts.projection.rebuild)}


router = Router("/", route_handlers=[live, ready, metrics, summary, rebuild], tags=["health"])
