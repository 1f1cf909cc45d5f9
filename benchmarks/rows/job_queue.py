"""The queue of jobs: claims and finishes a second over HTTP with 10,000 waiting, against procrastinate's own fetch and finish."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg

from assay.client import Client
from benchmarks.bench import Bench
from benchmarks.lines import Limit, Line, interleaved, plain, rates
from benchmarks.serving import service
from domain.jobs.jobs import ClaimRequest, Finish, JobRequest, Submission
from domain.jobs.needs import DeviceDescription, Needs, WorkerDescription
from ingest.log.postgres import Database

__all__ = ["job_queue"]

WAITING = 10_000
KINDS = 20
"""Sets of needs; a worker meets half of them."""
WORKERS = 4
MEMORY_BYTES = 16 * 10**9
_DEFER = """
SELECT procrastinate_defer_jobs_v1(array_agg(
    ROW('queue-' || n %% %(kinds)s, 'task', 0, NULL, NULL, '{}', NULL)::procrastinate_job_to_defer_v1))
FROM generate_series(1, %(jobs)s) AS n
"""
_FETCH = "SELECT id FROM procrastinate_fetch_job_v2(%(queues)s::varchar[], NULL)"
_FINISH = "SELECT procrastinate_finish_job_v1(%(job)s, 'succeeded', true)"
_WORKER = WorkerDescription(
    name="bench",
    os="linux",
    devices=(DeviceDescription(address="0", hardware="acme-one", platforms=("cpu",), memory_bytes=MEMORY_BYTES),),
)


def job_queue(bench: Bench) -> Iterator[Line]:
    """Each pair is one claim and one finish, each committed: ours with its event, the peer's on a connection that is open."""
    pairs = bench.plan.count(400, 80)
    with (
        bench.database() as database,
        bench.database() as other,
        service(bench.folder(), database, "--role", "ingest") as running,
        Client(running.url) as client,
    ):
        begin = time.perf_counter()
        client.submit_jobs(_submission())
        submitted_s = time.perf_counter() - begin
        with psycopg.connect(other.url, autocommit=True) as connection:
            connection.execute(_DEFER, {"kinds": KINDS, "jobs": WAITING})
        just_after = _ours(running.url, pairs)
        ours, peer = interleaved(bench.plan.repeats, lambda: _ours(running.url, pairs), lambda: _peer(other, pairs))
        client.submit_jobs(_submission())
        again = _ours(running.url, pairs)
    what = f"claims with finishes over HTTP, {WAITING:,} jobs waiting"
    limit = Limit(bar=40)
    yield plain(
        f"{what}, right after they were submitted", "1/s", [just_after, again], limit, value=min(just_after, again)
    )
    yield plain(what, "1/s", ours, limit, value=min(ours))
    yield rates(what, "1/s", ours, peer, "procrastinate's own fetch and finish, without HTTP and events")
    yield plain(f"submitting {WAITING:,} jobs", "s", [submitted_s])


def _submission() -> Submission:
    jobs = [
        JobRequest(
            plan={"models": ["acme/tiny"], "platforms": ["cpu"], "batch_sizes": [number]},
            needs=Needs(platforms=("cpu",), memory_bytes=(1 + number % KINDS) * MEMORY_BYTES * 2 // KINDS),
        )
        for number in range(WAITING)
    ]
    return Submission(jobs=jobs, again=True, force=True)


def _ours(url: str, pairs: int) -> float:
    def work() -> int:
        with Client(url) as client:
            for _ in range(pairs // WORKERS):
                claim = client.claim_job(ClaimRequest(worker=_WORKER))
                assert claim is not None
                client.finish_job(claim.lease, Finish(outcome="succeeded"))
        return pairs // WORKERS

    return _rate(work)


def _peer(database: Database, pairs: int) -> float:
    queues = [f"queue-{number}" for number in range(KINDS // 2)]

    def work() -> int:
        with psycopg.connect(database.url, autocommit=True) as connection:
            for _ in range(pairs // WORKERS):
                ((job,),) = connection.execute(_FETCH, {"queues": queues}).fetchall()
                connection.execute(_FINISH, {"job": job})
        return pairs // WORKERS

    return _rate(work)


def _rate(work: Callable[[], int]) -> float:
    begin = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        done = sum(future.result() for future in [pool.submit(work) for _ in range(WORKERS)])
    return done / (time.perf_counter() - begin)
