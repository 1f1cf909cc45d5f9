"""A transaction of many batches keeps the rows that it wrote and none of the batches, and makes the same tables."""

from __future__ import annotations

import gc
import itertools
import weakref

import duckdb
import pytest

from ingest.projection import fold
from ingest.projection.fold import Folder, create
from tests.properties.ingest.test_projection_properties import projected, table


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


@pytest.mark.parametrize("few", [0, 1])
def test_subjects_counted_in_one_transaction_are_those_of_one_batch(build, assert_same_projection, monkeypatch, few):
    first, *others = [build.measurement(model=name) for name in "aaaab"]
    events = [first, *others[:2], build.retraction(event_id=first["id"]), *others[2:]]
    log = table(events)
    with projected(log, []) as at_once, duckdb.connect(config={"threads": 1}) as connection:
        monkeypatch.setattr(fold, "FEW", few)
        create(connection)
        folder = Folder(connection)
        # Two measurements by statements, one by Python where `few`, the retraction of the first, and two once more.
        for low, high in itertools.pairwise((0, 2, 3, 4, 6)):
            folder.apply(log.slice(low, high - low), hold=True)
        folder.commit()
        assert_same_projection(at_once, connection)
