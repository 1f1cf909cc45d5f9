"""Two network namespaces train one predictor: it comes out the same on both, and a cut link ends both sides with a name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytestmark = pytest.mark.torture
ROOT = Path(__file__).resolve().parents[2]
MACHINES = "10.231.27.1:9000,10.231.27.2:9000"
Start = Callable[..., "subprocess.Popen[str]"]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@pytest.fixture
def spaces() -> Iterator[list[str]]:
    """Two network namespaces with a link between them; made by root, on Linux, with iproute2."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the program ip (apt install iproute2)")
    names = [f"assay-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    with ExitStack() as stack:
        for name in names:
            ip("netns", "add", name)
            stack.callback(ip, "netns", "del", name)
        ip("link", "add", "link0", "netns", names[0], "type", "veth", "peer", "name", "link0", "netns", names[1])
        for number, name in enumerate(names, 1):
            ip("-n", name, "address", "add", f"10.231.27.{number}/24", "dev", "link0")
            ip("-n", name, "link", "set", "link0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names


@pytest.fixture
def start(spaces: list[str]) -> Iterator[Start]:
    """Start a machine in its namespace; none is left after the test."""
    with ExitStack() as stack:

        def started(rank: int, how: str = "") -> subprocess.Popen[str]:
            module = "tests.integration.predictor.train_together"
            command = [
                "ip",
                "netns",
                "exec",
                spaces[rank],
                sys.executable,
                "-m",
                module,
                str(rank),
                MACHINES,
                "120",
                how,
            ]
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield started


def test_two_namespaces_get_the_same_trees(start: Start) -> None:
    both = start(1), start(0)
    last = [process.communicate(timeout=300)[0].splitlines()[-1] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert last[0] == last[1]


def test_cut_link_ends_both_sides_and_names_the_other(start: Start, spaces: list[str]) -> None:
    both = start(1, "long"), start(0, "long")
    assert both[1].stdout is not None
    while both[1].stdout.readline().strip() != "fitted":
        assert both[1].poll() is None
    ip("-n", spaces[0], "link", "set", "link0", "down")
    said = [process.communicate(timeout=180)[0].splitlines()[-1] for process in both]
    assert [process.returncode for process in both] == [3, 3]
    assert "machine 0" in said[0]
    assert "machine 1" in said[1]
