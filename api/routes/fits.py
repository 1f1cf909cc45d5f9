"""What fits: the largest and the best batch, and the longest sequence, under a device's memory or a limit."""

from __future__ import annotations

import asyncio
from typing import Any

from litestar import Request, Response, Router, post
from litestar.params import JSONBody

from api.container import Container
from api.http.as_of import placed
from api.http.formats import JSON, etag
from domain.answers import answer_bytes
from predictor.capacity.question import FitQuestion

__all__ = ["router"]


@post("/v1/fits", status_code=200, summary="Which batches and lengths of this model fit where?")
async def fit(request: Request[Any, Any, Any], data: JSONBody[FitQuestion]) -> Response[bytes]:
    """Return what fits on each device in each precision, what the memory is made of, and how right its outputs were."""
    container: Container = request.app.state.parts
    question = await placed(container, data)
    history = str(container.projection.history)
    answer = await asyncio.to_thread(container.answerer.fit, question)
    tag = etag(history, answer.position, answer.predictor)
    return Response(answer_bytes(answer), media_type=JSON, headers={"ETag": tag, "Vary": "Accept"})


router = Router("/", route_handlers=[fit], tags=["questions"])
