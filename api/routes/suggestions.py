"""Suggestions: which measurements would lower the error of open questions most."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from litestar import Request, Response, Router, post
from litestar.params import JSONBody

from api.http.as_of import placed
from api.http.formats import JSON, etag
from domain.answers import answer_bytes
from predictor.suggesting.question import SuggestQuestion

if TYPE_CHECKING:
    from api.container import Container

__all__ = ["router"]


@post("/v1/suggestions", status_code=200, summary="What should be measured next?")
async def suggest(request: Request[Any, Any, Any], data: JSONBody[SuggestQuestion]) -> Response[bytes]:
    """Return the runs that lower the error of open questions most within a budget, and a plan for each device."""
    container: Container = request.app.state.parts
    question = await placed(container, data)
    history = str(container.projection.history)
    answer = await asyncio.to_thread(container.answerer.suggest, question)
    tag = etag(history, answer.position, answer.predictor)
    return Response(answer_bytes(answer), media_type=JSON, headers={"ETag": tag, "Vary": "Accept"})


router = Router("/", route_handlers=[suggest], tags=["questions"])
