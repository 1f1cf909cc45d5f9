"""The tables of the service against the log: how far they are, whether they tell of this log, what they left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from assay.client import Client
from assay.diagnosis.finding import Finding, fine, note, problem
from domain.errors import AssayError
from presentation import formatting

__all__ = ["tables"]

_REASONS = "SELECT reason, count(*) AS events, min(position) AS first FROM dead_letter GROUP BY reason ORDER BY events DESC, reason"
_CHECKPOINT = "SELECT position, chain FROM projection"
ChainAt = Callable[[int], str | None]


def tables(client: Client, chain_at: ChainAt | None) -> Iterator[Finding]:
    """Yield how the service's tables stand. `chain_at` gives the link at a position of the log; None: the log is elsewhere."""
    try:
        health = client.ready()
    except AssayError as error:
        yield problem("service", error.detail, error.remedy or "See the service's log.", client.rebuild)
        return
    yield fine("service", f"answers at {client.server}")
    if health.get("running") is False:
        yield fine("tables", "this service has none (role ingest)")
        return
    yield _position(health)
    if health.get("diverged"):
        yield note("tables", health["diverged"]["said"], "What was lost is nowhere else but with those who sent it.")
    if chain_at is not None:
        yield from _same_log(client, chain_at)
    yield from _dead_letters(client)
    for unknown in health.get("unknown_types") or []:
        yield note(
            "unknown type",
            f"{unknown['type']}: {formatting.count(unknown['events'])} events are kept and not projected",
            "A newer version of Assay may know it, and then projects what is there.",
        )


def _position(health: dict[str, Any]) -> Finding:
    position, last = health["position"], health["log_position"]
    text = f"at position {formatting.count(position)} of {formatting.count(last)}"
    if last is not None and position > last:
        return problem("tables", f"{text}: they tell of another log", "Start the service again: it makes them anew.")
    if health.get("lag_seconds") and health["lag_seconds"] > 60:
        return problem(
            "tables", f"{text}, {health['lag_seconds']:.0f} s behind", "See the service's log and `assay status`."
        )
    return fine("tables", text)


def _same_log(client: Client, chain_at: ChainAt) -> Iterator[Finding]:
    try:
        ((position, chain),) = client.query(_CHECKPOINT)["rows"]
    except AssayError as error:
        yield note("checkpoint", f"could not be asked for: {error.detail}", error.remedy or "Ask again.")
        return
    if not position:
        return
    result = chain_at(position)
    if result == chain:
        yield fine("checkpoint", f"up to position {position} log and tables have the same events ({chain[:16]}…)")
    else:
        yield problem(
            "checkpoint",
            f"at position {position} the tables have the link {chain[:16]}…, the log {f'{result[:16]}…' if result else 'none'}: "
            "they tell of other events",
            "assay doctor --fix",
            client.rebuild,
        )


def _dead_letters(client: Client) -> Iterator[Finding]:
    try:
        rows = client.query(_REASONS)["rows"]
    except AssayError as error:
        yield note("dead letters", f"could not be asked for: {error.detail}", error.remedy or "Ask again.")
        return
    for reason, events, first in rows:
        yield problem(
            "dead letters",
            f"{formatting.count(events)} events from position {first} could not be projected: {reason}",
            "After an upgrade `assay doctor --fix` tries them again; `assay retract` voids what is wrong for good.",
            client.rebuild,
        )
    if not rows:
        yield fine("dead letters", "none")
