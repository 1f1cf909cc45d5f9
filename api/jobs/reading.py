"""What the routes read of jobs: lists, one of them, and the queue with its workers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from api.jobs.schedules import schedules
from api.jobs.submitting import shortfall
from domain.errors import NotFound, UsageError
from domain.jobs.jobs import JOB_STATES, LONGEST_WAIT_S, Job, JobList, Queue, SubmissionProgress, WorkerState
from domain.jobs.needs import Needs, WorkerDescription

if TYPE_CHECKING:
    from api.jobs.queue import JobQueue

__all__ = ["find_job", "job_list", "queue_state"]

MOST_SUBMISSIONS = 100
_PREFIX = re.compile(r"[0-9a-f][0-9a-f-]{0,35}\Z")

_COLUMNS = """
SELECT job.id::text, submission::text, title, state, needs.needs, priority, attempt, attempts, submitted_at, at, started_at, ended_at,
    worker, hardware, reason, cancelling, run_ids, plan
FROM job JOIN job_needs AS needs ON needs.digest = job.needs
"""
_LIST = f"""
{_COLUMNS}
WHERE (%(states)s::text[] IS NULL OR state = ANY(%(states)s)) AND (%(cursor)s::uuid IS NULL OR id < %(cursor)s)
    AND (%(first)s::uuid IS NULL OR submission BETWEEN %(first)s AND %(last)s)
ORDER BY id DESC LIMIT %(limit)s
"""
_FIND = f"{_COLUMNS} WHERE id BETWEEN %(first)s AND %(last)s ORDER BY id LIMIT 2"
_COUNTS = """
SELECT state, count(*) FROM job WHERE %(first)s::uuid IS NULL OR submission BETWEEN %(first)s AND %(last)s GROUP BY state
"""
_WORKERS = """
SELECT description, seen_at, seen_at > clock_timestamp() - make_interval(secs => %(alive_s)s),
    ARRAY(SELECT id::text FROM job WHERE state = 'running' AND worker = name ORDER BY id)
FROM job_worker ORDER BY name
"""
_SUBMISSIONS = """
SELECT submission.id::text, submission.name, submission.submitted_at, job.state, count(*)
FROM job_submission AS submission JOIN job ON job.submission = submission.id
WHERE submission.id IN (
    SELECT submission FROM job WHERE state IN ('waiting', 'running') GROUP BY submission ORDER BY submission DESC LIMIT %(most)s
)
GROUP BY submission.id, job.state ORDER BY submission.id DESC
"""
_OLDEST = """
SELECT extract(epoch FROM clock_timestamp() - min(greatest(submitted_at, at)))::float8 FROM job
WHERE state = 'waiting' AND coalesce(at <= clock_timestamp(), true)
"""


class _Range(NamedTuple):
    """The ids that begin with some letters."""

    first: str | None
    last: str | None


async def job_list(
    queue: JobQueue, states: Sequence[str] | None, submission: str | None, limit: int, cursor: str | None
) -> JobList:
    """Return jobs, the newest first, without their plans, and the counts of all that the submission has."""
    of = _range(submission, "submission") if submission else _Range(None, None)
    if cursor is not None and len(cursor) != 36:
        raise UsageError("not a cursor.", field="cursor", remedy="Give the next of an answer, or leave it out.")
    values = {
        **of._asdict(),
        "states": list(states) if states else None,
        "cursor": _range(cursor, "cursor").first if cursor else None,
        "limit": limit + 1,
    }
    rows = await queue.log.fetch(_LIST, values)
    counts = dict.fromkeys(JOB_STATES, 0) | dict(await queue.log.fetch(_COUNTS, of._asdict()))
    jobs = [msgspec.structs.replace(job, plan=None) for job in await _jobs(queue, rows[:limit])]
    return JobList(jobs=jobs, counts=counts, next=jobs[-1].id if len(rows) > limit else None)


async def find_job(queue: JobQueue, identifier: str) -> Job:
    """Return the job of an id, or of its first letters; NotFound without one, UsageError where several begin so."""
    rows = await queue.log.fetch(_FIND, _range(identifier, "job_id")._asdict())
    if not rows:
        raise NotFound(f"there is no job {identifier!r}.", field="job_id", remedy="GET /v1/jobs lists them.")
    if len(rows) > 1:
        raise UsageError(
            f"several jobs begin with {identifier!r}.", field="job_id", remedy="Give more letters of the id."
        )
    return (await _jobs(queue, rows))[0]


async def queue_state(queue: JobQueue) -> Queue:
    """Return the queue as it is: counts, workers, submissions that have not ended, schedules."""
    log = queue.log
    alive_s = LONGEST_WAIT_S + 2 * queue.lease_s
    counts = dict.fromkeys(JOB_STATES, 0) | dict(await log.fetch(_COUNTS, {"first": None, "last": None}))
    workers = [
        WorkerState(
            description=msgspec.json.decode(description, type=WorkerDescription),
            seen_at=seen_at,
            alive=alive,
            jobs=jobs,
        )
        for description, seen_at, alive, jobs in await log.fetch(_WORKERS, {"alive_s": alive_s})
    ]
    ((oldest,),) = await log.fetch(_OLDEST)
    return Queue(
        counts=counts,
        workers=workers,
        submissions=await _progress(queue),
        schedules=await schedules(queue),
        oldest_waiting_s=None if oldest is None else max(0.0, oldest),
    )


async def _progress(queue: JobQueue) -> list[SubmissionProgress]:
    submissions: dict[str, SubmissionProgress] = {}
    for submission, name, submitted_at, state, count in await queue.log.fetch(_SUBMISSIONS, {"most": MOST_SUBMISSIONS}):
        counts = dict.fromkeys(JOB_STATES, 0)
        progress = SubmissionProgress(submission=submission, name=name, submitted_at=submitted_at, counts=counts)
        submissions.setdefault(submission, progress).counts[state] = count
    return list(submissions.values())


async def _jobs(queue: JobQueue, rows: Sequence[tuple[Any, ...]]) -> list[Job]:
    jobs = [_job(row) for row in rows]
    if not any(job.state == "waiting" for job in jobs):
        return jobs
    described = await queue.log.fetch(_WORKERS, {"alive_s": 0.0})
    workers = [msgspec.json.decode(row[0], type=WorkerDescription) for row in described]
    why = {job.needs: shortfall(job.needs, workers) for job in jobs if job.state == "waiting"}
    return [
        msgspec.structs.replace(job, unmet=why[job.needs]) if job.state == "waiting" and why[job.needs] else job
        for job in jobs
    ]


def _job(row: tuple[Any, ...]) -> Job:
    names = Job.__struct_fields__
    values = dict(zip((*(name for name in names if name not in ("unmet", "plan")), "plan"), row, strict=True))
    values["needs"] = msgspec.json.decode(values["needs"], type=Needs)
    values["plan"] = msgspec.json.decode(values["plan"])
    return Job(**values)


def _range(identifier: str, field: str) -> _Range:
    """Return the first and the last id that begin with some letters; UsageError where no id does."""
    letters = identifier.lower()
    digits = letters.replace("-", "")
    if not _PREFIX.match(letters) or len(digits) > 32:
        raise UsageError(f"{identifier[:60]!r} is no id.", field=field, remedy="Give an id, or its first letters.")
    return _Range(digits.ljust(32, "0"), digits.ljust(32, "f"))
