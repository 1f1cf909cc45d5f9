"""Jobs and workers: what the service, a worker and the command line say to each other."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec

from domain.jobs.needs import Name, Needs, WorkerDescription

__all__ = [
    "ENDED",
    "JOB_STATES",
    "Claim",
    "ClaimRequest",
    "Finish",
    "Heartbeat",
    "Job",
    "JobList",
    "JobRequest",
    "JobState",
    "JobsSubmitted",
    "Queue",
    "Schedule",
    "ScheduleRequest",
    "Submission",
    "SubmissionProgress",
    "WorkerState",
]

JobState = Literal["waiting", "running", "succeeded", "failed", "cancelled"]
"""`waiting` also covers a job whose worker died and that will be started again; `cancelled` is final once its child has ended."""
JOB_STATES: tuple[str, ...] = get_args(JobState)
ENDED = ("succeeded", "failed", "cancelled")
LONGEST_WAIT_S = 30.0
"""How long a claim may wait for a job."""
MOST_JOBS = 10_000
"""Jobs of one submission."""

JobUuid = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$(?!\n)")]
Priority = Annotated[int, msgspec.Meta(ge=-1000, le=1000)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
ScheduleName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9](?:[A-Za-z0-9 ._-]{0,98}[A-Za-z0-9._-])?$(?!\n)")]


class JobRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One job of a submission: a plan (the document of `runner.campaign.plan_file.PlanFile`, mostly with one case) and its needs."""

    plan: dict[str, Any]
    needs: Needs = Needs()
    title: Name | None = None


class Submission(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`POST /v1/jobs`: jobs that belong together.

    A higher `priority` is claimed first. `at` is the earliest time. A worker tries a job `attempts` times in all.
    Where a job with the same plan and needs waits already, that one is returned, unless `again`.
    `force` queues jobs that no worker that has reported could do. A submission that is sent again with the same `id`, a
    UUID that the sender chose, is the same one.
    """

    jobs: Annotated[list[JobRequest], msgspec.Meta(min_length=1, max_length=MOST_JOBS)]
    id: JobUuid | None = None
    name: Name | None = None
    priority: Priority = 0
    at: Moment | None = None
    attempts: Annotated[int, msgspec.Meta(ge=1, le=100)] = 3
    again: bool = False
    force: bool = False


class JobsSubmitted(msgspec.Struct, frozen=True, kw_only=True):
    """The ids in the order of the submission's jobs; `existing` are those that waited already. `notes` are for people."""

    submission: str
    jobs: list[str]
    existing: list[str] = []
    notes: list[str] = []


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """How a job stands. `attempt` counts from 1 at its first start; `worker` and `hardware` are those of the newest attempt.

    `reason` is why it failed, was cancelled or waits again; `unmet` says of a waiting job why no worker that has reported can do it.
    """

    id: str
    submission: str
    title: str
    state: JobState
    needs: Needs
    priority: int
    attempt: int
    attempts: int
    submitted_at: datetime
    at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    worker: str | None = None
    hardware: str | None = None
    reason: str | None = None
    unmet: str | None = None
    cancelling: bool = False
    run_ids: list[str] = []
    plan: dict[str, Any] | None = None


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/jobs`: the newest first; `plan` is left out of each. `next` is the cursor of the next page."""

    jobs: list[Job]
    counts: dict[str, int]
    next: str | None = None


class WorkerState(msgspec.Struct, frozen=True, kw_only=True):
    """A worker that has reported: what it can do, when it was last heard of, and which jobs it has."""

    description: WorkerDescription
    seen_at: datetime
    alive: bool
    jobs: list[str] = []


class SubmissionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a submission is; `counts` by state."""

    submission: str
    name: str | None
    submitted_at: datetime
    counts: dict[str, int]


class ScheduleRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`POST /v1/jobs/schedules`: a submission for every time of a cron expression (five fields, UTC)."""

    name: ScheduleName
    cron: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    submission: Submission


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule, its next time and the newest submission that it made."""

    name: str
    cron: str
    jobs: int
    created_at: datetime
    next_at: datetime
    last_submission: str | None = None


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """`GET /v1/jobs/queue`: counts by state, workers, submissions that have not ended (the newest first), schedules."""

    counts: dict[str, int]
    workers: list[WorkerState]
    submissions: list[SubmissionProgress]
    schedules: list[Schedule]
    oldest_waiting_s: float | None = None


class ClaimRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`POST /v1/jobs/claims`: a worker asks for a job; the answer waits up to `wait_s` for one, then is 204.

    `busy` are addresses of devices (as in the description) on which it has a job already.
    """

    worker: WorkerDescription
    wait_s: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_WAIT_S)] = 0.0
    busy: Annotated[list[Name], msgspec.Meta(max_length=256)] = []


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A job under a lease. The lease ends at `expires_at` unless a heartbeat renews it; `device` is where the needs are met.

    A heartbeat every `heartbeat_s` also tells in time that the job is to be cancelled.
    """

    job: str
    lease: str
    attempt: int
    attempts: int
    title: str
    plan: dict[str, Any]
    needs: Needs
    device: str
    lease_s: float
    expires_at: datetime
    heartbeat_s: float = 3.0


class Heartbeat(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to `POST /v1/jobs/claims/{lease}/heartbeat`: until when the lease lasts, and whether to stop the job."""

    expires_at: datetime
    cancel: bool = False


class Finish(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`POST /v1/jobs/claims/{lease}/finish`: how the attempt ended. 409 under a lease that has ended.

    `failed` is tried again while attempts are left, unless `final`. `cancelled` without having been asked to says that the
    worker stops: the job waits again, and the attempt does not count. `run_ids` are the runs whose events the attempt sent.
    """

    outcome: Literal["succeeded", "failed", "cancelled"]
    reason: Reason | None = None
    final: bool = False
    run_ids: Annotated[list[Name], msgspec.Meta(max_length=100)] = []
    exit_code: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**32)] | None = None
