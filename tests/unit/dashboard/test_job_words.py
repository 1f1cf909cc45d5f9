"""What the Jobs page says of a queue: sentences, progress, and what each worker does."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from dashboard.screens.jobs.words import (
    JobsView,
    job_columns,
    read_jobs,
    sentence,
    submission_columns,
    waiting_words,
    worker_columns,
)
from domain.jobs.jobs import Job, Queue, SubmissionProgress, WorkerState
from domain.jobs.needs import DeviceDescription, Needs, WorkerDescription

AT = datetime(2026, 11, 26, 18, tzinfo=UTC)
L4 = DeviceDescription(address="gpu", hardware="nvidia-l4", platforms=("cuda",), memory_bytes=24 * 2**30, count=2)
EMPTY = Queue(counts={}, workers=[], submissions=[], schedules=[])


def worker(name, alive=True, jobs=()):
    description = WorkerDescription(name=name, os="linux", devices=(L4,), labels=("lab",))
    return WorkerState(description=description, seen_at=AT, alive=alive, jobs=list(jobs))


def job(state, **more):
    made = Job(
        id=f"job-{state}", submission="s", title=f"tiny {state}", state=state, needs=Needs(platforms=("cuda",)), priority=0,
        attempt=0, attempts=3, submitted_at=AT,
    )  # fmt: skip
    return msgspec.structs.replace(made, **more)


def test_the_answer_counts_jobs_and_workers_that_are_there():
    assert sentence(EMPTY) == "No job waits; no worker is connected."
    queue = msgspec.structs.replace(
        EMPTY, counts={"running": 1, "waiting": 1200, "failed": 2}, workers=[worker("a"), worker("b", alive=False)],
        oldest_waiting_s=7300,
    )  # fmt: skip
    assert sentence(queue).replace("\u202f", " ") == "1 job runs, 1,200 wait; 1 worker is connected."
    assert waiting_words(queue) == "The oldest has waited for 2 hours. 2 jobs have failed."


def test_workers_that_are_there_stand_first_with_what_they_do_and_can():
    queue = msgspec.structs.replace(
        EMPTY, workers=[worker("a", alive=False), worker("b", jobs=["job-running"]), worker("c")]
    )
    columns = {column.head: column for column in worker_columns(queue, {"job-running": "tiny on cuda"}, None)}
    assert list(columns["Worker"].values) == ["b", "c", "a"]
    assert columns["Doing"].values[:2] == ["tiny on cuda", "waits for a job"]
    assert columns["Doing"].values[2].startswith("gone since")
    assert columns["Doing"].links == ["jobs?job=job-running", None, None]
    assert columns["Devices"].values[0].replace("\u202f", " ") == "2 × nvidia-l4, 24 GB: cuda"


def test_progress_counts_every_end():
    item = SubmissionProgress(
        submission="s",
        name="nightly",
        submitted_at=AT,
        counts={"succeeded": 1, "failed": 1, "cancelled": 1, "running": 1, "waiting": 4},
    )
    columns = {column.head: column for column in submission_columns([item], None)}
    assert columns["Done"].shown == ["3 of 8"]
    assert columns["Done"].share == [3 / 8]
    assert columns["Submission"].links == ["jobs?submission=s"]


def test_a_job_that_nobody_can_do_says_why_and_its_link_keeps_the_filter():
    rows = [job("waiting", unmet="no worker has cuda"), job("failed", reason="out_of_memory: 16 GB")]
    columns = {column.head: column for column in job_columns(rows, JobsView(state="failed"), None)}
    assert columns["Why"].values == ["no worker has cuda", "out_of_memory: 16 GB"]
    assert columns["Job"].links[1] == "jobs?state=failed&job=job-failed"


def test_an_address_that_names_no_state_says_so():
    read = read_jobs({"state": ["lost"], "job": ["x"]})
    assert read.asked == JobsView(job="x")
    assert read.dropped
