"""Questions: predictions, recommendations, and the predictor that they rest on."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.params import FromPath, JSONBody

from api import child
from api.asof import AsOf, resolved
from api.audit import SOURCE, operation
from api.formats import JSON, etag, fresh
from api.operations import actor
from api.paging import MinPosition
from api.parts import Parts
from domain.canonical import canonical
from domain.errors import Forbidden, NotFound, PartMissing, TooBusy
from domain.events import PREDICTOR_TRAINED, RECOMMENDATION_ISSUED, decode_event, encode_event, new_event
from predictor.answering.question import PredictQuestion, Question
from predictor.learning.artifact import ARTIFACT_KIND
from predictor.learning.routes import Evaluation

__all__ = ["router"]

TRAINING_S = 3000.0
TRAINED_BYTES = 512 * 2**20
"""More than any artifact has."""
Json = dict[str, Any]


Placed = TypeVar("Placed", Question, PredictQuestion, Evaluation)


def _parts(request: Request[Any, Any, Any]) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


async def _placed(parts: Parts, question: Placed) -> Placed:
    """Return the question with a position in the place of a snapshot's name, once the tables have reached it."""
    position = await resolved(parts, question.as_of)
    await parts.reach(position, "as_of")
    return msgspec.structs.replace(question, as_of=position)


def _document(content: Any, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(msgspec.json.encode(content), media_type=JSON, headers=headers or {})


@post("/v1/recommendations", status_code=200, summary="Which hardware should run this model?")
async def recommend(request: Request[Any, Any, Any], data: JSONBody[Question]) -> Response[bytes]:
    """Return the ranked answer with intervals, basis and evidence; the same question at a position, the same bytes.

    With `record` the answer is appended to the log, and can be read again by its id.
    """
    parts = _parts(request)
    token = request.state.token
    if data.record and token is not None and not token.allows("append"):
        raise Forbidden("recording appends to the log.", field="record", remedy="Use a token with --scope append.")
    data = await _placed(parts, data)
    answer = await asyncio.to_thread(parts.answerer.recommend, data)
    content = canonical(answer)
    if data.record:
        await _record(parts, answer)
    tag = etag(answer["position"], answer["predictor"])
    return Response(content, media_type=JSON, headers={"ETag": tag, "Vary": "Accept"})


async def _record(parts: Parts, answer: Json) -> None:
    """Append the answer; the event's id and time follow from the answer, so that twice is once."""
    identity = answer["id"]
    event = new_event(
        RECOMMENDATION_ISSUED,
        {
            "recommendation": identity,
            "position": answer["position"],
            "question": answer["question"],
            "answer": answer,
        },
        source=SOURCE,
        subject=answer["model"],
        time=datetime.fromisoformat(answer["time"]) if answer["time"] else None,
        # A digest in the clothes of a UUID: version 8 is for just that.
        id=f"{identity[:8]}-{identity[8:12]}-8{identity[13:16]}-8{identity[17:20]}-{identity[20:32]}",
    )
    await parts.append([decode_event(encode_event(event))])


@get("/v1/recommendations/{recommendation_id:str}", summary="An answer that was recorded")
async def recommendation(
    request: Request[Any, Any, Any], recommendation_id: FromPath[str], min_position: MinPosition = None
) -> Response[bytes]:
    """Return the recorded answer of this id, as it was given."""
    parts = _parts(request)
    await parts.reach(min_position)

    def read() -> Json | None:
        with parts.tables(None) as tables:
            found = tables.recommendations(recommendation=recommendation_id).to_pylist()
            return found[0] if found else None

    found = await asyncio.to_thread(read)
    if found is None:
        raise NotFound(
            f"no recommendation {recommendation_id[:64]!r} was recorded.",
            field="id",
            remedy="Answers are kept where the question says record; ask it again with `as_of` for the same answer.",
        )
    return Response(found["answer"].encode(), media_type=JSON)


@post("/v1/predictions", status_code=200, summary="How fast would this configuration be?")
async def predict(request: Request[Any, Any, Any], data: JSONBody[PredictQuestion]) -> Response[bytes]:
    """Return one configuration's prediction with interval and basis, beside what was measured of it."""
    parts = _parts(request)
    data = await _placed(parts, data)
    answer = await asyncio.to_thread(parts.answerer.predict, data)
    tag = etag(answer["position"], answer["predictor"])
    return Response(canonical(answer), media_type=JSON, headers={"ETag": tag, "Vary": "Accept"})


@get("/v1/predictor", summary="The predictor in force")
async def predictor(
    request: Request[Any, Any, Any], as_of: AsOf = None, min_position: MinPosition = None
) -> Response[bytes]:
    """Return digest, data, scores, interval widths, calibrations and limits of the predictor at a position."""
    parts = _parts(request)
    await parts.reach(min_position)
    position = await resolved(parts, as_of)
    await parts.reach(position, "as_of")
    told = await asyncio.to_thread(parts.answerer.predictor_info, position)
    tag = etag(told["position"], told["digest"])
    if fresh(request, tag):
        return Response(b"", status_code=304, headers={"ETag": tag})
    return _document(told, {"ETag": tag})


@post("/v1/predictor/train", opt={"scope": "jobs"}, status_code=200, summary="Train on what the log holds")
async def train(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Train in a child process, keep the artifact, record it as an event, and return digest, position and card."""
    parts = _parts(request)
    if not parts.settings.appends:
        raise PartMissing("this node appends nothing.", field="role", remedy="Train on a node of role all.")
    trained = await _worked(parts, "train", {})
    content, data = trained.content, trained.told["event_data"]
    digest = await asyncio.to_thread(parts.artifacts.put, content, data["card"], ARTIFACT_KIND)
    recorded_at = await parts.log.recorded_at(data["position"])
    event = new_event(PREDICTOR_TRAINED, {**data, "digest": digest}, source=SOURCE, time=recorded_at)
    told = operation("predictor.trained", actor(request), digest, {"position": data["position"]})
    answer, _ = await parts.append([decode_event(encode_event(event)), told])
    await parts.reach(answer.position)
    return _document({**data, "digest": digest, "event_id": event["id"], "event_position": answer.position})


@post("/v1/predictor/evaluate", opt={"scope": "jobs"}, status_code=200, summary="Scores on held-out rows")
async def evaluate(request: Request[Any, Any, Any], data: JSONBody[Evaluation]) -> Response[bytes]:
    """Score the method on held-out groups of the log, in a child process."""
    parts = _parts(request)
    data = await _placed(parts, data)
    scores = await _worked(parts, "evaluate", msgspec.to_builtins(data))
    return _document(scores.told)


async def _worked(parts: Parts, work: str, asked: Json) -> child.Worked:
    """Do one long work at a time on a copy of the tables: two would take the cores from the answers."""
    if parts.training.locked():
        raise TooBusy("a training or evaluation is under way.", field=work, remedy="Ask again when it is done.")
    async with parts.training:
        with ExitStack() as stack:
            path, _ = await asyncio.to_thread(stack.enter_context, parts.snapshot())
            asked = {**asked, "path": str(path), "database_url": parts.database.url}
            return await child.run(work, asked, timeout_s=TRAINING_S, most_bytes=TRAINED_BYTES, secrets=True)


router = Router(
    "/", route_handlers=[recommend, recommendation, predict, predictor, train, evaluate], tags=["questions"]
)
