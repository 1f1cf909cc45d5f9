"""Whether the service lives, is ready, how far its tables are, and what it counts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
from typing import Any

import msgspec
import psycopg
from litestar import MediaType, Request, Response, Router, get

from api.background.metrics import CONTENT_TYPE, ServiceState
from api.container import Container
from api.http.access import OPEN
from api.http.formats import predictor_in_force
from api.http.problems import problem, problem_response
from domain.errors import AssayError, ProjectionBehind, ServiceUnavailable
from ingest.log.postgres import UNSAFE, not_durable
from ingest.sharing.peers import unread

__all__ = ["router"]

Json = dict[str, Any]
_LOG = logging.getLogger(__name__)
ASKED_S = 3.0
CAUGHT_UP_S = 2.0
"""Under steady writing a node is never quite at the end of the log."""
_ARCHIVE = """
SELECT count(*), max(last_position), sum(bytes)::bigint, max(last_position) FILTER (WHERE trimmed_at IS NOT NULL)
FROM archive_segment
"""


@get("/health/live", opt={"scope": OPEN}, summary="The process lives", media_type=MediaType.JSON)
async def live(request: Request[Any, Any, Any]) -> Json:
    """Answer at all, without asking any part."""
    return {"status": "live", "role": request.app.state.parts.settings.role, "worker": os.getpid()}


@get("/health/ready", opt={"scope": OPEN}, summary="Position and lag", media_type=MediaType.JSON)
async def ready(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return position, lag in events and seconds, dead letters, unknown types, archive, predictor and parts.

    503 with the same members while Postgres is away, while the projector stands still, while the tables are made anew,
    and on a query node until its tables have caught up with the log for the first time.
    """
    container: Container = request.app.state.parts
    state = await _state(container)
    if state["error"]:
        error = ServiceUnavailable(
            f"not ready: {state['error']}", field=state["stands"], remedy="`assay doctor` says what to do."
        )
        return problem_response(state | problem(error))
    if state["building"] or (state["status"] == "behind" and container.settings.role == "query"):
        behind = ProjectionBehind(
            f"the tables are at position {state['position']} of {state['log_position']}"
            f"{': ' + state['building'] if state['building'] else ''}.",
            field="position",
            remedy="It catches up by itself; ask again.",
        )
        return problem_response(state | problem(behind))
    return Response(msgspec.json.encode(state), media_type=MediaType.JSON)


async def _state(container: Container) -> Json:
    """Return everything there is to know of this process at this moment; waits ASKED_S at most for Postgres."""
    state: Json = {
        "status": "ready",
        "role": container.settings.role,
        "worker": os.getpid(),
        "schema": None,
        "embedded_postgres": container.database.embedded,
        "position": None,
        "log_position": None,
        "lag_events": None,
        "lag_seconds": None,
        "dead_letters": None,
        "unknown_events": None,
        "unknown_types": [],
        "running": False,
        "building": None,
        "diverged": None,
        "error": None,
        "stands": None,
        "archive": None,
        "duckdb": None,
        "predictor": None,
    }
    if container.projects:
        state |= await asyncio.to_thread(_of_tables, container)
    if container.circuit.away is None:
        asking = asyncio.create_task(_asked(container))
        try:
            # Shielded: a thread that waits for a halted Postgres cannot be ended, and there must not be two of them.
            state |= await asyncio.wait_for(asyncio.shield(asking), ASKED_S)
        except TimeoutError:
            container.circuit.trip(f"no answer within {ASKED_S:g} s")
            asking.add_done_callback(_forgotten)
        except ServiceUnavailable as error:
            container.circuit.trip(error.detail)
    away = container.circuit.away
    if away is not None:
        state |= {"error": f"Postgres is away: {away}.", "stands": "postgres"}
    return state | {"postgres": away or "answers"}


def _forgotten(asking: asyncio.Task[Json]) -> None:
    if not asking.cancelled() and asking.exception() is not None:
        _LOG.warning("what the health asked has failed: %s", asking.exception())


async def _asked(container: Container) -> Json:
    """Return what Postgres knows; one question at a time."""
    async with container.asking:
        result, unsafe = await asyncio.to_thread(_of_archive, container.database.url)
        if not container.projects:
            last = await container.log.last_position()
            result |= {"position": last, "log_position": last}
        else:
            result |= await asyncio.to_thread(_of_projection, container)
        return result | ({"error": str(not_durable(unsafe)), "stands": "postgres"} if unsafe else {})


def _of_tables(container: Container) -> Json:
    with container.tables(None) as tables:
        kept = container.kept(tables)
        unknown = kept.of("unknown types", lambda: _unknown_types(tables))
        predictor = kept.of("newest training", lambda: _predictor(tables))
    drift = container.drift
    return {
        "position": container.projection.position,
        "duckdb": "open",
        "unknown_types": unknown,
        "unknown_events": sum(item["events"] for item in unknown),
        "predictor": predictor | {"drift": drift.flag if drift else None, "drift_said": drift.said if drift else None},
    }


def _predictor(tables: Any) -> Json:
    """Return what answers, and the newest training, whether it was accepted or not."""
    columns = ["position", "recorded_at", "accepted"]
    last = tables.view("predictors", columns=columns, limit=1, descending=True).to_pylist()
    document = last[0] if last else dict.fromkeys(columns)
    return {
        "digest": predictor_in_force(tables),
        "trained_at": document["recorded_at"],
        "trained_event_position": document["position"],
        "accepted": document["accepted"],
    }


def _of_projection(container: Container) -> Json:
    health: Json = msgspec.to_builtins(container.projection.health())
    if (end := health["log_position"]) is not None:
        # The earliest end that was seen: a log that was set back must not be waited for.
        container.log_end = end if container.log_end is None else min(container.log_end, end)
    reached = container.log_end is not None and health["position"] >= container.log_end
    # Events that were appended just before the node started are young, and yet none of them may be in its tables.
    if reached and (health["lag_events"] == 0 or (health["lag_seconds"] or math.inf) < CAUGHT_UP_S):
        container.caught_up = True
    if health["error"] or not health["running"]:
        error = health["error"] or "the projector has stopped."
        return health | {"error": f"the tables are not kept up: {error}", "stands": "projection"}
    return health if container.caught_up and not health["building"] else health | {"status": "behind"}


def _unknown_types(tables: Any) -> list[Json]:
    """Return the types of the log that this version does not project, with how often they came."""
    counts = tables.event_type_counts().to_pylist()
    return [{"type": row["type"], "events": row["events"]} for row in counts if not row["known"]]


def _of_archive(url: str) -> tuple[Json, list[str]]:
    """Return what is archived, and the server's settings with which it may lose events."""
    try:
        with psycopg.connect(url, connect_timeout=2) as connection:
            row = connection.execute(_ARCHIVE).fetchone() or (0, None, None, None)
            unsafe = [name for (name,) in connection.execute(UNSAFE).fetchall()]
    except psycopg.Error as error:
        raise ServiceUnavailable(f"Postgres does not answer: {error}.", remedy="Retry.") from error
    names = ("segments", "last_position", "bytes", "trimmed_position")
    return {"archive": dict(zip(names, row, strict=True))}, unsafe


@get("/metrics", summary="Prometheus", media_type="text/plain")
async def metrics(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return positions, lag, counts and durations in Prometheus' text format; what is not known is left out.

    The counts are those of the worker that was met; the positions are the same on all.
    """
    container: Container = request.app.state.parts
    state = await _state(container)
    counted = container.metrics
    counted.queued.set(container.coalescer.depth)
    counted.bodies.set(container.room.bodies)
    counted.body_bytes.set(container.room.bytes)
    archive = state["archive"] or {}
    predictor = state["predictor"] or {}
    now = ServiceState(
        log_position=state["log_position"],
        position=state["position"],
        lag_events=state["lag_events"],
        lag_seconds=state["lag_seconds"],
        dead_letters=state["dead_letters"],
        unknown_events=state["unknown_events"],
        archived_position=archive.get("last_position"),
        archive_bytes=archive.get("bytes"),
        trained_position=predictor.get("trained_event_position"),
        drift=predictor.get("drift"),
    )
    if container.circuit.away is None:
        with contextlib.suppress(AssayError):
            counted.peers(await unread(container.log))
    return Response(counted.rendered(now, up=not state["error"]), media_type=CONTENT_TYPE)


router = Router("/", route_handlers=[live, ready, metrics], tags=["health"])
