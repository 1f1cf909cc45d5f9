"""The data of events about jobs, which the service alone appends: one event for each change of a job's state."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from domain.jobs.needs import Needs
from domain.measured import Sentence, Shape

__all__ = ["JobCancelled", "JobFailed", "JobFinished", "JobRequested", "JobStarted"]

JobId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$(?!\n)")]
Attempt = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class JobRequested(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A job that waits from here on. Of a job that had ended it says that it was requested again.

    `name` is that of its submission, `schedule` the schedule that made it; `at` is the earliest time of its start.
    """

    job: JobId
    submission: JobId
    title: Sentence
    needs: Needs
    priority: int
    attempts: Attempt
    author: Sentence
    plan: dict[str, Any]
    name: Sentence | None = None
    schedule: Sentence | None = None
    at: Moment | None = None


class JobStarted(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A worker claimed a job. `device` is the address of a device among the worker's, `hardware` its slug."""

    job: JobId
    attempt: Attempt
    worker: Sentence
    device: Sentence
    hardware: Sentence


class JobFinished(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A job succeeded; `run_ids` are the runs whose events this attempt sent."""

    job: JobId
    attempt: Attempt
    worker: Sentence
    run_ids: tuple[str, ...] = ()
    exit_code: int | None = None


class JobFailed(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """An attempt failed, or its worker was not heard of any more. `waiting` says that another attempt will be made."""

    job: JobId
    attempt: Attempt
    worker: Sentence
    reason: Sentence
    waiting: bool
    run_ids: tuple[str, ...] = ()
    exit_code: int | None = None


class JobCancelled(Shape, frozen=True, kw_only=True, omit_defaults=True):
    """A job was cancelled: before it started (`attempt` 0), or once its worker had ended it."""

    job: JobId
    attempt: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    reason: Sentence
    worker: Sentence | None = None
    run_ids: tuple[str, ...] = ()
