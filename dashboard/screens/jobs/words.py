"""Jobs in sentences and rows: what waits and why, who works, how far submissions are, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from urllib.parse import quote, urlencode

import msgspec

from dashboard.address import Params, Read, one_of, parameters, text, understood
from dashboard.tables.result_table import Column, filled
from domain.jobs.jobs import ENDED, Job, JobState, Queue, Schedule, SubmissionProgress, WorkerState
from domain.jobs.needs import DeviceDescription
from presentation import formatting

__all__ = [
    "ALL",
    "OFFERED",
    "PAGE",
    "JobsView",
    "facts",
    "job_columns",
    "read_jobs",
    "schedule_columns",
    "sentence",
    "states_of",
    "submission_columns",
    "waiting_words",
    "worker_columns",
]

PAGE = "jobs"
ALL = "all"
OFFERED = {
    ALL: "All",
    "failed": "Failed",
    "waiting": "Waiting",
    "running": "Running",
    "succeeded": "Succeeded",
    "cancelled": "Cancelled",
}


class JobsView(msgspec.Struct, frozen=True, kw_only=True):
    """What the page shows: jobs in a state, of a submission; `job` is open."""

    state: str = ALL
    submission: str = ""
    job: str = ""


def read_jobs(params: Params) -> Read:
    """Read the page's parameters."""
    return understood(JobsView, params, {"state": one_of(OFFERED), "submission": text, "job": text})


def states_of(view: JobsView) -> tuple[JobState, ...]:
    """Return the states that are asked for; none stands for all."""
    return () if view.state == ALL else (view.state,)  # type: ignore[return-value]


def sentence(queue: Queue) -> str:
    """Return the answer in words: how many jobs run and wait, and how many workers there are."""
    running, waiting = (queue.counts.get(state, 0) for state in ("running", "waiting"))
    alive = sum(worker.alive for worker in queue.workers)
    workers = _number(alive, "worker is connected", "workers are connected", none="no worker is connected")
    if not running and not waiting:
        return f"No job waits; {workers}."
    runs = _number(running, "job runs", "jobs run", none="No job runs")
    waits = _number(waiting, "waits", "wait", none="none waits")
    return f"{runs}, {waits}; {workers}."


def waiting_words(queue: Queue) -> str:
    """Say how long the oldest waiting job has waited, and how many jobs failed; empty where neither is so."""
    parts = []
    if queue.oldest_waiting_s is not None:
        parts.append(f"The oldest has waited for {_duration(queue.oldest_waiting_s)}.")
    failed = queue.counts.get("failed", 0)
    if failed:
        parts.append(f"{_number(failed, 'job has', 'jobs have')} failed.")
    return " ".join(parts)


def _number(number: int, one: str, many: str, *, none: str = "") -> str:
    if number == 0 and none:
        return none
    return f"1 {one}" if number == 1 else f"{formatting.count(number)} {many}"


def _duration(seconds: float) -> str:
    for unit, size in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def worker_columns(queue: Queue, titles: Mapping[str, str], zone: tzinfo | None) -> list[Column]:
    """Return the workers that have reported, those that are there first: what each does and can do."""
    workers = sorted(queue.workers, key=lambda worker: (not worker.alive, worker.description.name))
    job_ids = [worker.jobs[0] if worker.jobs else None for worker in workers]
    doing = [_doing(worker, titles, zone) for worker in workers]
    return filled(
        [
            Column(head="Worker", values=[worker.description.name for worker in workers]),
            Column(
                head="Doing",
                values=doing,
                links=[f"{PAGE}?job={quote(job)}" if job else None for job in job_ids],
            ),
            Column(
                head="Devices",
                values=["; ".join(map(_device, worker.description.devices)) or None for worker in workers],
            ),
            Column(head="Labels", values=[", ".join(worker.description.labels) or None for worker in workers]),
            Column(head="System", values=[worker.description.os for worker in workers]),
            Column(head="Assay", values=[worker.description.assay for worker in workers]),
        ]
    )


def _doing(worker: WorkerState, titles: Mapping[str, str], zone: tzinfo | None) -> str:
    if not worker.alive:
        return f"gone since {formatting.when(worker.seen_at, zone)}"
    if not worker.jobs:
        return "waits for a job"
    more = f" and {len(worker.jobs) - 1} more" if len(worker.jobs) > 1 else ""
    return f"{titles.get(worker.jobs[0], 'a job')}{more}"


def _device(device: DeviceDescription) -> str:
    count = f"{device.count} × " if device.count > 1 else ""
    memory = f", {formatting.capacity(device.memory_bytes)}" if device.memory_bytes else ""
    return f"{count}{device.hardware}{memory}: {', '.join(device.platforms)}"


def submission_columns(submissions: Sequence[SubmissionProgress], zone: tzinfo | None) -> list[Column]:
    """Return submissions that have not ended, the newest first, each with how much of it has."""
    totals = [sum(item.counts.values()) for item in submissions]
    ended = [sum(item.counts.get(state, 0) for state in ENDED) for item in submissions]
    shares = [done / total if total else 0.0 for done, total in zip(ended, totals, strict=True)]
    failed = [item.counts.get("failed", 0) for item in submissions]
    return filled(
        [
            Column(
                head="Submission",
                values=[item.name or item.submission for item in submissions],
                links=[_path(JobsView(submission=item.submission)) for item in submissions],
            ),
            Column(
                head="Done",
                values=shares,
                shown=[f"{done} of {total}" for done, total in zip(ended, totals, strict=True)],
                share=shares,
            ),
            Column(head="Running", values=[item.counts.get("running", 0) for item in submissions]),
            Column(head="Failed", values=[number or None for number in failed]),
            Column(
                head="Submitted",
                values=[item.submitted_at.isoformat() for item in submissions],
                shown=[formatting.when(item.submitted_at, zone) for item in submissions],
            ),
        ]
    )


def job_columns(jobs: Sequence[Job], view: JobsView, zone: tzinfo | None) -> list[Column]:
    """Return jobs as the columns of a table; a name opens its job with the same filters."""
    moments = [job.ended_at or job.started_at or job.submitted_at for job in jobs]
    return filled(
        [
            Column(
                head="Job",
                values=[job.title for job in jobs],
                links=[_path(msgspec.structs.replace(view, job=job.id)) for job in jobs],
            ),
            Column(head="State", values=["being cancelled" if job.cancelling else job.state for job in jobs]),
            Column(
                head="Why", values=[job.unmet if job.state == "waiting" and job.unmet else job.reason for job in jobs]
            ),
            Column(head="Worker", values=[job.worker for job in jobs]),
            Column(
                head="Since",
                values=[moment.isoformat() for moment in moments],
                shown=[formatting.when(moment, zone) for moment in moments],
            ),
            Column(head="Needs", values=[str(job.needs) or None for job in jobs]),
        ]
    )


def _path(view: JobsView) -> str:
    return f"{PAGE}?{urlencode(parameters(view), doseq=True)}"


def schedule_columns(schedules: Sequence[Schedule], zone: tzinfo | None) -> list[Column]:
    """Return the schedules: when each submits how many jobs, and its newest submission."""
    newest = [item.last_submission for item in schedules]
    return filled(
        [
            Column(head="Schedule", values=[item.name for item in schedules]),
            Column(head="Cron (UTC)", values=[item.cron for item in schedules]),
            Column(head="Jobs", values=[item.jobs for item in schedules]),
            Column(
                head="Next",
                values=[item.next_at.isoformat() for item in schedules],
                shown=[formatting.when(item.next_at, zone) for item in schedules],
            ),
            Column(
                head="Newest submission",
                values=[name[-12:] if name else None for name in newest],
                links=[_path(JobsView(submission=name)) if name else None for name in newest],
            ),
        ]
    )


def facts(job: Job, zone: tzinfo | None) -> list[tuple[str, str]]:
    """Return what is known of a job, as names and values."""
    rows: list[tuple[str, str | None]] = [
        ("Needs", str(job.needs) or "nothing"),
        ("Worker", f"{job.worker}{f' ({job.hardware})' if job.hardware else ''}" if job.worker else None),
        ("Attempts", f"{job.attempt} of {job.attempts}" if job.attempt else f"none of {job.attempts}"),
        ("Priority", str(job.priority) if job.priority else None),
        ("Not before", formatting.when(job.at, zone) if job.at else None),
        ("Submitted", formatting.when(job.submitted_at, zone)),
        ("Started", formatting.when(job.started_at, zone) if job.started_at else None),
        ("Ended", formatting.when(job.ended_at, zone) if job.ended_at else None),
    ]
    return [(name, value) for name, value in rows if value]
