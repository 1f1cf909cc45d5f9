"""The queue of jobs over HTTP: submissions, claims under leases, the ends of attempts, and what is refused."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta

import msgspec
import psycopg
import pytest

from api.jobs.queue import JobQueue
from api.settings import Settings
from assay.client import Client
from domain.errors import Forbidden, InvalidInput, NotFound, PartMissing, PayloadTooLarge, StateConflict, UsageError
from domain.jobs.jobs import Finish, JobRequest, ScheduleRequest, Submission
from domain.jobs.needs import Needs
from ingest.log.event_log import EventLog
from tests.integration.conftest import RunningService
from tests.jobs import claim, job, submission, worker

LEASE_S = 1.5
DONE = Finish(outcome="succeeded", run_ids=["run-1"], exit_code=0)
CPU = worker("plain")
BUSY = worker("busy")


@pytest.fixture(scope="module")
def service(service_database, tmp_path_factory):
    running = RunningService(tmp_path_factory.mktemp("jobs"), service_database().url)
    running.environment = {"ASSAY_JOB_LEASE": str(LEASE_S)}
    running.start()
    yield running
    running.stop()


@pytest.fixture
def queue(service):
    """A client, in a queue in which nothing is left from the test before."""
    with service.client() as client:
        yield client
    with psycopg.connect(service.database_url) as connection:
        connection.execute("UPDATE job SET state = 'cancelled', queue_id = NULL WHERE state IN ('waiting', 'running')")
        connection.execute("UPDATE job_lease SET ended_at = now(), outcome = 'expired' WHERE ended_at IS NULL")
        connection.execute("DELETE FROM job_schedule")
        connection.execute("DELETE FROM job_worker")
        connection.execute("DELETE FROM procrastinate_jobs")


def wait_at(url):
    """Claim as a worker that nothing comes for."""
    with Client(url, patience_s=0) as client:
        assert claim(client, BUSY, wait_s=30, busy=("0",)) is None


def events_of(client, job_id):
    return [event["type"].split(".")[2] for event in client.events(subject=f"job/{job_id}")]


def until(condition, seconds=10.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_job_is_claimed_renewed_and_finished_with_one_event_a_change(queue):
    answer = queue.submit_jobs(submission("cpu", name="nightly"))
    (name,) = answer.jobs
    waiting = queue.job(name)
    assert (waiting.state, waiting.attempt, waiting.attempts, waiting.submission) == (
        "waiting",
        0,
        3,
        answer.submission,
    )
    claimed = claim(queue, CPU)
    assert (claimed.job, claimed.attempt, claimed.device, claimed.plan) == (name, 1, "0", waiting.plan)
    running = queue.job(name[:30])
    assert (running.state, running.worker, running.hardware, running.attempt) == ("running", "plain", "plain-device", 1)
    renewed = queue.heartbeat(claimed.lease)
    assert (renewed.expires_at >= claimed.expires_at, renewed.cancel) == (True, False)
    queue.finish_job(claimed.lease, DONE)
    ended = queue.job(name)
    assert (ended.state, ended.run_ids, ended.reason) == ("succeeded", ["run-1"], None)
    assert ended.started_at <= ended.ended_at and claim(queue, CPU) is None
    assert events_of(queue, name) == ["requested", "started", "finished"]


def test_the_higher_priority_is_claimed_first_and_then_the_older(queue):
    names = [queue.submit_jobs(submission("cpu", priority=priority)).jobs[0] for priority in (0, 5, 0)]
    assert [claim(queue, CPU).job for _ in names] == [names[1], names[0], names[2]]


def test_no_job_reaches_a_worker_that_lacks_a_need(queue):
    needs = [
        "cuda,memory=16GB",
        "cuda,memory=8GB",
        "cpu,label=lab",
        "os=linux",
        "hardware=small-device",
        "cpu,devices=2",
    ]
    names = queue.submit_jobs(submission(*needs, force=True)).jobs
    small = worker("small", "cuda", "cpu", memory_bytes=10 * 10**9)
    large = worker("large", "cuda", memory_bytes=24 * 10**9, labels=("lab",))
    got = [taken.job for taken in iter(lambda: claim(queue, small), None)]
    assert set(got) == {names[1], names[3], names[4]}
    assert claim(queue, large, busy=("0",)) is None
    assert [taken.job for taken in iter(lambda: claim(queue, large), None)] == [names[0]]


def test_a_job_does_not_start_before_its_time(queue):
    later = datetime.now(UTC) + timedelta(seconds=1.5)
    (name,) = queue.submit_jobs(submission("cpu", at=later)).jobs
    assert claim(queue, CPU) is None
    taken = claim(queue, CPU, wait_s=10)
    assert (taken.job, queue.job(name).started_at >= later) == (name, True)


def test_a_claim_that_waits_gets_the_job_as_soon_as_it_comes(queue, service):
    got = []

    def wait():
        with service.client() as client:
            got.append((claim(client, worker("gpu", "cuda"), wait_s=20), time.monotonic()))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    until(lambda: any(state.description.name == "gpu" for state in queue.queue().workers))
    submitted = time.monotonic()
    names = queue.submit_jobs(submission("cuda", "cuda", "cuda", "cpu", force=True)).jobs
    for thread in threads:
        thread.join(30)
    assert {taken.job for taken, _ in got} == set(names[:3])
    assert max(moment for _, moment in got) - submitted < 5


def test_a_claim_waits_no_longer_than_it_said(queue):
    begin = time.monotonic()
    assert claim(queue, CPU, wait_s=0.3) is None
    assert 0.3 <= time.monotonic() - begin < 5


def test_a_job_whose_worker_is_gone_starts_again_until_its_attempts_are_used_up(queue):
    (name,) = queue.submit_jobs(submission("cpu", attempts=2)).jobs
    first = claim(queue, CPU)
    begin = time.monotonic()
    second = claim(queue, worker("other"), wait_s=2 * LEASE_S)
    assert (second.job, second.attempt, second.lease != first.lease) == (name, 2, True)
    assert LEASE_S / 2 < time.monotonic() - begin < 2 * LEASE_S
    for lease in (first.lease, str(uuid.uuid4())):
        with pytest.raises(StateConflict) as refused:
            queue.finish_job(lease, DONE)
        assert (refused.value.field, bool(refused.value.remedy)) == ("lease", True)
        with pytest.raises(StateConflict):
            queue.heartbeat(lease)
    until(lambda: queue.job(name).state == "failed")
    assert "other" in queue.job(name).reason
    assert events_of(queue, name) == ["requested", "started", "failed", "started", "failed"]


def test_a_lease_that_is_renewed_does_not_end(queue):
    queue.submit_jobs(submission("cpu"))
    claimed = claim(queue, CPU)
    end = time.monotonic() + 1.6 * LEASE_S
    while time.monotonic() < end:
        queue.heartbeat(claimed.lease)
        time.sleep(LEASE_S / 4)
    queue.finish_job(claimed.lease, DONE)
    assert events_of(queue, claimed.job) == ["requested", "started", "finished"]


def test_what_a_worker_said_already_may_be_said_again_and_nothing_else(queue):
    queue.submit_jobs(submission("cpu"))
    claimed = claim(queue, CPU)
    for _ in range(2):
        queue.finish_job(claimed.lease, DONE)
    with pytest.raises(StateConflict):
        queue.finish_job(claimed.lease, Finish(outcome="failed", reason="no"))
    assert events_of(queue, claimed.job) == ["requested", "started", "finished"]


def test_a_failed_attempt_is_tried_again_unless_it_is_final(queue):
    names = queue.submit_jobs(submission("cpu", "cpu")).jobs
    first = claim(queue, CPU)
    queue.finish_job(first.lease, Finish(outcome="failed", reason="lost its device", exit_code=1))
    assert (queue.job(names[0]).state, queue.job(names[0]).reason) == ("waiting", "lost its device")
    again = claim(queue, CPU)
    assert (again.job, again.attempt) == (names[0], 2)
    queue.finish_job(again.lease, Finish(outcome="failed", reason="no such model", final=True))
    assert (queue.job(names[0]).state, queue.job(names[0]).attempt) == ("failed", 2)
    assert queue.retry_job(names[0]).attempts == 5
    assert {claim(queue, CPU).job, claim(queue, CPU).job} == set(names)
    assert events_of(queue, names[0])[-3:] == ["failed", "requested", "started"]


def test_an_attempt_that_its_worker_gives_back_does_not_count(queue):
    (name,) = queue.submit_jobs(submission("cpu", attempts=1)).jobs
    queue.finish_job(claim(queue, CPU).lease, Finish(outcome="cancelled"))
    assert (queue.job(name).state, queue.job(name).attempts) == ("waiting", 2)
    queue.finish_job(claim(queue, CPU).lease, Finish(outcome="failed", reason="broken"))
    assert queue.job(name).state == "failed"


def test_a_waiting_job_is_cancelled_at_once_and_a_running_one_by_its_worker(queue):
    names = queue.submit_jobs(submission("cpu", "cpu")).jobs
    claimed = claim(queue, CPU)
    assert queue.cancel_job(names[1]).state == "cancelled"
    running = queue.cancel_job(names[0])
    assert (running.state, running.cancelling, queue.heartbeat(claimed.lease).cancel) == ("running", True, True)
    queue.finish_job(claimed.lease, Finish(outcome="cancelled"))
    assert [queue.job(name).state for name in names] == ["cancelled", "cancelled"]
    assert events_of(queue, names[0]) == ["requested", "started", "cancelled"]
    assert events_of(queue, names[1]) == ["requested", "cancelled"]
    assert queue.cancel_job(names[1]).state == "cancelled" and claim(queue, CPU) is None


def test_a_cancelled_job_whose_worker_is_gone_is_cancelled(queue):
    (name,) = queue.submit_jobs(submission("cpu")).jobs
    claim(queue, CPU)
    queue.cancel_job(name)
    until(lambda: queue.job(name).state == "cancelled")


def test_only_jobs_in_the_right_state_are_cancelled_or_queued_again(queue):
    (name,) = queue.submit_jobs(submission("cpu")).jobs
    with pytest.raises(StateConflict):
        queue.retry_job(name)
    queue.finish_job(claim(queue, CPU).lease, DONE)
    for change in (queue.cancel_job, queue.retry_job):
        with pytest.raises(StateConflict):
            change(name)
        with pytest.raises(NotFound):
            change(str(uuid.uuid4()))


def test_a_plan_that_waits_already_is_not_queued_twice_unless_asked(queue):
    plain = Submission(jobs=[job(model="acme/same"), job(model="acme/other")])
    first = queue.submit_jobs(plain)
    second = queue.submit_jobs(Submission(jobs=[job(model="acme/same"), job(model="acme/new"), job(model="acme/new")]))
    assert (second.jobs[0], second.existing, len(set(second.jobs))) == (first.jobs[0], [first.jobs[0]], 2)
    assert queue.submit_jobs(msgspec.structs.replace(plain, again=True)).existing == []
    claim(queue, CPU)
    assert queue.submit_jobs(Submission(jobs=[job(model="acme/other")])).existing == [first.jobs[1]]


def test_a_submission_that_comes_again_under_its_id_is_the_same_one(queue):
    sent = submission("cpu", "cpu", id=str(uuid.uuid4()))
    first = queue.submit_jobs(sent)
    claim(queue, CPU)
    assert queue.submit_jobs(sent).jobs == first.jobs
    assert queue.jobs(submission=first.submission).counts["waiting"] == 1
    with pytest.raises(UsageError) as refused:
        queue.submit_jobs(submission("cpu", id=sent.id))
    assert refused.value.field == "id"


def test_needs_that_no_worker_meets_are_refused_with_the_closest_one(queue):
    assert queue.submit_jobs(submission("cuda")).notes != []
    assert "no worker" in queue.jobs(state="waiting").jobs[0].unmet
    claim(queue, worker("near", "cpu", "cuda", memory_bytes=8 * 10**9, labels=("lab",)))
    claim(queue, worker("far", "openvino"))
    with pytest.raises(UsageError) as refused:
        queue.submit_jobs(Submission(jobs=[job(), job("cuda,memory=16GB,label=attic")]))
    assert refused.value.field == "jobs[1].needs" and "force" in refused.value.remedy
    assert all(word in refused.value.detail for word in ("near", "attic", "8 GB of 16 GB"))
    assert len(queue.jobs(state="waiting").jobs) == 0  # The first one was claimed; the refused ones are not there.
    (name,) = queue.submit_jobs(submission("cuda,memory=16GB", force=True)).jobs
    assert "near" in queue.job(name).unmet


@pytest.mark.parametrize(
    ("members", "field"),
    [
        ({"jobs": []}, "jobs"),
        ({"jobs": [{"plan": {}}] * 10_001}, "jobs"),
        ({"jobs": [{"plan": []}]}, "jobs[0].plan"),
        ({"jobs": [{"plan": {"a": "x" * 65_536}}]}, "jobs[0].plan"),
        ({"jobs": [{"plan": {}, "needs": {"devices": 0}}]}, "jobs[0].needs.devices"),
        ({"jobs": [{"plan": {}, "needs": {"gpu": 1}}]}, "gpu"),
        ({"jobs": [{"plan": {}}], "at": "2026-01-01T00:00:00"}, "at"),
        ({"jobs": [{"plan": {}}], "attempts": 0}, "attempts"),
        ({"jobs": [{"plan": {}}], "priority": 10**9}, "priority"),
        ({"jobs": [{"plan": {}, "title": "a\nb"}]}, "jobs[0].title"),
        ({"jobs": [{"plan": {}}], "id": "x"}, "id"),
        ({"jobs": [{"plan": {}}], "force": 0}, "force"),
    ],
)
def test_a_submission_that_is_wrong_is_refused_with_its_field(queue, members, field):
    before = queue.jobs().counts
    with pytest.raises(InvalidInput) as refused:
        queue._post("/v1/jobs", members)
    assert refused.value.field == field
    assert queue.jobs().counts == before


def test_a_plan_that_is_too_long_says_its_size(queue):
    with pytest.raises(PayloadTooLarge, match="65,"):
        queue.submit_jobs(Submission(jobs=[job(), JobRequest(plan={"models": ["x" * 70_000]})]))


def test_jobs_are_listed_newest_first_page_by_page(queue):
    answer = queue.submit_jobs(submission(*["cpu"] * 5))
    first = queue.jobs(submission=answer.submission, limit=3)
    rest = queue.jobs(submission=answer.submission, limit=3, cursor=first.next)
    assert [item.id for item in first.jobs + rest.jobs] == answer.jobs[::-1]
    assert (rest.next, first.counts["waiting"], first.jobs[0].plan) == (None, 5, None)
    claim(queue, CPU)
    assert [item.id for item in queue.jobs(submission=answer.submission, state="running").jobs] == answer.jobs[:1]
    with pytest.raises(UsageError):
        queue.job(answer.jobs[0][:2])


def test_the_queue_shows_workers_progress_and_how_long_the_oldest_waits(queue):
    answer = queue.submit_jobs(submission("cpu", "cpu", name="nightly"))
    claimed = claim(queue, CPU)
    state = queue.queue()
    assert (state.counts["waiting"], state.counts["running"], state.oldest_waiting_s >= 0) == (1, 1, True)
    (shown,) = state.workers
    assert (shown.description, shown.alive, shown.jobs) == (CPU, True, [claimed.job])
    (progress,) = state.submissions
    assert (progress.submission, progress.name, progress.counts["running"]) == (answer.submission, "nightly", 1)


@pytest.mark.parametrize(
    "cron", ["0 0 30 2 *", "* * * * * *", "60 * * * *", "nonsense", "R * * * *", "@daily", "0 3 * * xyz"]
)
def test_a_schedule_that_never_comes_or_is_none_is_refused(queue, cron):
    with pytest.raises(UsageError) as refused:
        queue.add_schedule(ScheduleRequest(name="bad", cron=cron, submission=submission("cpu")))
    assert refused.value.field == "cron" and queue.schedules() == []


def test_a_schedule_submits_once_over_several_nodes_and_makes_up_the_newest_missed_time(queue, service, tmp_path):
    added = queue.add_schedule(ScheduleRequest(name="nightly", cron="0 3 * * *", submission=submission("cpu")))
    assert (added.next_at.hour, added.jobs, added.last_submission) == (3, 1, None)
    other = RunningService(tmp_path, service.database_url, "--role", "ingest").start()
    claims = threading.Thread(target=wait_at, args=[other.url])
    try:
        with psycopg.connect(service.database_url) as connection:
            connection.execute("UPDATE job_schedule SET next_at = now() - interval '5 days'")
        until(lambda: queue.schedules()[0].last_submission is not None)
        with other.client() as client:  # Jobs are there on a node without tables too.
            assert client.jobs(state="waiting").counts["waiting"] == 1
            assert client.schedules()[0].next_at == added.next_at
            claims.start()
            until(lambda: any(state.description == BUSY for state in client.queue().workers))
    finally:
        assert other.stop() == 0, "a node ends while claims wait"
    claims.join(10)
    assert queue.remove_schedule("nightly").name == "nightly"
    with pytest.raises(NotFound):
        queue.remove_schedule("nightly")


def test_a_node_that_takes_no_events_takes_no_jobs(database, tmp_path):
    settings, log = Settings(home=tmp_path, role="query"), EventLog(database.url)
    with pytest.raises(PartMissing) as refused:
        asyncio.run(JobQueue(settings, database, log, log.transaction).require())
    assert refused.value.field == "role"


def test_a_database_without_the_queue_says_how_to_install_it_and_takes_jobs_from_then_on(fresh_service, database):
    with psycopg.connect(database.url) as connection:
        ((migration,),) = connection.execute("DELETE FROM job_engine RETURNING migration").fetchall()
    running = fresh_service("--role", "ingest").start()
    with running.client(patience_s=0) as client:
        with pytest.raises(PartMissing, match="db upgrade") as refused:
            client.submit_jobs(submission("cpu"))
        assert refused.value.field == "jobs" and client.jobs().jobs == []
        with psycopg.connect(database.url) as connection:
            connection.execute("INSERT INTO job_engine (migration) VALUES (%s)", [migration])
        client.submit_jobs(submission("cpu"))
        assert claim(client, CPU) is not None


def test_one_workers_token_does_not_end_anothers_job(fresh_service):
    from api.http.tokens import TokenStore

    running = fresh_service("--role", "ingest")
    store = TokenStore(running.database_url)
    tokens = [store.create(name, ["work"])[0] for name in ("one", "two")]
    admin = store.create("admin", ["admin"])[0]
    running.start_with(admin)
    with running.client() as client:
        client.submit_jobs(submission("cpu"))
    running.token = tokens[0]
    with running.client() as one:
        claimed = claim(one, CPU)
        running.token = tokens[1]
        with running.client() as two:
            for refused in (lambda: two.heartbeat(claimed.lease), lambda: two.finish_job(claimed.lease, DONE)):
                with pytest.raises(StateConflict):
                    refused()
            for forbidden in (two.jobs, lambda: two.submit_jobs(submission("cpu"))):
                with pytest.raises(Forbidden):
                    forbidden()
        one.finish_job(claimed.lease, DONE)


def test_needs_with_the_same_meaning_share_a_queue(queue, service):
    queue.submit_jobs(
        Submission(jobs=[job(Needs(platforms=("cpu", "openvino"))), job(Needs(platforms=("openvino", "cpu", "cpu")))])
    )
    with psycopg.connect(service.database_url) as connection:
        rows = connection.execute("SELECT DISTINCT queue_name FROM procrastinate_jobs").fetchall()
    assert len(rows) == 1
