"""Two processes train one predictor over LightGBM's sockets: the same trees on both, and a sentence where one is missing."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from assay.service import free_port
from domain.errors import UsageError
from predictor.learning.machines import machine_list
from tests.integration.predictor.conftest import World
from tests.integration.predictor.train_together import error_of_trees, trees_of

ROOT = Path(__file__).resolve().parents[3]
PATIENCE_S = 240.0


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start one machine of a training; none is left after the test."""
    with ExitStack() as stack:

        def started(rank: int, machines: str, wait_s: float, how: str = "") -> subprocess.Popen[str]:
            module = "tests.integration.predictor.train_together"
            command = [sys.executable, "-m", module, str(rank), machines, str(wait_s), how]
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield started


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Return the exit status and the last line of what a process said."""
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said.strip().splitlines()[-1]


@pytest.fixture
def machines() -> str:
    return f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"


def test_both_machines_get_the_same_trees_twice_and_they_are_as_good(start: Start, machines: str) -> None:
    made = [ended(process) for _ in range(2) for process in [start(1, machines, 60), start(0, machines, 60)]]
    assert {status for status, _ in made} == {0}
    (answer,) = {said for _, said in made}
    position, _, error = answer.split()
    assert position == "100"  # The lower of the two positions.
    assert float(error) < 1.1 * error_of_trees(trees_of(World().table(), None))


def test_machine_that_never_comes_is_named_by_both_sides(start: Start, machines: str) -> None:
    first, second = machines.split(",")
    for rank, missing in ((0, f"machine 1 ({second})"), (1, f"machine 0 ({first})")):
        status, said = ended(start(rank, machines, 1))
        assert status == 3
        assert f"{missing} did not come within 1 s" in said


def test_machine_that_dies_ends_the_training_and_is_named(start: Start, machines: str) -> None:
    both = start(1, machines, 60, "die"), start(0, machines, 60)
    assert both[0].wait(PATIENCE_S) == 9
    status, said = ended(both[1])
    assert status == 3
    assert "machine 1" in said


def test_machine_with_other_rows_is_refused_by_name(start: Start, machines: str) -> None:
    both = start(1, machines, 60, "other"), start(0, machines, 60)
    (_, one), (status, said) = ended(both[0]), ended(both[1])
    assert status == 3
    assert "machine 1" in said
    assert "other rows" in said
    assert "machine 0" in one
    assert "other rows" in one


def test_taken_port_is_named(start: Start, machines: str) -> None:
    with socket.create_server(("", int(machines.rpartition(":")[2]))):
        status, said = ended(start(1, machines, 5))
    assert status == 3
    assert "is taken" in said


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1:9000",
        "127.0.0.1:9000,127.0.0.1:9000",
        "a:1,b:65536",
        "a:1,b:0",
        "a:1,b",
        "a:1,b:1;rm",
        "a:1,$(id):2",
        "a:1,-b:2",
        "a:1,[::1]:2",
        "a:1,b c:2",
        "a:1,b\n:2",
        ",".join(f"a:{port}" for port in range(1, 66)),
    ],
)
def test_anything_but_hosts_and_ports_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        machine_list(text, 0)
    assert raised.value.field == "machines"


def test_rank_is_the_entry_of_this_machine() -> None:
    assert machine_list("127.0.0.1:9000,198.51.100.1:9000", None).rank == 0
    assert machine_list("198.51.100.1:9000,127.0.0.1:9000", None).rank == 1
    for text in ("127.0.0.1:9000,127.0.0.1:9001", "198.51.100.1:9000,203.0.113.1:9000"):
        with pytest.raises(UsageError) as raised:
            machine_list(text, None)
        assert raised.value.field == "rank"
