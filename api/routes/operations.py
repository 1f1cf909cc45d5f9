"""Operating the service over HTTP: tokens, and the trail that everything which is done leaves in the log."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.params import JSONBody, PathParameter

from api.background.audit import LOCAL, Detail, operation
from api.container import Container
from api.http.keys import SigningKey
from api.http.tokens import grant
from domain.answers.deliveries import AlertDeliveries
from domain.errors import Forbidden, PayloadTooLarge
from domain.permissions import Scope, Token

__all__ = ["ADMIN", "actor", "performed", "router"]

_PRIVATE = {"Cache-Control": "no-store"}
ADMIN = {"scope": "admin"}
_TOLD_BYTES = 10_000


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


class NewKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A runner's public key (PEM, or 32 bytes in base64) and the only source whose events it may sign."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]+\Z")]
    source: Annotated[str, msgspec.Meta(min_length=1, max_length=500, pattern=r"^[^\x00-\x1f]+\Z")]
    public_key: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]


class SigningKeys(msgspec.Struct, frozen=True, kw_only=True):
    """All keys ever registered, oldest first."""

    items: list[SigningKey]


class OperationReport(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that a program did beside the service and that the audit trail keeps; the service adds who it was."""

    action: Literal["results.migrated"]
    object: Annotated[str, msgspec.Meta(min_length=1, max_length=500)] | None = None
    details: dict[str, Any] | None = None


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """Where the log has it."""

    position: int


def actor(request: Request[Any, Any, Any]) -> str:
    """Return who asks, as the audit trail names them."""
    token: Token | None = request.state.token
    return LOCAL if token is None else token.name


async def performed(request: Request[Any, Any, Any], action: str, on: str | None, details: Mapping[str, Detail]) -> int:
    """Append what was done, and return the position of that event."""
    container: Container = request.app.state.parts
    (answer,) = await container.append([operation(action, actor(request), on, details)])
    return answer.position


@post("/v1/tokens", opt=ADMIN, status_code=201, summary="Make a token")
async def create(request: Request[Any, Any, Any], data: JSONBody[NewToken]) -> Response[MadeToken]:
    """Make a token and return its secret, this once. The first token is made on the command line only."""
    container: Container = request.app.state.parts
    if request.state.token is None:
        # Whoever makes it locks everybody else out, so it takes someone who can reach the database.
        raise Forbidden(
            "the first token cannot be made over HTTP.",
            field="Authorization",
            remedy="Run `assay token create NAME --scope admin` where the service runs.",
        )
    container.circuit.require()
    secret, made = await asyncio.to_thread(
        container.tokens.create, data.name, data.scopes, source=data.source, expires_at=data.expires_at
    )
    await performed(request, "token.created", made.id, grant(made))
    await container.access.refresh()
    return Response(MadeToken(secret=secret, token=made), headers=_PRIVATE)


@get("/v1/tokens", opt=ADMIN, summary="All tokens")
async def listed(request: Request[Any, Any, Any]) -> Response[Tokens]:
    """Return all tokens, the revoked and expired ones too; never a secret."""
    container: Container = request.app.state.parts
    container.circuit.require()
    return Response(Tokens(items=await asyncio.to_thread(container.tokens.listed)), headers=_PRIVATE)


@delete("/v1/tokens/{token_id:str}", opt=ADMIN, status_code=200, summary="Revoke a token")
async def revoke(
    request: Request[Any, Any, Any], token_id: Annotated[str, PathParameter(max_length=200)]
) -> Response[Token]:
    """Revoke the token of this id, prefix or name; at once here, within 5 s on every other worker."""
    container: Container = request.app.state.parts
    container.circuit.require()
    revoked = await asyncio.to_thread(container.tokens.revoke, token_id)
    await performed(request, "token.revoked", revoked.id, grant(revoked))
    await container.access.refresh()
    return Response(revoked, headers=_PRIVATE)


@post("/v1/audit", opt={"scope": "append"}, status_code=201, summary="Record what was done beside the service")
async def record(request: Request[Any, Any, Any], data: JSONBody[OperationReport]) -> Recorded:
    """Append to the audit trail, in the name of the token, what a program did beside the service."""
    container: Container = request.app.state.parts
    container.circuit.require()
    details = data.details or {}
    if len(msgspec.json.encode(details)) > _TOLD_BYTES:
        raise PayloadTooLarge(f"over {_TOLD_BYTES:,} bytes.", field="details", remedy="Send counts and names.")
    return Recorded(position=await performed(request, data.action, data.object, details))


@post("/v1/keys", opt=ADMIN, status_code=201, summary="Register a runner's public key")
async def register_key(request: Request[Any, Any, Any], data: JSONBody[NewKey]) -> Response[SigningKey]:
    """Register the public key that signs the events of a source; events signed by it are distinguished from others."""
    container: Container = request.app.state.parts
    container.circuit.require()
    key = await asyncio.to_thread(container.signing_keys.register, data.public_key, source=data.source, name=data.name)
    await performed(request, "key.registered", key.id, key.details())
    await container.keys.refresh()
    return Response(key, headers=_PRIVATE)


@get("/v1/keys", opt=ADMIN, summary="All signing keys")
async def listed_keys(request: Request[Any, Any, Any]) -> Response[SigningKeys]:
    """Return all keys, the revoked ones too."""
    container: Container = request.app.state.parts
    container.circuit.require()
    return Response(SigningKeys(items=await asyncio.to_thread(container.signing_keys.listed)), headers=_PRIVATE)


@delete("/v1/keys/{key_id:str}", opt=ADMIN, status_code=200, summary="Revoke a signing key")
async def revoke_key(
    request: Request[Any, Any, Any], key_id: Annotated[str, PathParameter(max_length=200)]
) -> Response[SigningKey]:
    """Revoke the key of this id or name: what it signs from now on counts as unsigned."""
    container: Container = request.app.state.parts
    container.circuit.require()
    key = await asyncio.to_thread(container.signing_keys.revoke, key_id)
    await performed(request, "key.revoked", key.id, key.details())
    await container.keys.refresh()
    return Response(key, headers=_PRIVATE)


@get("/v1/alerts/deliveries", opt=ADMIN, summary="How the messages about alerts stand, by route")
async def alert_deliveries(request: Request[Any, Any, Any]) -> Response[AlertDeliveries]:
    """Return what is pending, delivered and failed on each route, and the last error; without addresses and secrets."""
    container: Container = request.app.state.parts
    container.circuit.require()
    outbox = container.outbox
    routes = await asyncio.to_thread(outbox.summary)
    return Response(AlertDeliveries(routes=routes, error=outbox.routes.error), headers=_PRIVATE)


router = Router(
    "/",
    route_handlers=[create, listed, revoke, record, register_key, listed_keys, revoke_key, alert_deliveries],
    tags=["operations"],
)
