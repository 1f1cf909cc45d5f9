"""Training in a child process, the trial of what came of it, and the choice of what answers: each an event of the log."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import msgspec

from api.background import child
from api.background.audit import operation, written
from api.container import Container
from api.http.openapi import VERSION
from domain import spans
from domain.errors import NotFound, PartMissing, TooBusy, UsageError
from domain.events import PREDICTOR_CHOSEN, PREDICTOR_TRAINED, encode_event, new_event
from domain.payloads import PredictorChosen
from domain.permissions import SERVICE_SOURCE
from predictor.artifact.artifact import ARTIFACT_KIND
from predictor.learning.machines import MachineList

__all__ = ["choose", "replay", "require_appending", "take_part", "train", "worked"]

TRAINING_S = 3000.0
TABLES_S = 600.0
TRAINED_BYTES = 512 * 2**20
"""More than any artifact has."""
SHIPPED = "shipped"
Json = dict[str, Any]


def require_appending(container: Container) -> None:
    """Raise PartMissing on a node that takes no events: what is trained and chosen there would be known to nobody."""
    if not container.settings.appends:
        raise PartMissing("this node appends nothing.", field="role", remedy="Ask a node of role all.")


async def worked(container: Container, work: str, json: Json, needed: int | None = None) -> child.ChildAnswer:
    """Do one long work at a time on a copy of the tables: two would take the cores from the answers.

    The copy holds at least the position that is `needed`.
    """
    if container.training.locked():
        raise TooBusy("a training or evaluation is under way.", field=work, remedy="Ask again when it is done.")
    async with container.training:
        with ExitStack() as stack:
            path, position = await asyncio.to_thread(stack.enter_context, container.snapshot(needed))
            json = {"position": position, **json, "path": str(path), "database_url": container.database.url}
            return await child.run(work, json, timeout_s=TRAINING_S, most_bytes=TRAINED_BYTES, secrets=True)


async def train(
    container: Container,
    actor: str,
    *,
    force: bool = False,
    why: str | None = None,
    machines: MachineList | None = None,
) -> Json:
    """Train, compare with what is in force, keep the artifact, record both as an event, and return what it says.

    What is worse than what is in force is kept and does not answer, unless `force`. `why` says who wanted it trained.
    `machines` train it together; this is the first of them.
    """
    require_appending(container)
    with spans.span("train predictor") as span:
        document = await _trained(container, actor, force=force, why=why, machines=machines)
        span.set(
            assay_position=document["position"],
            assay_predictor=document["digest"],
            assay_accepted=document["accepted"],
        )
        return document


async def _caught_up(container: Container) -> int:
    """Wait until the tables hold the whole log, as they do not yet where the service has just started."""
    last = await container.log.last_position()
    await asyncio.to_thread(container.projection.wait_for, last, TABLES_S)
    return last


async def take_part(container: Container, machines: MachineList, digest: str | None) -> Json:
    """Train together with other machines, of which another keeps what is made; return its digest and position."""
    json = {} if digest is None else {"digest": digest}
    work = "train" if digest is None else "replay"
    trained = await worked(container, work, json | _with(machines, digest), await _caught_up(container))
    data = trained.document["event_data"]
    return {"rank": machines.rank, "position": data["position"], "digest": data["digest"], "card": data["card"]}


def _with(machines: MachineList | None, digest: str | None = None) -> Json:
    """Return what a child needs to meet other machines; `version` is what all of them have to be doing."""
    if machines is None:
        return {}
    work = "train" if digest is None else f"verify {digest.removeprefix('sha256:')[:6]}"
    return {"machines": msgspec.to_builtins(machines), "version": f"assay {VERSION} {work}"}


async def _trained(
    container: Container, actor: str, *, force: bool, why: str | None, machines: MachineList | None
) -> Json:
    trained = await worked(container, "train", _with(machines), await _caught_up(container))
    content, data = trained.content, _judged(trained.document["event_data"], trained.document["comparison"], force, why)
    digest = await asyncio.to_thread(container.artifacts.put, content, data["card"], ARTIFACT_KIND)
    recorded_at = await container.log.recorded_at(data["position"])
    event = new_event(PREDICTOR_TRAINED, {**data, "digest": digest}, source=SERVICE_SOURCE, time=recorded_at)
    document = operation(
        "predictor.trained", actor, digest, {"position": data["position"], "accepted": data["accepted"], "why": why}
    )
    answer, _ = await container.append([written(encode_event(event)), document])
    await container.reach(answer.position)
    return {**data, "digest": digest, "event_id": event["id"], "event_position": answer.position}


def _judged(data: Json, comparison: Json, force: bool, why: str | None) -> Json:
    """Return the event's data with the judgement that the comparison came to."""
    beside = dict(comparison)
    accepted, reason = beside.pop("accepted"), beside.pop("reason")
    if force and not accepted:
        accepted, reason = True, f"accepted by force; it would have been {reason}"
    return {**data, "accepted": accepted, "reason": f"{reason}; {why}" if why else reason, "comparison": beside}


async def choose(container: Container, actor: str, digest: str | None, reason: str | None) -> Json:
    """Let the predictor of this digest (or its beginning, or `shipped`) answer from here on; without one, the one before.

    Raises NotFound where there is none, UsageError where there is none before, and CorruptArtifact where it cannot be read.
    """
    require_appending(container)
    line, existing = await asyncio.to_thread(_known, container)
    before = line[-1] if line else SHIPPED
    wanted = _beneath(line) if digest is None else _resolved(digest, existing)
    if wanted == before:
        raise UsageError(
            f"{wanted} is in force already.", field="digest", remedy="`assay predictor list` names the others."
        )
    if wanted != SHIPPED:
        await asyncio.to_thread(container.answerer.require, wanted)
    data = PredictorChosen(digest=wanted, by=actor, reason=reason)
    event = new_event(PREDICTOR_CHOSEN, data, source=SERVICE_SOURCE, time=datetime.now(UTC))
    document = operation("predictor.chosen", actor, wanted, {"before": before, "reason": reason})
    answer, _ = await container.append([written(encode_event(event)), document])
    await container.reach(answer.position)
    return {
        **msgspec.to_builtins(data),
        "before": before,
        "event_id": event["id"],
        "event_position": answer.position,
    }


def _known(container: Container) -> tuple[list[str], list[str]]:
    with container.tables(None) as tables:
        return tables.predictor_line(), tables.predictors().column("digest").to_pylist()


def _beneath(line: list[str]) -> str:
    if not line:
        raise UsageError(
            "the predictor that ships with Assay is in force; there is none before it.",
            field="digest",
            remedy="Name one: `assay predictor list`.",
        )
    return line[-2] if len(line) > 1 else SHIPPED


def _resolved(digest: str, names: list[str]) -> str:
    if digest == SHIPPED:
        return SHIPPED
    wanted = digest.removeprefix("sha256:")
    result = sorted({item for item in names if wanted and item.removeprefix("sha256:").startswith(wanted)})
    if len(result) != 1:
        problem = "no predictor was trained" if not result else f"{len(result)} predictors were trained"
        raise NotFound(
            f"{problem} whose digest begins so.", field="digest", remedy="`assay predictor list` names them."
        )
    return result[0]


async def replay(container: Container, digest: str, machines: MachineList | None = None) -> Json:
    """Train again at the position that a predictor was trained at; say whether it is the same bit for bit, and what differs.

    An artifact that is lost or damaged, and comes out the same, is put back. What several `machines` trained needs as many.
    """
    needed = await _caught_up(container)
    _, existing = await asyncio.to_thread(_known, container)
    wanted = _resolved(digest, existing)
    if wanted == SHIPPED:
        raise UsageError(
            "the shipped predictor was not trained on this log.", field="digest", remedy="`assay predictor list`."
        )
    position, world = await asyncio.to_thread(_trained_at, container, wanted)
    named = 1 if machines is None else len(machines.machines)
    if named != world:
        raise UsageError(
            f"it was trained on {world} {'machine' if world == 1 else 'machines'}, and {named} would give other trees.",
            field="machines",
            remedy="Leave out --machines." if world == 1 else f"Name {world} with --machines, and start all of them.",
        )
    made = await worked(
        container, "replay", {"digest": wanted, "position": position, **_with(machines, digest)}, needed
    )
    document = made.document["replayed"]
    restored = document["same"] and document["stored"] != "whole"
    if restored:
        await asyncio.to_thread(
            container.artifacts.put, made.content, made.document["event_data"]["card"], ARTIFACT_KIND
        )
    return {**document, "restored": restored}


def _trained_at(container: Container, digest: str) -> tuple[int, int]:
    """Return the position that a predictor was trained at, and on how many machines."""
    with container.tables(None) as tables:
        rows = tables.predictors().to_pylist()
    row = next(row for row in rows if row["digest"] == digest)
    card = msgspec.json.decode(row["card"] or "{}")
    return int(row["trained_at_position"]), int((card.get("data") or {}).get("machines", 1))
