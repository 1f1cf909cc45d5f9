"""Projects a log size by size in a process of its own. Takes a URL, a home, sizes; tells one line of JSON a size."""

from __future__ import annotations

import contextlib
import json
import random
import statistics
import sys
import time
from pathlib import Path

import psycopg

from benchmarks.documents import model_name
from ingest.log.postgres import Database
from ingest.projection.projector import Projection

QUESTIONS = 30


def main() -> None:
    """Project up to each size in turn, and ask for the best rows of some models there."""
    url, home, models, *sizes = sys.argv[1:]
    chance = random.Random(1)
    seconds, before = 0.0, 0
    with Projection(Path(home), Database(url)) as projection, psycopg.connect(url) as connection:
        for size in map(int, sizes):
            ((position,),) = connection.execute(
                "SELECT position FROM event ORDER BY position OFFSET %s LIMIT 1", [size - 1]
            ).fetchall()
            begin = time.perf_counter()
            projection.catch_up(to=position)
            step = time.perf_counter() - begin
            seconds += step
            with contextlib.closing(projection.cursor()) as cursor:
                cursor.execute("CHECKPOINT")
            asked = []
            for _ in range(QUESTIONS):
                begin = time.perf_counter()
                with projection.tables() as tables:
                    tables.measurements(model=model_name(chance.randrange(int(models))), best=True)
                asked.append((time.perf_counter() - begin) * 1e3)
            told = {
                "events": size, "events_per_s": (size - before) / step, "seconds": seconds,
                "query_ms": asked, "median_ms": statistics.median(asked),
                "file_bytes": projection.path.stat().st_size,
            }  # fmt: skip
            before = size
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
