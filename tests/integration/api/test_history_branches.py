"""Histories of branches in a service: own runs after the start, those of the branch before it, requests beside them."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from assay.cli import run
from domain.payloads import BranchStart

Post = Callable[..., int]


@pytest.fixture
def post(client: Any, build: Any) -> tuple[str, Post]:
    """A model, and what posts runs of it on a branch; it returns the last position."""
    model, draw = f"acme/{uuid.uuid4().hex}", random.Random(5)

    def runs(branch: str, latencies: list[float], pull_request: str | None = None) -> int:
        events = []
        for latency in latencies:
            run_id = uuid.uuid4().hex
            context = {"branch": branch, "commit": run_id} | ({"pull_request": pull_request} if pull_request else {})
            started = {"run_id": run_id, "kind": "bench", "context": context}
            events.append(build.event("assay.run.started.v1", started))
            events.append(build.measurement(latency * draw.gauss(1, 0.01), model=model, run_id=run_id))
        last: int = client.post_events(events)["last_position"]
        client.wait_for(last)
        return last

    return model, runs


def test_history_of_a_branch_goes_back_to_the_branch_that_it_started_from(service, client, post, capsys):
    model, runs = post
    start = runs("main", [1.0] * 14)
    name = f"b{uuid.uuid4().hex[:8]}"
    runs(name, [1.3] * 12)
    runs("main", [1.0] * 12)
    runs("main", [2.0] * 12, pull_request="7")

    def worse(*words: str) -> tuple[int, list[int]]:
        code = run(
            ["regressions", "history", model, *words, "--metric", "latency_p50_ms", "--json", "--server", service.url]
        )
        reports = json.loads(capsys.readouterr().out)["reports"]
        return code, [report["points"] for report in reports]

    assert worse("--branch", "main") == (0, [26])
    assert worse("--branch", name) == (0, [12])
    client.set_baseline(name, name, start=BranchStart(branch="main", position=start))
    assert worse("--branch", name) == (1, [26])
    assert run(["regressions", "history", model, "--branch", "absent", "--server", service.url]) == 2
    assert "absent" in capsys.readouterr().err
    client.delete_baseline(name)
    assert worse("--branch", name) == (0, [12])


def test_changes_name_the_commits_at_both_ends(client, post):
    model, runs = post
    runs("main", [1.0] * 14)
    runs("main", [1.3] * 12)
    (report,) = client.regression_history(model=model, metric="latency_p50_ms").reports
    (change,) = report.changes
    assert None not in change.commits and change.commits[0] != change.commits[1]
