"""The projection: the same tables from the same log, whatever happened on the way."""

from __future__ import annotations

import json
import threading
import time

import psycopg
import pytest

from domain.configuration import Configuration, Execution, Hardware, Model, Runtime, Workload
from domain.errors import ProjectionBehind, ServiceUnavailable
from ingest.projection import facts
from ingest.projection.projector import Projection
from tests import variants
from tests.alerts import change, raised, stated
from tests.conftest import append_raw
from tests.jobs import job_event


@pytest.fixture
def projection(tmp_path, database):
    with Projection(tmp_path, database) as opened:
        yield opened


def everything(build):
    """A log with every type, aliases before and after what they name, retractions, and a type nobody knows."""
    voided = build.measurement(p50=9.0)
    trace = {
        "model": {"id": "tiny", "category": "embedding", "family": "bert", "architecture": "a1"},
        "workload": {"mode": "inference", "phase": "forward", "batch_size": 1, "sequence_length": 128},
        "tracer": {"name": "assay-tracer", "version": 1},
        "operators": [
            {"name": "aten.mm", "class": "mm", "count": 2, "flops": 10.0, "read_elements": 1, "write_elements": 1,
             "weight_elements": 4, "inner": 3},
        ],
        "totals": {"flops": 20.0, "parameters": 4},
    }  # fmt: skip
    described = {
        "hardware": {"id": "acme-one", "kind": "cpu", "count": 1},
        "name": "Acme One", "vendor": "Acme",
        "platforms": [{"platform": "cpu", "available": True}],
        "spec": {"peak_flops": {"fp32": {"value": 1e12, "status": "measured"}}},
        "environment": {"fingerprint": "env-2", "os": "Linux"},
    }  # fmt: skip
    price = {
        "hardware": {"id": "acme-one", "kind": "cpu"}, "provider": "acme", "usd_per_hour": 0.5, "date": "2026-01-01",
    }  # fmt: skip
    timed = build.kernels()
    card = {"digest": "sha256:" + "0" * 64, "position": 3, "card": {"rows": 2}}
    option = {"rank": 1, "configuration": "c", "hardware": "acme-one", "basis": "measured", "evidence": ["e"]}
    issued = {"recommendation": "abc", "position": 3, "question": {"model": "tiny"}, "answer": {"ranked": [option]}}
    return [
        build.event(
            "assay.run.started.v1", {"run_id": "run-1", "kind": "bench", "environment": {"fingerprint": "env-1"}}
        ),
        build.measurement(model="tiny"),
        build.measurement(model="tiny", batch_size=8),
        build.event("assay.hardware.described.v1", described),
        build.alias("tiny", "acme/tiny"),
        build.measurement(hardware="one"),
        build.event(
            "assay.model.described.v1", {"model": {"id": "acme/tiny", "task": "fill-mask"}, "config": {"layers": 2}}
        ),
        build.event("assay.model.traced.v1", trace),
        voided,
        build.retraction(event_id=voided["id"]),
        build.retraction(run_id="run-2"),
        build.measurement(run_id="run-2"),
        build.test(),
        build.test("failed", precision="int8"),
        build.failure(platform="openvino"),
        build.alias("one", "acme-one", kind="hardware"),
        build.event("assay.price.published.v1", price),
        build.event("assay.predictor.trained.v1", card),
        build.event("assay.recommendation.issued.v1", issued),
        build.event("acme.unknown.v7", {"anything": [1, 2]}),
        build.event("assay.run.finished.v1", {"run_id": "run-1", "outcome": "completed", "measured": 3}),
        build.event("assay.baseline.named.v1", {"name": "nightly", "branch": "main", "position": 3, "hardware": "a"}),
        build.event("assay.baseline.named.v1", {"name": "nightly", "branch": "main", "position": 5}),
        build.event("assay.baseline.named.v1", {"name": "nightly", "branch": "main", "position": 5, "withdrawn": True}),
        build.event("assay.snapshot.named.v1", {"name": "release 1", "position": 3, "note": "the first"}),
        build.event("assay.snapshot.named.v1", {"name": "release 2", "position": 4}),
        build.event("assay.snapshot.named.v1", {"name": "release 1", "position": 9}),
        build.event("assay.snapshot.named.v1", {"name": "release 2", "position": 4, "withdrawn": True}),
        raised("a", [change("c1", 0.2), change("c2", -0.5, metric="throughput_per_s")]),
        stated("a", "acknowledged", "ada"),
        raised("b", [change("c3", -1.0, kind="functional")]),
        raised("a", [change("c4", 0.3, alike="other")]),
        stated("a", "acknowledged", "assay", gone=["c1"]),
        job_event("requested", "a", at="2026-11-20T15:00:00Z"),
        job_event("requested", "b", schedule="nightly"),
        job_event("started", "a"),
        job_event("failed", "a", reason="lost", waiting=True, run_ids=["run-1"]),
        job_event("cancelled", "b"),
        job_event("started", "a", attempt=2, worker="other"),
        job_event("finished", "a", attempt=2, worker="other", run_ids=["run-2"], exit_code=0),
        timed,
        build.kernels(hardware="one", run_id="run-2"),
        build.kernels(m=(8, 8), latency_ms=(0.1, 0.11), hardware="one"),
        build.retraction(event_id=timed["id"]),
        *variants.changes(build),
    ]


def test_a_measurement_becomes_a_row_with_asked_and_actual_and_its_configuration(projection, append, build):
    event = build.measurement(p50=2.5, observed={"device": "cpu", "platform": "cpu", "precision": "fp32",
                                                 "fallback_share": 1.0, "requested": {"device": "cuda:0"}},
                              execution={"platform": "cuda", "precision": "fp16", "threads": 2,
                                         "runtime": {"name": "torch", "version": "2.13.0"}})  # fmt: skip
    (answer,) = append([event])
    assert projection.catch_up() == answer.position
    with projection.tables() as tables:
        (row,) = tables.measurements().to_pylist()
    actual = Configuration(
        model=Model(id="acme/tiny"),
        workload=Workload(mode="inference", scenario="single_stream", batch_size=1, sequence_length=128),
        execution=Execution(
            platform="cpu", precision="fp32", threads=2, runtime=Runtime(name="torch", version="2.13.0")
        ),
        hardware=Hardware(id="acme-one"),
    )
    assert row["configuration"] == actual.key
    assert (row["platform"], row["precision"], row["platform_asked"], row["precision_asked"]) == (
        "cpu",
        "fp32",
        "cuda",
        "fp16",
    )
    assert (row["device"], row["device_asked"], row["fallback_share"]) == ("cpu", "cuda:0", 1.0)
    assert (row["event_id"], row["position"], row["source"]) == (event["id"], answer.position, build.SOURCE)
    assert (row["latency_p50_ms"], row["latency_n"], row["latency_p50_ci95_low_ms"]) == (2.5, 60, 2.475)
    assert row["latency_p99_ms"] is None
    assert row["throughput_per_s"] is None
    assert row["energy_j"] is None


def test_incremental_in_any_steps_equals_a_rebuild(tmp_path, database, append, build, assert_same_projection):
    append(everything(build))
    with Projection(tmp_path / "one", database) as at_once, Projection(tmp_path / "two", database) as by_one:
        at_once.catch_up()
        by_one.catch_up(batch_rows=1)
        assert_same_projection(at_once, by_one)
        by_one.rebuild()
        assert_same_projection(at_once, by_one)
        assert by_one.path.name == "assay-v2.2.duckdb"
        append([build.measurement()])
        by_one.catch_up()
        with by_one.tables() as tables:
            assert tables.measurements().num_rows == 4


def test_every_view_can_be_asked_now_and_as_of_a_position(projection, append, build):
    answers = append(everything(build))
    projection.catch_up()
    with projection.tables() as now, projection.tables(as_of=answers[1].position) as then:
        for name in ("runs", "models", "hardware", "environments", "traces", "prices", "tests", "failures",
                     "kernels", "kernel_tables", "compatibility", "compatibility_by_hardware", "best_measurements", "predictor"):  # fmt: skip
            assert now.view(name).num_rows >= 1, name
            then.view(name)
        assert then.measurements().num_rows == 1
        assert now.runs().to_pylist()[0]["outcome"] == "completed"
        assert then.runs().to_pylist()[0]["outcome"] is None
        assert json.loads(now.traces().to_pylist()[0]["operators"])[0]["class"] == "mm"
        assert now.prices().to_pylist()[0]["usd_per_hour"] == 0.5


def test_figures_that_are_whole_are_not_read_a_second_time(projection, append, build, monkeypatch):
    read = []
    monkeypatch.setattr(facts, "check_metrics", lambda *texts: read.append(texts))
    odd = build.measurement()
    odd["data"]["metrics"]["acme_rate"] = 3.0
    few = build.measurement()
    few["data"]["metrics"] = {"peak_memory_bytes": 1024}
    # With a test among them, they are read by the statements.
    append([build.measurement(), few, odd, build.test()])
    projection.catch_up()
    assert [json.loads(metrics).get("acme_rate") for metrics, _ in read] == [3.0]


def test_compatibility_says_what_ran_what_was_verified_and_why_not(projection, append, build):
    append(
        [build.measurement(), build.test(), build.test("failed", precision="int8"), build.failure(platform="openvino")]
    )
    projection.catch_up()
    with projection.tables() as tables:
        rows = {(row["platform"], row["precision"]): row for row in tables.compatibility().to_pylist()}
    assert rows["cpu", "fp32"]["ran"] and rows["cpu", "fp32"]["verified"]
    assert rows["cpu", "int8"]["ran"] and rows["cpu", "int8"]["verified"] is False
    assert rows["cpu", "int8"]["message"] == "cosine 0.2"
    assert rows["openvino", "fp32"]["outcome"] == "unsupported"
    assert (rows["openvino", "fp32"]["stage"], rows["openvino", "fp32"]["remedy"]) == ("compile", "Use fp32.")


FACTS = ("built", "ran", "verified", "measured", "why_not")


def test_the_matrix_has_the_best_of_all_precisions_and_hardware_and_the_reason_that_got_furthest(
    projection, append, build
):
    invalid = build.measurement(model="invalid")
    invalid["data"]["validity"]["verdict"] = "invalid"
    append(
        [
            build.measurement(model="whole"), build.test(model="whole"),
            build.failure("out_of_memory", "run", model="whole", batch_size=64),
            build.failure(model="whole", precision="int8", hardware="acme-two"),
            build.test("failed", model="wrong", precision="bf16"), build.measurement(model="wrong", precision="bf16"),
            build.failure(model="wrong"),
            build.failure("timeout", "run", model="slow"), build.failure("error", "load", model="slow"),
            build.failure("skipped", "resolve", model="skipped"),
            build.measurement(model="unchecked"), build.failure("out_of_memory", "run", model="unchecked"),
            invalid,
            build.measurement(model="simulated", provenance={"origin": "simulated"}),
            build.test(model="regressed"), build.test("failed", model="regressed"),
            build.test("failed", model="mended"), build.test(model="mended"), build.failure("skipped", model="mended"),
        ]
    )  # fmt: skip
    projection.catch_up()
    with projection.tables() as tables:
        rows = {row["model_id"]: row for row in tables.matrix().to_pylist()}
    found = {name: tuple(row[fact] for fact in FACTS) for name, row in rows.items()}
    assert found == {
        "whole": (True, True, True, True, None),
        "wrong": (True, True, False, True, "bf16: failed at verify: cosine 0.2"),
        "slow": (True, False, None, False, "fp32: timeout at run: no such operator"),
        "skipped": (None, None, None, None, None),
        "unchecked": (True, True, None, True, None),
        "invalid": (True, True, None, False, "fp32: every measurement is invalid"),
        "regressed": (True, True, False, None, "fp32: failed at verify: cosine 0.2"),
        "mended": (True, True, True, None, None),
    }
    assert (rows["whole"]["precisions"], rows["whole"]["hardware"]) == (["fp32"], ["acme-one", "acme-two"])


def test_an_alias_holds_backwards_and_not_before_it_was_declared(projection, append, build):
    first, second = append([build.measurement(model="tiny"), build.measurement(model="acme/tiny")])
    projection.catch_up()
    with projection.tables() as tables:
        assert len(set(tables.measurements()["configuration"].to_pylist())) == 2
    (declared,) = append([build.alias("tiny", "acme/tiny")])
    projection.catch_up()
    with projection.tables() as tables:
        now = tables.measurements(model="tiny").to_pylist()
        assert [row["model_id"] for row in now] == ["acme/tiny", "acme/tiny"]
        assert [row["model_id_posted"] for row in now] == ["tiny", "acme/tiny"]
        assert len({row["configuration"] for row in now}) == 1
        then = tables.measurements(as_of=second.position).to_pylist()
        assert [row["model_id"] for row in then] == ["tiny", "acme/tiny"]
        assert len({row["configuration"] for row in then}) == 2
        assert tables.measurements(model="tiny", as_of=second.position).num_rows == 1
        assert tables.resolve_model("tiny", as_of=first.position) == "tiny"
        assert tables.resolve_model("tiny", as_of=declared.position) == "acme/tiny"


def test_chains_and_circles_of_aliases_resolve_to_one_name(projection, append, build):
    append([build.measurement(hardware=name) for name in ("a", "b", "c")])
    append([build.alias("a", "b", "hardware"), build.alias("b", "c", "hardware")])
    projection.catch_up()
    with projection.tables() as tables:
        assert set(tables.measurements()["hardware_id"].to_pylist()) == {"c"}
    append([build.alias("c", "a", "hardware")])
    projection.catch_up()
    with projection.tables() as tables:
        assert set(tables.measurements()["hardware_id"].to_pylist()) == {"a"}


def test_a_retracted_row_is_gone_now_and_there_before(projection, append, build):
    event = build.measurement()
    (recorded,) = append([event])
    (retracted,) = append([build.retraction(event_id=event["id"])])
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.measurements().num_rows == 0
        assert tables.compatibility().num_rows == 0
        assert tables.measurements(as_of=recorded.position).num_rows == 1
        assert tables.measurements(as_of=retracted.position).num_rows == 0
        (row,) = tables.retractions().to_pylist()
    assert (row["target_event_id"], row["reason"]) == (event["id"], "wrong clock")


def test_what_arrives_after_its_run_was_retracted_is_void_too(projection, append, build):
    start = build.event("assay.run.started.v1", {"run_id": "run-9", "kind": "bench"})
    append(
        [start, build.measurement(run_id="run-9"), build.retraction(run_id="run-9"), build.measurement(run_id="run-9")]
    )
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.measurements().num_rows == 0
        assert tables.runs().to_pylist()[0]["retracted_because"] == "wrong clock"


def test_an_undone_retraction_counts_again_and_the_past_stays_as_it_was(projection, append, build):
    event, other = build.measurement(run_id="run-9"), build.measurement(run_id="run-9", batch_size=8)
    by_event, by_run = build.retraction(event_id=event["id"]), build.retraction(run_id="run-9")
    append([build.event("assay.run.started.v1", {"run_id": "run-9", "kind": "bench"}), event, other])
    positions = [
        append([item])[0].position
        for item in (
            by_event,
            by_run,
            build.retraction(event_id=by_run["id"]),
            build.retraction(event_id=by_event["id"]),
            build.retraction(event_id=event["id"]),
        )
    ]
    late = build.measurement(run_id="run-9", batch_size=16)
    append([late])
    projection.catch_up()
    with projection.tables() as tables:
        counted = [tables.measurements(as_of=position).num_rows for position in positions]
        assert counted == [1, 0, 1, 2, 1]
        assert {row["event_id"] for row in tables.measurements().to_pylist()} == {other["id"], late["id"]}
        assert tables.measurements(best=True).num_rows == 2
        assert tables.runs().to_pylist()[0]["retracted_because"] is None
        (before,) = tables.runs(as_of=positions[1]).to_pylist()
        assert before["retracted_because"] == "wrong clock"
        undone = [row["undone_position"] for row in tables.retractions().to_pylist()]
        assert undone == [positions[3], positions[2], None, None, None]


def test_an_unknown_type_is_kept_and_counted(projection, append, build, database):
    append([build.event("acme.unknown.v7", {"x": 1})] * 1 + [build.event("acme.unknown.v7", {"x": 2})])
    projection.catch_up()
    with projection.tables() as tables:
        (row,) = tables.event_type_counts().to_pylist()
        assert (row["type"], row["events"]) == ("acme.unknown.v7", 2)
        assert tables.recorded_at() is not None


@pytest.mark.parametrize("where", ["missing", "wrong type", "not JSON", "bad workload"])
def test_a_poisonous_event_is_set_aside_alone_and_shown(projection, append, build, database, where):
    body = build.measurement()
    if where == "missing":
        del body["data"]["run_id"]
    elif where == "wrong type":
        body["data"]["metrics"]["latency_ms"]["p50"] = "fast"
    elif where == "bad workload":
        body["data"]["workload"]["batch_size"] = -1
    append([build.measurement() for _ in range(5)])
    poisonous = append_raw(database, "{" if where == "not JSON" else json.dumps(body))
    append([build.measurement() for _ in range(6)])
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.measurements().num_rows == 11
        (letter,) = tables.dead_letters().to_pylist()
    assert letter["position"] == poisonous
    assert letter["reason"]
    health = projection.health()
    assert (health.dead_letters, health.error, health.lag_events) == (1, None, 0)


def test_an_error_that_no_event_causes_stops_the_projector_and_stays_visible(tmp_path, database, append, build):
    projection = Projection(tmp_path, database)
    projection.start()
    cursor = projection.cursor()
    cursor.execute("DROP TABLE judgement")
    (answer,) = append([build.measurement()])
    with pytest.raises(ProjectionBehind, match="judgement"):
        projection.wait_for(answer.position, 20)
    health = projection.health()
    assert "judgement" in health.error
    assert health.dead_letters == 0
    assert not health.running
    cursor.close()
    projection.rebuild()
    (later,) = append([build.measurement()])
    projection.wait_for(later.position, 20)
    assert projection.health().error is None
    projection.stop()


@pytest.mark.parametrize("reads", ["cursor", "waits"])
def test_a_reader_ends_the_rest_that_is_taken_while_nobody_reads(tmp_path, database, append, build, monkeypatch, reads):
    projection = Projection(tmp_path, database)
    rested = threading.Event()

    class Endless:
        def rest_s(self, begun, ended):
            rested.set()
            return 3600.0

    monkeypatch.setattr(projection, "_unread_pace", Endless())
    projection.start()
    try:
        append([build.measurement()])
        projection.kick()
        assert rested.wait(20)
        rested.clear()
        (later,) = append([build.measurement()])
        projection.kick()
        if reads == "cursor":
            projection.cursor().close()
            assert rested.wait(20)
            assert projection.position == later.position
        else:
            projection.wait_for(later.position, 20)
    finally:
        projection.stop()


def test_it_follows_the_log_while_readers_read(tmp_path, database, append, build):
    projection = Projection(tmp_path, database)
    projection.start()
    try:
        failures: list[BaseException] = []
        done = threading.Event()

        def read():
            try:
                while not done.is_set():
                    with projection.tables() as tables:
                        positions = tables.measurements(columns=["position"])["position"].to_pylist()
                        assert not positions or positions[-1] <= tables.position
                        assert len(positions) == len(set(positions))
            except BaseException as error:
                failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for _ in range(10):
            answers = append([build.measurement() for _ in range(5)])
            projection.wait_for(answers[-1].position, 20)
        projection.rebuild()
        done.set()
        for reader in readers:
            reader.join()
        assert not failures
        health = projection.health()
        assert health.running
        assert (health.position, health.lag_events, health.lag_seconds) == (answers[-1].position, 0, 0.0)
    finally:
        projection.stop()


@pytest.mark.parametrize("harm", ["deleted", "garbage", "truncated"])
def test_a_lost_or_broken_file_is_made_again(tmp_path, database, append, build, harm, assert_same_projection):
    append(everything(build))
    with Projection(tmp_path / "kept", database) as kept:
        kept.catch_up()
        with Projection(tmp_path / "harmed", database) as projection:
            projection.catch_up()
            path = projection.path
        content = path.read_bytes()
        if harm == "deleted":
            path.unlink()
        else:
            path.write_bytes(b"not a database" * 1000 if harm == "garbage" else content[: len(content) // 2])
        with Projection(tmp_path / "harmed", database) as projection:
            projection.catch_up()
            assert_same_projection(kept, projection)


def test_a_file_that_tells_of_another_log_is_made_again(tmp_path, postgres_server, database, append, build):
    append([build.measurement() for _ in range(3)])
    with Projection(tmp_path, database) as projection:
        projection.catch_up()
    with psycopg.connect(database.url) as connection:
        connection.execute("TRUNCATE event RESTART IDENTITY")
    (answer,) = append([build.test()])
    with Projection(tmp_path, database) as projection:
        assert projection.catch_up() == answer.position
        with projection.tables() as tables:
            assert (tables.measurements().num_rows, tables.tests().num_rows) == (0, 1)


def test_the_checkpoint_outlives_the_process_and_nothing_is_applied_twice(tmp_path, database, append, build):
    append([build.measurement()])
    with Projection(tmp_path, database) as projection:
        projection.catch_up()
    append([build.measurement()])
    with Projection(tmp_path, database) as projection:
        assert projection.position == 1
        projection.catch_up()
        with projection.tables() as tables:
            assert tables.measurements().num_rows == 2
            assert tables.event_type_counts().to_pylist()[0]["events"] == 2


def test_two_owners_of_one_file_are_refused(tmp_path, database):
    with Projection(tmp_path, database):
        second = Projection(tmp_path, database)
        with pytest.raises(ServiceUnavailable, match="owns the projection"):
            second.open()
    with Projection(tmp_path, database) as third:
        assert third.position == 0


def test_a_postgres_that_is_away_is_named_in_health(tmp_path):
    with Projection(tmp_path, "postgresql://nobody@/nothing?host=/nonexistent") as projection:
        health = projection.health()
        assert health.log_position is None
        assert "does not answer" in health.error


def test_health_asks_through_one_connection_and_anew_where_that_was_cut(tmp_path, database, append, build):
    def asking():
        found = other.execute(
            "SELECT pid FROM pg_stat_activity WHERE query LIKE '%min(recorded_at)%' AND pid <> pg_backend_pid()"
            " AND datname = current_database()"
        )
        return [pid for (pid,) in found.fetchall()]

    with psycopg.connect(database.url, autocommit=True) as other:
        with Projection(tmp_path, database) as projection:
            assert projection.health().lag_events == 0
            append([build.measurement()])
            (before,) = asking()
            assert projection.health().lag_events == 1
            assert asking() == [before]
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [before])
            health = projection.health()
            assert (health.lag_events, health.error) == (1, None)
            (after,) = asking()
            assert after != before
        until = time.monotonic() + 5
        while asking() and time.monotonic() < until:
            time.sleep(0.02)
        assert asking() == []
