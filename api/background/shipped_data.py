"""Appending the evidence that ships to a log that has nothing yet, before the service answers for the first time."""

from __future__ import annotations

import hashlib
import logging
import time
from datetime import datetime

import msgspec

from domain.events import OPERATION_PERFORMED, Decoded
from ingest import evidence
from ingest.log.event_log import EventLog

__all__ = ["load_into_empty"]

_LOG = logging.getLogger(__name__)
OPERATIONS_AT_MOST = 200
"""So many operations are made before the first start at the most; a log of more is one that somebody uses."""


async def load_into_empty(log: EventLog) -> int:
    """Append all that ships where the log has no facts and return how many events that were.

    A log that holds operations alone, such as the making of a token, counts as empty. A start that was interrupted in between is
    continued: the log then begins with what ships, and has less of it.
    """
    held = await log.last_position()
    if held and not await _empty_or_interrupted(log, held):
        return 0
    began, count = time.perf_counter(), 0
    for batch in evidence.events():
        await log.append([_decoded(raw) for raw in batch])
        count += len(batch)
    _LOG.info("%d published measurements appended to the empty log in %.1f s", count, time.perf_counter() - began)
    return count


async def _empty_or_interrupted(log: EventLog, held: int) -> bool:
    first = await log.read(limit=OPERATIONS_AT_MOST)
    facts = [event for event in first if event.type != OPERATION_PERFORMED]
    if not facts:
        return len(first) < OPERATIONS_AT_MOST
    return held - facts[0].position + 1 < evidence.count() and facts[0].id == evidence.first_id()


class _Envelope(msgspec.Struct):
    id: str
    type: str
    source: str
    subject: str | None = None
    time: datetime | None = None


_DECODER = msgspec.json.Decoder(_Envelope)


def _decoded(raw: bytes) -> Decoded:
    """Read the envelope alone: a test checks that each of these events passes the gate."""
    said = _DECODER.decode(raw)
    digest = hashlib.sha256(raw).digest()
    return Decoded(
        id=said.id,
        type=said.type,
        source=said.source,
        subject=said.subject,
        time=said.time,
        digest=digest,
        raw=raw,
        data=None,
    )
