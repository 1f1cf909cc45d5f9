"""Runs with what is there of each, one run with its environment, and the samples behind a measurement, over HTTP and typed."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import msgspec
import psycopg
import pytest

from assay.cli import run as typed
from assay.client.row_types import Run
from domain.canonical import digest
from domain.errors import Expired, NotFound
from presentation import run_progress

LIBRARIES = {"torch": "2.13.0", "openvino": "2026.4.1"}


class Bench:
    """A run on a machine of its own: two rows, a failure and a test."""

    def __init__(self, build: Any, hardware: str | None = None, *, driver: str = "1.0", ends: bool = True) -> None:
        mark = uuid.uuid4().hex[:8]
        self.run_id, self.hardware = f"run-{mark}", hardware or f"acme-bench-{mark}"
        self.model = f"acme/bench-{mark}"
        self.values = [10.0 + at % 5 / 10 for at in range(61)]
        fingerprint = f"env-{mark}"
        started = {
            "run_id": self.run_id, "kind": "bench", "planned": 5,
            "hardware": [{"id": self.hardware, "kind": "cpu", "count": 1}],
            "environment": {"fingerprint": fingerprint, "driver": driver, "os": "Linux", "libraries": LIBRARIES},
            "provenance": {"origin": "measured"},
        }  # fmt: skip
        of = {"run_id": self.run_id, "hardware": self.hardware, "model": self.model}
        self.row = build.measurement(10.2, **of)
        self.row["data"]["samples"] = {"digest": digest(self.values), "n": 61}
        self.row["subject"] = self.model
        self.samples = build.event("assay.samples.recorded.v1", self._samples(), subject=self.model)
        self.doubtful = build.measurement(12.0, batch_size=8, **of)
        self.doubtful["data"]["validity"] = {
            "verdict": "suspect",
            "reasons": ["drifting: the second half is 9% slower"],
        }
        self.failure = build.failure(**{**of, "batch_size": 64})
        self.test = build.test(**of)
        now = datetime.now(UTC)
        self.events = [
            build.event("assay.run.started.v1", started, time=now - timedelta(seconds=90)),
            self.row, self.samples, self.doubtful, self.failure, self.test,
        ]  # fmt: skip
        if ends:
            end = {"run_id": self.run_id, "outcome": "completed", "measured": 2, "failed": 1, "tests": 1}
            self.events.append(build.event("assay.run.finished.v1", end, time=now))

    def _samples(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id, "digest": digest(self.values), "n": 61, "values": self.values, "warmup": [30.0, 20.0],
        }  # fmt: skip


def post(client: Any, events: list[dict[str, Any]]) -> int:
    answer = client.post_events(events)
    assert answer["rejected"] == []
    client.wait_for(answer["last_position"])
    return int(answer["last_position"])


@pytest.fixture
def bench(client: Any, build: Any) -> Bench:
    made = Bench(build)
    post(client, made.events)
    return made


def test_a_run_tells_what_is_there_of_it(client, bench):
    found = client.page("runs", hardware=bench.hardware)
    (run,) = found["items"]
    assert (found["total"], found["first"], found["next_cursor"]) == (1, 1, None)
    assert (run["run_id"], run["planned"], run["outcome"]) == (bench.run_id, 5, "completed")
    counted = ("rows", "rows_valid", "rows_suspect", "rows_invalid", "rows_unjudged", "rows_failed", "rows_tested")
    assert [run[name] for name in counted] == [2, 1, 1, 0, 0, 1, 1]
    assert (run["tests_passed"], run["models"], run["devices"], run["hardware_ids"]) == (1, 1, 1, [bench.hardware])
    assert bench.hardware in found["choices"]["hardware"]
    assert {"bench"} <= set(found["choices"]["kind"])
    row = msgspec.convert(run, Run)
    assert run_progress.length(row) == "4 of 5 configurations, 1 failed, 1 of 1 test passed"
    assert run_progress.verdicts(row) == "1 valid, 1 suspect, 0 invalid"
    assert run_progress.duration(row) == "1\u202fmin 30\u202fs"


def test_runs_are_filtered_and_their_pages_follow_each_other(client, build):
    made = [Bench(build)]
    made += [Bench(build, made[0].hardware, ends=False) for _ in range(2)]
    for one in made:
        post(client, one.events)
    of = {"hardware": made[0].hardware}
    newest = [one.run_id for one in reversed(made)]
    first = client.page("runs", limit=2, **of)
    assert [run["run_id"] for run in first["items"]] == newest[:2]
    assert first["total"] == 3
    # A run that comes meanwhile does not move the pages.
    post(client, Bench(build, made[0].hardware).events)
    second = client.page("runs", limit=2, cursor=first["next_cursor"], **of)
    assert [run["run_id"] for run in second["items"]] == newest[2:]
    assert (second["first"], second["next_cursor"], second["total"]) == (3, None, 3)
    assert {run["run_id"] for run in client.runs(outcome="unfinished", **of)} == set(newest[:2])
    assert len(client.runs(outcome="completed", **of)) == 2
    assert client.runs(kind="verify", **of) == []
    assert client.runs(outcome="nonsense", **of) == []


def test_runs_that_came_late_stand_where_they_began(client, build):
    """A file of last year that is loaded today is no newer than what was measured yesterday; pages follow the same order."""
    made = [Bench(build)]
    made += [Bench(build, made[0].hardware) for _ in range(2)]
    for one, days in zip(made, (2, 300, 1), strict=True):
        one.events[0]["time"] = (datetime.now(UTC) - timedelta(days=days)).isoformat()
    for one in made:
        post(client, one.events)
    of = {"hardware": made[0].hardware, "limit": 2}
    newest = [made[2].run_id, made[0].run_id, made[1].run_id]
    first = client.page("runs", **of)
    second = client.page("runs", cursor=first["next_cursor"], **of)
    assert [run["run_id"] for run in (*first["items"], *second["items"])] == newest
    assert client.run(newest[0])["previous"]["run_id"] == newest[1]
    assert client.run(newest[2])["previous"] is None


def test_reasons_that_differ_in_figures_are_one_with_the_least_and_the_most(client, build):
    bench = Bench(build)
    of = {"run_id": bench.run_id, "hardware": bench.hardware, "model": bench.model}
    rows = [build.measurement(12.0, batch_size=batch, **of) for batch in (16, 32, 128)]
    for row, said in zip(
        rows, ("slowed to 9% in 1,200 calls", "slowed to 12.5% in 1,200 calls", "p95 needs 90"), strict=True
    ):
        row["data"]["validity"] = {"verdict": "suspect", "reasons": [said]}
    post(client, [*bench.events, *rows])
    found = client.run(bench.run_id)["reasons"]
    assert found[0] == {"reason": "slowed to 9–12.5% in 1,200 calls", "rows": 2}
    assert {"reason": "p95 needs 90", "rows": 1} in found
    doubted = client.page("tables/measurements", run_id=bench.run_id, verdict=["suspect", "invalid"])["items"]
    assert [row["batch_size"] for row in doubted] == [8, 16, 32, 128]


def test_the_hardware_of_a_run_may_be_named_by_an_alias(client, build, bench):
    alias = f"{bench.hardware}-box"
    post(client, [build.alias(alias, bench.hardware, "hardware")])
    assert [run["run_id"] for run in client.runs(hardware=alias)] == [bench.run_id]


def test_a_retracted_run_keeps_its_count_and_says_why(client, build, bench):
    before = client.ready()["position"]
    post(client, [build.retraction(run_id=bench.run_id)])
    (run,) = client.runs(hardware=bench.hardware, outcome="retracted")
    assert (run["rows"], run["rows_retracted"], run["retracted_because"]) == (0, 4, "wrong clock")
    assert client.runs(hardware=bench.hardware, outcome="unfinished") == []
    (then,) = client.runs(hardware=bench.hardware, as_of=before)
    assert (then["rows"], then["rows_retracted"], then["retracted_because"]) == (2, 0, None)


def test_one_run_says_why_rows_are_doubtful_and_what_was_taken_back(client, build, bench):
    found = client.run(bench.run_id)
    assert found["reasons"] == [{"reason": "drifting: the second half is 9% slower", "rows": 1}]
    assert (found["previous"], found["differs"], found["retractions"]) == (None, None, [])
    post(client, [build.retraction(event_id=bench.row["id"])])
    (taken,) = client.run(bench.run_id)["retractions"]
    assert (taken["event_id"], taken["reason"]) == (bench.row["id"], "wrong clock")
    assert client.run(bench.run_id)["run"]["rows"] == 1


def test_one_run_says_what_changed_since_the_one_before_on_its_machine(client, build, bench):
    later = Bench(build, bench.hardware, driver="2.0")
    post(client, [*Bench(build).events, *later.events])
    found = client.run(later.run_id)
    assert found["previous"]["run_id"] == bench.run_id
    assert found["differs"] == {"driver": ["1.0", "2.0"]}
    assert found["environment"]["libraries"] == LIBRARIES


def test_a_run_that_nobody_knows_is_said_to_be_unknown(client):
    with pytest.raises(NotFound, match="no run is called 'run-of-nobody'"):
        client.run("run-of-nobody")


def test_samples_are_found_by_their_measurement_and_by_their_own_event(client, bench):
    found = client.samples(bench.row["id"])
    assert (found["measurement"], found["event_id"]) == (bench.row["id"], bench.samples["id"])
    assert found["points"] == [30.0, 20.0, *bench.values]
    assert (found["warmup_n"], found["steady_from"], found["n"], found["intact"]) == (2, 3, 61, True)
    assert found["percentiles"]["p95"] == {"needs": 90, "has": 61, "ms": None, "low": None, "high": None}
    assert sum(one["count"] for one in found["histogram"]) == 61
    assert client.samples(bench.samples["id"])["points"] == found["points"]
    thinned = client.samples(bench.row["id"], points=10)
    assert thinned["points"] is None
    assert thinned["bands"][-1]["last"] == 63


def test_samples_that_another_run_of_the_same_model_came_between_are_still_found(client, build):
    made = Bench(build)
    row, samples = made.events[1:3]
    other = [
        build.event("assay.samples.recorded.v1", {"run_id": "run-2", "digest": digest([at]), "n": 1, "values": [at]}, subject=made.model)
        for at in (1.0, 2.0, 3.0)
    ]  # fmt: skip
    post(client, [row, *other, samples])
    assert client.samples(row["id"])["event_id"] == samples["id"]
    early = Bench(build)
    post(client, [early.samples, early.row])
    assert client.samples(early.row["id"])["event_id"] == early.samples["id"]


def test_samples_that_are_not_there_are_told_apart(service, client, build):
    gone, never = Bench(build), Bench(build)
    post(client, [*gone.events, *(event for event in never.events if event is not never.samples)])
    with psycopg.connect(service.database_url) as connection:
        connection.execute("UPDATE event SET body = NULL WHERE id = %s", [gone.samples["id"]])
    with pytest.raises(Expired, match=f"61 raw samples of measurement {gone.row['id']}"):
        client.samples(gone.row["id"])
    with pytest.raises(NotFound, match="are not in the log"):
        client.samples(never.row["id"])
    with pytest.raises(NotFound, match="refers to no raw samples"):
        client.samples(never.doubtful["id"])
    with pytest.raises(NotFound, match="the log has no event"):
        client.samples(str(uuid.uuid4()))
    assert httpx.get(f"{service.url}/v1/samples/{never.row['id']}?points=1").status_code == 422


def test_a_run_is_live_until_it_ends_or_falls_silent(client, build):
    made = Bench(build, ends=False)
    post(client, made.events)
    (run,) = client.runs(hardware=made.hardware)
    row = msgspec.convert(run, Run)
    assert row.last_at is not None
    assert run_progress.state(row, row.last_at + timedelta(minutes=14)) == ("running", True)
    assert run_progress.state(row, row.last_at + timedelta(minutes=16)) == ("never ended", False)
    assert run_progress.progress(row) == 0.8


def test_a_run_that_is_loaded_from_a_file_later_is_not_under_way(client, build):
    made, days_ago = Bench(build, ends=False), datetime.now(UTC) - timedelta(days=2)
    post(client, [event | {"time": days_ago.isoformat()} for event in made.events])
    (run,) = client.runs(hardware=made.hardware)
    assert datetime.fromisoformat(run["last_at"]) == days_ago
    row = msgspec.convert(run, Run)
    assert run_progress.state(row, datetime.now(UTC)) == ("never ended", False)
    assert run_progress.heard(msgspec.structs.replace(row, last_at=None)) == days_ago


def test_typed_runs_are_those_of_the_service(service, client, bench, capsys):
    at = ["--server", service.url]
    assert typed(["runs", "list", "--hardware", bench.hardware, *at]) == 0
    told = capsys.readouterr().out
    assert bench.run_id in told
    assert "completed" in told
    assert typed(["runs", "list", "--hardware", bench.hardware, "--json", *at]) == 0
    assert json.loads(capsys.readouterr().out) == client.runs(hardware=bench.hardware)
    assert typed(["runs", "show", bench.run_id, "--samples", *at]) == 0
    told = capsys.readouterr().out
    for words in (
        "4 of 5 configurations",
        "10.2 ms (10.1–10.3)",
        "unsupported at compile",
        "Use fp32.",
        "needs 90",
        "drifting",
    ):
        assert words in " ".join(told.split()), words
    assert max(map(len, told.splitlines())) <= 100
    assert typed(["runs", "show", bench.run_id, "--samples", "--json", *at]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["samples"][bench.row["id"]] == client.samples(bench.row["id"])
    assert len(found["rows"]) == 2
    assert typed(["runs", "show", "run-of-nobody", *at]) == 1
    assert "no run is called" in capsys.readouterr().err
