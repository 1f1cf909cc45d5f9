"""The predictor over HTTP: the one in force, all that were trained, how right they were; training, trial and choice."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.params import JSONBody, QueryParameter

from api.background.training import choose, replay, take_part, train, worked
from api.container import Container
from api.http.as_of import AsOf, placed, resolved
from api.http.formats import JSON, etag, fresh
from api.http.paging import MinPosition
from api.routes.operations import ADMIN, actor
from predictor.choosing.decisions import decisions
from predictor.learning.machines import machine_list
from predictor.learning.routes import Evaluation

__all__ = ["router"]

JOBS = {"scope": "jobs"}
Json = dict[str, Any]
Target = Annotated[Literal["latency", "memory", "ttft", "tpot", "energy"], QueryParameter()]
Digest = Annotated[str, msgspec.Meta(min_length=6, max_length=71, pattern=r"^(shipped|(sha256:)?[0-9a-f]+)$(?!\n)")]
"""A digest or its beginning, or `shipped`."""

Word = Annotated[str, msgspec.Meta(max_length=60, pattern=r"^[A-Za-z0-9_. -]*$(?!\n)")]
Members = Annotated[
    list[Word] | None,
    QueryParameter(max_items=50, description="Only these members of the card, and which predictor it is; repeatable."),
]
Details = Annotated[
    list[Word] | None,
    QueryParameter(
        max_items=50,
        description="By family and field by field only of these evaluations; repeatable, an empty one names none.",
    ),
]
_STANDING = ("name", "digest", "position", "trained_at_position", "shipped", "rows", "notes")
_DETAILS = ("by_family", "fields")
"""What an evaluation says at length."""


class Training(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to train: with `force` what comes of it answers even where it is worse than what is in force."""

    force: bool = False


class TrainingOnMachines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to train with other machines: HOST:PORT of all, in the order of their ranks, and the rank of this one.

    With `digest`, that predictor is trained again.
    """

    machines: Annotated[list[Annotated[str, msgspec.Meta(max_length=300)]], msgspec.Meta(max_length=64)]
    rank: Annotated[int, msgspec.Meta(ge=0, lt=64)]
    wait_s: Annotated[float, msgspec.Meta(ge=1, le=3600)] = 120.0
    force: bool = False
    digest: Digest | None = None


class Choice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which predictor is to answer, the one before by default, and why."""

    digest: Digest | None = None
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)] | None = None


class Replay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which predictor is to be trained again."""

    digest: Digest


def _document(content: Any, headers: dict[str, str] | None = None) -> Response[bytes]:
    return Response(msgspec.json.encode(content), media_type=JSON, headers=headers or {})


async def _at(container: Container, as_of: str | None, min_position: int | None) -> int | None:
    await container.reach(min_position)
    position = await resolved(container, as_of)
    await container.reach(position, "as_of")
    return position


def _cut(json: Json, members: list[str] | None, details: list[str] | None) -> Json:
    """Return a card with the members that are asked for, and the details of the evaluations that are."""
    kept = json if members is None else {name: json[name] for name in json if name in (*_STANDING, *members)}
    if details is None or not kept.get("scores"):
        return kept
    scores = {
        name: score if name in details else {key: part for key, part in score.items() if key not in _DETAILS}
        for name, score in kept["scores"].items()
    }
    return {**kept, "scores": scores}


@get("/v1/predictor", summary="The predictor in force")
async def predictor(
    request: Request[Any, Any, Any],
    as_of: AsOf = None,
    min_position: MinPosition = None,
    members: Members = None,
    details: Details = None,
) -> Response[bytes]:
    """Return digest, data, scores, interval widths, calibrations and limits of the predictor at a position."""
    container: Container = request.app.state.parts
    position = await _at(container, as_of, min_position)
    history = str(container.projection.history)
    predictor_info = await asyncio.to_thread(container.answerer.predictor_info, position, members)
    tag = etag(history, predictor_info["position"], predictor_info["digest"])
    if fresh(request, tag):
        return Response(b"", status_code=304, headers={"ETag": tag})
    return _document(_cut(predictor_info, members, details), {"ETag": tag})


@get("/v1/predictor/list", summary="Every predictor, and which answers")
async def predictors(
    request: Request[Any, Any, Any], as_of: AsOf = None, min_position: MinPosition = None
) -> Response[bytes]:
    """Return the trained predictors, newest first, with the judgement on each, and the line of those that answer."""
    container: Container = request.app.state.parts
    position = await _at(container, as_of, min_position)
    return _document(await asyncio.to_thread(container.answerer.predictors, position))


@get("/v1/predictor/accuracy", summary="How right were the predictions given out?")
async def accuracy(
    request: Request[Any, Any, Any], target: Target = "latency", as_of: AsOf = None, min_position: MinPosition = None
) -> Response[bytes]:
    """Return errors and coverage of recorded answers that were measured since, and whether the predictor drifts."""
    container: Container = request.app.state.parts
    position = await _at(container, as_of, min_position)
    return _document(await asyncio.to_thread(container.answerer.accuracy, target, position))


@get("/v1/predictor/decisions", summary="How good are decisions on models that took no part?")
async def decisions_() -> Response[bytes]:
    """Return success, overspend, regret and hit rates of choices on held-out models, beside rules of thumb, as shares.

    They are those of the benchmark that this version shipped with; `command` measures them again.
    """
    return _document(decisions())


@post("/v1/predictor/train", opt=JOBS, status_code=200, summary="Train on what the log holds")
async def train_(request: Request[Any, Any, Any], data: JSONBody[Training]) -> Response[bytes]:
    """Train in a child process, compare with what is in force, and return digest, position, card and the judgement."""
    return _document(await train(request.app.state.parts, actor(request), force=data.force))


@post("/v1/predictor/train/machines", opt=ADMIN, status_code=200, summary="Train together with other machines")
async def train_on_machines(request: Request[Any, Any, Any], data: JSONBody[TrainingOnMachines]) -> Response[bytes]:
    """Take part in a training: this process listens on its own port and connects to the others.

    The first machine compares, keeps and records what is made, as a training alone does; the others say which it was.
    """
    container: Container = request.app.state.parts
    own = machine_list(",".join(data.machines), data.rank, data.wait_s)
    if own.rank:
        return _document(await take_part(container, own, data.digest))
    if data.digest is not None:
        return _document(await replay(container, data.digest, own))
    return _document(await train(container, actor(request), force=data.force, machines=own))


@post("/v1/predictor/evaluate", opt=JOBS, status_code=200, summary="Scores on held-out rows")
async def evaluate(request: Request[Any, Any, Any], data: JSONBody[Evaluation]) -> Response[bytes]:
    """Score the method on held-out groups of the log, in a child process."""
    container: Container = request.app.state.parts
    data = await placed(container, data)
    scores = await worked(container, "evaluate", msgspec.to_builtins(data))
    return _document(scores.document)


@post("/v1/predictor/rollback", opt=JOBS, status_code=200, summary="Let another predictor answer")
async def rollback(request: Request[Any, Any, Any], data: JSONBody[Choice]) -> Response[bytes]:
    """Let the predictor before the one in force answer from here on, or the one that is named; answers as of before stay."""
    return _document(await choose(request.app.state.parts, actor(request), data.digest, data.reason))


@post("/v1/predictor/replay", opt=JOBS, status_code=200, summary="Train one again, bit for bit")
async def replay_(request: Request[Any, Any, Any], data: JSONBody[Replay]) -> Response[bytes]:
    """Train again at the position of a predictor; say whether that gives the same bits, and what differs where not."""
    return _document(await replay(request.app.state.parts, data.digest))


router = Router(
    "/",
    route_handlers=[
        predictor,
        predictors,
        accuracy,
        decisions_,
        train_,
        train_on_machines,
        evaluate,
        rollback,
        replay_,
    ],
    tags=["questions"],
)
