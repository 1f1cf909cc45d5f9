"""What whoever keeps the service wants to see at a glance: a day's throughput and lag, tokens in use, archive and settings."""

from __future__ import annotations

import asyncio
import math
import platform
from datetime import UTC, datetime, timedelta
from typing import Any

from litestar import Request, Response, Router, get

from api.container import Container
from api.http.openapi import VERSION
from api.routes.operations import ADMIN
from api.settings import DEFAULT_RATE, Settings
from domain.answers.operations import Archived, Build, Configured, Day, Step
from ingest.archive.archive import Archive, archive_folder
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["router"]

HOURS = 24
STEP_S = 600


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
