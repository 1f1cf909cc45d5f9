"""A transaction of many batches keeps the rows that it wrote, and none of the batches."""

from __future__ import annotations

import gc
import weakref

import duckdb

from ingest.projection import fold
from ingest.projection.fold import Folder, create
from tests.properties.ingest.test_projection_properties import table


def test_a_held_transaction_keeps_no_batch(build, monkeypatch):
    monkeypatch.setattr(fold, "FEW", 0)
    events = [build.measurement(), build.test("passed"), build.alias("a", "b"), build.retraction(run_id="r")]
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        folder = Folder(connection)
        log = table(events * 4)
        alive = []
        for first in range(0, log.num_rows, len(events)):
            # Buffers of its own: a slice would share those of the log.
            batch = log.slice(first, len(events)).take(list(range(len(events))))
            alive.append(weakref.ref(batch))
            folder.apply(batch, hold=True)
            del batch
        gc.collect()
        assert [reference() is not None for reference in alive] == [False, False, False, True]
        folder.commit()
