"""Training on ranks of two machines: two network namespaces with a link between them, which takes root and iproute2."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

pytestmark = [
    pytest.mark.torture,
    pytest.mark.skipif(
        not hasattr(os, "geteuid") or os.geteuid() != 0 or not shutil.which("ip"),
        reason="network namespaces take root and iproute2 (apt-get install iproute2)",
    ),
]
HOSTS = "10.77.0.1:29650,10.77.0.2"
CASE = (
    "bench", "assay/gpt2-small", "--platform", "cpu", "--mode", "training", "--batch-sizes", "4", "--sequence-length", "16",
    "--nodes", HOSTS, "--json",
)  # fmt: skip


@pytest.fixture
def machines() -> Iterator[list[str]]:
    """The names of two network namespaces, linked with each other and with nothing else."""
    names = [f"rank{uuid.uuid4().hex[:6]}{index}" for index in range(2)]
    try:
        for name in names:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("link", "add", "between0", "netns", names[0], "type", "veth", "peer", "name", "between1", "netns", names[1])
        for index, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{index + 1}/24", "dev", f"between{index}")
            ip("-n", name, "link", "set", f"between{index}", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def start(machines: list[str], tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts the command on a node; what still runs at the end is ended."""
    running: list[subprocess.Popen[str]] = []

    def on_node(node: int, *words: str) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", machines[node], sys.executable, "-m", "assay.cli", *CASE, *words]
        process = subprocess.Popen(
            [*command, "--node-rank", str(node), "--out", str(tmp_path / f"{node}.ndjson")],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "ASSAY_HOME": str(tmp_path)},
        )  # fmt: skip
        running.append(process)
        return process

    yield on_node
    for process in running:
        process.kill()
        process.communicate()


def facts(process: subprocess.Popen[str], code: int) -> list[dict[str, Any]]:
    out, said = process.communicate(timeout=300)
    assert process.returncode == code, said
    return [event["data"] for event in json.loads(out) if event["type"].startswith("assay.measurement.")]


@pytest.mark.parametrize("option", ["data-parallel=2", "fsdp=2"])
def test_two_machines_train_together_and_the_first_has_the_events(start: Any, option: str) -> None:
    second, first = (start(node, "--option", option, "--iterations", "5") for node in (1, 0))
    (measured,) = facts(first, 0)
    assert facts(second, 0) == []
    assert measured["execution"]["parallelism"] == {"data": 2} and measured["execution"]["options"]["nodes"] == 2
    assert [rank["node"] for rank in measured["observed"]["details"]["ranks"]] == [0, 1]
    assert measured["hardware"]["count"] == 2 and "10.77" not in json.dumps(measured)


def test_a_link_that_is_cut_ends_the_case_on_both_machines(start: Any, machines: list[str], tmp_path: Path) -> None:
    how = ("--option", "data-parallel=2", "--iterations", "8000", "--node-wait", "20", "--budget", "120")
    second, first = (start(node, *how) for node in (1, 0))
    until = monotonic() + 240
    while received_bytes(machines[0]) < 20_000_000:
        assert monotonic() < until and first.poll() is None
        sleep(0.2)
    ip("-n", machines[0], "link", "set", "between0", "down")
    cut = monotonic()
    (failed,) = facts(first, 1)
    facts(second, 1)
    assert monotonic() - cut < 120 and failed["outcome"] == "error"
    assert "node 1 does not answer" in failed["failure"]["message"]


def received_bytes(machine: str) -> int:
    """What the first node has received: some megabytes are gradients of steps."""
    shown = ["ip", "-n", machine, "-s", "-j", "link", "show", "between0"]
    done = subprocess.run(shown, check=True, capture_output=True, text=True)
    return int(json.loads(done.stdout)[0]["stats64"]["rx"]["bytes"])
