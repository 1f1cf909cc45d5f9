"""Operating the service over HTTP: tokens, and the trail that everything which is done leaves in the log."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.params import JSONBody, PathParameter

from api.audit import LOCAL, operation
from api.parts import Parts
from api.tokens import Scope, Token, grant

__all__ = ["ADMIN", "actor", "performed", "router"]

_PRIVATE = {"Cache-Control": "no-store"}
ADMIN = {"scope": "admin"}


class NewToken(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A token to be made. With `source` it appends as that source only; without `expires_at` it does not expire."""

    name: Annotated[
        str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*$(?!\n)")
    ]
    scopes: Annotated[list[Scope], msgspec.Meta(min_length=1)]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]+$(?!\n)")] | None = None
    expires_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class MadeToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token that was made; nobody can read its secret again."""

    secret: str
    token: Token


class Tokens(msgspec.Struct, frozen=True, kw_only=True):
    """All tokens ever made, oldest first, without their secrets."""

    items: list[Token]


def actor(request: Request[Any, Any, Any]) -> str:
    """Return who asks, as the audit trail names them."""
    token: Token | None = request.state.token
    return LOCAL if token is None else token.name


async def performed(request: Request[Any, Any, Any], action: str, on: str | None, details: dict[str, Any]) -> int:
    """Append what was done, and return the position of that event."""
    parts: Parts = request.app.state.parts
    (answer,) = await parts.append([operation(action, actor(request), on, details)])
    return answer.position


@post("/v1/tokens", opt=ADMIN, status_code=201, summary="Make a token")
async def create(request: Request[Any, Any, Any], data: JSONBody[NewToken]) -> Response[MadeToken]:
    """Make a token and return its secret, this once. The first one ever made closes the open door."""
    parts: Parts = request.app.state.parts
    parts.circuit.require()
    secret, made = await asyncio.to_thread(
        parts.tokens.create, data.name, data.scopes, source=data.source, expires_at=data.expires_at
    )
    await performed(request, "token.created", made.id, grant(made))
    await parts.access.refresh()
    return Response(MadeToken(secret=secret, token=made), headers=_PRIVATE)


@get("/v1/tokens", opt=ADMIN, summary="All tokens")
async def listed(request: Request[Any, Any, Any]) -> Response[Tokens]:
    """Return all tokens, the revoked and expired ones too; never a secret."""
    parts: Parts = request.app.state.parts
    parts.circuit.require()
    return Response(Tokens(items=await asyncio.to_thread(parts.tokens.listed)), headers=_PRIVATE)


@delete("/v1/tokens/{token_id:str}", opt=ADMIN, status_code=200, summary="Revoke a token")
async def revoke(
    request: Request[Any, Any, Any], token_id: Annotated[str, PathParameter(max_length=200)]
) -> Response[Token]:
    """Revoke the token of this id, prefix or name; at once here, within 5 s on every other worker."""
    parts: Parts = request.app.state.parts
    parts.circuit.require()
    revoked = await asyncio.to_thread(parts.tokens.revoke, token_id)
    await performed(request, "token.revoked", revoked.id, grant(revoked))
    await parts.access.refresh()
    return Response(revoked, headers=_PRIVATE)


router = Router("/", route_handlers=[create, listed, revoke], tags=["operations"])
