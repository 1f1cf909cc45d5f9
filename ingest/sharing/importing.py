"""The events of a bundle as this installation keeps them: imported, with their signer, under ids that nobody else can take."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from domain.errors import AssayError, InvalidEvent
from domain.events import RUN_STARTED, Decoded, decode_event, encode_event, new_event
from domain.sharing.bundles import Bundle, derived_uuid, shared_source

__all__ = ["imported_events", "imported_run"]


def imported_events(bundle: Bundle) -> list[Decoded]:
    """Return the events of a bundle as imported ones, in its order; raise InvalidEvent for the first that cannot be taken.

    Every event passes the gate of the log. A row must be measured, and of a run that the bundle begins.
    """
    runs: set[str] = set()
    events: list[Decoded] = []
    for number, line in enumerate(bundle.lines):
        try:
            event = decode_event(line)
        except AssayError as error:
            raise _refused(number, error.field, error.detail) from error
        _require_row(number, event, runs)
        events.append(decode_event(encode_event(_imported(event, bundle))))
    return events


def imported_run(bundle: Bundle, run_id: str) -> str:
    """Return the id of a run of a bundle here: of one bundle, so that it can be removed with it."""
    named = f"{bundle.signer}\n{bundle.manifest.digest}\n{run_id}"
    return f"shared:{hashlib.sha256(named.encode()).hexdigest()[:24]}"


def _require_row(number: int, event: Decoded, runs: set[str]) -> None:
    """Refuse what no runner measured, and rows that could not be removed with their run."""
    run_id: str = event.data.run_id  # type: ignore[union-attr]
    if event.type == RUN_STARTED:
        runs.add(run_id)
    elif run_id not in runs:
        raise _refused(number, "data.run_id", "the bundle does not begin this run.")
    provenance = getattr(event.data, "provenance", None)
    if provenance is not None and provenance.origin != "measured":
        raise _refused(number, "data.provenance.origin", f"{provenance.origin}: only what was measured is shared.")


def _imported(event: Decoded, bundle: Bundle) -> dict[str, Any]:
    # From the structures: members that this version does not know are left out.
    data: dict[str, Any] = msgspec.to_builtins(event.data)
    data["run_id"] = imported_run(bundle, data["run_id"])
    if event.type == RUN_STARTED or "provenance" in data:
        data["provenance"] = {
            "origin": "imported",
            "source": f"{bundle.signer} (shared)",
            "reference": bundle.manifest.digest,
            "licence": bundle.manifest.licence,
        }
    identity = hashlib.sha256(f"{bundle.signer}\n{event.id}".encode()).digest()
    subject = data["model"]["id"] if "model" in data else data["run_id"]
    return new_event(
        event.type,
        data,
        source=shared_source(bundle.signer),
        time=event.time,
        subject=subject,
        id=derived_uuid(identity),
    )


def _refused(number: int, field: str | None, detail: str) -> InvalidEvent:
    return InvalidEvent(
        f"event {number + 1} of the bundle cannot be taken: {detail}",
        field=f"events[{number}].{field}" if field else f"events[{number}]",
        remedy="Nothing of the bundle was added. Ask whoever shared it, or install the version that wrote it.",
    )
