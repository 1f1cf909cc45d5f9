"""Histories from the tables and their reports over HTTP: which points one has, and which are left out."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from api.reads import histories as reads
from api.reads.histories import HistoryFilter, histories
from domain.errors import UsageError
from domain.history.history import History
from ingest.projection.projector import Projection

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def day(number: float) -> datetime:
    return BEGIN + timedelta(days=number)


@pytest.fixture
def known(tmp_path: Any, database: Any, append: Any) -> Any:
    """Appends events and returns the histories that a filter chooses."""
    with Projection(tmp_path, database) as projection:

        def known(events: list[dict[str, Any]], as_of: int | None = None, **wanted: Any) -> list[History]:
            if events:
                append(events)
            projection.catch_up()
            with projection.tables(as_of) as tables:
                return list(histories(tables, HistoryFilter(**wanted)))

        yield known


def values(history: History) -> list[float]:
    return [point.value for point in history.points]


def test_one_history_goes_on_across_versions_drivers_and_machines(known, build):
    execution = {"platform": "cpu", "runtime": {"name": "torch", "version": "2.14.0"}, "precision": "fp32"}
    other = {"fingerprint": "env-2", "os": "Linux", "driver": "560"}
    (history,) = known(
        [
            build.measurement(p50=2.0, time=day(2), execution=execution, environment=other, source="urn:acme:two"),
            build.measurement(p50=1.0, time=day(1)),
        ]
    )
    assert values(history) == [1.0, 2.0]
    assert [point.runtime for point in history.points] == ["torch 2.13.0", "torch 2.14.0"]
    assert [point.environment for point in history.points] == ["env-1", "env-2"]
    assert [point.machine for point in history.points] == [build.SOURCE, "urn:acme:two"]
    assert history.environments["env-2"] == {"driver": "560", "os": "Linux"}
    assert (history.metric, history.unit, history.better, history.batch_size) == ("latency_p50_ms", "ms", "lower", 1)
    assert history.points[0].low == pytest.approx(0.99) and history.points[0].run_id == "run-1"


def test_a_history_has_the_words_that_measure_it_again(known, build):
    execution = {
        "platform": "cpu",
        "runtime": {"name": "torch", "version": "2.14.0"},
        "precision": "fp32",
        "threads": 3,
    }
    workload = {"mode": "inference", "scenario": "single_stream", "batch_size": 1, "sequence_length": 384}
    (history,) = known([build.measurement(execution=execution | {"compiled": True}, workload=workload)])
    assert history.bench == ["--sequence-lengths", "384", "--threads", "3", "--compiled"]


def test_what_is_retracted_invalid_simulated_or_imported_is_no_point(known, build):
    gone = build.measurement(p50=9.0)
    imported = {"provenance": {"origin": "imported", "source": "paper"}}
    events = [
        build.measurement(p50=1.0, time=day(1)),
        gone,
        build.retraction(event_id=gone["id"]),
        build.measurement(p50=8.0, validity={"verdict": "invalid", "reasons": ["clock"]}),
        build.measurement(p50=7.0, provenance={"origin": "simulated", "source": "model"}),
        build.measurement(p50=2.0, time=day(2), **imported),
        build.measurement(p50=3.0, **imported),
        build.measurement(p50=4.0, time=day(4), validity={"verdict": "suspect", "reasons": ["load"]}),
    ]
    (history,) = known(events)
    assert values(history) == [1.0, 4.0]
    assert [point.doubts for point in history.points] == [[], ["load"]]
    (both,) = known([], origins=("measured", "imported"))
    assert values(both) == [1.0, 2.0, 4.0]
    (before,) = known([], as_of=2)
    assert values(before) == [1.0, 9.0]


def test_the_newest_points_are_read_and_too_many_histories_are_refused(known, build, monkeypatch):
    monkeypatch.setattr(reads, "NEWEST", 3)
    (history,) = known([build.measurement(p50=float(index), time=day(index)) for index in (5, 1, 4, 2, 3)])
    assert values(history) == [3.0, 4.0, 5.0]
    monkeypatch.setattr(reads, "MOST", 1)
    with pytest.raises(UsageError) as refused:
        known([build.measurement(batch_size=8)])
    assert (refused.value.field, bool(refused.value.remedy)) == ("model", True)
    assert len(known([], platform="cpu", alike=[history.alike[:12]])) == 1


def test_figures_are_speed_times_to_tokens_and_memory_or_those_named(known, build):
    metrics = {
        "latency_ms": {"mean": 1.5, "p50": 1.0, "n": 60}, "throughput_per_s": 9.0, "ttft_ms": 3.0, "tpot_ms": 2.0,
        "peak_memory_bytes": 4, "load_ms": 5.0,
    }  # fmt: skip
    event = build.measurement()
    event["data"]["metrics"] = metrics
    assert [history.metric for history in known([event])] == [
        "latency_p50_ms",
        "ttft_ms",
        "tpot_ms",
        "peak_memory_bytes",
    ]
    named = known([], metrics=("throughput_per_s", "load_ms"))
    assert [(history.metric, history.better) for history in named] == [
        ("throughput_per_s", "higher"),
        ("load_ms", "lower"),
    ]
    for name in ("samples_n", "no_such"):
        with pytest.raises(UsageError) as refused:
            known([], metrics=(name,))
        assert refused.value.field == "metric"


def test_tests_and_failures_are_histories_of_one_and_nought(known, build):
    events = [build.measurement(), build.test("passed"), build.test("skipped"), build.test("failed"), build.failure()]
    speed, measuring, verify = known(events)
    assert (speed.kind, measuring.kind, verify.kind) == ("performance", "functional", "functional")
    assert (measuring.metric, values(measuring)) == ("measuring", [1.0, 0.0])
    assert (verify.metric, values(verify)) == ("verify", [1.0, 0.0])
    assert [point.outcome for point in measuring.points] == ["passed", "unsupported"]
    (alone,) = known([], metrics=("verify",))
    assert alone == verify


def started(build: Any, run_id: str, **context: str) -> dict[str, Any]:
    return build.event("assay.run.started.v1", {"run_id": run_id, "kind": "bench", "context": context})


def test_a_branch_has_its_own_points_after_its_start_and_a_pull_request_is_context(known, build):
    runs = {
        "m1": {"branch": "main", "commit": "c1"},
        "m2": {"branch": "main", "commit": "c2"},
        "f1": {"branch": "fast"},
    }
    runs["p1"] = {"branch": "fast", "pull_request": "7"}
    events = []
    for index, (run, context) in enumerate(runs.items()):
        events += [started(build, run, **context), build.measurement(p50=index + 1.0, run_id=run, time=day(index))]
    (history,) = known(events)
    assert (values(history), [point.value for point in history.context]) == ([1.0, 2.0, 3.0], [4.0])
    assert [point.commit for point in history.points] == ["c1", "c2", None]
    (main,) = known([], branch="main")
    assert values(main) == [1.0, 2.0]
    (alone,) = known([], branch="fast")
    assert values(alone) == [3.0]
    start = {"name": "fast", "branch": "fast", "position": 6, "start": {"branch": "main", "position": 2}}
    (fast,) = known([build.event("assay.baseline.named.v1", start)], branch="fast")
    assert values(fast) == [1.0, 3.0]
    assert known([], branch="none") == []


@pytest.fixture
def stepped(client, build):
    """A model with a history that steps up, and one that does not."""
    model = f"stepped/{uuid.uuid4().hex[:8]}"
    events = [
        build.measurement(p50=(1.0 if index < 20 else 1.3) * (1 + index % 3 / 200), model=model, time=day(index))
        for index in range(32)
    ]
    events += [
        build.measurement(p50=1.0 + index % 3 / 200, model=model, batch_size=8, time=day(index)) for index in range(32)
    ]
    last = client.post_events(events)["last_position"]
    client.wait_for(last)
    return model, last


def test_reports_are_those_with_a_change_unless_all_are_asked_for(client, stepped):
    model, last = stepped
    answer = client.regression_history(model=model, as_of=last)
    (report,) = answer.reports
    (change,) = report.changes
    assert (answer.histories, answer.position, report.points) == (2, last, 32)
    assert (change.state, change.change) == ("worse", pytest.approx(0.3, abs=0.02))
    assert len(client.regression_history(model=model, everything=True).reports) == 2
    (named,) = client.regression_history(model=model, alike=report.alike).reports
    assert named == report
    assert client.regression_history(model=model, hardware="acme-none").histories == 0
    assert client.regression_history(model=model, branch="no-such").histories == 0
    assert client.regression_history(model=model, as_of=last - 32 - 20).reports == []


def test_the_answer_has_a_tag_and_refuses_what_is_wrong(service, stepped):
    model, last = stepped
    address = f"{service.url}/v1/regressions/history"
    answer = httpx.get(address, params={"model": model, "as_of": last})
    assert answer.status_code == 200
    again = httpx.get(
        address, params={"model": model, "as_of": last}, headers={"If-None-Match": answer.headers["etag"]}
    )
    assert again.status_code == 304
    for query in ({"metric": "no_such"}, {"origins": "simulated"}, {"all": "perhaps"}, {"alike": ["a"] * 101}):
        refused = httpx.get(address, params=query)
        assert refused.status_code == 422, query
        assert refused.json()["field"]
