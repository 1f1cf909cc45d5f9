"""Bundles of shared measurements over HTTP: into the log, listed, and out of the answers."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.di import NamedDependency
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.background.audit import Detail, operation, written
from api.container import Container
from api.http.access import address_of
from api.http.body import BODY_LIMIT_BYTES
from api.http.paging import DEPENDENCIES, At, rows_response
from api.routes.operations import ADMIN, actor
from domain.answers.sharing import AddedBundle, Changed, Held, SharedBundle
from domain.errors import AssayError, Forbidden, NotFound, PartMissing, ProjectionBehind
from domain.events import MEASUREMENT_RECORDED, MEASUREMENT_RETRACTED, Decoded, encode_event, new_event
from domain.payloads import MeasurementRecorded, MeasurementRetracted
from domain.permissions import SERVICE_SOURCE, Token
from domain.sharing.bundles import Bundle, shared_source, signer_of, unpack
from domain.signing import key_id, read_public_key
from ingest.projection import Tables
from ingest.sharing.importing import imported_events
from ingest.sharing.quarantine import QUARANTINED, Doubt, Expected, doubts, held_rows
from ingest.sharing.trust import ADDED, TRUSTED, Signer, trusted_signers
from predictor.answering.question import PredictQuestion

__all__ = ["append", "appending", "bundles_at", "retraction", "router", "row_doubts"]

_APPEND = {"scope": "append"}
REMOVED = "removed: "
"""Begins the reason of a retraction that takes a bundle out; adding the bundle again undoes it."""
OWN_KEY = "sharing_key.pub"
"""The public half of this installation's own key in its home, as `assay share` writes it."""
_OF_TORCH = frozenset({"torch", "openvino", None})
DryRun = Annotated[bool, QueryParameter(description="Say what would be added and held back, and add nothing.")]
Name = Annotated[str, PathParameter(min_length=1, max_length=200)]
Reason = Annotated[str, QueryParameter(min_length=1, max_length=2000, description="Why; it stays in the log.")]


class SentBundle(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A bundle as `assay share` writes it, its bytes as base64."""

    content: bytes


@post("/v1/shared", opt=_APPEND, status_code=200, summary="Add a bundle", request_max_body_size=BODY_LIMIT_BYTES)
async def add(request: Request[Any, Any, Any], data: JSONBody[SentBundle], dry_run: DryRun = False) -> AddedBundle:
    """Check a bundle and add its rows as imported, all in one transaction; rows that cannot be true are held back.

    A bundle that was cut, altered or forged is refused whole. What the log has already stays as it is.
    """
    container = appending(request)
    token: Token | None = request.state.token
    if token is not None and token.source is not None:
        raise Forbidden(
            f"the token appends as {token.source!r} only, and a bundle has a source of its own.",
            field="Authorization",
            remedy="Use a token that is bound to no source.",
        )
    bundle = await asyncio.to_thread(unpack, data.content)
    events = await asyncio.to_thread(imported_events, bundle)
    container.access.admit_events(token, address_of(request.scope.get("client")), len(events))
    async with container.sharing:
        await container.reach(await container.log.last_position())
        known = dict(await container.log.event_sources([event.id for event in events]))
        fresh = [event for event in events if event.id not in known]
        signer, held, removed = await asyncio.to_thread(_judged, container, bundle, fresh)
        report = _report(bundle, fresh, len(events) - len(fresh), signer, held, len(removed))
        if dry_run:
            return msgspec.structs.replace(report, dry_run=True)
        batch = _batch(request, bundle, fresh, held, removed, signed=signer is not None)
        if signer is not None and signer.position == 0:
            details = {"name": signer.name, "level": "own", "public_key": signer.public_key}
            batch.append(operation(TRUSTED, actor(request), signer.key, details))
        last = await append(container, batch) if batch else None
    return msgspec.structs.replace(report, last_position=last)


@get("/v1/shared", summary="Bundles that were added", tags=["tables"])
async def listed(request: Request[Any, Any, Any], at: NamedDependency[At]) -> Response[bytes]:
    """Return the bundles by when they were added: signer, trust, licence, rows that count, rows held back."""
    return await rows_response(request, at, lambda tables: (bundles_at(tables), {}))


@delete("/v1/shared/{name:str}", opt=ADMIN, status_code=200, summary="Take shared rows out")
async def remove(request: Request[Any, Any, Any], name: Name, reason: Reason) -> Changed:
    """Retract the runs of a bundle (by its digest or the beginning of it) or of a signer; the log keeps them."""
    container = appending(request)
    async with container.sharing:
        await container.reach(await container.log.last_position())
        runs = await asyncio.to_thread(_runs_of, container, name)
        events = [retraction(REMOVED + reason, run_id=run) for run in runs]
        done = operation("bundle.removed", actor(request), name, {"runs": len(runs), "reason": reason})
        last = await append(container, [*events, done])
    return Changed(changed=len(runs), last_position=last)


def appending(request: Request[Any, Any, Any]) -> Container:
    """Return the parts of a service that appends; PartMissing where this one does not."""
    container: Container = request.app.state.parts
    if not container.settings.appends:
        raise PartMissing("this node appends nothing.", field="role", remedy="Ask a node of role all.")
    container.circuit.require()
    return container


async def append(container: Container, events: Sequence[Decoded]) -> int:
    """Append events in one transaction, and return the last position once the tables show them, or after a while."""
    appended = await container.append(events)
    last = max(item.position for item in appended)
    with contextlib.suppress(ProjectionBehind):
        await container.reach(last)
    return last


def _judged(
    container: Container, bundle: Bundle, fresh: Sequence[Decoded]
) -> tuple[Signer | None, dict[str, Doubt], list[str]]:
    """Return whom the bundle is of, which rows are held back, and the retractions of it that are in force."""
    with container.tables(None) as tables:
        known = trusted_signers(tables)
        if bundle.signer not in known and bundle.signer == _own_key(container):
            own = Signer(
                key=bundle.signer,
                level="own",
                name="this installation",
                by="local",
                since=None,
                position=0,
                public_key=bundle.manifest.public_key,
            )
            known = {**known, bundle.signer: own}
        held = doubts(tables, fresh, known, _Predictor(container))
        return known.get(bundle.signer), held, _removals(tables, bundle.manifest.digest)


def _own_key(container: Container) -> str | None:
    try:
        return key_id(read_public_key((container.settings.home / OWN_KEY).read_text()))
    except (OSError, AssayError):
        return None


class _Predictor:
    """What the predictor expects of rows; a question that it cannot answer for one batch size it is not asked for another."""

    def __init__(self, container: Container) -> None:
        self._answerer = container.answerer
        self._unanswered: set[PredictQuestion] = set()

    def __call__(self, row: MeasurementRecorded) -> Expected | None:
        """Return what is expected of a single call of one device; None where nothing is known of such work."""
        question = _question(row)
        if question is None:
            return None
        of_any_batch = msgspec.structs.replace(question, batch_size=1)
        if of_any_batch in self._unanswered:
            return None
        try:
            answer = self._answerer.predict(question)
        except AssayError:
            self._unanswered.add(of_any_batch)
            return None
        floor = answer.breakdown.latency_ms if isinstance(answer.breakdown, msgspec.Struct) else None
        if getattr(answer, "interval_covered", False) is not True or answer.basis in ("measured", "imported"):
            return Expected(None, None, floor)
        return Expected(getattr(answer, "latency_ms_low", None), getattr(answer, "latency_ms_high", None), floor)


def _question(row: MeasurementRecorded) -> PredictQuestion | None:
    workload, execution = row.workload, row.execution
    alone = workload.scenario in (None, "single_stream") and execution.streams in (None, 1) and row.hardware.count == 1
    if not alone or workload.batch_size is None or execution.precision is None or workload.output_tokens is not None:
        return None
    runtime = execution.runtime.name if execution.runtime is not None else None
    return PredictQuestion(
        model=row.model.id,
        hardware=row.hardware.id,
        platform=execution.platform,
        precision=execution.precision,
        batch_size=workload.batch_size,
        mode=workload.mode,
        sequence_length=workload.sequence_length,
        image_size=workload.image_size,
        audio_seconds=workload.audio_seconds,
        frames=workload.frames,
        call="forward",
        compiled=execution.compiled,
        runtime=None if runtime in _OF_TORCH else runtime,
        faster=False,
    )


def row_doubts(container: Container, tables: Tables, events: Sequence[Decoded]) -> dict[str, Doubt]:
    """Return by event id why rows that are not in the log yet are doubted: by physics, others' rows, or a prediction."""
    return doubts(tables, events, trusted_signers(tables), _Predictor(container))


def _report(
    bundle: Bundle,
    fresh: Sequence[Decoded],
    duplicate: int,
    signer: Signer | None,
    held: dict[str, Doubt],
    removed: int,
) -> AddedBundle:
    rows = {event.id: event.data for event in fresh if isinstance(event.data, MeasurementRecorded)}
    return AddedBundle(
        digest=bundle.manifest.digest,
        signer=bundle.signer,
        name=None if signer is None else signer.name,
        trust="unknown" if signer is None else signer.level,
        licence=bundle.manifest.licence,
        dry_run=False,
        accepted=len(fresh),
        duplicate=duplicate,
        measurements=sum(event.type == MEASUREMENT_RECORDED for event in fresh),
        held=[
            Held(
                event_id=name,
                model=rows[name].model.id,
                hardware=rows[name].hardware.id,
                rule=doubt.rule,
                reason=doubt.reason,
            )
            for name, doubt in held.items()
        ],
        restored=removed,
        last_position=None,
    )


def _batch(
    request: Request[Any, Any, Any],
    bundle: Bundle,
    fresh: Sequence[Decoded],
    held: dict[str, Doubt],
    removed: Sequence[str],
    *,
    signed: bool,
) -> list[Decoded]:
    """Return all that is appended of a bundle, to be one transaction: a row is never there without what holds it back."""
    holding = [retraction(f"{QUARANTINED}{doubt.rule}: {doubt.reason}", event_id=name) for name, doubt in held.items()]
    restoring = [retraction("added again", event_id=name) for name in removed]
    if not fresh and not restoring:
        return []
    types = Counter(event.type for event in fresh)
    details: dict[str, Detail] = {
        "signer": bundle.signer,
        "licence": bundle.manifest.licence,
        "tool": bundle.manifest.tool,
        "events": len(fresh),
        "measurements": types[MEASUREMENT_RECORDED],
        "held": len(held),
        "restored": len(restoring),
    }
    if signed:
        fresh = [msgspec.structs.replace(event, attestation="signed") for event in fresh]
    return [*fresh, *holding, *restoring, operation(ADDED, actor(request), bundle.manifest.digest, details)]


def retraction(reason: str, *, event_id: str | None = None, run_id: str | None = None) -> Decoded:
    """Return the event by which the service voids an event or a run, or undoes a retraction."""
    data = MeasurementRetracted(reason=reason[:4000], event_id=event_id, run_id=run_id)
    return written(encode_event(new_event(MEASUREMENT_RETRACTED, data, source=SERVICE_SOURCE, time=datetime.now(UTC))))


_REMOVALS = """
SELECT DISTINCT r.event_id FROM retractions AS r JOIN run ON run.run_id = r.target_run_id
WHERE r.undone_position IS NULL AND r.reason LIKE ? AND run.reference = ?
"""
_RUNS = """
SELECT DISTINCT run_id FROM run WHERE (source = ? OR starts_with(reference, ?)) AND starts_with(source, ?)
    AND NOT EXISTS (FROM retractions AS r WHERE r.target_run_id = run.run_id AND r.undone_position IS NULL) ORDER BY run_id
"""
_COUNTS = """
SELECT run.reference AS bundle, run.source, any_value(run.licence) AS licence, min(run.recorded_at) AS added_at,
    count(DISTINCT run.run_id) AS runs, count(DISTINCT removed.target_run_id) AS removed, any_value(counted.rows) AS measurements,
    any_value(counted.models) AS models, any_value(counted.devices) AS devices
FROM run LEFT JOIN (SELECT target_run_id FROM retractions WHERE undone_position IS NULL) AS removed
    ON removed.target_run_id = run.run_id
LEFT JOIN (
    SELECT reference, count(*) AS rows, count(DISTINCT model_id) AS models, list_sort(list(DISTINCT hardware_id)) AS devices
    FROM measurements WHERE starts_with(source, ?) GROUP BY reference
) AS counted ON counted.reference = run.reference
WHERE starts_with(run.source, ?) GROUP BY run.reference, run.source ORDER BY added_at, bundle
"""


def _removals(tables: Tables, digest: str) -> list[str]:
    rows = tables.select("retractions run", _REMOVALS, [f"{REMOVED}%", digest]).to_pylist()
    return sorted(row["event_id"] for row in rows)


def _runs_of(container: Container, name: str) -> list[str]:
    digest = name if name.startswith("sha256:") else f"sha256:{name}"
    with container.tables(None) as tables:
        named = [signer.key for signer in trusted_signers(tables).values() if signer.name == name]
        source = shared_source(named[0] if named else name)
        values = [source, digest, shared_source("")]
        runs = [row["run_id"] for row in tables.select("run retractions", _RUNS, values).to_pylist()]
    if not runs or len(digest) < len("sha256:") + 6:
        raise NotFound(
            f"no shared rows that count are of {name[:100]!r}.",
            field="name",
            remedy="Name a signer, or six digits or more of a bundle: `assay data list --shared` shows both.",
        )
    return runs


def bundles_at(tables: Tables) -> list[SharedBundle]:
    """Return the bundles of the tables' state, by when they were added."""
    shared = shared_source("")
    known = trusted_signers(tables)
    held = Counter(row.bundle for row in held_rows(tables))
    added = {row["object"]: row for row in reversed(tables.operations(action=ADDED).to_pylist())}
    bundles = []
    for row in tables.select("run retractions measurements", _COUNTS, [shared, shared]).to_pylist():
        signer = signer_of(row["source"]) or row["source"]
        done = added.get(row["bundle"]) or {}
        bundles.append(
            SharedBundle(
                bundle=row["bundle"],
                signer=signer,
                name=known[signer].name if signer in known else None,
                trust=known[signer].level if signer in known else "unknown",
                licence=row["licence"],
                tool=json.loads(done.get("details") or "{}").get("tool"),
                added_at=row["added_at"],
                added_by=done.get("actor"),
                runs=row["runs"],
                measurements=row["measurements"] or 0,
                held=held[row["bundle"]],
                models=row["models"] or 0,
                devices=row["devices"] or [],
                state="counts"
                if not row["removed"]
                else "removed"
                if row["removed"] == row["runs"]
                else "partly removed",
            )
        )
    return bundles


router = Router(
    "/",
    route_handlers=[add, listed, remove],
    dependencies=DEPENDENCIES,
    tags=["sharing"],
)
