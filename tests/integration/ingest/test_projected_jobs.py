"""Jobs in the tables: what was requested, what became of it, and which runs were made for it, now and as of any position."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ingest.projection.projector import Projection
from tests.jobs import job_event

Row = dict[str, Any]
BEGIN = datetime(2026, 11, 20, 14, tzinfo=UTC)


@pytest.fixture
def jobs(tmp_path: Path, database: Any, append: Any) -> Iterator[Callable[..., dict[str, Row]]]:
    """Append events, a second apart, and return the jobs by title, as of the last of them or of the event at an index."""
    with Projection(tmp_path, database) as projection:
        positions: list[int] = []

        def rows(events: list[Row], at: int = -1) -> dict[str, Row]:
            for event in events:
                event["time"] = (BEGIN + timedelta(seconds=len(positions))).isoformat()
                positions.extend(answer.position for answer in append([event]))
            projection.catch_up()
            with projection.tables(positions[at]) as tables:
                return {row["title"]: row for row in tables.jobs().to_pylist()}

        yield rows


def test_a_job_is_one_row_with_its_newest_attempt(jobs):
    rows = jobs(
        [
            job_event("requested", "a", needs={"platforms": ["cuda"]}, name="nightly"),
            job_event("requested", "b"),
            job_event("started", "a", attempt=1, worker="one", hardware="one-gpu"),
            job_event("failed", "a", attempt=1, worker="one", reason="lost", waiting=True, run_ids=["r1"]),
            job_event("started", "a", attempt=2, worker="two", hardware="two-gpu"),
            job_event("finished", "a", attempt=2, worker="two", run_ids=["r2", "r3"], exit_code=0),
        ]
    )
    row = rows["a"]
    assert (row["state"], row["attempt"], row["worker"], row["hardware"]) == ("succeeded", 2, "two", "two-gpu")
    assert (row["run_ids"], row["exit_code"], row["reason"]) == (["r1", "r2", "r3"], 0, None)
    assert (row["requested_at"], row["started_at"], row["ended_at"]) == tuple(
        BEGIN + timedelta(seconds=second) for second in (0, 4, 5)
    )
    assert (json.loads(row["needs"]), row["submission_name"]) == ({"platforms": ["cuda"]}, "nightly")
    assert (rows["b"]["state"], rows["b"]["attempt"], rows["b"]["run_ids"]) == ("waiting", 0, [])
    states = [(row["state"], row["reason"]) for row in (jobs([], at)["a"] for at in (1, 2, 3, 4))]
    assert states == [("waiting", None), ("running", None), ("waiting", "lost"), ("running", None)]


def test_a_job_that_is_requested_again_waits_again(jobs):
    rows = jobs(
        [
            job_event("requested", "a", attempts=1),
            job_event("started", "a", attempt=1),
            job_event("failed", "a", attempt=1, reason="broken", waiting=False, exit_code=3),
        ]
    )
    assert (rows["a"]["state"], rows["a"]["reason"], rows["a"]["exit_code"]) == ("failed", "broken", 3)
    row = jobs([job_event("requested", "a", attempts=4)])["a"]
    assert (row["state"], row["attempts"], row["attempt"], row["reason"], row["ended_at"]) == (
        "waiting", 4, 1, None, None,
    )  # fmt: skip
    row = jobs([job_event("cancelled", "a", attempt=0, reason="cancelled by ada")])["a"]
    assert (row["state"], row["attempt"], row["reason"]) == ("cancelled", 1, "cancelled by ada")


def test_a_run_names_its_job_and_attempt(tmp_path, database, append, build):
    name = str(uuid.uuid4())
    append(
        [build.event("assay.run.started.v1", {"run_id": "r", "kind": "bench", "context": {"job": name, "attempt": 2}})]
    )
    with Projection(tmp_path, database) as projection:
        projection.catch_up()
        with projection.tables() as tables:
            (row,) = tables.runs().to_pylist()
    assert (row["job"], row["attempt"]) == (name, 2)
