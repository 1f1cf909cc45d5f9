"""`assay retract`: a measurement or a run that the log has leaves answers; what it has not is refused."""

from __future__ import annotations

import pytest

UNKNOWN = "01a00000-0000-7000-8000-000000000000"


@pytest.mark.parametrize(("option", "name"), [("--event", UNKNOWN), ("--event", "nope"), ("--run", "nope")])
def test_what_the_log_has_not_is_refused_and_nothing_is_appended(filled, typed, option, name):
    with filled.client() as client:
        before = client.ready()["log_position"]
        _, said = typed("retract", option, name, "--reason", "wrong", code=1)
        assert f"{option.removeprefix('--')}:" in said and name in said
        assert client.ready()["log_position"] == before


def test_an_event_that_is_no_measurement_is_refused(filled, typed):
    with filled.client() as client:
        started = next(event for event in client.events() if event["type"] == "assay.run.started.v1")
    assert "run.started" in typed("retract", "--event", started["id"], "--reason", "wrong", code=2)[1]


def test_a_measurement_leaves_the_answers(filled, typed, build):
    event = build.measurement(model="acme/retracted")
    with filled.client() as client:
        client.wait_for(client.post_events([event])["last_position"])
        assert len(client.measurements(model="acme/retracted")) == 1
        typed("retract", "--event", event["id"], "--reason", "wrong")
        assert client.measurements(model="acme/retracted") == []


def test_a_retraction_is_undone_by_an_event_that_names_it(filled, typed, build):
    event = build.measurement(model="acme/undone", run_id="run-undone")
    start = build.event("assay.run.started.v1", {"run_id": "run-undone", "kind": "bench"})
    with filled.client() as client:
        client.wait_for(client.post_events([start, event])["last_position"])
        assert "is not retracted" in typed("retract", "--undo", "--event", event["id"], "--reason", "right", code=2)[1]
        typed("retract", "--run", "run-undone", "--reason", "wrong")
        assert client.measurements(model="acme/undone") == []
        _, said = typed("retract", "--undo", "--event", event["id"], "--reason", "right", code=2)
        assert "--undo --run run-undone" in said
        typed("retract", "--undo", "--run", "run-undone", "--reason", "right after all")
        assert len(client.measurements(model="acme/undone")) == 1
        (last,) = (event for event in client.events() if event.get("data", {}).get("reason") == "right after all")
        retracted = client.event(last["data"]["event_id"])
        assert retracted["data"] == {"run_id": "run-undone", "reason": "wrong"}
