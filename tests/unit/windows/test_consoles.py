"""Streams of other consoles: code pages that lack characters, dumb terminals, and streams that are closed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys

import pytest

from .conftest import PROGRAMS

LIST = ("-m", "assay.cli", "hardware", "list")


def ran(*words: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(words, env={**os.environ, **variables}, capture_output=True, check=False, timeout=60)


@pytest.mark.parametrize("encoding", ["cp1252:strict", "cp437:strict", "ascii:strict"])
def test_characters_that_a_console_lacks_are_replaced(encoding):
    ended = ran(sys.executable, *LIST, PYTHONIOENCODING=encoding)
    assert (ended.returncode, ended.stderr) == (0, b"")
    lines = ended.stdout.decode(encoding.partition(":")[0]).splitlines()
    assert len(lines) > 800 and max(map(len, lines)) <= 100


@pytest.mark.parametrize("encoding", ["cp1252:strict", "ascii:strict", "utf-8"])
def test_json_keeps_every_character_on_every_console(encoding):
    ended = ran(sys.executable, str(PROGRAMS / "write_json.py"), PYTHONIOENCODING=encoding)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.decode(encoding.partition(":")[0])) == {"→": "≥ 😀 é"}


@pytest.mark.parametrize("closed", ["<&-", "<&- 2>&-", ">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(closed):
    ended = ran("sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, *LIST)
    assert (ended.returncode, ended.stderr) == (0, b"")
    assert bool(ended.stdout) == (">&-" not in closed.replace("2>&-", ""))


def test_question_to_a_closed_stdin_is_refused_with_what_to_add():
    ended = ran("sh", "-c", 'exec "$@" <&-', "sh", sys.executable, str(PROGRAMS / "ask_nobody.py"))
    assert (ended.returncode, ended.stderr, ended.stdout) == (0, b"", b"yes Add --yes. 2\n")


def test_dumb_terminal_gets_no_control_characters():
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "assay.cli", "bench", "acme/unknown", "--platform", "nowhere"]
    variables = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=variables) as process:
        os.close(theirs)
        said = b""
        while piece := _read(ours):
            said += piece
    os.close(ours)
    assert process.returncode == 2 and b"error" in said.lower() and b"\x1b" not in said


def _read(descriptor: int) -> bytes:
    """Linux answers with an error where a terminal has no other side left."""
    try:
        return os.read(descriptor, 4096)
    except OSError:
        return b""
