"""`assay validate --repair`: rules made for imports void imported rows alone, and rows of other hardware are not compared."""

from __future__ import annotations

import json

import pytest

MODEL = "acme/validated"


@pytest.fixture(scope="module")
def told(filled, build):
    """The same configuration four times as slow, measured and imported; and OpenVINO on one machine as fast as the CPU of another."""

    def row(p50, imported=False, batch_size=1, **parts):
        event = build.measurement(p50, model=MODEL, batch_size=batch_size, **parts)
        event["data"]["workload"] |= {"sequence_length": 64}
        if imported:
            event["data"]["provenance"] = {"origin": "imported", "source": "a table", "reference": "table.csv"}
        return event

    events = {
        "measured": row(8.0),
        "measured slow": row(32.0),
        "imported": row(8.0, imported=True, hardware="acme-cpu"),
        "imported slow": row(33.0, imported=True, hardware="acme-cpu"),
        **{
            f"{platform} {size}": row(10.0 * size, True, size, platform=platform, hardware=hardware, precision="bf16")
            for platform, hardware in (("cpu", "acme-cpu-a"), ("openvino", "acme-cpu-b"))
            for size in (2, 4, 8, 16)
        },
    }
    with filled.client() as client:
        client.wait_for(client.post_events(list(events.values()))["last_position"])
    return {name: event["id"] for name, event in events.items()}


def test_only_imported_rows_are_voided_and_each_rule_says_how_many(filled, typed, told):
    with filled.client() as client:
        before = {str(row["event_id"]) for row in client.measurements()}
        _, said = typed("validate", "--rule", "slower-elsewhere", "--repair", "--yes", code=1)
        voided = before - {str(row["event_id"]) for row in client.measurements()}
    assert voided & set(told.values()) == {told["imported slow"]}
    # Other modules may have posted such rows to this service too.
    assert f"would void, by rule: {len(voided)} slower-elsewhere" in said


def test_a_machine_is_compared_with_itself_alone(typed, told):
    document = json.loads(typed("validate", "--rule", "equal-to-cpu", "--json")[0])
    assert not {item["event_id"] for item in document["found"]} & set(told.values())
