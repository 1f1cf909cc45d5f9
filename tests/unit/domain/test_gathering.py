"""Rows and events become one side: the newest of each configuration, under the key that the tables give it."""

from __future__ import annotations

import pytest

from domain.comparison.comparison_input import ComparisonInput, row_of_event
from domain.configuration import Configuration, Execution, Hardware, Model, Runtime, Workload
from domain.errors import UsageError

P50 = "latency_p50_ms"


def gathered(*events, **wanted):
    found = ComparisonInput("side", wanted=wanted)
    for event in events:
        row = row_of_event(event)
        if event["type"] == "assay.measurement.recorded.v1":
            found.measured(row)
        else:
            found.outcome(row, row.get("test"))
        found.environment(row["environment_fingerprint"], row["environment"])
    return found.side()


def test_a_row_of_an_event_has_the_key_of_its_configuration(build):
    event = build.measurement(1.5)
    event["data"]["observed"]["precision"] = "bf16"
    (row,) = gathered(event).measured
    workload = Workload(mode="inference", scenario="single_stream", batch_size=1, sequence_length=128)
    execution = Execution(platform="cpu", runtime=Runtime(name="torch", version="2.13.0"), precision="bf16")
    whole = Configuration(
        model=Model(id="acme/tiny"), workload=workload, execution=execution, hardware=Hardware(id="acme-one")
    )
    assert row.key == whole.key
    assert row.title == "acme/tiny inference batch 1 sequence 128 on acme-one cpu bf16 torch"
    assert (row.runtime, row.environment, row.origin) == ("torch 2.13.0", "env-1", "measured")


def test_alike_are_configurations_that_differ_in_the_version_alone(build):
    newer, compiled = build.measurement(1.5), build.measurement(1.5)
    newer["data"]["execution"]["runtime"]["version"] = "2.14.0"
    compiled["data"]["execution"]["compiled"] = True
    one, other, third = gathered(build.measurement(1.5), newer, compiled).measured
    assert one.key != other.key
    assert one.alike == other.alike != third.alike


def test_the_newest_stands_and_the_runs_before_it_are_kept(build):
    side = gathered(*(build.measurement(value) for value in (1.0, 1.2, 1.1)))
    (row,) = side.measured
    assert row.figures[P50].value == 1.1
    assert row.figures[P50].runs == [1.0, 1.2, 1.1]
    elsewhere = build.measurement(1.3, environment={"fingerprint": "env-2", "os": "Linux"})
    (row,) = gathered(build.measurement(1.0), elsewhere).measured
    assert row.figures[P50].runs == []


def test_simulated_and_invalid_rows_are_left_out_and_measured_stands_before_imported(build):
    simulated = build.measurement(1.0, provenance={"origin": "simulated", "source": "x"})
    invalid = build.measurement(1.0)
    invalid["data"]["validity"] = {"verdict": "invalid", "reasons": ["fell back"]}
    assert gathered(simulated, invalid).measured == []
    imported = build.measurement(9.0, provenance={"origin": "imported", "source": "x"})
    (row,) = gathered(build.measurement(1.0), imported).measured
    assert (row.origin, row.figures[P50].value) == ("measured", 1.0)


def test_outcomes_are_the_newest_of_each_test_and_of_measuring(build):
    side = gathered(
        build.measurement(1.0), build.test("passed"), build.test("failed"),
        build.failure("out_of_memory", "load", batch_size=8), build.failure("error", "run"),
    )  # fmt: skip
    assert {(one.test, one.outcome, one.stage) for one in side.cases} == {
        ("verify", "failed", "verify"), (None, "out_of_memory", "load"), (None, "error", "run"),
    }  # fmt: skip
    assert side.environments == {"env-1": {"os": "Linux", "libraries": {"torch": "2.13.0"}}}


@pytest.mark.parametrize(
    ("wanted", "taken"),
    [({"model": "acme/tiny"}, 1), ({"model": "tiny"}, 1), ({"model": "other"}, 0), ({"hardware": "acme-one"}, 1),
     ({"platform": "cuda"}, 0), ({"precision": "fp32", "platform": "cpu"}, 1)],
)  # fmt: skip
def test_only_what_is_asked_for_is_taken(build, wanted, taken):
    side = gathered(build.measurement(1.0), build.test("failed"), **wanted)
    assert (len(side.measured), len([one for one in side.cases if one.test])) == (taken, taken)


def test_an_event_that_is_not_of_its_type_is_named(build):
    event = build.measurement(1.0)
    del event["data"]["model"]
    with pytest.raises(UsageError, match=event["id"]):
        row_of_event(event)
    assert row_of_event(build.alias("a", "b")) is None
