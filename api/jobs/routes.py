"""Jobs over HTTP: submissions, the queue and schedules, and what workers need: claims, heartbeats and ends."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, delete, get, post
from litestar.params import JSONBody, PathParameter, QueryParameter

from api.background.child import unless_left
from api.container import Container
from api.http.body import BODY_LIMIT_BYTES
from api.http.paging import PAGE, PAGE_LIMIT
from api.jobs import reading, schedules, submitting
from api.jobs.claims import wait_for_job
from api.routes.operations import actor
from domain.errors import UsageError
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
from domain.permissions import Token

__all__ = ["router"]

_JOBS = {"scope": "jobs"}
_WORK = {"scope": "work"}
Id = Annotated[str, PathParameter(min_length=1, max_length=100, description="The id, or its first letters.")]
Lease = Annotated[
    str, PathParameter(pattern=r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", description="The lease of the claim.")
]
Name = Annotated[str, PathParameter(min_length=1, max_length=100)]
States = Annotated[
    list[JobState] | None, QueryParameter(name="state", description="Only jobs in these states; repeatable.")
]
OfSubmission = Annotated[
    str | None,
    QueryParameter(name="submission", min_length=1, max_length=36, description="Its id, or the first letters."),
]
Limit = Annotated[int, QueryParameter(ge=1, le=PAGE_LIMIT)]
Cursor = Annotated[str | None, QueryParameter(max_length=100, description="The next of the page before.")]


class Schedules(msgspec.Struct, frozen=True, kw_only=True):
    """All schedules, by name."""

    items: list[Schedule]


@post(
    "/v1/jobs",
    opt=_JOBS,
    status_code=200,
    summary="Submit jobs",
    tags=["jobs"],
    request_max_body_size=BODY_LIMIT_BYTES,
)
async def submit(request: Request[Any, Any, Any], data: JSONBody[Submission]) -> JobsSubmitted:
    """Queue jobs, all of them or none, and return their ids in order.

    A job with the same plan and needs as one that waits is that one, unless `again`. 422 where no worker that has reported
    meets a job's needs, unless `force`. A submission that comes again under its id is the same one.
    """
    await _require_types(request, Submission)
    container = await _writing(request)
    return await submitting.submit(container.jobs, data, actor(request))


@get("/v1/jobs", summary="Jobs, the newest first", tags=["jobs"])
async def jobs(
    request: Request[Any, Any, Any],
    states: States = None,
    of: OfSubmission = None,
    limit: Limit = PAGE,
    cursor: Cursor = None,
) -> JobList:
    """Return jobs without their plans, and in `counts` how many there are in each state, of the submission if one is named."""
    return await reading.job_list((await _reading(request)).jobs, states, of, limit, cursor)


@get("/v1/jobs/queue", summary="The queue, its workers and schedules", tags=["jobs"])
async def queue(request: Request[Any, Any, Any]) -> Queue:
    """Return counts by state, workers with what they can do, submissions that have not ended, and schedules."""
    return await reading.queue_state((await _reading(request)).jobs)


@get("/v1/jobs/schedules", summary="Schedules", tags=["jobs"])
async def list_schedules(request: Request[Any, Any, Any]) -> Schedules:
    """Return the schedules, by name."""
    return Schedules(items=await schedules.schedules((await _reading(request)).jobs))


@post("/v1/jobs/schedules", opt=_JOBS, status_code=200, summary="Add or replace a schedule", tags=["jobs"])
async def add_schedule(request: Request[Any, Any, Any], data: JSONBody[ScheduleRequest]) -> Schedule:
    """Submit jobs at every time of a cron expression of five fields, in UTC.

    Each time makes one submission, over any number of nodes and restarts; of times that were missed the newest is made up.
    """
    await _require_types(request, ScheduleRequest)
    container = await _writing(request)
    return await schedules.add(container.jobs, data, actor(request))


@delete("/v1/jobs/schedules/{name:str}", opt=_JOBS, status_code=200, summary="Remove a schedule", tags=["jobs"])
async def remove_schedule(request: Request[Any, Any, Any], name: Name) -> Schedule:
    """Remove a schedule and return it as it was; the jobs that it submitted stay."""
    return await schedules.remove((await _writing(request)).jobs, name)


@get("/v1/jobs/{job_id:str}", summary="One job", tags=["jobs"])
async def job(request: Request[Any, Any, Any], job_id: Id) -> Job:
    """Return a job with its plan."""
    return await reading.find_job((await _reading(request)).jobs, job_id)


@post("/v1/jobs/{job_id:str}/cancel", opt=_JOBS, status_code=200, summary="Cancel a job", tags=["jobs"])
async def cancel(request: Request[Any, Any, Any], job_id: Id) -> Job:
    """Cancel a job: one that waits at once, one that runs once its worker has ended it. 409 where it has ended."""
    container = await _writing(request)
    before = await reading.find_job(container.jobs, job_id)
    await container.jobs.cancel(before.id, actor(request))
    return await reading.find_job(container.jobs, before.id)


@post("/v1/jobs/{job_id:str}/retry", opt=_JOBS, status_code=200, summary="Queue a job again", tags=["jobs"])
async def retry(request: Request[Any, Any, Any], job_id: Id) -> Job:
    """Queue a failed or cancelled job again, with up to three further attempts; 409 in any other state."""
    container = await _writing(request)
    before = await reading.find_job(container.jobs, job_id)
    await container.jobs.retry(before.id, actor(request))
    return await reading.find_job(container.jobs, before.id)


@post("/v1/jobs/claims", opt=_WORK, status_code=200, summary="Claim a job", tags=["jobs"])
async def claim(request: Request[Any, Any, Any], data: JSONBody[ClaimRequest]) -> Response[Claim | None]:
    """Return a job whose needs the worker meets, under a lease; 204 where none came within `wait_s`."""
    container = await _writing(request)
    answer = await unless_left(request.receive, wait_for_job(container.jobs, container.waiters, data, _token(request)))
    return Response(answer, status_code=200) if answer is not None else Response(None, status_code=204)


@post("/v1/jobs/claims/{lease:str}/heartbeat", opt=_WORK, status_code=200, summary="Renew a lease", tags=["jobs"])
async def heartbeat(request: Request[Any, Any, Any], lease: Lease) -> Heartbeat:
    """Renew a lease, and return whether the job is to be cancelled; 409 where the lease has ended."""
    container = await _writing(request)
    return await container.jobs.heartbeat(lease, _token(request))


@post("/v1/jobs/claims/{lease:str}/finish", opt=_WORK, status_code=204, summary="End an attempt", tags=["jobs"])
async def finish(request: Request[Any, Any, Any], lease: Lease, data: JSONBody[Finish]) -> None:
    """Say how an attempt ended; 409 where its lease has ended. What was said already may be said again."""
    await _require_types(request, Finish)
    container = await _writing(request)
    # The end is written down even if the worker is gone by then.
    await asyncio.shield(container.jobs.finish(lease, data, _token(request)))


async def _require_types(request: Request[Any, Any, Any], shape: type[msgspec.Struct]) -> None:
    """Raise UsageError where the body says 0 for false or "1" for 1, which the conversion of a handler's argument lets pass."""
    try:
        msgspec.convert(await request.json(), shape)
    except msgspec.ValidationError as error:
        what, _, path = str(error).partition(" - at `$")
        raise UsageError(f"{what}.", field=path.strip(".`") or "$", remedy="The types are in /schema.") from error


async def _reading(request: Request[Any, Any, Any]) -> Container:
    container: Container = request.app.state.parts
    container.circuit.require()
    return container


async def _writing(request: Request[Any, Any, Any]) -> Container:
    container = await _reading(request)
    await container.jobs.require()
    return container


def _token(request: Request[Any, Any, Any]) -> str | None:
    token: Token | None = request.state.token
    return None if token is None else token.id


router = Router(
    "/",
    route_handlers=[
        submit,
        jobs,
        queue,
        list_schedules,
        add_schedule,
        remove_schedule,
        job,
        cancel,
        retry,
        claim,
        heartbeat,
        finish,
    ],
)
