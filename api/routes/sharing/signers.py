"""The signers of shared measurements that are trusted, and the rows of theirs that are held back."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.background.audit import operation
from api.container import Container
from api.http.paging import DEPENDENCIES, At, rows_response
from api.routes.operations import ADMIN, actor
from api.routes.sharing.bundles import append, appending, bundles_at, retraction
from domain.answers.sharing import Changed, HeldRow, SharedSigner, Trust
from domain.errors import NotFound
from domain.sharing.bundles import shared_source, signer_of
from domain.signing import key_id, read_public_key
from ingest.projection import Tables
from ingest.sharing.quarantine import held_rows
from ingest.sharing.trust import DISTRUSTED, TRUSTED, Signer, trusted_signers

__all__ = ["router"]

Name = Annotated[str, PathParameter(min_length=1, max_length=200)]
Reason = Annotated[str, QueryParameter(min_length=1, max_length=2000, description="Why; it stays in the log.")]
Text = Annotated[
    str, msgspec.Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f]*[^\x00-\x20][^\x00-\x1f]*$(?!\n)")
]


class NewSigner(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key to trust: 32 bytes in base64, PEM, or the id of a key (`ed25519:` and 32 hex digits), under a name."""

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
    name: Text


class SignerEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A key that is trusted, or was; `level` is unknown where it is not any more."""

    key: str
    level: Trust
    name: str | None
    position: int


@get("/v1/quarantine", summary="Rows that are held back", tags=["tables"])
async def quarantined(request: Request[Any, Any, Any], at: NamedDependency[At]) -> Response[bytes]:
    """Return the shared rows that do not count because they cannot be true, or are far from what others say."""
    return await rows_response(request, at, lambda tables: (held_rows(tables), {}))


@delete("/v1/quarantine/{event_id:str}", opt=ADMIN, status_code=200, summary="Release a row")
async def release(request: Request[Any, Any, Any], event_id: Name, reason: Reason) -> Changed:
    """Let a row that was held back count from here on; who did it and why are in the log."""
    container = appending(request)
    async with container.sharing:
        await container.reach(await container.log.last_position())
        held = await asyncio.to_thread(_held, container, event_id)
        undo = retraction(f"released by {actor(request)}: {reason}", event_id=held.retraction)
        done = operation("quarantine.released", actor(request), event_id, {"reason": reason, "held": held.reason})
        last = await append(container, [undo, done])
    return Changed(changed=1, last_position=last)


@get("/v1/signers", summary="Signers of shared rows", tags=["tables"])
async def signers(request: Request[Any, Any, Any], at: NamedDependency[At]) -> Response[bytes]:
    """Return the keys that are trusted, and those of bundles in the log that are not, with how many rows of each count."""
    return await rows_response(request, at, lambda tables: (_signers(tables), {}))


@post("/v1/signers", opt=ADMIN, status_code=201, summary="Trust a signer")
async def trust(request: Request[Any, Any, Any], data: JSONBody[NewSigner]) -> SignerEntry:
    """Let the rows of a signer count before those of strangers, from this position of the log on."""
    container = appending(request)
    public_key = None if signer_of(shared_source(data.key)) else read_public_key(data.key)
    key = data.key if public_key is None else key_id(public_key)
    details = {"name": data.name, "level": "trusted", "public_key": None if public_key is None else data.key.strip()}
    position = await append(container, [operation(TRUSTED, actor(request), key, details)])
    return SignerEntry(key=key, level="trusted", name=data.name, position=position)


@delete("/v1/signers/{key:str}", opt=ADMIN, status_code=200, summary="Trust a signer no more")
async def distrust(request: Request[Any, Any, Any], key: Name) -> SignerEntry:
    """Take trust from a key, by its id or its name; its rows stay, behind all others."""
    container = appending(request)
    await container.reach(await container.log.last_position())

    def read() -> list[Signer]:
        with container.tables(None) as tables:
            return [signer for signer in trusted_signers(tables).values() if key in (signer.key, signer.name)]

    matches = await asyncio.to_thread(read)
    if len(matches) != 1:
        raise NotFound(
            f"{len(matches)} trusted signers are {key[:100]!r}.",
            field="key",
            remedy="`assay data trust list` shows them.",
        )
    position = await append(container, [operation(DISTRUSTED, actor(request), matches[0].key)])
    return SignerEntry(key=matches[0].key, level="unknown", name=matches[0].name, position=position)


def _held(container: Container, event_id: str) -> HeldRow:
    with container.tables(None) as tables:
        held = next((row for row in held_rows(tables) if row.event_id == event_id), None)
    if held is None:
        raise NotFound(
            f"no row {event_id[:100]!r} is held back.", field="event_id", remedy="`assay data quarantine` shows them."
        )
    return held


def _signers(tables: Tables) -> list[SharedSigner]:
    known = trusted_signers(tables)
    bundles = bundles_at(tables)
    keys = [*known, *sorted({bundle.signer for bundle in bundles} - known.keys())]
    return [
        SharedSigner(
            key=key,
            name=known[key].name if key in known else None,
            trust=known[key].level if key in known else "unknown",
            by=known[key].by if key in known else None,
            since=known[key].since if key in known else None,
            bundles=sum(bundle.signer == key for bundle in bundles),
            measurements=sum(bundle.measurements for bundle in bundles if bundle.signer == key),
        )
        for key in keys
    ]


router = Router(
    "/",
    route_handlers=[quarantined, release, signers, trust, distrust],
    dependencies=DEPENDENCIES,
    tags=["sharing"],
)
