"""Locks on files, held by a second process, by both systems' means; and what Windows' own is asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .conftest import PROGRAMS, environment


@pytest.fixture
def locked(tmp_path: Path) -> Path:
    path = tmp_path / "owner.lock"
    path.write_text("4711")
    return path


@pytest.fixture(params=["posix", "windows"])
def variables(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path) if request.param == "windows" else dict(os.environ)


@contextmanager
def holder(path: Path, variables: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, str(PROGRAMS / "hold_lock.py"), str(path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables) as process:
        assert process.stdout is not None and process.stdout.readline() == "True\n"
        yield process
        if process.poll() is None:
            process.communicate("")


def tried(path: Path, variables: dict[str, str]) -> str:
    words = [sys.executable, str(PROGRAMS / "try_lock.py"), str(path)]
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
        words = [sys.executable, str(PROGRAMS / "try_lock.py"), str(locked), "wait"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=variables) as waiting:
            with pytest.raises(subprocess.TimeoutExpired):
                waiting.wait(1.0)
            process.communicate("")
            assert waiting.communicate(timeout=30)[0].strip() == "True 4711"


def test_windows_lock_is_one_byte_behind_the_end_of_the_file(windows, locked):
    windows(str(PROGRAMS / "record_locking.py"), str(locked))
