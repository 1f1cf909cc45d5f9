"""What devices hold and serve: the batches and lengths that fit one, and the cheapest machines for several loads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, Router, post
from litestar.params import JSONBody

from api.http.as_of import placed
from api.http.formats import JSON, etag
from domain.answers import answer_bytes
from predictor.capacity.question import FitQuestion
from predictor.fleet.question import FleetQuestion

if TYPE_CHECKING:
    from api.container import Container

__all__ = ["router"]


@post("/v1/fits", status_code=200, summary="Which batches and lengths of this model fit where?")
async def fit(request: Request[Any, Any, Any], data: JSONBody[FitQuestion]) -> Response[bytes]:
    """Return what fits on each device in each precision, what the memory is made of, and how right its outputs were."""
    container: Container = request.app.state.parts
    question = await placed(container, data)
    history = str(container.projection.history)
    return _answered(history, await asyncio.to_thread(container.answerer.fit, question))


@post("/v1/fleets", status_code=200, summary="Which machines serve these models and loads for the least money?")
async def fleet(request: Request[Any, Any, Any], data: JSONBody[FleetQuestion]) -> Response[bytes]:
    """Return the machines, what runs on each, and the cost; or which load cannot be served, and by how much."""
    container: Container = request.app.state.parts
    question = await placed(container, data)
    history = str(container.projection.history)
    return _answered(history, await asyncio.to_thread(container.answerer.fleet, question))


def _answered(history: str, answer: Any) -> Response[bytes]:
    tag = etag(history, answer.position, answer.predictor)
    return Response(answer_bytes(answer), media_type=JSON, headers={"ETag": tag, "Vary": "Accept"})


router = Router("/", route_handlers=[fit, fleet], tags=["questions"])
