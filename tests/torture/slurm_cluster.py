"""A Slurm of two nodes and a service, each in a network namespace of its own, with a link to the service that can be cut."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.torture.processes import ROOT, until

__all__ = ["SlurmCluster", "missing", "slurm_cluster"]

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "scontrol", "ip", "nsenter")
PORT = 8630
NODES = (1, 2)
CONF = """\
ClusterName=assay
SlurmctldHost=localhost(10.77.0.1)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdParameters=config_overrides
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdSpoolDir={folder}/spool-%n
SlurmdPidFile={folder}/slurmd-%n.pid
NodeName=node1 NodeAddr=10.77.1.2 CPUs=1 RealMemory=4000 Feature=rack7,lab-a
NodeName=node2 NodeAddr=10.77.2.2 CPUs=1 RealMemory=4000 Feature=rack7
PartitionName=main Nodes=ALL Default=YES State=UP
"""


def missing() -> str | None:
    """Return what a cluster needs that is not here, None where nothing is missing."""
    absent = [name for name in PROGRAMS if _path(name) is None]
    if absent:
        return f"needs {', '.join(absent)} (Debian: apt install slurmctld slurmd slurm-client iproute2)"
    if os.geteuid() != 0:
        return "needs root: each machine is a network namespace"
    name = f"assay-{secrets.token_hex(3)}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        return "needs the right to make network namespaces"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


def _path(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


class SlurmCluster:
    """A controller with the service beside it, and two nodes; files are shared, as on a cluster with one file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.shared = folder / "shared"
        self.home = folder / "user"
        self.url = f"http://10.78.0.1:{PORT}"
        self.name = f"as{secrets.token_hex(2)}"
        self._processes: list[subprocess.Popen[bytes]] = []
        for path in (self.shared, self.home / ".config" / "assay", folder / "bin", folder / "state"):
            path.mkdir(parents=True)
        for node in NODES:
            (folder / f"spool-node{node}").mkdir()
        (folder / "slurm.conf").write_text(CONF.format(folder=folder))
        assay = folder / "bin" / "assay"
        assay.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m assay.cli "$@"\n')
        assay.chmod(0o755)

    def environment(self, **named: str) -> dict[str, str]:
        """Return the environment of a user of the cluster, and of its programs."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("ASSAY_", "SLURM_"))}
        return kept | {
            "PATH": f"{self.folder / 'bin'}:{kept.get('PATH', '')}:/usr/sbin:/sbin",
            "HOME": str(self.home),
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "ASSAY_HOME": str(self.folder / "runner"),
            "ASSAY_PATIENCE_S": "2",
            **named,
        }

    def _ns(self, machine: str) -> str:
        return f"{self.name}-{machine}"

    def _enter(self, machine: str) -> list[str]:
        # `ip netns exec` would mount another /sys, without the control groups that slurmd looks for.
        return ["nsenter", f"--net=/run/netns/{self._ns(machine)}"]

    def inside(self, machine: str, *words: str | Path, code: int | None = 0, **named: str) -> str:
        """Run a command on a machine and return what it wrote to stdout; with `code` it has to end with that."""
        ended = subprocess.run(
            [*self._enter(machine), *map(str, words)],
            cwd=self.shared,
            env=self.environment(**named),
            capture_output=True,
            text=True,
            check=False,
        )
        assert code is None or ended.returncode == code, f"{words}: {ended.stderr[-2000:]}{ended.stdout[-500:]}"
        return ended.stdout

    def start(self, machine: str, log: str, *words: str | Path, **named: str) -> subprocess.Popen[bytes]:
        """Start a program on a machine, which ends with the cluster."""
        with (self.folder / f"{log}.log").open("wb") as output:
            process = subprocess.Popen(
                [*self._enter(machine), *map(str, words)],
                cwd=ROOT,
                env=self.environment(**named),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def lay_cables(self) -> None:
        """Make the machines, and two links to each node: one for Slurm (10.77), one for the service (10.78)."""
        for machine in ("control", *(f"node{node}" for node in NODES)):
            _ip("netns", "add", self._ns(machine))
            _ip("-n", self._ns(machine), "link", "set", "lo", "up")
        for address in ("10.77.0.1/32", "10.78.0.1/32"):
            _ip("-n", self._ns("control"), "address", "add", address, "dev", "lo")
        for node in NODES:
            for prefix, net in (("j", "10.77"), ("e", "10.78")):
                ours, theirs = f"{prefix}{node}", f"{prefix}{node}n"
                there = self._ns(f"node{node}")
                _ip("-n", self._ns("control"), *f"link add {ours} type veth peer name {theirs} netns {there}".split())
                for machine, link, end in (("control", ours, 1), (f"node{node}", theirs, 2)):
                    _ip("-n", self._ns(machine), *f"address add {net}.{node}.{end}/24 dev {link}".split())
                    _ip("-n", self._ns(machine), "link", "set", link, "up")
                _ip("-n", there, *f"route add {net}.0.0/24 via {net}.{node}.1".split())

    def begin(self) -> None:
        """Start the service with a token, the controller and the nodes; return when all of them answer."""
        service = {
            "ASSAY_HOME": str(self.folder / "service"),
            "ASSAY_SHIPPED_DATA": "no",
            "ASSAY_ALLOWED_HOSTS": "10.78.0.1",
        }
        for name, scope in (("runner", "append"), ("reader", "read")):
            made = self.inside("control", "assay", "token", "create", name, "--scope", scope, **service)
            (self.home / ".config" / "assay" / name).write_text(made)
        (self.home / ".config" / "assay" / "runner").rename(self.home / ".config" / "assay" / "token")
        self.start("control", "service", "assay", "serve", "--host", "10.78.0.1", "--port", str(PORT), **service)
        self.start("control", "slurmctld", "slurmctld", "-D")
        for node in NODES:
            self.start(f"node{node}", f"slurmd-{node}", "slurmd", "-D", "-N", f"node{node}")
        until(
            lambda: self.inside("control", "sinfo", "-h", "-t", "idle", "-o", "%D", code=None).strip() == "2",
            "two nodes",
        )
        ready = ("curl", "-sf", f"{self.url}/health/ready")
        until(lambda: self.inside("control", *ready, code=None), "the service is ready", 120)

    def cut(self, *, off: bool) -> None:
        """Take down the links between the nodes and the service, or bring them up again."""
        for node in NODES:
            _ip("-n", self._ns("control"), "link", "set", f"e{node}", "down" if off else "up")

    def submit(self, script: Path, *options: str) -> str:
        """Submit a batch script as a user does, and return the number of its array job."""
        return self.inside("control", "sbatch", "--parsable", *options, script).strip()

    def ended(self, job: str, patience_s: float = 600) -> list[Mapping[str, str]]:
        """Return what Slurm says of each task of an array job, when all of them have ended."""

        def tasks() -> list[Mapping[str, str]] | None:
            # A look costs a process; the job has the machine to itself otherwise.
            time.sleep(1)
            said = self.inside("control", "scontrol", "--oneliner", "show", "job", job)
            rows = [dict(word.partition("=")[::2] for word in line.split()) for line in said.splitlines() if line]
            return None if any(row["JobState"] in ("PENDING", "RUNNING", "COMPLETING") for row in rows) else rows

        rows = until(tasks, f"job {job} ends", patience_s)
        return sorted(rows, key=lambda row: int(row["ArrayTaskId"]))

    def query(self, sql: str) -> list[dict[str, Any]]:
        """Return the rows of a question to the service."""
        token = (self.home / ".config" / "assay" / "reader").read_text().strip()
        words = ("assay", "query", sql, "--format", "json", "--server", self.url)
        rows = json.loads(self.inside("control", *words, ASSAY_TOKEN=token))
        return rows if isinstance(rows, list) else list(rows["rows"])

    def logs(self, names: Sequence[str] = ("slurmctld", "slurmd-1", "slurmd-2", "service")) -> str:
        """Return the ends of what its programs wrote."""
        return "\n".join(f"{name}: {(self.folder / f'{name}.log').read_text()[-1500:]}" for name in names)

    def end(self) -> None:
        """End every program and take the machines away."""
        for process in reversed(self._processes):
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        for machine in ("control", *(f"node{node}" for node in NODES)):
            subprocess.run(["ip", "netns", "delete", self._ns(machine)], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def slurm_cluster(folder: Path) -> Iterator[SlurmCluster]:
    """Give a cluster that is ready, and leave nothing of it."""
    cluster = SlurmCluster(folder)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        cluster.lay_cables()
        try:
            cluster.begin()
        except AssertionError as error:
            error.add_note(cluster.logs())
            raise
        yield cluster
