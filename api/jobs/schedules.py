"""Schedules: a submission for every time of a cron expression, once over all nodes and restarts."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import msgspec

from api.jobs.submitting import place, prepared
from domain.errors import NotFound, PartMissing, UsageError
from domain.jobs.jobs import Schedule, ScheduleRequest, Submission

if TYPE_CHECKING:
    from api.jobs.queue import JobQueue

__all__ = ["add", "fire", "next_time", "remove", "schedules"]

_LOG = logging.getLogger(__name__)
_FIELDS = 5
_WORDS = frozenset(
    [
        "mon",
        "tue",
        "wed",
        "thu",
        "fri",
        "sat",
        "sun",
        "jan",
        "feb",
        "mar",
        "apr",
        "may",
        "jun",
        "jul",
        "aug",
        "sep",
        "oct",
        "nov",
        "dec",
    ]
)
"""Of an expression; croniter's letters for random times would be others on each node."""

_NOW = "SELECT clock_timestamp()"
_ADD = """
INSERT INTO job_schedule (name, cron, submission, author, created_at, next_at)
VALUES (%(name)s, %(cron)s, %(submission)s, %(author)s, %(now)s, %(next_at)s)
ON CONFLICT (name) DO UPDATE SET cron = excluded.cron, submission = excluded.submission, author = excluded.author,
    created_at = excluded.created_at, next_at = excluded.next_at
"""
_LIST = """
SELECT name, cron, submission, created_at, next_at, last_submission::text FROM job_schedule
WHERE %(name)s::text IS NULL OR name = %(name)s ORDER BY name
"""
_REMOVE = "DELETE FROM job_schedule WHERE name = %(name)s"
_DUE = """
SELECT cron, submission, author, clock_timestamp() FROM job_schedule
WHERE name = %(name)s AND next_at <= clock_timestamp() FOR UPDATE SKIP LOCKED
"""
_FIRED = """
UPDATE job_schedule SET next_at = %(next_at)s, last_submission = coalesce(%(submission)s, last_submission)
WHERE name = %(name)s
"""


def next_time(cron: str, after: datetime) -> datetime:
    """Return the first time of a cron expression after a moment, in UTC; UsageError where it is none or there is no time."""
    try:
        from croniter import CroniterBadDateError, CroniterError, croniter
    except ImportError as error:
        raise PartMissing(
            "schedules need croniter, which comes with procrastinate.",
            field="cron",
            remedy="Run: pip install 'assay-bench[jobs]'.",
        ) from error
    fields = cron.split()
    if len(fields) != _FIELDS:
        raise UsageError(
            f"{cron!r} has {len(fields)} fields.",
            field="cron",
            remedy="Give five: minute hour day month weekday, such as '0 3 * * *' for 03:00 UTC every day.",
        )
    if not _WORDS.issuperset(re.findall("[a-z]+", cron.lower())):
        raise UsageError(f"{cron!r} is no cron expression.", field="cron", remedy="For example '0 3 * * mon-fri'.")
    try:
        time: datetime = croniter(" ".join(fields), after.astimezone(UTC)).get_next(datetime)
    except CroniterBadDateError as error:
        raise UsageError(f"{cron!r} never comes.", field="cron", remedy="Name a day that its month has.") from error
    except (CroniterError, ValueError, KeyError) as error:
        raise UsageError(
            f"{cron!r} is no cron expression: {error}.", field="cron", remedy="For example '0 3 * * 1-5'."
        ) from error
    return time


async def add(queue: JobQueue, request: ScheduleRequest, author: str) -> Schedule:
    """Add a schedule, or replace the one of its name; it fires first at the next time of its expression."""
    if request.submission.at is not None or request.submission.id is not None:
        raise UsageError(
            "a schedule's submission has no time and no id of its own.", field="submission.at", remedy="Leave them out."
        )
    prepared(request.submission)
    async with queue.transaction() as transaction:
        ((now,),) = await transaction.fetch(_NOW)
        values = {
            "name": request.name,
            "cron": " ".join(request.cron.split()),
            "submission": msgspec.json.encode(request.submission).decode(),
            "author": author,
            "now": now,
            "next_at": next_time(request.cron, now),
        }
        await transaction.fetch(_ADD, values)
    return (await schedules(queue, request.name))[0]


async def schedules(queue: JobQueue, name: str | None = None) -> list[Schedule]:
    """Return the schedules by name, or the one of a name."""
    rows = await queue.log.fetch(_LIST, {"name": name})
    return [
        Schedule(
            name=name,
            cron=cron,
            jobs=len(msgspec.json.decode(submission, type=Submission).jobs),
            created_at=created_at,
            next_at=next_at,
            last_submission=last,
        )
        for name, cron, submission, created_at, next_at, last in rows
    ]


async def remove(queue: JobQueue, name: str) -> Schedule:
    """Remove a schedule and return it as it was; NotFound without one."""
    existing = await schedules(queue, name)
    if not existing:
        raise NotFound(f"there is no schedule {name!r}.", field="name", remedy="GET /v1/jobs/schedules lists them.")
    async with queue.transaction() as transaction:
        await transaction.fetch(_REMOVE, {"name": name})
    return existing[0]


async def fire(queue: JobQueue, name: str) -> None:
    """Submit what a schedule says, if its time has come and no other node does so; of missed times only the newest counts."""
    async with queue.transaction() as transaction:
        rows = await transaction.fetch(_DUE, {"name": name})
        if not rows:
            return
        ((cron, text, author, now),) = rows
        ready = prepared(msgspec.json.decode(text, type=Submission))
        answer = await place(transaction, ready, author, schedule=name, force=True)
        submission = answer.submission if len(answer.existing) < len(answer.jobs) else None
        next_at = next_time(cron, now)
        await transaction.fetch(_FIRED, {"name": name, "next_at": next_at, "submission": submission})
    _LOG.info("schedule %r submitted %d jobs; next at %s", name, len(answer.jobs), next_at.isoformat())
