"""The recorder of eventsourcing on Postgres. Takes a URL; each line "BATCHES EVENTS BYTES" is answered with its rate.

It has two ways to insert, statements in a pipeline and a function of the database: both are measured, the faster told.
"""

from __future__ import annotations

import json
import os
import sys
import time
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import uuid4

from eventsourcing.persistence import StoredEvent
from eventsourcing.postgres import PostgresApplicationRecorder, PostgresDatastore


def recorder(url: str, *, functions: bool) -> PostgresApplicationRecorder:
    """Return a recorder with a table of its own."""
    parts = urlsplit(url)
    options = parse_qs(parts.query)
    store = PostgresDatastore(
        dbname=parts.path.lstrip("/"),
        host=options.get("host", [parts.hostname or ""])[0],
        port=str(parts.port or options.get("port", ["5432"])[0]),
        user=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        enable_db_functions=functions,
        originator_id_type="uuid",
    )
    made = PostgresApplicationRecorder(store, events_table_name=f"events_{int(functions)}")
    made.create_table()
    return made


def batches(count: int, size: int, state_bytes: int) -> list[list[StoredEvent]]:
    """Return batches of events, one version each, of originators of their own."""
    return [
        [
            StoredEvent(
                originator_id=uuid4(), originator_version=1, topic="measurement:recorded", state=os.urandom(state_bytes)
            )
            for _ in range(size)
        ]
        for _ in range(count)
    ]


def main() -> None:
    """Answer the lines of stdin."""
    both = [recorder(sys.argv[1], functions=functions) for functions in (False, True)]
    for line in sys.stdin:
        count, size, state_bytes = map(int, line.split())
        told = []
        for one in both:
            made = batches(count, size, state_bytes)
            begin = time.perf_counter()
            for batch in made:
                one.insert_events(batch)
            told.append(count * size / (time.perf_counter() - begin))
        print(json.dumps({"events_per_s": max(told), "pipeline": told[0], "function": told[1]}), flush=True)


if __name__ == "__main__":
    main()
