"""Rebuilds a projection in a process of its own. Takes a log's URL, a home, and how many processes fold ranges (0: none).

Tells seconds, processor time of all its processes, peak memory of the largest of them, and the share of the merge, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from benchmarks.processor import peak_bytes
from domain.upcasting import UPCASTERS
from ingest.archive.archive import archive_folder
from ingest.log.postgres import Database
from ingest.parallel.ranges import LogAddress
from ingest.parallel.rebuilding import Rebuild, Report, fold_log
from ingest.projection.definitions import definitions_digest
from ingest.projection.projector import Projection


def main() -> None:
    """Rebuild once."""
    url, home, workers = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    database, reports = Database(url), [Report(position=0, ranges=0)]
    log = LogAddress(uri=database.adbc_uri, archive=str(archive_folder(home)))

    def fill(path: Path) -> None:
        question = Rebuild(log=log, path=str(path), definitions=definitions_digest(UPCASTERS), workers=workers)
        reports[0] = fold_log(question)

    with Projection(home, database) as projection:
        begin = time.perf_counter()
        position = projection.rebuild(fill if workers else None)
        seconds = time.perf_counter() - begin
        size = projection.path.stat().st_size
    own, children = (resource.getrusage(of) for of in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    # Linux counts it in KiB, macOS in bytes. That of a child is at least what this process had when it started it: little.
    peak = max(peak_bytes(), children.ru_maxrss * (1 if sys.platform == "darwin" else 1024))
    cpu = sum(of.ru_utime + of.ru_stime for of in (own, children))
    print(
        json.dumps(
            {
                "seconds": seconds,
                "cpu_seconds": cpu,
                "merge_cpu_seconds": reports[0].merge_cpu_s,
                "position": position,
                "peak_bytes": peak,
                "file_bytes": size,
            }
        )
    )


if __name__ == "__main__":
    main()
