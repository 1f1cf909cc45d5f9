"""The raw samples behind a measurement, thinned for a picture."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import MediaType, Request, Response, get
from litestar.params import FromPath, QueryParameter

from api.container import Container
from domain.errors import Expired, NotFound
from domain.events import MEASUREMENT_RECORDED, SAMPLES_RECORDED
from domain.payloads import SamplesRecorded
from domain.samples import MOST_POINTS, picture
from ingest.log.event_log import Stored

__all__ = ["samples"]

NEAR = 32
"""Events of samples after a measurement, and positions before it, among which its samples are looked for."""

Points = Annotated[int, QueryParameter(ge=2, le=MOST_POINTS, description="Beyond so many samples there are bands.")]


@get("/v1/samples/{event_id:uuid}", summary="The raw samples behind a measurement")
async def samples(
    request: Request[Any, Any, Any], event_id: FromPath[UUID], points: Points = MOST_POINTS
) -> Response[bytes]:
    """Return the samples of a measurement, named by its event or by that of the samples, thinned for a picture.

    Times in ms in the order taken, warm-up first, or bands of smallest, middle and largest time where there are more than
    `points`; a histogram of the steady part; each percentile with what it needs. 410 where they have expired.
    """
    container: Container = request.app.state.parts
    container.circuit.require()
    question = await container.log.get([str(event_id)])
    if not question:
        raise NotFound(f"the log has no event {event_id}.", field="id", remedy="GET /v1/events lists them.")
    stored = await _samples_of(container, question[0])
    data = msgspec.convert(stored.event["data"], SamplesRecorded)
    drawn = await asyncio.to_thread(picture, data, points)
    head = {
        "measurement": data.measurement_id if stored is question[0] else question[0].id,
        "event_id": stored.id,
        "position": stored.position,
        "run_id": data.run_id,
        "unit": "ms",
    }
    return Response(msgspec.json.encode(head | msgspec.to_builtins(drawn)), media_type=MediaType.JSON)


async def _samples_of(container: Container, request: Stored) -> Stored:
    if request.type == SAMPLES_RECORDED:
        return request
    reference = request.event["data"].get("samples") if request.type == MEASUREMENT_RECORDED else None
    if not reference:
        raise NotFound(
            f"event {request.id} ({request.type}) refers to no raw samples.",
            field="id",
            remedy="Our runner records them; what was imported has only its figures.",
        )
    near = await _near(container, request, reference["digest"])
    for stored in near:
        if _has(stored, request, reference["digest"]):
            return stored
    text = f"the {reference['n']} raw samples of measurement {request.id}, {reference['digest']},"
    # What has expired cannot be compared: near a measurement it is taken for its own.
    if any(stored.body is None and stored.source == request.source for stored in near):
        raise Expired(
            f"{text} have expired.",
            field="id",
            remedy="The measurement keeps its figures; measure again for new samples.",
        )
    raise NotFound(
        f"{text} are not in the log.", field="id", remedy="Post the file that holds them: `assay post FILE.ndjson`."
    )


async def _near(container: Container, request: Stored, digest: str) -> list[Stored]:
    """Return events of samples near a measurement: our runner sends them right behind it, and the log has no index of digests."""
    read, types = container.log.read, [SAMPLES_RECORDED]
    first = await read(request.position, 1, types, subject=request.subject)
    if any(_has(stored, request, digest) for stored in first):
        return first
    after = await read(request.position, NEAR, types, subject=request.subject)
    begin = max(request.position - NEAR, 0)
    return [*after, *await read(begin, NEAR, types, upto=request.position, subject=request.subject)]


def _has(stored: Stored, measurement: Stored, digest: str) -> bool:
    """Return whether an event holds the samples of a measurement; another source's are not its own, whatever they say."""
    if stored.body is None or stored.source != measurement.source:
        return False
    return bool(stored.event["data"]["digest"] == digest)
