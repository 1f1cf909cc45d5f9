"""What the Jobs page asks: the queue as it is now, jobs in a state, one job; and what operators do with it."""

from __future__ import annotations

import streamlit as st

from dashboard.service import client, probed, same_version
from domain.errors import Forbidden, NotFound, ServiceUnavailable
from domain.jobs.jobs import ENDED, Job, JobList, JobState, Queue

__all__ = [
    "FRESH_S",
    "LISTED",
    "cancel_job",
    "cancel_submission",
    "forget",
    "job",
    "jobs",
    "queue",
    "retry_job",
]

FRESH_S = 2
LISTED = 200
"""Jobs that are listed, the newest first."""
_MOST = 1000
_kept = st.cache_data(show_spinner=False, ttl=FRESH_S, max_entries=32)


@_kept  # type: ignore[untyped-decorator]
def queue() -> Queue:
    """Return the queue as it is now; ServiceUnavailable where the service is older than jobs."""
    # What is wrong with the service itself is said as on every page.
    probed()
    try:
        with same_version():
            found: Queue = client().queue()
    except NotFound as missing:
        raise ServiceUnavailable(
            "the service has no jobs: it is older than this dashboard.", remedy="Upgrade the service."
        ) from missing
    return found


@_kept  # type: ignore[untyped-decorator]
def jobs(states: tuple[JobState, ...], submission: str) -> JobList:
    """Return the newest jobs in some states, of all where none is named, and of one submission; LISTED at most."""
    with same_version():
        found: JobList = client().jobs(state=states or None, submission=submission or None, limit=LISTED)
    return found


@_kept  # type: ignore[untyped-decorator]
def job(identifier: str) -> Job:
    """Return one job with its plan. Raises NotFound."""
    with same_version():
        found: Job = client().job(identifier)
    return found


def cancel_job(identifier: str) -> Job:
    """Cancel a job and return it as it is then. Raises Forbidden where the token may not, StateConflict where it has ended."""
    try:
        changed: Job = client().cancel_job(identifier)
    except Forbidden as refused:
        raise _reader(refused) from refused
    finally:
        forget()
    return changed


def cancel_submission(identifier: str) -> int:
    """Cancel the jobs of a submission that have not ended, and return how many those were."""
    cancelled = 0
    cursor: str | None = None
    while True:
        page = client().jobs(submission=identifier, limit=_MOST, cursor=cursor)
        for item in page.jobs:
            if item.state not in ENDED:
                cancel_job(item.id)
                cancelled += 1
        cursor = page.next
        if cursor is None:
            return cancelled


def retry_job(identifier: str) -> Job:
    """Queue a failed or cancelled job again. Raises as `cancel_job` does."""
    try:
        changed: Job = client().retry_job(identifier)
    except Forbidden as refused:
        raise _reader(refused) from refused
    finally:
        forget()
    return changed


def forget() -> None:
    """Ask the service again."""
    for item in (queue, jobs, job):
        item.clear()


def _reader(refused: Forbidden) -> Forbidden:
    return Forbidden(
        "the token that this dashboard sends may read jobs and not change them.",
        field=refused.field,
        remedy="Start the dashboard with ASSAY_TOKEN, from `assay token create dashboard --scope read --scope append --scope jobs`.",
    )
