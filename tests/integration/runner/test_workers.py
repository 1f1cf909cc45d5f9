"""Workers on a real service: plans done where they can be, and cancelled, given back and started again elsewhere."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from assay.cli import run
from domain.events import MEASUREMENT_RECORDED, RUN_STARTED
from domain.jobs.jobs import ENDED, JobRequest, Submission
from domain.jobs.needs import Needs
from tests.integration.conftest import ROOT, RunningService

pytestmark = pytest.mark.xdist_group("workers")
LEASE_S = 10.0
LONG = 300
CANCEL_S = 10.0
OWN = ("--needs", "label=own")
"""Jobs for the workers of a test alone."""


class RunningWorker:
    """One `assay worker` process; its machine is told by the folder of its locks, its disk by its home."""

    def __init__(self, service: RunningService, home: Path, machine: Path, *arguments: str) -> None:
        machine.mkdir(exist_ok=True)
        self.home = home
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
        environment |= {"ASSAY_HOME": str(home), "TMPDIR": str(machine), "PYTHONPATH": str(ROOT)}
        self.log = home.with_suffix(".log")
        words = ["worker", "--server", service.url, *arguments]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", "assay.cli", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def family(self) -> list[psutil.Process]:
        """Return what it has started."""
        return psutil.Process(self.process.pid).children(recursive=True)

    def lines(self, word: str) -> list[str]:
        """Return the lines of its log that say that something happened."""
        return [line for line in self.log.read_text().splitlines() if f" {word} " in line]

    def stop(self) -> int:
        """Send SIGTERM and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


def until(condition: Callable[[], Any], seconds: float = 240.0) -> Any:
    """Return the first true value of a condition."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, condition
        time.sleep(0.05)
    return value


@pytest.fixture(scope="module")
def queue(service_database: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """A service with short leases."""
    running = RunningService(tmp_path_factory.mktemp("queue"), service_database().url)
    running.environment = {"ASSAY_JOB_LEASE": f"{LEASE_S:g}"}
    yield running.start()
    running.stop()


@pytest.fixture
def client(queue: RunningService) -> Iterator[Any]:
    with queue.client() as opened:
        yield opened


Start = Callable[..., RunningWorker]


@pytest.fixture(scope="module")
def start(queue: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts workers that end with the module. `home` is a folder, `machine` one that its workers share."""
    started: list[RunningWorker] = []
    root = tmp_path_factory.mktemp("workers")

    def begin(*arguments: str, home: str, machine: str) -> RunningWorker:
        started.append(RunningWorker(queue, root / home, root / machine, *arguments))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.wait()


@pytest.fixture(scope="module")
def bench(start: Start) -> RunningWorker:
    """A worker that is there for several tests: to try every platform takes it seconds."""
    return start("--name", "bench-1", "--labels", "lab", home="bench", machine="bench")


@pytest.fixture
def worker(start: Start, tmp_path: Path) -> Iterator[Start]:
    """Starts workers on machines of this test alone; they are ended after it."""
    started: list[RunningWorker] = []

    def begin(*arguments: str, home: str = "home", machine: str = "machine") -> RunningWorker:
        unique = f"{tmp_path.name}-"
        labels = ("--labels", "own", *arguments)
        started.append(start(*labels, home=unique + home, machine=unique + machine))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


@pytest.fixture
def assay(queue: RunningService, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., int]:
    """Runs a verb in this process against the service."""
    monkeypatch.setenv("ASSAY_SERVER", queue.url)
    monkeypatch.setenv("ASSAY_HOME", str(tmp_path / "operator"))
    return lambda *words: run(list(words))


def plan(folder: Path, *platforms: str, budget_s: float = 0.1, **members: str) -> str:
    """Write a plan of bert-tiny on some platforms."""
    path = folder / "plan.yaml"
    further = "".join(f"{name}: {value}\n" for name, value in members.items())
    path.write_text(
        f"assay: 1\nweights: random\nbudget_s: {budget_s}\n{further}"
        f"sweeps:\n  - models: [bert-tiny]\n    platforms: [{', '.join(platforms)}]\n"
    )
    return str(path)


Submit = Callable[..., list[str]]


@pytest.fixture
def submit(assay: Callable[..., int], capsys: Any) -> Submit:
    """Submits a plan and returns the ids of its jobs."""

    def queue_plan(path: str, *words: str) -> list[str]:
        capsys.readouterr()
        assert assay("jobs", "submit", path, "--force", "--json", *words) == 0
        return list(json.loads(capsys.readouterr().out)["jobs"])

    return queue_plan


def test_each_case_is_done_by_a_machine_that_can_and_the_others_wait(
    assay: Callable[..., int], submit: Submit, client: Any, bench: RunningWorker, tmp_path: Path, capsys: Any
) -> None:
    here, elsewhere = submit(plan(tmp_path, "cpu", "cuda"))
    submission = client.job(here).submission
    until(lambda: client.job(here).state in ENDED)
    done = client.job(here)
    assert (done.state, done.worker, done.attempt) == ("succeeded", "bench-1", 1)
    assert done.needs.memory_bytes, "the estimate of the predictor is a need"
    started = {event["data"]["run_id"]: event["data"] for event in client.events(types=[RUN_STARTED])}
    assert [started[run]["context"] for run in done.run_ids] == [{"job": here, "attempt": 1}]
    assert {event["data"]["run_id"] for event in client.events(types=[MEASUREMENT_RECORDED])} >= set(done.run_ids)

    waiting = client.job(elsewhere)
    assert waiting.state == "waiting"
    assert "cuda" in waiting.unmet
    assert "bench-1" in waiting.unmet
    assert assay("jobs", "show", elsewhere) == 0
    assert "bench-1" in capsys.readouterr().out
    assert assay("jobs", "cancel", submission) == 0
    assert assay("jobs", "watch", submission) == 1, "one of its jobs was cancelled"


def test_a_cancelled_child_and_all_that_it_started_end_within_ten_seconds(
    assay: Callable[..., int], submit: Submit, client: Any, bench: RunningWorker, tmp_path: Path
) -> None:
    (job,) = submit(plan(tmp_path, "cpu", budget_s=LONG), "--needs", "label=lab")
    until(lambda: client.job(job).state == "running" and len(bench.family()) > 1)
    family = bench.family()
    asked = time.monotonic()
    assert assay("jobs", "cancel", job) == 0
    psutil.wait_procs(family, CANCEL_S)
    assert time.monotonic() - asked < CANCEL_S
    assert not any(each.is_running() for each in family)
    until(lambda: client.job(job).state == "cancelled")


def test_code_of_others_runs_only_where_the_owner_allows_it(
    submit: Submit, client: Any, bench: RunningWorker, tmp_path: Path
) -> None:
    (asking,) = submit(plan(tmp_path, "cpu", trust_remote_code="true"))
    job = client.job(asking)
    assert job.needs.labels == ("allow-code",)
    client.cancel_job(asking)
    # Somebody who leaves the label out is refused by the worker itself.
    request = JobRequest(plan=job.plan, needs=Needs(platforms=("cpu",), labels=("lab",)))
    (identifier,) = client.submit_jobs(Submission(jobs=[request], attempts=1, force=True)).jobs
    until(lambda: client.job(identifier).state in ENDED)
    refused = client.job(identifier)
    assert refused.state == "failed"
    assert "--allow-code" in refused.reason
    assert not refused.run_ids


@pytest.mark.torture
def test_a_stopped_worker_gives_its_job_back_and_another_does_it(
    submit: Submit, client: Any, worker: Start, tmp_path: Path
) -> None:
    first = worker(machine="one", home="one")
    (job,) = submit(plan(tmp_path, "cpu", budget_s=8), *OWN)
    until(lambda: client.job(job).state == "running")
    family = first.family()
    began = time.monotonic()
    assert first.stop() == 0
    assert time.monotonic() - began < CANCEL_S
    assert not any(each.is_running() for each in family)
    worker(machine="two", home="two")
    until(lambda: client.job(job).state in ENDED)
    assert (client.job(job).state, client.job(job).attempt) == ("succeeded", 2)


@pytest.mark.torture
def test_a_killed_workers_job_starts_elsewhere_within_two_leases_and_its_facts_stay(
    submit: Submit, client: Any, worker: Start, tmp_path: Path
) -> None:
    machines = {"one": worker(machine="one", home="one"), "two": worker(machine="two", home="two")}
    until(lambda: all(each.lines("described") for each in machines.values()))
    (job,) = submit(plan(tmp_path, "cpu", budget_s=20), *OWN)
    until(lambda: client.job(job).state == "running")
    name, victim = next((name, each) for name, each in machines.items() if each.lines("started"))
    # Its run is begun: what it told until then is a fact.
    until(lambda: [path for path in victim.home.glob(f"jobs/*/{job}-1/events.ndjson") if path.stat().st_size])
    family = victim.family()
    victim.process.kill()
    killed = time.monotonic()
    until(lambda: client.job(job).attempt == 2)
    assert time.monotonic() - killed < 2 * LEASE_S
    until(lambda: not any(each.is_running() for each in family), CANCEL_S)
    until(lambda: client.job(job).state in ENDED)
    assert (client.job(job).state, client.job(job).attempt) == ("succeeded", 2)
    again = worker("--once", machine=name, home=name)
    assert again.process.wait(240) == 1, "no job waits"
    contexts = [event["data"].get("context") or {} for event in client.events(types=[RUN_STARTED])]
    assert sorted(each["attempt"] for each in contexts if each.get("job") == job) == [1, 2]


@pytest.mark.torture
def test_two_workers_of_a_machine_never_share_a_device(
    submit: Submit, client: Any, worker: Start, tmp_path: Path
) -> None:
    workers = [worker(home="one"), worker(home="two")]
    until(lambda: any(each.lines("busy") for each in workers))
    path = Path(plan(tmp_path, "cpu"))
    path.write_text(path.read_text() + "    batch_sizes: [1, 2]\n")
    identifiers = submit(str(path), *OWN)
    until(lambda: all(client.job(each).state in ENDED for each in identifiers))
    spans = sorted((job.started_at, job.ended_at) for job in map(client.job, identifiers))
    assert all(later[0] >= earlier[1] for earlier, later in itertools.pairwise(spans))
    assert {client.job(each).state for each in identifiers} == {"succeeded"}


@pytest.mark.torture
def test_a_worker_outlives_its_service(
    submit: Submit, client: Any, queue: RunningService, worker: Start, tmp_path: Path
) -> None:
    running = worker()
    (job,) = submit(plan(tmp_path, "cpu", budget_s=3), *OWN)
    until(lambda: client.job(job).state == "running")
    queue.kill()
    queue.start()
    until(lambda: client.job(job).state in ENDED)
    assert client.job(job).state == "succeeded"
    assert running.process.poll() is None
