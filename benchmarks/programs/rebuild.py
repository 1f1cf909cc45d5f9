"""Rebuilds a projection in a process of its own. Takes a log's URL and a home; tells seconds and peak memory as JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from ingest.log.postgres import Database
from ingest.projection.projector import Projection


def main() -> None:
    """Rebuild once."""
    url, home = sys.argv[1:3]
    with Projection(Path(home), Database(url)) as projection:
        begin = time.perf_counter()
        position = projection.rebuild()
        seconds = time.perf_counter() - begin
        size = projection.path.stat().st_size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts it in KiB, macOS in bytes.
    peak *= 1 if sys.platform == "darwin" else 1024
    print(json.dumps({"seconds": seconds, "position": position, "peak_bytes": peak, "file_bytes": size}))


if __name__ == "__main__":
    main()
