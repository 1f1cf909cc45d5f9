"""Questions: recommendations and predictions, and their record."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.params import FromPath, JSONBody

from api.http.as_of import placed
from api.http.formats import JSON, etag
from api.http.paging import MinPosition
from api.http.response_cache import CachedAnswer
from domain import spans
from domain.answers import answer_bytes
from domain.canonical import canonical
from domain.errors import Forbidden, NotFound
from domain.events import PREDICTION_ISSUED, RECOMMENDATION_ISSUED, encode_event, new_event
from domain.permissions import SERVICE_SOURCE
from predictor.answering.question import OF_ENGINES, PredictQuestion, Question

if TYPE_CHECKING:
    from api.container import Container

__all__ = ["router"]

Json = dict[str, Any]


def _parts(request: Request[Any, Any, Any]) -> Container:
    container: Container = request.app.state.parts
    return container


@post("/v1/recommendations", status_code=200, summary="Which hardware should run this model?")
async def recommend(request: Request[Any, Any, Any], data: JSONBody[Question]) -> Response[bytes]:
    """Return the ranked answer with intervals, basis and evidence; the same question at a position, the same bytes.

    With `record` the answer is appended to the log, and can be read again by its id.
    """
    parts = _parts(request)
    if data.record:
        _require_append(request)
    data = (await placed(parts, data)).checked()
    position = data.at if data.at is not None else parts.projection.position
    cached = None if data.record else parts.answered.find(_asked_at(parts, data, position))
    if cached is None:
        cached = await asyncio.to_thread(_answer, parts, data)
    if data.record:
        answer = msgspec.json.decode(cached.content)
        await _record(parts, RECOMMENDATION_ISSUED, "recommendation", answer["question"], answer)
    return cached.response()


def _answer(container: Container, data: Question) -> CachedAnswer:
    """Make an answer, and keep it for whoever asks the same at its position."""
    history = str(container.projection.history)
    with spans.span("recommend", assay_model=spans.public_name(data.model)) as span:
        answer = container.answerer.recommend(data)
        span.set(assay_position=answer.position, assay_predictor=answer.predictor, assay_options=len(answer.ranked))
    tag = etag(history, answer.position, answer.predictor)
    values = CachedAnswer(answer_bytes(answer), JSON, {"ETag": tag, "Vary": "Accept"})
    container.answered.keep(_asked_at(container, data, answer.position), values)
    return values


def _asked_at(container: Container, data: Question, position: int) -> tuple[str, bytes, int, Any, Any]:
    """What decides an answer: the question and the position, which decides the predictor as well."""
    projection = container.projection
    return ("/v1/recommendations", canonical(data.identity()), position, projection.path, projection.history)


async def _record(container: Container, type_: str, noun: str, question: Json, answer: Json) -> None:
    """Append the answer; the event's id and time follow from the answer, so that twice is once."""
    from api.background.audit import written  # Loads the log's driver, which a process without a log has not.

    data = {noun: answer["id"], "position": answer["position"], "question": question, "answer": answer}
    event = new_event(
        type_,
        data,
        source=SERVICE_SOURCE,
        subject=answer["model"],
        time=datetime.fromisoformat(answer["time"]) if answer["time"] else None,
        id=_identifier(noun, answer["id"]),
    )
    await container.append([written(encode_event(event))])


def _identifier(noun: str, identity: str) -> str:
    """Return a digest in the clothes of a UUID: version 8 is for just that."""
    item = identity if noun == "recommendation" else hashlib.sha256(f"{noun} {identity}".encode()).hexdigest()
    return f"{item[:8]}-{item[8:12]}-8{item[13:16]}-8{item[17:20]}-{item[20:32]}"


def _require_append(request: Request[Any, Any, Any]) -> None:
    token = request.state.token
    if token is not None and not token.allows("append"):
        raise Forbidden("recording appends to the log.", field="record", remedy="Use a token with --scope append.")


def _asked(question: PredictQuestion) -> Json:
    """Return what of the question decides the answer; of a config no more than its sizes."""
    document: Json = msgspec.to_builtins(msgspec.structs.replace(question, config=question.as_question().config))
    return {
        name: value
        for name, value in document.items()
        if name not in ("as_of", "record", "faster") and (value or name not in OF_ENGINES)
    }


@get("/v1/recommendations/{recommendation_id:str}", summary="An answer that was recorded")
async def recommendation(
    request: Request[Any, Any, Any], recommendation_id: FromPath[str], min_position: MinPosition = None
) -> Response[bytes]:
    """Return the recorded answer of this id, as it was given."""
    parts = _parts(request)
    await parts.reach(min_position)

    def read() -> Json | None:
        with parts.tables(None) as tables:
            rows = tables.recommendations(recommendation=recommendation_id).to_pylist()
            return rows[0] if rows else None

    result = await asyncio.to_thread(read)
    if result is None:
        raise NotFound(
            f"no recommendation {recommendation_id[:64]!r} was recorded.",
            field="id",
            remedy="Answers are kept where the question says record; ask it again with `as_of` for the same answer.",
        )
    return Response(result["answer"].encode(), media_type=JSON)


@post("/v1/predictions", status_code=200, summary="How fast would this configuration be?")
async def predict(request: Request[Any, Any, Any], data: JSONBody[PredictQuestion]) -> Response[bytes]:
    """Return one configuration's prediction with interval and basis, beside what was measured of it.

    With `record` it is appended to the log, and scored when that configuration is measured.
    """
    parts = _parts(request)
    if data.record:
        _require_append(request)
    data = await placed(parts, data)
    history = str(parts.projection.history)
    answer = await asyncio.to_thread(parts.answerer.predict, data)
    if data.record:
        await _record(parts, PREDICTION_ISSUED, "prediction", _asked(data), msgspec.to_builtins(answer))
    tag = etag(history, answer.position, answer.predictor)
    return Response(answer_bytes(answer), media_type=JSON, headers={"ETag": tag, "Vary": "Accept"})


router = Router("/", route_handlers=[recommend, recommendation, predict], tags=["questions"])
