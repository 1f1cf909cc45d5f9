"""The audit trail: what was done to the installation is an event of the log like any other fact."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from domain.events import OPERATION_PERFORMED, Decoded, decode_event, encode_event, new_event
from domain.payloads import OperationPerformed
from domain.permissions import SERVICE_SOURCE
from ingest.log.event_log import EventLog

__all__ = ["LOCAL", "operation", "record", "written"]

LOCAL = "local"
"""The actor where no token was asked for: a person at this machine."""


def operation(action: str, actor: str, on: str | None = None, details: dict[str, Any] | None = None) -> Decoded:
    """Return the event that says what was done by whom to what; `details` hold no secret."""
    data = OperationPerformed(action=action, actor=actor, object=on, details=details)
    return written(new_event(OPERATION_PERFORMED, data, source=SERVICE_SOURCE))


def written(event: dict[str, Any]) -> Decoded:
    """Return an event that the service writes itself, checked and attested as such."""
    return msgspec.structs.replace(decode_event(encode_event(event)), attestation="service")


def record(url: str, event: Decoded) -> None:
    """Append an operation from a program that has no log open."""

    async def run() -> None:
        async with EventLog(url, connections=1) as log:
            await log.append([event])

    asyncio.run(run())
