"""Runs in the tables: which code they measured."""

from __future__ import annotations

import duckdb

from ingest.projection.fold import Folder, create
from tests.unit.ingest.test_reference import batch


def test_a_run_has_the_branch_commit_and_request_that_it_says(build):
    said = {"repository": "github.com/acme/models", "branch": "topic", "commit": "a" * 40, "pull_request": "7"}
    events = [
        build.event("assay.run.started.v1", {"run_id": "run-1", "kind": "bench", "context": said}),
        build.event("assay.run.started.v1", {"run_id": "run-2", "kind": "bench", "context": {"branch": "main"}}),
        build.event("assay.run.started.v1", {"run_id": "run-3", "kind": "bench"}),
    ]
    with duckdb.connect() as connection:
        create(connection)
        Folder(connection).apply(batch(events, 1))
        rows = connection.execute(
            "SELECT repository, branch, commit, pull_request FROM runs ORDER BY position"
        ).fetchall()
    assert rows == [tuple(said.values()), (None, "main", None, None), (None,) * 4]
