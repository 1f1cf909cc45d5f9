"""The queue: claims under leases, and every way in which an attempt or a job ends.

procrastinate's functions keep what waits and in which order it is fetched; jobs with the same needs share one of its queues,
so that a claim fetches from those queues only whose needs the worker meets. The lease is ours, because procrastinate lets
anybody finish a job. A change of state and the event about it are one transaction. Rows are locked in the same order
everywhere, so that no two transactions wait for each other: procrastinate's job, the job, its lease, and last the log.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import msgspec

from api.background.audit import written
from domain.errors import NotFound, PartMissing, StateConflict
from domain.events import (
    JOB_CANCELLED,
    JOB_FAILED,
    JOB_FINISHED,
    JOB_REQUESTED,
    JOB_STARTED,
    Decoded,
    encode_event,
    new_event,
)
from domain.jobs.jobs import Claim, Finish, Heartbeat
from domain.jobs.needs import Needs, WorkerDescription, device_for
from domain.payloads import JobCancelled, JobFailed, JobFinished, JobRequested, JobStarted
from domain.permissions import SERVICE_SOURCE

if TYPE_CHECKING:
    from api.settings import Settings
    from ingest.log.event_log import EventLog, Transaction
    from ingest.log.postgres import Database

    class Transact(Protocol):
        """Gives a transaction on tables and log together."""

        def __call__(self, deadline_s: float = ...) -> AbstractAsyncContextManager[Transaction]: ...


__all__ = ["CHANNEL", "DEFER", "FURTHER_ATTEMPTS", "Claimed", "JobQueue", "Places", "job_event"]

CHANNEL = "assay_jobs"
"""Of NOTIFY; its payload is the queue in which a job waits."""
FURTHER_ATTEMPTS = 3
HEARTBEAT_S = 3.0
"""The longest time between heartbeats that workers are asked for: a job that is cancelled has to end within 10 s."""
PLACES_KEPT = 1000
"""Workers with their busy devices of which it is kept what they can do."""
SEEN_S = 5.0
"""A worker that claims all the time is written down once in so many seconds."""

_ENGINE = "SELECT migration FROM job_engine"
_NEEDS = "SELECT digest, needs FROM job_needs"
_CLAIM = """
WITH seen AS (
    INSERT INTO job_worker AS worker (name, description, seen_at) VALUES (%(worker)s, %(description)s, clock_timestamp())
    ON CONFLICT (name) DO UPDATE SET description = excluded.description, seen_at = excluded.seen_at
    WHERE worker.description <> excluded.description OR worker.seen_at < excluded.seen_at - make_interval(secs => %(seen_s)s)
), fetched AS MATERIALIZED (
    SELECT id, queue_name FROM procrastinate_fetch_job_v2(%(queues)s::varchar[], NULL) WHERE id IS NOT NULL
), claimed AS (
    UPDATE job SET state = 'running', attempt = attempt + 1, started_at = clock_timestamp(), worker = %(worker)s,
        hardware = place.hardware, reason = NULL
    FROM fetched JOIN unnest(%(queues)s::text[], %(devices)s::text[], %(hardware)s::text[])
        AS place (queue, device, hardware) ON place.queue = fetched.queue_name
    WHERE job.queue_id = fetched.id
    RETURNING job.id, title, plan, attempt, attempts, job.needs, device, job.hardware, started_at
), leased AS (
    INSERT INTO job_lease (id, job, attempt, worker, token, expires_at)
    SELECT %(lease)s, id, attempt, %(worker)s, %(token)s, clock_timestamp() + make_interval(secs => %(lease_s)s) FROM claimed
    RETURNING expires_at
)
SELECT existing.count, id::text, title, plan, attempt, attempts, needs, device, hardware, started_at, expires_at
FROM (SELECT count(*) FROM job_needs) AS existing LEFT JOIN (claimed CROSS JOIN leased) ON true
"""
_RENEW = """
WITH renewed AS (
    UPDATE job_lease SET expires_at = clock_timestamp() + make_interval(secs => %(lease_s)s)
    WHERE id = %(lease)s AND ended_at IS NULL AND expires_at > clock_timestamp() AND token IS NOT DISTINCT FROM %(token)s
    RETURNING job, worker, expires_at
), seen AS (UPDATE job_worker SET seen_at = clock_timestamp() FROM renewed WHERE job_worker.name = renewed.worker)
SELECT expires_at, cancelling FROM renewed JOIN job ON job.id = renewed.job
"""
_LOCK_QUEUED = """
SELECT 1 FROM procrastinate_jobs WHERE id = (SELECT queue_id FROM job WHERE id = %(job)s) FOR UPDATE
"""
_LOCK_LEASED = """
SELECT 1 FROM procrastinate_jobs WHERE id = (
    SELECT queue_id FROM job JOIN job_lease AS lease ON lease.job = job.id WHERE lease.id = %(lease)s
) FOR UPDATE
"""
_ATTEMPT = """
SELECT job.id::text, job.queue_id, job.needs, lease.attempt, job.attempts, job.cancelling, job.reason, lease.worker,
    lease.token, lease.outcome, lease.expires_at <= clock_timestamp()
FROM job_lease AS lease JOIN job ON job.id = lease.job WHERE lease.id = %(lease)s FOR UPDATE OF job, lease
"""
_DEQUEUE = "SELECT procrastinate_finish_job_v1(%(queue_id)s, 'succeeded', true)"
_REQUEUE = """
SELECT procrastinate_retry_job_v2(%(queue_id)s, NULL, NULL, NULL, NULL), pg_notify(%(channel)s, %(queue)s)
"""
_CLOSE = """
WITH closed AS (UPDATE job_lease SET ended_at = clock_timestamp(), outcome = %(outcome)s WHERE id = %(lease)s)
UPDATE job SET state = %(state)s, reason = %(reason)s, attempts = attempts + %(more)s, cancelling = false,
    run_ids = run_ids || %(run_ids)s::text[],
    ended_at = CASE WHEN %(state)s <> 'waiting' THEN clock_timestamp() END,
    queue_id = CASE WHEN %(state)s = 'waiting' THEN queue_id END
WHERE id = %(job)s RETURNING clock_timestamp()
"""
_JOB = """
SELECT job.state, job.queue_id, job.needs, needs.needs, job.attempt, job.priority, job.title, job.plan,
    job.submission::text, submission.name, clock_timestamp()
FROM job JOIN job_submission AS submission ON submission.id = job.submission JOIN job_needs AS needs ON needs.digest = job.needs
WHERE job.id = %(job)s FOR UPDATE OF job
"""
_CANCEL_QUEUED = "SELECT procrastinate_cancel_job_v1(%(queue_id)s, false, true)"
_CANCELLED = """
UPDATE job SET state = 'cancelled', reason = %(reason)s, ended_at = clock_timestamp(), queue_id = NULL WHERE id = %(job)s
"""
_CANCELLING = "UPDATE job SET cancelling = true, reason = %(reason)s WHERE id = %(job)s"
_WAITING = """
UPDATE job SET state = 'waiting', reason = NULL, at = NULL, ended_at = NULL, attempts = attempt + %(further)s,
    queue_id = %(queue_id)s
WHERE id = %(job)s RETURNING attempts
"""
DEFER = """
SELECT procrastinate_defer_jobs_v1(array_agg(
    ROW(queue, 'assay.job', %(priority)s, NULL, NULL, jsonb_build_object('job', id), %(at)s)::procrastinate_job_to_defer_v1
    ORDER BY place))
FROM unnest(%(jobs)s::text[], %(queues)s::text[]) WITH ORDINALITY AS item (id, queue, place)
"""
_NOTIFY = "SELECT pg_notify(%(channel)s, %(queue)s)"


class Places(NamedTuple):
    """Where a worker could do what: for each queue whose needs it meets, the address and the slug of an idle device.

    `existing` are all queues that were there when this was found out.
    """

    queues: dict[str, tuple[str, str]]
    existing: frozenset[str]


class Claimed(NamedTuple):
    """A claim and the queue that it came from, if there was a job; and whether the places knew all queues."""

    claim: Claim | None
    queue: str
    is_current: bool


class _Attempt(NamedTuple):
    """An attempt and its job, both locked; `is_late` says that the lease's time is over."""

    job: str
    queue_id: int | None
    queue: str
    attempt: int
    attempts: int
    cancelling: bool
    reason: str | None
    worker: str
    token: str | None
    outcome: str | None
    is_late: bool


class _Ending(NamedTuple):
    """What becomes of a job with the end of an attempt; an attempt that does not count adds one `more`."""

    state: Literal["waiting", "succeeded", "failed", "cancelled"]
    reason: str | None = None
    more: int = 0


class JobQueue:
    """The jobs of one installation; any number of processes may have one."""

    def __init__(self, settings: Settings, database: Database, log: EventLog, transaction: Transact) -> None:
        """`transaction` gives transactions of `log` and tells those who follow it; its argument is a time limit in seconds."""
        self.log = log
        self.transaction = transaction
        self.lease_s = settings.job_lease_s
        self._appends = settings.appends
        self._is_embedded = database.embedded
        self._is_ready = False
        self._needs: dict[str, Needs] = {}
        self._is_current = False
        self._places: dict[tuple[WorkerDescription, tuple[str, ...]], Places] = {}

    async def require(self) -> None:
        """Raise PartMissing where this node takes no writes or the database has no queue."""
        if not self._appends:
            raise PartMissing("this node takes no jobs.", field="role", remedy="Ask a node of role all or ingest.")
        if not await self.is_ready():
            install = "" if find_spec("procrastinate") is not None else "pip install 'assay-bench[jobs]', then "
            restart = "start the service again" if self._is_embedded else "run `assay db upgrade`"
            raise PartMissing("the queue of jobs is not installed.", field="jobs", remedy=f"Run: {install}{restart}.")

    async def is_ready(self) -> bool:
        """Return whether the database has procrastinate's tables."""
        if not self._is_ready:
            self._is_ready = bool(await self.log.fetch(_ENGINE))
        return self._is_ready

    async def places(self, worker: WorkerDescription, busy: Sequence[str]) -> Places:
        """Return the queues that a worker may claim from."""
        if not self._is_current or len(self._places) > PLACES_KEPT:
            self._is_current = True
            rows = await self.log.fetch(_NEEDS)
            self._needs = {digest: msgspec.json.decode(needs, type=Needs) for digest, needs in rows}
            self._places = {}
        key = (worker, tuple(busy))
        if key not in self._places:
            self._places[key] = _places(self._needs, worker, busy)
        return self._places[key]

    async def claim(self, worker: WorkerDescription, places: Places, token: str | None) -> Claimed:
        """Claim the first of the waiting jobs that the places allow, and keep that the worker was heard of."""
        lease = str(uuid.uuid4())
        values = {
            "queues": list(places.queues),
            "devices": [device for device, _ in places.queues.values()],
            "hardware": [hardware for _, hardware in places.queues.values()],
            "worker": worker.name,
            "description": msgspec.json.encode(worker).decode(),
            "seen_s": SEEN_S,
            "token": token,
            "lease": lease,
            "lease_s": self.lease_s,
        }
        async with self.transaction() as transaction:
            ((count, *row),) = await transaction.fetch(_CLAIM, values)
            is_current = count == len(places.existing)
            self._is_current &= is_current
            job, title, plan, attempt, attempts, queue, device, hardware, started_at, expires_at = row
            if job is None:
                return Claimed(None, "", is_current)
            data = JobStarted(job=job, attempt=attempt, worker=worker.name, device=device, hardware=hardware)
            await transaction.append([job_event(JOB_STARTED, data, started_at)])
        claim = Claim(
            job=job,
            lease=lease,
            attempt=attempt,
            attempts=attempts,
            title=title,
            plan=msgspec.json.decode(plan),
            needs=self._needs[queue],
            device=device,
            lease_s=self.lease_s,
            expires_at=expires_at,
            heartbeat_s=min(self.lease_s / 4, HEARTBEAT_S),
        )
        return Claimed(claim, queue, is_current)

    async def heartbeat(self, lease: str, token: str | None) -> Heartbeat:
        """Renew a lease; StateConflict where it has ended or is another's."""
        values = {"lease": lease, "token": token, "lease_s": self.lease_s}
        rows = await self.log.fetch(_RENEW, values)
        if rows:
            return Heartbeat(expires_at=rows[0][0], cancel=rows[0][1])
        async with self.transaction() as transaction:
            _check(await self._locked(transaction, lease), token)
        raise _ended("is being ended")

    async def finish(self, lease: str, finish: Finish, token: str | None) -> None:
        """End an attempt as its worker says; StateConflict under a lease that has ended. To say the same again does nothing."""
        async with self.transaction() as transaction:
            attempt = await self._locked(transaction, lease)
            if attempt is not None and attempt.token == token and attempt.outcome == finish.outcome:
                return
            await self._end(transaction, lease, _check(attempt, token), finish)

    async def expire(self, lease: str) -> None:
        """End the attempt of a worker that was not heard of any more, unless it was meanwhile."""
        async with self.transaction() as transaction:
            attempt = await self._locked(transaction, lease)
            if attempt is not None and attempt.outcome is None and attempt.is_late:
                reason = f"its worker {attempt.worker} was not heard of for {self.lease_s:g} s"
                await self._end(transaction, lease, attempt, Finish(outcome="failed", reason=reason), "expired")

    async def cancel(self, job: str, author: str) -> None:
        """Cancel a job: at once where it waits, else by its worker; StateConflict where it has ended otherwise."""
        async with self.transaction() as transaction:
            await transaction.fetch(_LOCK_QUEUED, {"job": job})
            state, queue_id, *_, now = await _job(transaction, job)
            values = {"job": job, "reason": f"cancelled by {author}", "queue_id": queue_id}
            if state == "running":
                await transaction.fetch(_CANCELLING, values)
            elif state == "waiting":
                await transaction.fetch(_CANCEL_QUEUED, values)
                await transaction.fetch(_CANCELLED, values)
                data = JobCancelled(job=job, attempt=0, reason=values["reason"])
                await transaction.append([job_event(JOB_CANCELLED, data, now)])
            elif state != "cancelled":
                raise StateConflict(
                    f"job {job} has {state} already.",
                    field="job_id",
                    remedy="Only what waits or runs can be cancelled.",
                )

    async def retry(self, job: str, author: str) -> None:
        """Queue a job again that failed or was cancelled; StateConflict in any other state."""
        async with self.transaction() as transaction:
            state, _, queue, needs, _, priority, title, plan, submission, name, now = await _job(transaction, job)
            if state not in ("failed", "cancelled"):
                raise StateConflict(
                    f"job {job} is {state}.", field="job_id", remedy="Only a failed or cancelled job is queued again."
                )
            values = {"jobs": [job], "queues": [queue], "priority": priority, "at": None}
            (((queue_id,),),) = await transaction.fetch(DEFER, values)
            values = {"job": job, "further": FURTHER_ATTEMPTS, "queue_id": queue_id}
            ((attempts,),) = await transaction.fetch(_WAITING, values)
            await transaction.fetch(_NOTIFY, {"channel": CHANNEL, "queue": queue})
            data = JobRequested(
                job=job,
                submission=submission,
                title=title,
                needs=msgspec.json.decode(needs, type=Needs),
                priority=priority,
                attempts=attempts,
                author=author,
                plan=msgspec.json.decode(plan),
                name=name,
            )
            await transaction.append([job_event(JOB_REQUESTED, data, now)])

    async def _locked(self, transaction: Transaction, lease: str) -> _Attempt | None:
        """Return the attempt of a lease, with its rows locked; None where there is no such lease."""
        await transaction.fetch(_LOCK_LEASED, {"lease": lease})
        rows = await transaction.fetch(_ATTEMPT, {"lease": lease})
        return _Attempt(*rows[0]) if rows else None

    async def _end(
        self, transaction: Transaction, lease: str, attempt: _Attempt, finish: Finish, outcome: str | None = None
    ) -> None:
        ending = _ending(attempt, finish)
        await transaction.fetch(
            _REQUEUE if ending.state == "waiting" else _DEQUEUE,
            {"queue_id": attempt.queue_id, "channel": CHANNEL, "queue": attempt.queue},
        )
        values = {
            "lease": lease,
            "job": attempt.job,
            "run_ids": finish.run_ids,
            "outcome": outcome or finish.outcome,
            "state": ending.state,
            "reason": ending.reason,
            "more": ending.more,
        }
        ((now,),) = await transaction.fetch(_CLOSE, values)
        await transaction.append([_end_event(attempt, ending, finish, now)])


def job_event(type_: str, data: Any, now: datetime) -> Decoded:
    """Return an event about a job."""
    event = new_event(type_, data, source=SERVICE_SOURCE, subject=f"job/{data.job}", time=now)
    return written(encode_event(event))


def _places(needs: Mapping[str, Needs], worker: WorkerDescription, busy: Sequence[str]) -> Places:
    hardware = {device.address: device.hardware for device in worker.devices}
    devices = {queue: device_for(item, worker, busy) for queue, item in needs.items()}
    queues = {queue: (device, hardware[device]) for queue, device in devices.items() if device is not None}
    return Places(queues, frozenset(devices))


def _check(attempt: _Attempt | None, token: str | None) -> _Attempt:
    """Return the attempt where its lease lasts and is the asker's; else raise StateConflict."""
    if attempt is None or attempt.token != token:
        raise _ended("is not known, or another worker's")
    if attempt.outcome is not None or attempt.is_late:
        raise _ended("has ended")
    return attempt


def _ended(state: str) -> StateConflict:
    return StateConflict(
        f"the lease {state}.",
        field="lease",
        remedy="Stop the job: it is not this worker's any more. What it measured stays. Then claim another.",
    )


async def _job(transaction: Transaction, job: str) -> tuple[Any, ...]:
    """Return the locked row of a job; NotFound without one."""
    rows = await transaction.fetch(_JOB, {"job": job})
    if not rows:
        raise NotFound(f"there is no job {job}.", field="job_id", remedy="GET /v1/jobs lists them.")
    return rows[0]


def _ending(attempt: _Attempt, finish: Finish) -> _Ending:
    """Return what becomes of a job with the end of an attempt."""
    if finish.outcome == "succeeded":
        return _Ending("succeeded")
    if attempt.cancelling:
        return _Ending("cancelled", attempt.reason or "cancelled")
    if finish.outcome == "cancelled":
        return _Ending("waiting", finish.reason or f"its worker {attempt.worker} stopped", more=1)
    is_last = finish.final or attempt.attempt >= attempt.attempts
    reason = finish.reason or f"it ended with exit status {finish.exit_code}"
    return _Ending("failed" if is_last else "waiting", reason)


def _end_event(attempt: _Attempt, ending: _Ending, finish: Finish, now: datetime) -> Decoded:
    reason = ending.reason or ""
    of_attempt: dict[str, Any] = {
        "job": attempt.job,
        "attempt": attempt.attempt,
        "worker": attempt.worker,
        "run_ids": tuple(finish.run_ids),
    }
    if ending.state == "succeeded":
        return job_event(JOB_FINISHED, JobFinished(**of_attempt, exit_code=finish.exit_code), now)
    if ending.state == "cancelled":
        return job_event(JOB_CANCELLED, JobCancelled(**of_attempt, reason=reason), now)
    waiting = ending.state == "waiting"
    data = JobFailed(**of_attempt, exit_code=finish.exit_code, reason=reason, waiting=waiting)
    return job_event(JOB_FAILED, data, now)
