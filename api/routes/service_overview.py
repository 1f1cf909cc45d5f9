"""What whoever keeps the service wants to see at a glance: a day's throughput and lag, tokens in use, archive and settings."""

from __future__ import annotations

import asyncio
import math
import platform
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from litestar import Request, Response, Router, get

from api.background.lag_history import Minute
from api.container import Container
from api.http.openapi import VERSION
from api.routes.operations import ADMIN
from api.settings import DEFAULT_RATE, Settings
from ingest.archive.archive import Archive, archive_folder
from ingest.projection.store import SCHEMA_VERSION

__all__ = ["Day", "router"]

HOURS = 24
STEP_S = 600


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How many events the log took in the step that begins at `at`; 0 is counted, not missing."""

    at: datetime
    events: int


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of the archive. `trimmed_at`: since when its bodies are in the files alone."""

    first_position: int
    last_position: int
    events: int
    bytes: int
    facts: str
    samples: str | None
    created_at: datetime | None
    trimmed_at: datetime | None


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """What runs, and since when."""

    version: str
    schema: int
    python: str
    system: str
    began: datetime


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """How it is set up, without anything secret. A limit of null is no limit; `retrain_every_s` null is never by itself."""

    role: str
    host: str
    embedded_postgres: bool
    requests_per_s: float | None
    events_per_s: float | None
    body_deadline_s: float
    retrain_every_s: float | None
    log_level: str


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """The last 24 hours, `throughput` in steps of `step_s` up to `now`.

    `lag` has the minutes that this process saw, from `build.began` on and of a day at most. `token_uses` has by the id of a
    token when this process last let it in: what is not in it was not used here since `build.began`.
    """

    now: datetime
    position: int
    step_s: int
    throughput: list[Step]
    lag: list[Minute]
    token_uses: dict[str, datetime]
    archive: list[Archived]
    build: Build
    settings: Configured


@get("/v1/operations", opt=ADMIN, summary="A day of this service", tags=["operations"])
async def day(request: Request[Any, Any, Any]) -> Response[Day]:
    """Return throughput and lag of the last 24 hours, uses of tokens, the archive's segments, build and settings."""
    container: Container = request.app.state.parts
    container.circuit.require()
    return Response(await asyncio.to_thread(_day, container, datetime.now(UTC)), headers={"Cache-Control": "no-store"})


def _day(container: Container, now: datetime) -> Day:
    last = int(now.timestamp()) // STEP_S * STEP_S
    first = last - HOURS * 3600 + STEP_S
    with container.tables(None) as tables:
        counts = tables.recorded(datetime.fromtimestamp(first, UTC), STEP_S)
        position = tables.position
    return Day(
        now=now,
        position=position,
        step_s=STEP_S,
        throughput=[
            Step(at=datetime.fromtimestamp(start, UTC), events=counts.get(start, 0))
            for start in range(first, last + STEP_S, STEP_S)
        ],
        lag=[
            item
            for item in (container.minutes.kept() if container.minutes else [])
            if item.at >= now - timedelta(hours=HOURS)
        ],
        token_uses=dict(container.access.used),
        archive=_archived(container),
        build=Build(
            version=VERSION,
            schema=SCHEMA_VERSION,
            python=platform.python_version(),
            system=platform.system(),
            began=container.began,
        ),
        settings=_configured(
            container.settings, embedded=container.database.embedded, guarded=container.access.guarded
        ),
    )


def _archived(container: Container) -> list[Archived]:
    segments = Archive(archive_folder(container.settings.home), container.database.url).segments()
    return [
        Archived(
            first_position=item.first_position,
            last_position=item.last_position,
            events=item.events,
            bytes=item.size_bytes,
            facts=item.facts,
            samples=item.samples,
            created_at=item.created_at,
            trimmed_at=item.trimmed_at,
        )
        for item in segments
    ]


def _configured(settings: Settings, *, embedded: bool, guarded: bool) -> Configured:
    rate = settings.rate or (DEFAULT_RATE if guarded else None)
    return Configured(
        role=settings.role,
        host=settings.host,
        embedded_postgres=embedded,
        requests_per_s=_finite(rate.requests_per_s) if rate else None,
        events_per_s=_finite(rate.events_per_s) if rate else None,
        body_deadline_s=settings.body_deadline_s,
        retrain_every_s=settings.retrain_every_s,
        log_level=settings.log_level,
    )


def _finite(limit: float) -> float | None:
    return None if math.isinf(limit) else limit


router = Router("/", route_handlers=[day])
