"""Whether a token may append an event, and how far the event's source can be trusted (its attestation)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from api.container import Container
from api.http.keys import SigningKey
from domain.catalogues import hardware, language_models, models
from domain.errors import AssayError, Forbidden, InvalidEvent
from domain.events import Decoded
from domain.payloads import (
    AliasDeclared,
    MeasurementRetracted,
    PredictorChosen,
    PredictorTrained,
    RunFinished,
    RunStarted,
)
from domain.permissions import PAGE_SOURCE, SERVICE_SOURCE, SHARED_SOURCE, Permission, Token, permission_for
from domain.signing import SIGNATURE, SIGNER, verifies

__all__ = ["Admission", "Checked", "attested"]

Checked = Decoded | AssayError
Sources = Mapping[str, set[str]]
"""The sources that have used each run or name."""

SHIPPED = "shipped"

_RUN_SOURCES = """
SELECT run_id, source FROM run WHERE run_id IN (SELECT unnest($names))
UNION SELECT run_id, source FROM run_end WHERE run_id IN (SELECT unnest($names))
UNION SELECT run_id, source FROM context WHERE run_id IN (SELECT unnest($names))
UNION SELECT run_id, source FROM kernel_table WHERE run_id IN (SELECT unnest($names))
UNION SELECT run_id, source FROM variant WHERE run_id IN (SELECT unnest($names))
UNION SELECT run_id, source FROM quality_comparison WHERE run_id IN (SELECT unnest($names))
"""
_MODEL_SOURCES = """
SELECT model_id_posted, source FROM model WHERE model_id_posted IN (SELECT unnest($names))
UNION SELECT model_id_posted, source FROM model_trace WHERE model_id_posted IN (SELECT unnest($names))
UNION SELECT model_id_posted, source FROM variant WHERE model_id_posted IN (SELECT unnest($names))
"""
_HARDWARE_SOURCES = """
SELECT hardware_id_posted, source FROM hardware_description WHERE hardware_id_posted IN (SELECT unnest($names))
UNION SELECT hardware_id_posted, source FROM price WHERE hardware_id_posted IN (SELECT unnest($names))
UNION SELECT hardware_id_posted, source FROM kernel_table WHERE hardware_id_posted IN (SELECT unnest($names))
"""
_FACT_SOURCES = """
SELECT s.{kind}_id_posted, c.source FROM measurement AS m JOIN subject AS s ON m.subject = s.id
    JOIN context AS c ON m.context = c.id WHERE s.{kind}_id_posted IN (SELECT unnest($names))
UNION SELECT s.{kind}_id_posted, c.source FROM test AS t JOIN subject AS s ON t.subject = s.id
    JOIN context AS c ON t.context = c.id WHERE s.{kind}_id_posted IN (SELECT unnest($names))
"""
_ALIAS_SOURCES = """
SELECT alias, source FROM alias WHERE kind = '{kind}' AND alias IN (SELECT unnest($names))
UNION SELECT canonical, source FROM alias WHERE kind = '{kind}' AND canonical IN (SELECT unnest($names))
"""
_NAME_SOURCES = {
    kind: [described, _FACT_SOURCES.format(kind=kind), _ALIAS_SOURCES.format(kind=kind)]
    for kind, described in (("model", _MODEL_SOURCES), ("hardware", _HARDWARE_SOURCES))
}


class Admission:
    """The decisions for the events of one request; `token` is None where the service is open."""

    def __init__(self, container: Container, token: Token | None) -> None:
        self._parts = container
        self._token = token
        self._source = token.source if token is not None else None
        self._free = token is None or token.allows("admin")
        self._signed: list[Decoded] = []
        self._ruled: list[Decoded] = []

    def check(self, event: Decoded) -> Checked:
        """Return the event with its attestation, or why this token may not append it; what needs a lookup waits."""
        if self._source is not None:
            if event.source != self._source:
                return Forbidden(
                    f"the token appends as {self._source!r} only.",
                    field="source",
                    remedy="Use the token of this source's runner.",
                )
            event = msgspec.structs.replace(event, attestation="bound")
        permission = permission_for(event.type)
        if permission.rule == "service":
            return Forbidden(
                f"{event.type} is written by the service alone.",
                field="type",
                remedy="Leave these events out; `assay db restore` restores a log with its audit trail.",
            )
        if not self._free and (refused := self._refused(event, permission)) is not None:
            return refused
        if permission.rule != "source":
            self._ruled.append(event)
        if event.signed:
            self._signed.append(event)
        return event

    def _refused(self, event: Decoded, permission: Permission) -> Forbidden | None:
        if event.source == SERVICE_SOURCE:
            return Forbidden(
                f"{SERVICE_SOURCE!r} is the service's own source.",
                field="source",
                remedy="Use a source of your own, or a token with --scope admin.",
            )
        if event.source.startswith(SHARED_SOURCE):
            return Forbidden(
                f"{event.source[:100]!r} is a source of signed bundles.",
                field="source",
                remedy="Send the bundle itself to POST /v1/shared, or use a token with --scope admin.",
            )
        if event.source.startswith(PAGE_SOURCE) or _of_page(event):
            return Forbidden(
                "pages with a link send their results themselves.",
                field="source" if event.source.startswith(PAGE_SOURCE) else "data.provenance.origin",
                remedy="Make a link with `assay browser link`, or use a token with --scope admin.",
            )
        scope = permission.scope
        if scope in (None, "append") or (self._token is not None and self._token.allows(scope)):
            return None
        return Forbidden(
            f"{event.type} needs the scope {scope}.", field="type", remedy=f"Use a token with --scope {scope}."
        )

    async def settle(self, events: Sequence[Checked]) -> Sequence[Checked]:
        """Return the checked events with what must be looked up decided: signatures, ownership and artifacts."""
        decided: dict[int, Checked] = {}
        if self._signed:
            keys = await self._parts.keys.current()
            verified = await asyncio.to_thread(lambda: [attested(event, keys) for event in self._signed])
            decided |= {id(event): result for event, result in zip(self._signed, verified, strict=True)}
        if self._ruled:
            decided |= await self._artifacts(self._ruled)
        if self._ruled and not self._free:
            decided |= await self._runs(self._ruled)
            body = [event for event in events if isinstance(event, Decoded)]
            decided |= await self._targets(self._ruled, body)
            decided |= await self._names(self._ruled, body)
        return [decided.get(id(event), event) for event in events] if decided else events

    async def _artifacts(self, events: Iterable[Decoded]) -> dict[int, Checked]:
        chosen = [(event, event.data) for event in events if isinstance(event.data, PredictorChosen | PredictorTrained)]
        if not chosen:
            return {}
        stored = await asyncio.to_thread(self._parts.artifacts.stored, [data.digest for _, data in chosen])
        return {
            id(event): InvalidEvent(
                f"no artifact {data.digest} is stored here.",
                field="data.digest",
                remedy="Train it here (`assay train`), or restore the database that holds it.",
            )
            for event, data in chosen
            if data.digest != SHIPPED and data.digest not in stored
        }

    async def _runs(self, events: Iterable[Decoded]) -> dict[int, Checked]:
        """Refuse to start or finish a run that another source started."""
        document = [(event, event.data.run_id) for event in events if isinstance(event.data, RunStarted | RunFinished)]
        if not document:
            return {}
        starters = _by_name(await self._parts.log.run_sources([run_id for _, run_id in document]))
        return {
            id(event): _foreign(f"run {run_id!r}", "data.run_id")
            for event, run_id in document
            if starters.get(run_id, set()) - {event.source}
        }

    async def _targets(self, events: Iterable[Decoded], body: Sequence[Decoded]) -> dict[int, Checked]:
        """Refuse to retract what neither log nor body has, or what another source appended."""
        retractions = [(event, event.data) for event in events if isinstance(event.data, MeasurementRetracted)]
        if not retractions:
            return {}
        # What the log has counts before the batch: its event of an id stays, and that of the batch is a conflict.
        batch = _by_name((event.id, event.source) for event in body)
        by_id = [(event, data.event_id) for event, data in retractions if data.event_id is not None]
        by_run = [(event, data.run_id) for event, data in retractions if data.run_id is not None]
        events_known = batch | _by_name(
            await self._parts.log.event_sources([name for _, name in by_id]) if by_id else []
        )
        runs_known = await self._in_tables([_RUN_SOURCES], [name for _, name in by_run]) if by_run else {}
        if runs_known is None:
            return {id(event): _no_tables("data.run_id") for event, _ in by_run} | _owned(by_id, events_known, "event")
        for event in body:
            run_id = getattr(event.data, "run_id", None)
            if run_id is not None and not isinstance(event.data, MeasurementRetracted):
                runs_known.setdefault(run_id, set()).add(event.source)
        return _owned(by_id, events_known, "event") | _owned(by_run, runs_known, "run")

    async def _names(self, events: Iterable[Decoded], body: Sequence[Decoded]) -> dict[int, Checked]:
        """Refuse to redirect an id that the catalogue has, that another source uses, or that nobody used yet."""
        declared = [(event, event.data) for event in events if isinstance(event.data, AliasDeclared)]
        uses: dict[tuple[str, str], set[str]] = {}
        for event in body if declared else ():
            for kind in _CATALOGUES:
                name = getattr(getattr(event.data, kind, None), "id", None)
                if name is not None:
                    uses.setdefault((kind, name), set()).add(event.source)
        decided: dict[int, Checked] = {}
        for kind, in_catalogue in _CATALOGUES.items():
            own = [(event, data.alias) for event, data in declared if data.kind == kind]
            if not own:
                continue
            sources = await self._in_tables(_NAME_SOURCES[kind], [alias for _, alias in own])
            for event, alias in own:
                if sources is None:
                    decided[id(event)] = _no_tables("data.alias")
                elif in_catalogue(alias):
                    decided[id(event)] = Forbidden(
                        f"the catalogue has {alias!r}.", field="data.alias", remedy="Use a token with --scope admin."
                    )
                elif sources.get(alias, set()) | uses.get((kind, alias), set()) != {event.source}:
                    decided[id(event)] = Forbidden(
                        f"{alias!r} is not an id that {event.source!r} alone has used.",
                        field="data.alias",
                        remedy="Post what you measured under it first, or use a token with --scope admin.",
                    )
        return decided

    async def _in_tables(self, queries: Sequence[str], names: Sequence[str]) -> dict[str, set[str]] | None:
        """Return the sources that use each name, once the tables hold the whole log; None on a node without tables."""
        parts = self._parts
        if not parts.projects:
            return None
        await parts.reach(await parts.log.last_position())

        def read() -> list[tuple[str, str]]:
            with parts.projection.cursor() as cursor:
                return [row for query in queries for row in cursor.execute(query, {"names": list(names)}).fetchall()]

        return _by_name(await asyncio.to_thread(read))


def _of_page(event: Decoded) -> bool:
    return getattr(getattr(event.data, "provenance", None), "origin", None) == "page"


def attested(event: Decoded, keys: Mapping[str, SigningKey]) -> Checked:
    """Return the event as `signed`, as it is with a warning where its key proves nothing, or why it is refused."""
    envelope: dict[str, Any] = event.event
    if SIGNATURE not in envelope:
        return event
    key = keys.get(str(envelope.get(SIGNER)))
    if key is not None and not verifies(envelope, key.public_key):
        return InvalidEvent(
            f"the signature is not that of {key.id} ({key.name}): the event was changed after it was signed.",
            field=SIGNATURE,
            remedy="Send the event exactly as its runner wrote it.",
        )
    if key is None or key.revoked_at is not None or key.source != event.source:
        return msgspec.structs.replace(event, warnings=(*event.warnings, SIGNER))
    return msgspec.structs.replace(event, attestation="signed")


def _owned(targets: Iterable[tuple[Decoded, str]], sources: Sources, noun: str) -> dict[int, Checked]:
    """Return a refusal for each retraction whose target is unknown or not its own source's alone."""
    refused: dict[int, Checked] = {}
    for event, target in targets:
        field = f"data.{noun}_id"
        if target not in sources:
            refused[id(event)] = Forbidden(f"the log has no {noun} {target!r}.", field=field, remedy="Check the id.")
        elif sources[target] != {event.source}:
            refused[id(event)] = _foreign(f"{noun} {target!r}", field)
    return refused


def _foreign(what: str, field: str) -> Forbidden:
    return Forbidden(f"another source has a part in {what}.", field=field, remedy="Use a token with --scope admin.")


def _no_tables(field: str) -> Forbidden:
    return Forbidden(
        "this node has no tables and cannot tell whose it is.",
        field=field,
        remedy="Send it to a node of role all, or use a token with --scope admin.",
    )


def _by_name(rows: Iterable[tuple[str, str]]) -> dict[str, set[str]]:
    sources: dict[str, set[str]] = {}
    for name, source in rows:
        sources.setdefault(name, set()).add(source)
    return sources


def _catalogued_model(name: str) -> bool:
    return models.find(name) is not None or language_models.find(name) is not None


def _catalogued_hardware(name: str) -> bool:
    return hardware.find(name) is not None


_CATALOGUES: dict[str, Callable[[str], bool]] = {"model": _catalogued_model, "hardware": _catalogued_hardware}
