"""The view `cells`: when and how often a cell was tried, what stopped it, and its speed over the plain CPU."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from ingest.projection.projector import Projection

CPU, GPU = "acme-cpu", "acme-gpu"


@pytest.fixture
def cells(tmp_path, database, append):
    """Appends events; returns the rows of the view by model, platform and precision, as of a position."""
    with Projection(tmp_path, database) as projection:

        def read(events, as_of=None):
            append(events)
            projection.catch_up()
            with projection.tables(as_of=as_of) as tables:
                rows = tables.cells().to_pylist()
            return {(row["model_id"], row["platform"], row["precision"]): row for row in rows}

        yield read


def test_the_speed_is_the_median_over_what_both_did_against_the_best_precision_of_the_plain_cpu(cells, build):
    times = {1: (8.0, 4.0, 2.0), 4: (32.0, 16.0, 2.0), 16: (128.0, 64.0, 1.0)}
    rows = cells(
        [
            event
            for batch, (fp32, bf16, gpu) in times.items()
            for event in (
                build.measurement(fp32, batch_size=batch, hardware=CPU),
                build.measurement(bf16, batch_size=batch, hardware=CPU, precision="bf16"),
                build.measurement(gpu, batch_size=batch, hardware=GPU, platform="cuda", precision="fp16"),
            )
        ]
        + [build.measurement(0.1, batch_size=64, hardware=GPU, platform="cuda", precision="fp16")]
    )
    gpu = rows["acme/tiny", "cuda", "fp16"]
    assert (gpu["speedup"], gpu["speedup_best"], gpu["speedup_works"]) == (8.0, 64.0, 3)
    assert len(gpu["speedup_evidence"]) == 2
    assert rows["acme/tiny", "cpu", "bf16"]["speedup"] is None


def test_the_cpu_of_the_same_hardware_is_the_yardstick_where_it_was_measured_and_else_the_fastest(cells, build):
    rows = cells(
        [
            build.measurement(10.0, hardware=CPU), build.measurement(2.0, hardware="acme-quick"),
            build.measurement(5.0, hardware=CPU, platform="openvino"),
            build.measurement(1.0, hardware=GPU, platform="cuda"),
        ]
    )  # fmt: skip
    assert rows["acme/tiny", "openvino", "fp32"]["speedup"] == 2.0
    assert rows["acme/tiny", "cuda", "fp32"]["speedup"] == 2.0


def test_what_fell_back_is_not_fast_on_that_platform(cells, build):
    fell = build.measurement(0.1, platform="cuda")
    fell["data"]["observed"]["fallback_share"] = 0.4
    rows = cells([build.measurement(), fell])
    assert (rows["acme/tiny", "cuda", "fp32"]["speedup"], rows["acme/tiny", "cuda", "fp32"]["fallback_share"]) == (
        None,
        0.4,
    )


def test_what_stopped_it_is_the_case_that_got_furthest_with_the_newest_of_each_kind_as_evidence(cells, build):
    events = [
        build.failure("out_of_memory", "run", run_id="a"), build.failure("error", "load", run_id="b"),
        build.failure("skipped", "resolve", run_id="c"),
    ]  # fmt: skip
    row = cells(events)["acme/tiny", "cpu", "fp32"]
    assert (row["stopped_outcome"], row["stopped_stage"]) == ("out_of_memory", "run")
    assert (row["stopped_error"], row["stopped_remedy"]) == ("NotImplementedError", "Use fp32.")
    assert (row["runs"], row["evidence_ids"]) == (3, [events[-1]["id"]])


def test_evidence_last_seen_and_runs_leave_out_what_is_simulated_or_was_retracted(cells, build):
    kept = [
        build.test(run_id="a"), build.failure(run_id="a"), build.measurement(run_id="b", time=datetime(2026, 1, 2, tzinfo=UTC)),
    ]  # fmt: skip
    void = build.measurement(run_id="c", time=datetime(2030, 1, 1, tzinfo=UTC))
    simulated = build.measurement(run_id="d", time=datetime(2031, 1, 1, tzinfo=UTC), provenance={"origin": "simulated"})
    row = cells([*kept, void, simulated, build.retraction(event_id=void["id"])])["acme/tiny", "cpu", "fp32"]
    assert row["runs"] == 2
    assert row["last_seen"].year == 2026
    assert row["evidence_ids"] == [one["id"] for one in kept]


def test_another_precision_or_none_is_another_cell(cells, build):
    unsaid = build.measurement(run_id="z", provenance={"origin": "imported", "source": "acme"})
    del unsaid["data"]["execution"]["precision"], unsaid["data"]["observed"]["precision"]
    rows = cells([build.measurement(run_id="a"), unsaid])
    assert {key[2]: row["runs"] for key, row in rows.items()} == {"fp32": 1, None: 1}


def test_a_test_that_fell_back_tells_of_what_was_asked_for_and_not_of_what_did_the_work(cells, build):
    fell = build.test("failed")
    fell["data"]["failure"] = {"error": "Fallback", "message": "80 % was done in fp32"}
    fell["data"]["observed"]["requested"] = {"device": "cpu", "precision": "int8"}
    rows = cells([build.test(), fell])
    assert {key[2]: (row["ran"], row["verified"]) for key, row in rows.items()} == {
        "fp32": (True, True),
        "int8": (False, False),
    }
    assert rows["acme/tiny", "cpu", "int8"]["stopped_error"] == "Fallback"
    assert rows["acme/tiny", "cpu", "fp32"]["evidence_ids"] != rows["acme/tiny", "cpu", "int8"]["evidence_ids"]
