"""Submissions: what is checked before jobs are queued, and how all of them are queued in one transaction."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from api.jobs.queue import CHANNEL, DEFER, JobQueue, job_event
from domain.errors import PayloadTooLarge, UsageError
from domain.events import JOB_REQUESTED, Decoded, uuid7
from domain.jobs.jobs import JobsSubmitted, Submission
from domain.jobs.needs import Needs, WorkerDescription, closest, unmet
from domain.payloads import JobRequested

if TYPE_CHECKING:
    from ingest.log.event_log import Transaction

__all__ = ["PLAN_BYTES", "Prepared", "place", "prepared", "shortfall", "submit"]

PLAN_BYTES = 64 * 1024
"""Of the plan of one job."""
BULK = 500
"""A submission of so many jobs is followed by ANALYZE: the plan for fetching a job depends on the sizes of the tables."""
SUBMIT_S = 60.0
_LOCK_KEY = 4_702_111_234_474_983_748

_LOCK = "SELECT pg_advisory_xact_lock(%(key)s)"
_NOW = "SELECT clock_timestamp()"
_WORKERS = "SELECT description FROM job_worker ORDER BY name"
_REPEATED = "SELECT id::text, digest FROM job WHERE submission = %(submission)s ORDER BY id"
_SUBMISSION = "SELECT 1 FROM job_submission WHERE id = %(submission)s"
_EXISTING = """
SELECT DISTINCT ON (digest) digest, id::text FROM job
WHERE state = 'waiting' AND digest = ANY(%(digests)s::bytea[]) ORDER BY digest, id
"""
_NEWEST = "SELECT DISTINCT ON (digest) digest, id::text FROM job WHERE digest = ANY(%(digests)s::bytea[]) ORDER BY digest, id DESC"
_ADD_NEEDS = """
INSERT INTO job_needs (digest, needs) SELECT * FROM unnest(%(queues)s::text[], %(needs)s::text[]) ON CONFLICT DO NOTHING
"""
_ADD_SUBMISSION = """
INSERT INTO job_submission (id, name, author, schedule, submitted_at)
VALUES (%(submission)s, %(name)s, %(author)s, %(schedule)s, %(now)s)
"""
_QUEUE_IDS = "SELECT args->>'job', id FROM procrastinate_jobs WHERE id = ANY(%(ids)s)"
_COPY_JOBS = """
COPY job (id, submission, title, state, needs, plan, digest, priority, attempts, at, submitted_at, queue_id) FROM STDIN
"""
_NOTIFY = "SELECT pg_notify(%(channel)s, queue) FROM unnest(%(queues)s::text[]) AS queue"
_ANALYZE = "ANALYZE procrastinate_jobs, job"


class PreparedJob(NamedTuple):
    """A job of a submission: its title, its queue, its plan as JSON, and the digest of plan and needs."""

    title: str
    queue: str
    plan: str
    digest: bytes


class Prepared(NamedTuple):
    """A submission that was checked as far as it can be without the database; `needs` by queue."""

    submission: Submission
    jobs: list[PreparedJob]
    needs: dict[str, Needs]


class _Added(NamedTuple):
    """Jobs that a submission adds, under their ids, and what became of each job that was asked for."""

    new: dict[str, tuple[PreparedJob, Needs]]
    ids: list[str]
    existing: list[str]


def prepared(submission: Submission) -> Prepared:
    """Check a submission and return it with the digests of its jobs; PayloadTooLarge for a plan that is too long."""
    jobs, needs = [], {}
    for place, request in enumerate(submission.jobs):
        plan = msgspec.json.encode(request.plan)
        if len(plan) > PLAN_BYTES:
            raise PayloadTooLarge(
                f"the plan of a job has {len(plan):,} bytes; {PLAN_BYTES:,} is the limit.",
                field=f"jobs[{place}].plan",
                remedy="Give each case a job of its own, as `assay jobs submit` does.",
            )
        canonical = _canonical(request.needs)
        encoded = msgspec.json.encode(canonical)
        queue = f"assay-{hashlib.sha256(encoded).hexdigest()[:32]}"
        needs[queue] = canonical
        title = request.title or submission.name or "plan"
        ordered = msgspec.json.encode(request.plan, order="deterministic")
        digest = hashlib.sha256(encoded + b"\n" + ordered).digest()
        jobs.append(PreparedJob(title, queue, plan.decode(), digest))
    return Prepared(submission, jobs, needs)


async def submit(queue: JobQueue, submission: Submission, author: str) -> JobsSubmitted:
    """Queue the jobs of a submission, all or none; UsageError where no worker that has reported can do one of them."""
    ready = await asyncio.to_thread(prepared, submission)
    async with queue.transaction(SUBMIT_S) as transaction:
        answer = await place(transaction, ready, author)
    if len(ready.jobs) >= BULK:
        await queue.log.fetch(_ANALYZE)
    return answer


async def place(
    transaction: Transaction, ready: Prepared, author: str, *, schedule: str | None = None, force: bool = False
) -> JobsSubmitted:
    """Queue what was prepared, within a transaction; see `submit`."""
    submission = ready.submission.id or uuid7()
    # One submission at a time, so that two that are the same do not both find nothing that waits.
    await transaction.fetch(_LOCK, {"key": _LOCK_KEY})
    if await transaction.fetch(_SUBMISSION, {"submission": submission}):
        return await _repeated(transaction, ready, submission)
    rows = await transaction.fetch(_WORKERS)
    workers = [msgspec.json.decode(text, type=WorkerDescription) for (text,) in rows]
    if workers and not (force or ready.submission.force):
        _require(ready, workers)
    added = await _added(transaction, ready)
    ((now,),) = await transaction.fetch(_NOW)
    if added.new:
        await _insert(transaction, ready, added, submission, (author, schedule, now))
    notes = [] if workers else ["No worker has reported yet: the jobs wait until one comes that meets their needs."]
    return JobsSubmitted(submission=submission, jobs=added.ids, existing=added.existing, notes=notes)


def shortfall(needs: Needs, workers: Sequence[WorkerDescription]) -> str | None:
    """Return why none of the workers can do a job with these needs; None where one can."""
    match = closest(needs, workers)
    if match is None:
        return "no worker has reported"
    worker, lacks = match
    if not lacks:
        return None
    foreign = [label for label in needs.labels if not any(label in other.labels for other in workers)]
    unknown = f"no worker has the label {', '.join(foreign)}; " if foreign else ""
    return f"{unknown}the closest is {worker.name}: {'; '.join(lacks)}"


def _canonical(needs: Needs) -> Needs:
    return msgspec.structs.replace(
        needs, platforms=tuple(sorted(set(needs.platforms))), labels=tuple(sorted(set(needs.labels)))
    )


def _require(ready: Prepared, workers: Sequence[WorkerDescription]) -> None:
    """Raise UsageError where no worker meets the needs of a job."""
    for queue, needs in ready.needs.items():
        if any(not unmet(needs, worker) for worker in workers):
            continue
        index = next(index for index, job in enumerate(ready.jobs) if job.queue == queue)
        raise UsageError(
            f"no worker that has reported can do job {index + 1} ({needs}): {shortfall(needs, workers)}.",
            field=f"jobs[{index}].needs",
            remedy="Ask for less, start such a worker, or queue it for one that comes later with force (--force).",
        )


async def _repeated(transaction: Transaction, ready: Prepared, submission: str) -> JobsSubmitted:
    """Return the answer to a submission that came before."""
    ids: dict[bytes, list[str]] = {}
    for job, digest in await transaction.fetch(_REPEATED, {"submission": submission}):
        ids.setdefault(bytes(digest), []).append(job)
    absent = [job.digest for job in ready.jobs if job.digest not in ids]
    rows = await transaction.fetch(_NEWEST, {"digests": absent}) if absent else []
    existing = {bytes(digest): job for digest, job in rows}
    jobs = []
    for job in ready.jobs:
        own = ids.get(job.digest)
        if own is None and job.digest not in existing:
            raise UsageError(
                f"the submission {submission} has other jobs.", field="id", remedy="Give another submission its own id."
            )
        jobs.append(existing[job.digest] if own is None else own.pop(0) if len(own) > 1 else own[0])
    return JobsSubmitted(submission=submission, jobs=jobs, existing=[job for job in jobs if job in existing.values()])


async def _added(transaction: Transaction, ready: Prepared) -> _Added:
    """Give each job an id: a new one, or that of the job with the same plan and needs that waits already."""
    again = ready.submission.again
    digests = [] if again else list({job.digest for job in ready.jobs})
    rows = await transaction.fetch(_EXISTING, {"digests": digests}) if digests else []
    waiting = {bytes(digest): job for digest, job in rows}
    existing = set(waiting.values())
    added = _Added({}, [], [])
    for job in ready.jobs:
        identifier = None if again else waiting.get(job.digest)
        if identifier is None:
            identifier = uuid7()
            waiting[job.digest] = identifier
            added.new[identifier] = (job, ready.needs[job.queue])
        elif identifier in existing:
            added.existing.append(identifier)
        added.ids.append(identifier)
    return added


async def _insert(
    transaction: Transaction, ready: Prepared, added: _Added, submission: str, of: tuple[str, str | None, datetime]
) -> None:
    author, schedule, now = of
    asked = ready.submission
    values = {
        "submission": submission,
        "name": asked.name,
        "author": author,
        "schedule": schedule,
        "now": now,
        "queues": list(ready.needs),
        "needs": [msgspec.json.encode(needs).decode() for needs in ready.needs.values()],
    }
    await transaction.fetch(_ADD_NEEDS, values)
    await transaction.fetch(_ADD_SUBMISSION, values)
    queues = [job.queue for job, _ in added.new.values()]
    jobs = {"jobs": list(added.new), "queues": queues, "priority": asked.priority, "at": asked.at}
    ((ids,),) = await transaction.fetch(DEFER, jobs)
    queue_ids = dict(await transaction.fetch(_QUEUE_IDS, {"ids": ids}))
    alike = (asked.priority, asked.attempts, asked.at, now)
    rows = (
        (identifier, submission, job.title, "waiting", job.queue, job.plan, job.digest, *alike, queue_ids[identifier])
        for identifier, (job, _) in added.new.items()
    )
    await transaction.copy(_COPY_JOBS, rows)
    await transaction.fetch(_NOTIFY, {"channel": CHANNEL, "queues": sorted(set(queues))})
    events = await asyncio.to_thread(_events, asked, added, submission, of)
    await transaction.append(events)


def _events(asked: Submission, added: _Added, submission: str, of: tuple[str, str | None, datetime]) -> list[Decoded]:
    author, schedule, now = of
    return [
        job_event(
            JOB_REQUESTED,
            JobRequested(
                job=identifier,
                submission=submission,
                title=job.title,
                needs=needs,
                priority=asked.priority,
                attempts=asked.attempts,
                author=author,
                plan=msgspec.json.decode(job.plan),
                name=asked.name,
                schedule=schedule,
                at=asked.at,
            ),
            now,
        )
        for identifier, (job, needs) in added.new.items()
    ]
