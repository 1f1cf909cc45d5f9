"""Alerts over HTTP: the list, one of them, and the states that people give them."""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.background.audit import LOCAL, written
from api.container import Container
from api.http.paging import DEPENDENCIES, At, Text, rows_response
from api.reads.alerts import alert_list, find_alert
from api.routes.operations import actor
from domain.errors import PartMissing, ProjectionBehind
from domain.events import ALERT_CHANGED, encode_event, new_event
from domain.history.alerts import Alert, NewAlertState, State, check_transition
from domain.payloads import AlertChanged
from domain.permissions import SERVICE_SOURCE
from ingest.log.append import Expected
from ingest.projection import Tables

__all__ = ["router"]

_APPEND = {"scope": "append"}
Id = Annotated[str, PathParameter(min_length=1, max_length=100, description="The id, or its first letters.")]
States = Annotated[
    list[State] | None, QueryParameter(name="state", description="Only alerts in these states; repeatable.")
]
Most = Annotated[int, QueryParameter(ge=1, le=1000)]
Direction = Annotated[Literal["worse", "better"] | None, QueryParameter()]


@get("/v1/alerts", summary="Alerts, the worst first", tags=["comparisons"])
async def alerts(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    states: States = None,
    model: Text = None,
    hardware: Text = None,
    direction: Direction = None,
    limit: Most = 100,
) -> Response[bytes]:
    """Return alerts: open ones first, the worse before the better, the largest change first.

    `counts` has the number of alerts in each state that model, hardware and direction choose, whatever is listed.
    """

    def answer(tables: Tables) -> tuple[list[Alert], dict[str, Any]]:
        listed = alert_list(
            tables, states=states or (), model=model, hardware=hardware, direction=direction, limit=limit
        )
        return listed.alerts, {"counts": listed.counts}

    return await rows_response(request, at, answer, key="alerts")


@get("/v1/alerts/{alert_id:str}", summary="One alert", tags=["comparisons"])
async def alert(request: Request[Any, Any, Any], alert_id: Id, at: NamedDependency[At]) -> Alert:
    """Return an alert with its changes, their evidence and candidate causes, and the states that it was given."""
    container: Container = request.app.state.parts
    await container.reach(at.min_position)
    await container.reach(at.as_of, "as_of")
    return (await asyncio.to_thread(_read, container, alert_id, at.as_of))[0]


@post(
    "/v1/alerts/{alert_id:str}/state",
    opt=_APPEND,
    status_code=200,
    summary="Give an alert a state",
    tags=["operations"],
)
async def set_state(request: Request[Any, Any, Any], alert_id: Id, data: JSONBody[NewAlertState]) -> Alert:
    """Give an alert a state and return it as it is then; 409 where it cannot go there from its own.

    `acknowledged`: somebody looks at it. `expected` (a new level begins), `fixed` and `false` end it and need a reason; `new`
    opens it again. The author is the token's name, after the person on whose behalf a program asks (`author`).
    """
    container: Container = request.app.state.parts
    if not container.settings.appends:
        raise PartMissing("this node appends nothing.", field="role", remedy="Ask a node of role all.")
    container.circuit.require()
    await container.reach(await container.log.last_position())
    before, version = await asyncio.to_thread(_read, container, alert_id, None)
    check_transition(before.state, data)
    changed = AlertChanged(alert=before.id, state=data.state, author=_author(request, data), reason=data.reason)
    subject = f"alert/{before.id}"
    event = new_event(ALERT_CHANGED, changed, source=SERVICE_SOURCE, subject=subject, time=datetime.now(UTC))
    (appended,) = await container.append([written(encode_event(event))], Expected(subject=subject, version=version))
    with contextlib.suppress(ProjectionBehind):
        await container.reach(appended.position)
        return (await asyncio.to_thread(_read, container, before.id, None))[0]
    return msgspec.structs.replace(before, state=data.state)


def _read(container: Container, alert_id: str, as_of: int | None) -> tuple[Alert, int]:
    with container.tables(as_of) as tables:
        return find_alert(tables, alert_id)


def _author(request: Request[Any, Any, Any], data: NewAlertState) -> str:
    name = actor(request)
    if data.author is None:
        return name
    return data.author if name == LOCAL else f"{data.author} ({name})"


router = Router("/", route_handlers=[alerts, alert, set_state], dependencies=DEPENDENCIES)
