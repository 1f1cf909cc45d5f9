"""What the client asks about jobs: submissions, the queue, schedules, and what a worker needs to do them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from urllib.parse import quote

import msgspec

from assay.client.histories import Histories
from assay.client.transport import checked, decoded
from domain.jobs.jobs import (
    Claim,
    ClaimRequest,
    Finish,
    Heartbeat,
    Job,
    JobList,
    JobsSubmitted,
    JobState,
    Queue,
    Schedule,
    ScheduleRequest,
    Submission,
)

__all__ = ["Jobs"]

ANSWER_S = 30.0
"""How long a claim may take beyond the time that it waits for a job."""


class Jobs(Histories):
    """The routes of jobs and of those who work on them."""

    def submit_jobs(self, submission: Submission) -> JobsSubmitted:
        """Queue jobs and return their ids, in order; all of them or none.

        UsageError (field `needs`) where no worker that has reported meets a job's needs, unless the submission says `force`.
        """
        sent = submission if submission.id else msgspec.structs.replace(submission, id=str(uuid.uuid4()))
        answer = self._post("/v1/jobs", msgspec.to_builtins(sent), timeout_s=120)
        return msgspec.convert(answer, JobsSubmitted)

    def jobs(
        self,
        *,
        state: JobState | Sequence[JobState] | None = None,
        submission: str | None = None,
        limit: int = 100,
        cursor: str | None = None,
    ) -> JobList:
        """Return jobs, the newest first, and how many there are in each state; `limit` is at most 1,000."""
        answer = self._get("/v1/jobs", state=state, submission=submission, limit=limit, cursor=cursor)
        return msgspec.convert(answer, JobList)

    def job(self, identifier: str) -> Job:
        """Return the job of an id, or of its first letters, with its plan; NotFound without one."""
        return msgspec.convert(self._get(f"/v1/jobs/{quote(identifier, safe='')}"), Job)

    def cancel_job(self, identifier: str) -> Job:
        """Cancel a job and return it: one that waits is cancelled at once, one that runs once its worker has ended it.

        StateConflict where it has ended.
        """
        return msgspec.convert(self._post(f"/v1/jobs/{quote(identifier, safe='')}/cancel", {}), Job)

    def retry_job(self, identifier: str) -> Job:
        """Queue a failed or cancelled job again with as many attempts as before; StateConflict in any other state."""
        return msgspec.convert(self._post(f"/v1/jobs/{quote(identifier, safe='')}/retry", {}, again=False), Job)

    def queue(self) -> Queue:
        """Return counts by state, workers, submissions that have not ended, and schedules."""
        return msgspec.convert(self._get("/v1/jobs/queue"), Queue)

    def schedules(self) -> list[Schedule]:
        """Return the schedules, by name."""
        return msgspec.convert(self._get("/v1/jobs/schedules")["items"], list[Schedule])

    def add_schedule(self, request: ScheduleRequest) -> Schedule:
        """Submit jobs at every time of a cron expression; a schedule of this name is replaced."""
        return msgspec.convert(self._post("/v1/jobs/schedules", msgspec.to_builtins(request)), Schedule)

    def remove_schedule(self, name: str) -> Schedule:
        """Remove a schedule and return it as it was; the jobs that it submitted stay."""
        response = self._send("DELETE", f"/v1/jobs/schedules/{quote(name, safe='')}")
        return msgspec.convert(checked(response, decoded(response)), Schedule)

    def claim_job(self, request: ClaimRequest) -> Claim | None:
        """Claim a job whose needs the worker meets; None where none came within `wait_s` (at most 30)."""
        body = msgspec.to_builtins(request)
        answer = self._post("/v1/jobs/claims", body, timeout_s=request.wait_s + ANSWER_S)
        return msgspec.convert(answer, Claim) if answer else None

    def heartbeat(self, lease: str) -> Heartbeat:
        """Renew a lease; StateConflict where it has ended, and then the job is somebody else's."""
        return msgspec.convert(self._post(f"/v1/jobs/claims/{quote(lease, safe='')}/heartbeat", {}), Heartbeat)

    def finish_job(self, lease: str, finish: Finish) -> None:
        """Say how an attempt ended; StateConflict where its lease has ended. To say the same again does nothing."""
        self._post(f"/v1/jobs/claims/{quote(lease, safe='')}/finish", msgspec.to_builtins(finish))
