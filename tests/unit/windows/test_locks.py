"""Locks on files, held by a second process, by both systems' means; and what Windows' own is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import ROOT, environment

HOLD = """
import sys
from domain.operating_system import lock
file = open(sys.argv[1], "r+b")
print(lock(file.fileno()), flush=True)
sys.stdin.read()
"""
TRY = """
import sys
from domain.operating_system import lock, unlock
file = open(sys.argv[1], "r+b")
held = lock(file.fileno(), wait="wait" in sys.argv)
print(held, file.read().decode())
if held:
    unlock(file.fileno())
    other = open(sys.argv[1], "r+b")
    assert lock(other.fileno())
"""
CALLS = """
import os, sys
import domain.operating_system as system
calls = []
answers = [None, PermissionError(13, "Permission denied"), PermissionError(13, "Permission denied"), None, None]

def locking(descriptor, mode, count):
    calls.append((mode, count, os.lseek(descriptor, 0, os.SEEK_CUR)))
    if (answer := answers.pop(0)) is not None:
        raise answer

system.msvcrt.locking = locking
with open(sys.argv[1], "r+b") as file:
    file.seek(3)
    descriptor = file.fileno()
    assert system.lock(descriptor)
    assert not system.lock(descriptor)
    assert system.lock(descriptor, wait=True)
    system.unlock(descriptor)
    assert os.lseek(descriptor, 0, os.SEEK_CUR) == 3
modes = {system.msvcrt.LK_NBLCK: "try", system.msvcrt.LK_UNLCK: "unlock"}
assert [modes[mode] for mode, _, _ in calls] == ["try", "try", "try", "try", "unlock"]
assert {(count, place) for _, count, place in calls} == {(1, 1 << 30)}
"""


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    path = tmp_path / "owner.lock"
    path.write_text("4711")
    return path


@pytest.fixture(params=["posix", "windows"])
def variables(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path) if request.param == "windows" else {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def holder(path: Path, variables: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        if process.poll() is None:
            process.communicate("")


def tried(path: Path, variables: dict[str, str]) -> str:
    words = [sys.executable, "-c", TRY, str(path)]
    return subprocess.run(words, capture_output=True, text=True, env=variables, check=True, timeout=30).stdout.strip()


def test_one_process_holds_a_lock_and_others_can_read_the_file(locked, variables):
    with holder(locked, variables):
        assert tried(locked, variables) == "False 4711"
    assert tried(locked, variables) == "True 4711"


def test_lock_ends_with_a_killed_process(locked, variables):
    with holder(locked, variables) as process:
        process.kill()
        process.wait()
        assert tried(locked, variables) == "True 4711"


def test_who_waits_gets_the_lock_when_it_is_free(locked, variables):
    with holder(locked, variables) as process:
        words = [sys.executable, "-c", TRY, str(locked), "wait"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=variables) as waiting:
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(1.0)
            process.communicate("")
            assert waiting.communicate(timeout=30)[0].strip() == "True 4711"


def test_windows_lock_is_one_byte_behind_the_end_of_the_file(windows, locked):
    windows("-c", CALLS, str(locked))
