"""How the service stands: its health, the figures of its last day, its tokens, and events that could not be projected."""

from __future__ import annotations

from datetime import datetime

import msgspec

__all__ = [
    "ArchiveState",
    "Archived",
    "Build",
    "Configured",
    "Day",
    "DeadLetter",
    "Health",
    "ListedToken",
    "Minute",
    "Step",
]


class ArchiveState(msgspec.Struct, frozen=True, kw_only=True):
    """How much is in the archive: segments, the last position in them, their size, and what is in them alone."""

    segments: int = 0
    last_position: int | None = None
    bytes: int | None = None
    trimmed_position: int | None = None


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the tables stand to the log, of what `/health/ready` answers.

    `error` is set while the tables stand still, `building` while they are made anew. A lag of None is not known.
    """

    position: int
    lag_events: int | None = None
    lag_seconds: float | None = None
    dead_letters: int | None = None
    error: str | None = None
    building: str | None = None
    archive: ArchiveState | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """How many events the log took in the step that begins at `at`; 0 is counted, not missing."""

    at: datetime
    events: int


class Minute(msgspec.Struct, frozen=True, kw_only=True):
    """The largest lag that was seen in the minute that begins at `at`; null where Postgres did not answer in it."""

    at: datetime
    lag_events: int | None
    lag_seconds: float | None


class Archived(msgspec.Struct, frozen=True, kw_only=True):
    """One segment of the archive. `trimmed_at`: since when its bodies are in the files alone."""

    first_position: int
    last_position: int
    events: int
    bytes: int
    facts: str
    samples: str | None
    created_at: datetime | None
    trimmed_at: datetime | None


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """What runs, and since when."""

    version: str
    schema: int
    python: str
    system: str
    began: datetime


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """How it is set up, without anything secret. A limit of null is no limit; `retrain_every_s` null is never by itself."""

    role: str
    host: str
    embedded_postgres: bool
    requests_per_s: float | None
    events_per_s: float | None
    body_deadline_s: float
    retrain_every_s: float | None
    log_level: str


class Day(msgspec.Struct, frozen=True, kw_only=True):
    """The last 24 hours, `throughput` in steps of `step_s` up to `now`.

    `lag` has the minutes that this process saw, from `build.began` on and of a day at most. `token_uses` has by the id of a
    token when this process last let it in: what is not in it was not used here since `build.began`.
    """

    now: datetime
    position: int
    step_s: int
    throughput: list[Step]
    lag: list[Minute]
    token_uses: dict[str, datetime]
    archive: list[Archived]
    build: Build
    settings: Configured


class ListedToken(msgspec.Struct, frozen=True, kw_only=True):
    """A token without its secret; `prefix` is the beginning of the secret, `source` the only one it appends as."""

    id: str
    prefix: str
    name: str
    source: str | None = None
    scopes: list[str]
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    created_at: datetime


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """Events of one type that could not be projected for one reason: how many, when the newest came, and its id."""

    type: str
    reason: str
    events: int
    newest: str
    event: str
