"""A copy of a process that has its imports done is as a new interpreter to its program and to whoever starts it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import preloaded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="copies are made on Linux alone")
PROGRAM = """
import atexit, json, os, sys
report = {
    "name": __name__, "spec": __spec__.name, "arguments": sys.argv[1:], "folder": os.getcwd(), "first": sys.path[0],
    "variables": dict(os.environ), "input": sys.stdin.read(), "leader": os.getsid(0) == os.getpid(), "parent": os.getppid(),
    "kept": os.read(int(sys.argv[1]), 9).decode(), "descriptors": [os.path.exists(f"/proc/self/fd/{n}") for n in range(3)],
    "imported": "colorsys" in sys.modules,
}
if report["input"] == "end":
    os.kill(os.getpid(), 9)
atexit.register(print, "the end")
sys.stderr.write("not well")
print(json.dumps(report))
sys.exit(3)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to start the program in, which lies in another one."""
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules" / "reporting.py").write_text(PROGRAM)
    (tmp_path / "place").mkdir()
    monkeypatch.setitem(preloaded.PRELOADED, "reporting", ("colorsys",))
    return tmp_path


def run(folder: Path, text: str = "some", safe: bool = True, **variables: str) -> tuple[int, dict[str, Any], str]:
    """Return the exit status of the program, its report, and what else it wrote."""
    reading, writing = os.pipe()
    os.write(writing, b"something")
    environment = {**os.environ, "PYTHONPATH": str(folder / "modules"), **variables}
    ended = subprocess.run(
        [sys.executable, *(["-P"] if safe else []), "-m", "reporting", str(reading), "a b", "é"],
        input=text, env=environment, cwd=folder / "place", pass_fds=[reading], start_new_session=safe,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for number in (reading, writing):
        os.close(number)
    report, _, rest = ended.stdout.partition("\n")
    said = json.loads(report) if report else {}
    said["arguments"] = said.get("arguments", [])[1:]
    return ended.returncode, said, rest + ended.stderr


@pytest.mark.parametrize("safe", [True, False])
def test_copy_has_what_a_new_interpreter_has(folder: Path, safe: bool) -> None:
    _, new, rest = anew = run(folder, safe=safe, ASSAY_HOME="here")
    with preloaded.preloaded():
        status, copy, said = run(folder, safe=safe, ASSAY_HOME="here")
    assert (new.pop("imported"), copy.pop("imported")) == (False, True)
    assert (status, copy, said) == anew
    assert (status, rest) == (3, "the end\nnot well")
    assert copy["parent"] == os.getpid() and copy["variables"]["ASSAY_HOME"] == "here"


def test_signal_that_ends_a_copy_is_its_status_and_the_next_one_is_made(folder: Path) -> None:
    with preloaded.preloaded():
        assert run(folder, "end")[0] == -signal.SIGKILL
        status, copy, _ = run(folder)
    assert (status, copy["imported"]) == (3, True)


def test_threads_that_start_copies_at_the_same_time_get_each_its_own(folder: Path) -> None:
    with preloaded.preloaded(), ThreadPoolExecutor(8) as threads:
        ended = [threads.submit(run, folder, text) for text in ["end", "some"] * 12]
    assert [each.result()[0] for each in ended] == [-signal.SIGKILL, 3] * 12


@pytest.mark.parametrize("variables", [{"HF_HOME": "elsewhere"}, {"PYTHONUTF8": "1"}])
def test_program_with_other_variables_is_started_anew(folder: Path, variables: dict[str, str]) -> None:
    with preloaded.preloaded():
        assert run(folder)[1]["imported"]
        assert not run(folder, **variables)[1]["imported"]


def test_folder_with_modules_and_other_ways_to_start_are_left_alone(folder: Path) -> None:
    with preloaded.preloaded():
        (folder / "place" / "json.py").touch()
        assert not run(folder)[1]["imported"]
        ended = subprocess.run(
            [sys.executable, "-c", "import sys; print('colorsys' in sys.modules)"], capture_output=True
        )
    assert ended.stdout == b"False\n"


def test_path_that_hides_a_package_of_the_project_is_started_anew(folder: Path) -> None:
    with preloaded.preloaded():
        (folder / "modules" / "domains.py").touch()
        assert run(folder)[1]["imported"]
        (folder / "modules" / "benchmarks.py").touch()
        assert not run(folder)[1]["imported"]


ENDS = {
    "returns": "",
    "status": "sys.exit(2)",
    "status past a byte": "sys.exit(258)",
    "message": "sys.exit('no such model')",
    "error": "raise ValueError('no such model')",
    "thread": "threading.Thread(target=lambda: (time.sleep(0.1), print('from a thread'))).start()",
    "folder": "held = tempfile.TemporaryDirectory(); print(os.path.exists(held.name)); atexit.register(lambda: print('before'))",
    "printed by a library": "sys.stdout.flush(); import ctypes; ctypes.CDLL(None).printf(b'from C')",
    "closed output": "sys.stdout.flush(); os.close(1)",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_copy_of_a_script_ends_as_a_new_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, mimetypes, os, sys, tempfile, threading, time\n"
        "print(__name__, sys.argv, sys.path[0] == os.path.dirname(__file__), mimetypes.inited)\n"
        f"{end}\n"
    )
    monkeypatch.setitem(preloaded.PRELOADED, str(script), ("colorsys", "mimetypes:init"))
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)

    def run() -> tuple[int, str, list[str]]:
        command = [sys.executable, "-P", str(script), "a b"]
        ended = subprocess.run(command, cwd=preloaded.ROOT, capture_output=True, text=True, check=False)
        # The frames of a traceback above the script are those of who runs it.
        return ended.returncode, ended.stdout, ended.stderr.splitlines()[-1:]

    status, output, errors = run()
    with preloaded.preloaded():
        assert run() == (status, output.replace(" False\n", " True\n", 1), errors)
