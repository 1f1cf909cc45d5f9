"""Devices whose pages sent results: which of them an operator has accepted, as of any position of the log.

A device is accepted and rejected by operations of the log. Rows of an accepted device stand in the log a second time, as
imported ones, and a retraction takes out the row of the page; rejecting it turns that around.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from api.container import Container
from api.routes.links.results import ACCEPTED, UNSTATED, Acceptance, accepted_copies, copy_id
from api.routes.sharing.bundles import retraction
from domain.answers.links import BrowserDevice
from domain.errors import NotFound, UsageError
from domain.events import Decoded, decode_event, encode_event
from domain.permissions import PAGE_SOURCE
from ingest.projection import Tables

__all__ = ["ACCEPTED_DEVICE", "REJECTED_DEVICE", "acceptance_of", "accepting", "devices_at", "rejecting"]

ACCEPTED_DEVICE = "device.accepted"
REJECTED_DEVICE = "device.rejected"
PAGE_ROWS = 500
"""Events of a device that are read at a time."""

_ROWS = """
SELECT replace(source, ?, '') AS device, count(*) FILTER (WHERE measured) AS measurements,
    count(*) FILTER (WHERE NOT measured) AS failures, list_sort(list(DISTINCT model_id)) AS models,
    list_sort(list(DISTINCT hardware_id)) AS hardware, list_sort(list(DISTINCT platform)) AS platforms,
    max(recorded_at) AS newest
FROM (
    SELECT source, model_id, hardware_id, platform, recorded_at, true AS measured FROM measurements
    WHERE starts_with(source, ?)
    UNION ALL
    SELECT source, model_id, hardware_id, platform, recorded_at, false FROM outcomes
    WHERE kind = 'failure' AND starts_with(source, ?)
)
GROUP BY source ORDER BY newest DESC
"""
_RETRACTIONS = """
SELECT target_event_id AS target, event_id AS retraction, reason FROM retractions
WHERE undone_position IS NULL AND target_event_id IN (SELECT unnest(?))
"""


def acceptance_of(tables: Tables, device: str) -> Acceptance | None:
    """Return who accepted a device and what it is, None where nobody has or somebody rejected it since."""
    return _accepted(_decisions(tables).get(device))


def _accepted(row: Mapping[str, Any] | None) -> Acceptance | None:
    if row is None or row["action"] != ACCEPTED_DEVICE:
        return None
    hardware = json.loads(row["details"] or "{}").get("hardware")
    return Acceptance(by=row["actor"], since=row["recorded_at"], hardware=hardware)


def devices_at(tables: Tables) -> list[BrowserDevice]:
    """Return the devices of the tables' state, the newest rows first."""
    decisions = _decisions(tables)
    devices = []
    for row in tables.select("measurements outcomes", _ROWS, [PAGE_SOURCE] * 3).to_pylist():
        accepted = _accepted(decisions.get(row["device"]))
        devices.append(
            BrowserDevice(
                **row,
                accepted=accepted is not None,
                by=accepted.by if accepted else None,
                since=accepted.since if accepted else None,
            )
        )
    return devices


def _decisions(tables: Tables) -> dict[str, dict[str, Any]]:
    rows = tables.operations(action=[ACCEPTED_DEVICE, REJECTED_DEVICE]).to_pylist()
    return {row["object"]: row for row in rows}


async def accepting(container: Container, device: str, accepted: Acceptance) -> list[Decoded]:
    """Return what lets the rows of a device count: imported copies, and retractions of the rows of the page."""
    events = await _events_of(container, device)
    if not events:
        raise NotFound(
            f"no device {device[:100]!r} sent results.", field="device", remedy="`assay browser devices` shows them."
        )
    unstated = any(getattr(getattr(event.data, "hardware", None), "id", None) == UNSTATED.id for event in events)
    if unstated and accepted.hardware is None:
        raise UsageError(
            f"the person at {device} did not say which device it is.",
            field="hardware",
            remedy="Name it with --hardware SLUG; `assay hardware list` shows the catalogue.",
        )
    with container.tables(None) as tables:
        retracted = _retractions(tables, [name for event in events for name in (event.id, copy_id(event))])
    fresh = [event for event in events if event.id not in retracted]
    known = dict(await container.log.event_sources([copy_id(event) for event in fresh]))
    # A copy that was taken out when the device was rejected comes back; a copy is never written twice.
    again = [
        retraction("accepted again", event_id=retracted[copy_id(event)][0])
        for event in fresh
        if copy_id(event) in retracted
    ]
    return [*again, *(event for event in accepted_copies(fresh, device, accepted) if event.id not in known)]


def rejecting(container: Container, device: str) -> tuple[list[Decoded], int]:
    """Return what takes the rows of a device out again, and how many measurements these are."""
    with container.tables(None) as tables:
        if acceptance_of(tables, device) is None:
            raise NotFound(
                f"no accepted device is {device[:100]!r}.", field="device", remedy="`assay browser devices` shows them."
            )
        rows = tables.select("measurements", _COPIES, [PAGE_SOURCE + device]).to_pylist()
        outcomes = tables.select(
            "outcomes", _COPIES.replace("measurements", "outcomes"), [PAGE_SOURCE + device]
        ).to_pylist()
        copies = [*rows, *outcomes]
        undone = _retractions(tables, [row["reference"] for row in copies])
    out = [retraction("the device is accepted no more", event_id=row["event_id"]) for row in copies]
    back = [
        retraction("the device is accepted no more", event_id=name)
        for name, reason in undone.values()
        if reason.startswith(ACCEPTED)
    ]
    return [*out, *back], len(rows)


_COPIES = "SELECT event_id, reference FROM measurements WHERE source = ? AND origin = 'imported' ORDER BY position"


def _retractions(tables: Tables, targets: Sequence[str]) -> dict[str, tuple[str, str]]:
    rows = tables.select("retractions", _RETRACTIONS, [list(targets)]).to_pylist()
    return {row["target"]: (row["retraction"], row["reason"]) for row in rows}


async def _events_of(container: Container, device: str) -> list[Decoded]:
    """Return what the page of a device sent, in the order of the log."""
    events: list[Decoded] = []
    after = 0
    while True:
        rows = await container.log.read(after, PAGE_ROWS, source=PAGE_SOURCE + device)
        for row in rows:
            document = json.loads(row.body or "{}")
            origin = document.get("data", {}).get("provenance", {}).get("origin")
            if origin == "page":
                events.append(decode_event(encode_event(document)))
        if len(rows) < PAGE_ROWS:
            return events
        after = rows[-1].position
