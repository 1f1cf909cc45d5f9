"""The audit trail: what was done to the installation is an event of the log like any other fact."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from domain.events import OPERATION_PERFORMED, Decoded, decode_event, encode_event, new_event
from domain.payloads import OperationPerformed
from domain.permissions import SERVICE_SOURCE
from ingest.log.event_log import EventLog

__all__ = ["LOCAL", "Detail", "operation", "record", "written"]

Detail = str | int | float | bool | Sequence[str] | None
"""What the audit trail keeps of an operation: a name, a count, or a list of names."""
LOCAL = "local"
"""The actor where no token was asked for: a person at this machine."""


def operation(action: str, actor: str, on: str | None = None, details: Mapping[str, Detail] | None = None) -> Decoded:
    """Return the event that says what was done by whom to what; `details` hold no secret."""
    data = OperationPerformed(action=action, actor=actor, object=on, details=None if details is None else dict(details))
    return written(encode_event(new_event(OPERATION_PERFORMED, data, source=SERVICE_SOURCE)))


def written(text: bytes) -> Decoded:
    """Return an event that the service writes itself, from its text, checked and attested as such."""
    return msgspec.structs.replace(decode_event(text), attestation="service")


def record(url: str, event: Decoded) -> None:
    """Append an operation from a program that has no log open."""

    async def run() -> None:
        async with EventLog(url, connections=1) as log:
            await log.append([event])

    asyncio.run(run())
