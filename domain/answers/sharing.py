"""Shared measurements as the service tells of them: bundles, signers, and rows that are held back."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

import msgspec

__all__ = ["AddedBundle", "Changed", "Held", "HeldRow", "SharedBundle", "SharedSigner", "Trust"]

Trust = Literal["own", "trusted", "unknown"]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """A row of a bundle that is held back, and why."""

    event_id: str
    model: str
    hardware: str
    rule: str
    reason: str


class AddedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a bundle. `restored` counts runs that had been removed and count again."""

    digest: str
    signer: str
    name: str | None
    trust: Trust
    licence: str
    dry_run: bool
    accepted: int
    duplicate: int
    measurements: int
    held: list[Held]
    restored: int
    last_position: int | None


class SharedBundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle in the log: whose it is, and how many of its rows count, are held back, or were removed."""

    bundle: str
    signer: str
    name: str | None
    trust: Trust
    licence: str | None
    tool: str | None
    added_at: datetime
    added_by: str | None
    runs: int
    measurements: int
    held: int
    models: int
    devices: list[str]
    state: Literal["counts", "removed", "partly removed"]


class SharedSigner(msgspec.Struct, frozen=True, kw_only=True):
    """A key that is trusted, or whose bundles are in the log; `by` is who trusts it, since when."""

    key: str
    name: str | None
    trust: Trust
    by: str | None
    since: datetime | None
    bundles: int
    measurements: int


class HeldRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is held back; `retraction` is the event that holds it."""

    event_id: str
    model: str
    hardware: str
    platform: str
    precision: str | None
    batch_size: int | None
    latency_ms: float | None
    reason: str
    signer: str
    bundle: str | None
    retraction: str
    position: int


class Changed(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs or rows a request changed, and where the log says so."""

    changed: int
    last_position: int | None
