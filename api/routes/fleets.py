"""Fleets: the cheapest machines that serve several models and their loads."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, Router, post
from litestar.params import JSONBody

from api.container import Container
from api.http.as_of import placed
from api.http.formats import JSON, etag
from domain.answers import answer_bytes
from predictor.fleet.question import FleetQuestion

__all__ = ["router"]


@post("/v1/fleets", status_code=200, summary="Which machines serve these models and loads for the least money?")
async def fleet(request: Request[Any, Any, Any], data: JSONBody[FleetQuestion]) -> Response[bytes]:
    """Return the machines, what runs on each, and the cost; or which load cannot be served, and by how much."""
    container: Container = request.app.state.parts
    question = await placed(container, data)
    history = str(container.projection.history)
    answer = await asyncio.to_thread(container.answerer.fleet, question)
    tag = etag(history, answer.position, answer.predictor)
    return Response(answer_bytes(answer), media_type=JSON, headers={"ETag": tag, "Vary": "Accept"})


router = Router("/", route_handlers=[fleet], tags=["questions"])
