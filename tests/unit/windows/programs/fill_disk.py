"""Write events under a limit of the system until the file takes no more, and print what is said then."""

import resource
import sys
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
