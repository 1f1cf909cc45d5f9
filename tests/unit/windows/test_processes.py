"""Processes that measure, with Windows' semantics: none is left behind, and how one died has a name."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from runner.protocol.parent import exit_failure

from .conftest import PROGRAMS, environment


def test_child_is_killed_with_what_it_has_started(windows):
    windows(str(PROGRAMS / "kill_tree.py"))


def test_child_ends_with_its_parent(tmp_path):
    words = [sys.executable, str(PROGRAMS / "be_parent.py")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        psutil.wait_procs([child], timeout=30)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_only_messages_are_on_the_output_of_a_child(tmp_path):
    with subprocess.Popen(
        [sys.executable, str(PROGRAMS / "be_child.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdin.write("load\n")
        child.stdin.flush()
        assert child.stdout.read() == '{"type":"reached","stage":"load"}\n'
        assert child.stderr.read() == "printed by a library\nread 0\n"


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (0xC0000005, "ACCESS_VIOLATION"),
        (0xC0000135, "DLL_NOT_FOUND"),
        (-9, "SIGKILL"),
        (1, "ChildExit"),
    ],
)
def test_death_of_a_child_has_a_name(status, error):
    failure = exit_failure(status, "run", "", False)
    assert (failure.error, failure.stage, failure.outcome) == (error, "run", "error")
    assert failure.remedy
