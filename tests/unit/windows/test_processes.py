"""Processes that measure, with Windows' semantics: none is left behind, and how one died has a name."""

from __future__ import annotations

import subprocess
import sys

import psutil
import pytest

from runner.protocol.parent import exit_failure

from .conftest import environment

TREE = """
import subprocess, sys
from runner.protocol.parent import descendants, end_tree
inner = "import time; time.sleep(600)"
outer = f"import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', {inner!r}]); print(c.pid, flush=True); c.wait()"
process = subprocess.Popen([sys.executable, "-c", outer], stdout=subprocess.PIPE, text=True, start_new_session=True)
with process.stdout as pipe:
    grandchild = int(pipe.readline())
assert grandchild in [each.pid for each in descendants(process.pid)]
end_tree(process)
process.wait(30)
import psutil
try:
    psutil.Process(grandchild).wait(30)
except psutil.NoSuchProcess:
    pass
"""
PARENT = """
import subprocess, sys
child = "import time; from runner.protocol.child import connect; s, _ = connect(); s.reach('run'); time.sleep(600)"
process = subprocess.Popen([sys.executable, "-c", child], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
process.stdin.write(b"{}\\n")
process.stdin.flush()
process.stdout.readline()
print(process.pid, flush=True)
process.wait()
"""
CONNECTED = """
import os, subprocess, sys
from runner.protocol.child import connect
speaker, line = connect()
print("printed by a library", flush=True)
subprocess.run([sys.executable, "-c", "import sys; print('read', len(sys.stdin.read()))"])
speaker.reach(line.decode().strip())
"""


def test_child_is_killed_with_what_it_has_started(windows):
    windows("-c", TREE)


def test_child_ends_with_its_parent(tmp_path):
    words = [sys.executable, "-c", PARENT]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment(tmp_path)) as parent:
        assert parent.stdout is not None
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        psutil.wait_procs([child], timeout=30)
        assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE


def test_only_messages_are_on_the_output_of_a_child(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", CONNECTED],
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
