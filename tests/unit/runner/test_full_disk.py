"""A disk that takes no more: a sentence that names the file, and what was written before it stays."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from runner.spool.event_file import EventFile, read_lines
from runner.spool.spool import Spool

WRITE = """
import resource, sys
from pathlib import Path
from domain.errors import ServiceUnavailable
from runner.spool.event_file import EventFile
from runner.spool.spool import Spool

def event(number):
    return {"id": f"event-{number}", "type": "assay.test.v1", "source": "urn:test", "data": {"text": "b" * 3000}}

path = Path(sys.argv[1])
target = Spool(path) if path.suffix == ".sqlite" else EventFile(path)
put = (lambda each: target.put([each])) if path.suffix == ".sqlite" else target.write
put(event(0))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
number = 0
try:
    while True:
        number += 1
        put(event(number))
except ServiceUnavailable as error:
    print(error.field, error.exit_code, path.name in error.detail, bool(error.remedy), number)
"""


def filled(path: Path) -> int:
    """Write events under a limit of the system until the file takes no more; return how many were taken."""
    words = [sys.executable, "-c", WRITE, str(path)]
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
