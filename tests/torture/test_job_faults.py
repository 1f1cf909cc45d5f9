"""Workers killed and Postgres restarted while jobs are done: each job ends once, on a machine that has what it needs."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from api.http.tokens import TokenStore
from assay.client import Client
from domain.errors import AssayError
from domain.jobs.jobs import JobRequest, Submission
from domain.jobs.needs import read_needs
from tests.torture.processes import ROOT, Postgres, Served, postgres, until

SEED = int(os.environ.get("ASSAY_TORTURE_SEED", "1"))
PLATFORMS = ("cuda", "openvino")
NEEDS = ("cpu", *PLATFORMS)
LEASE_S = "1"


class Faults(NamedTuple):
    """How much is done, and how much is broken meanwhile."""

    workers: int
    jobs: int
    kills: int
    restarts: int


SHORT = Faults(workers=3, jobs=60, kills=10, restarts=1)
LONG = Faults(workers=4, jobs=1000, kills=100, restarts=2)


class Machine(NamedTuple):
    """Where a worker runs: what its command begins with, and under which address it reaches the service."""

    prefix: tuple[str, ...]
    host: str


HERE = Machine((), "127.0.0.1")


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=30)


@contextmanager
def namespaces(count: int) -> Iterator[list[Machine]]:
    """Give machines of their own network, which reach this one and take no connection from it."""
    absent = [program for program in ("ip", "iptables") if shutil.which(program) is None]
    if absent or os.geteuid() != 0:
        pytest.skip(f"network namespaces need root and {', '.join(absent) or 'nothing else'}")
    with ExitStack() as stack:
        machines = []
        for number in range(count):
            name, outer, inner = f"assay{os.getpid()}-{number}", f"va{number}", f"vb{number}"
            run("ip", "netns", "add", name)
            stack.callback(run, "ip", "netns", "del", name)
            run("ip", "link", "add", outer, "type", "veth", "peer", "name", inner, "netns", name)
            run("ip", "addr", "add", f"10.77.{number}.1/24", "dev", outer)
            run("ip", "link", "set", outer, "up")
            inside = ("ip", "netns", "exec", name)
            run(*inside, "ip", "addr", "add", f"10.77.{number}.2/24", "dev", inner)
            run(*inside, "ip", "link", "set", inner, "up")
            run(*inside, "iptables", "-A", "INPUT", "-p", "tcp", "--syn", "-j", "DROP")
            machines.append(Machine(inside, f"10.77.{number}.1"))
        yield machines


class Workers:
    """Worker processes under their names; one that is killed is started again, as a supervisor would."""

    def __init__(self, machines: Sequence[Machine], count: int, port: int, tokens: Sequence[str]) -> None:
        self._places = [(machines[number % len(machines)], tokens[number]) for number in range(count)]
        self._port = port
        self._processes: list[subprocess.Popen[bytes]] = []
        self._processes = [self._start(number) for number in range(count)]

    def kill(self, name: str) -> None:
        """SIGKILL a worker and start it again."""
        number = int(name[1:])
        self._processes[number].kill()
        self._processes[number].wait()
        self._processes[number] = self._start(number)

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()

    def _start(self, number: int) -> subprocess.Popen[bytes]:
        machine, token = self._places[number]
        url, platform = f"http://{machine.host}:{self._port}", PLATFORMS[number % len(PLATFORMS)]
        command = [
            *machine.prefix,
            sys.executable,
            "-m",
            "tests.torture.job_worker",
            url,
            f"w{number}",
            platform,
            token,
        ]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)


def submit(client: Client, jobs: int) -> list[str]:
    """Submit jobs with needs in turns, and return their ids."""
    requests = [
        JobRequest(plan={"models": [f"acme/{number}"]}, needs=read_needs(NEEDS[number % len(NEEDS)]))
        for number in range(jobs)
    ]
    return client.submit_jobs(Submission(jobs=requests, attempts=100)).jobs


def break_things(faults: Faults, workers: Workers, server: Postgres, client: Client) -> None:
    """Kill workers at work, and restart Postgres, in a random order."""
    dice = random.Random(SEED)
    acts = ["kill"] * faults.kills + ["restart"] * faults.restarts
    dice.shuffle(acts)
    for act in acts:
        if act == "kill":
            workers.kill(until(lambda: at_work(client), "a worker has a job"))
        else:
            server.shut_down()
            server.again()


def at_work(client: Client) -> str | None:
    """Return the name of the worker that started a job last of those that run."""
    try:
        running = client.jobs(state="running", limit=10).jobs
    except AssayError:
        return None
    return max(running, key=lambda job: job.started_at).worker if running else None


def check_log(client: Client, ids: Sequence[str]) -> Counter[str]:
    """Check what the log says of each job, and return how many events of each kind there are."""
    counts: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    starts: set[tuple[str, int]] = set()
    needs = {name: NEEDS[number % len(NEEDS)] for number, name in enumerate(ids)}
    for event in client.events():
        if not event["type"].startswith("assay.job."):
            continue
        kind, data = event["type"].split(".")[2], event["data"]
        counts[kind] += 1
        if kind == "started":
            assert (data["job"], data["attempt"]) not in starts, "an attempt started twice"
            starts.add((data["job"], data["attempt"]))
            has = ("cpu", PLATFORMS[int(data["worker"][1:]) % len(PLATFORMS)])
            assert needs[data["job"]] in has, f"{data['worker']} has {has}, the job needs {needs[data['job']]}"
        elif kind == "finished" or (kind == "failed" and not data["waiting"]):
            ends[data["job"]] += 1
    assert ends == Counter(dict.fromkeys(ids, 1)), "each job ends once"
    return counts


@pytest.mark.parametrize(
    ("faults", "apart"), [(SHORT, 0), pytest.param(LONG, 2, marks=pytest.mark.torture)], ids=["short", "long"]
)
def test_every_job_ends_once_whatever_is_killed(faults, apart, tmp_path: Path, figures):
    with ExitStack() as stack:
        server = stack.enter_context(postgres())
        machines = stack.enter_context(namespaces(apart)) if apart else [HERE]
        store = TokenStore(server.url)
        admin = store.create("admin", ["admin"])[0]
        tokens = [store.create(f"w{number}", ["work"])[0] for number in range(faults.workers)]
        served = Served(
            tmp_path / "home", "--role", "ingest", "--host", "0.0.0.0" if apart else "127.0.0.1",
            url=server.url, ASSAY_JOB_LEASE=LEASE_S,
        ).start()  # fmt: skip
        stack.callback(served.stop)
        client = stack.enter_context(served.client(token=admin, patience_s=30))
        until(lambda: served.listens() and client.ready(), "the service answers")
        ids = submit(client, faults.jobs)
        begin = time.monotonic()
        workers = Workers(machines, faults.workers, served.port, tokens)
        stack.callback(workers.close)

        def left() -> int:
            try:
                counts = client.jobs(limit=1).counts
            except AssayError:
                return 1
            return counts["waiting"] + counts["running"]

        break_things(faults, workers, server, client)
        until(lambda: left() == 0, "every job is in a final state", 300)
        counts = check_log(client, ids)
        assert client.jobs(limit=1).counts["succeeded"] == faults.jobs
        assert counts["failed"] > 0, "faults hit attempts"
        figures(
            f"{faults.jobs} jobs by {faults.workers} workers in {time.monotonic() - begin:.0f} s; {faults.kills} kills, "
            f"{faults.restarts} restarts of Postgres; events {dict(counts)}"
        )
