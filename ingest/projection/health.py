"""How the tables stand to the log, as health tells it."""

from __future__ import annotations

import msgspec

from ingest.projection.divergence import Divergence
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["Health"]


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the projection stands to the log. `error` is set while it cannot go on; `running` says whether it follows.

    `building` says why the tables are being made anew, until they have caught up: what they answer before that is true
    of their position, and much of the log is not in it yet. `diverged` is the last time that this process found the log
    without events that its tables held.
    """

    position: int
    log_position: int | None
    lag_events: int | None
    lag_seconds: float | None
    dead_letters: int
    error: str | None
    running: bool
    building: str | None = None
    diverged: Divergence | None = None
    schema: int = SCHEMA_VERSION
