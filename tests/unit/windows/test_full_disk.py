"""A disk that takes no more: a sentence that names the file, and what was written before it stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from runner.spool.event_file import EventFile, read_lines
from runner.spool.spool import Spool

from .conftest import PROGRAMS

PROGRAM = PROGRAMS / "fill_disk.py"


def filled(path: Path) -> int:
    """Write events under a limit of the system until the file takes no more; return how many were taken."""
    words = [sys.executable, str(PROGRAM), str(path)]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True)
    field, code, named, remedy, count = ended.stdout.split()
    assert (field, code, named, remedy) == ("spool" if path.suffix == ".sqlite" else "out", "3", "True", "True")
    return int(count)


def test_file_of_events_keeps_its_whole_lines(tmp_path):
    path = tmp_path / "run.ndjson"
    count = filled(path)
    assert [json.loads(line)["id"] for line in read_lines(path, whole_only=True)] == [
        f"event-{n}" for n in range(count)
    ]
    file = EventFile(path, resume=True)
    file.write({"id": "later"})
    file.close()
    assert json.loads([*read_lines(path)][-1]) == {"id": "later"} and len([*read_lines(path)]) == count + 1


def test_spool_keeps_what_it_took(tmp_path):
    path = tmp_path / "spool.sqlite"
    count = filled(path)
    with Spool(path) as spool:
        assert spool.waiting() == count
        spool.put([{"id": "later", "type": "assay.test.v1", "source": "urn:test", "data": {}}])
        assert spool.waiting() == count + 1
