"""What got worse since a position, by the rules of `assay regressions`, over what was tried on both sides of it."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta

import httpx
import pytest


def named() -> str:
    return f"worse/{uuid.uuid4().hex[:8]}"


def posted(client, *events) -> int:
    answer = client.post_events(events)
    assert answer["rejected"] == []
    return answer["last_position"]


@pytest.fixture
def story(client, build):
    """A model that got slower on one device, faster on another, stayed on a third, and fails now on a fourth."""
    model = named()

    def on(hardware, p50, **parts):
        return build.measurement(p50=p50, model=model, hardware=hardware, **parts)

    before = posted(client, on("acme-one", 1.0), on("acme-two", 4.0), on("acme-three", 2.0), on("acme-four", 3.0))
    updated = {"fingerprint": "env-updated", "os": "Linux", "libraries": {"torch": "2.14.0"}}
    after = posted(
        client, on("acme-one", 1.5, environment=updated), on("acme-two", 2.0), on("acme-three", 2.02),
        build.failure("out_of_memory", "load", model=model, hardware="acme-four"), on("acme-five", 1.0),
    )  # fmt: skip
    return model, before, after


def test_what_is_worse_is_listed_with_its_place_and_its_evidence(client, story):
    model, before, after = story
    found = client.regressions(model=model, baseline=before, min_position=after)
    (change,) = found["changes"]
    assert (change["state"], change["column"], change["unit"]) == ("worse", "latency_p50_ms", "ms")
    assert change["change"] == pytest.approx(0.5)
    assert change["low"] < 0.5 < change["high"]
    assert (change["model"], change["hardware"], change["platform"], change["run_id"]) == (
        model, "acme-one", "cpu", "run-1",
    )  # fmt: skip
    assert [client.event(one)["data"]["metrics"]["latency_ms"]["p50"] for one in change["evidence"]] == [1.0, 1.5]
    assert found["counts"] == {"worse": 1, "better": 1, "same": 1}
    assert found["baseline_position"] == before
    assert found["baseline_at"]


def test_what_no_longer_passes_and_what_changed_around_it_stand_beside(client, story):
    model, before, after = story
    found = client.regressions(model=model, baseline=before, min_position=after)
    (turn,) = found["turns"]
    assert (turn["state"], turn["before"], turn["after"], turn["hardware"]) == (
        "worse", "passed", "out_of_memory at load", "acme-four",
    )  # fmt: skip
    assert {(one["part"], one["before"], one["after"]) for one in found["environments"]} == {
        ("library torch", "2.13.0", "2.14.0"),
    }  # fmt: skip


def test_other_states_are_listed_on_demand_and_filters_narrow(client, story):
    model, before, after = story
    found = client.regressions(model=model, baseline=before, min_position=after, changes=["better", "same"])
    assert [(one["state"], one["hardware"]) for one in found["changes"]] == [
        ("better", "acme-two"), ("same", "acme-three"),
    ]  # fmt: skip
    alone = client.regressions(model=model, baseline=before, hardware="acme-two", min_position=after)
    assert (alone["changes"], alone["counts"], alone["turns"]) == ([], {"better": 1}, [])
    loose = client.regressions(model=model, baseline=before, alert=1.0, min_position=after)
    assert loose["changes"] == []


def test_what_has_no_date_or_an_earlier_one_is_no_regression(client, build):
    model = named()

    def on(hardware, p50, **parts):
        return build.measurement(p50=p50, model=model, hardware=hardware, **parts)

    table = {"origin": "imported", "source": "a table without dates"}
    dated = datetime(2026, 1, 1, tzinfo=UTC)
    before = posted(
        client, on("acme-one", 1.0, provenance=table), on("acme-two", 1.0, time=dated), on("acme-three", 1.0)
    )
    undated = on("acme-one", 5.0, provenance=table)
    older = on("acme-two", 5.0, time=dated - timedelta(days=300))
    after = posted(client, undated, older, on("acme-three", 5.0))
    found = client.regressions(model=model, baseline=before, min_position=after)
    assert [change["hardware"] for change in found["changes"]] == ["acme-three"]
    # The undated one that was there before has no order either.
    assert found["unordered"] == 3


def test_a_newer_runtime_is_compared_with_the_one_before(client, build):
    model = named()
    newer = build.measurement(p50=3.0, model=model)
    newer["data"]["execution"]["runtime"]["version"] = "2.99.0"
    before = posted(client, build.measurement(p50=1.0, model=model))
    after = posted(client, newer)
    found = client.regressions(model=model, baseline=before, min_position=after)
    assert [one["change"] for one in found["changes"]] == [pytest.approx(2.0)]
    assert [one["part"] for one in found["environments"]] == ["runtime"]


def test_days_count_from_the_newest_event_and_an_earlier_position_is_asked_as_of(client, build):
    model = named()
    posted(client, build.measurement(p50=1.0, model=model))
    time.sleep(0.8)
    after = posted(client, build.measurement(p50=2.0, model=model))
    found = client.regressions(model=model, days=0.5 / 86400, min_position=after)
    assert [one["change"] for one in found["changes"]] == [pytest.approx(1.0)]
    assert client.regressions(model=model, min_position=after)["compared"] == 0
    last = posted(client, build.measurement(p50=1.0, model=model))
    client.wait_for(last)
    then = client.regressions(model=model, baseline=found["baseline_position"], as_of=after)
    assert [one["change"] for one in then["changes"]] == [pytest.approx(1.0)]
    now = client.regressions(model=model, baseline=found["baseline_position"])
    assert (now["changes"], now["counts"]) == ([], {"same": 1})


@pytest.mark.parametrize(
    ("asked", "field"), [({"days": 0}, "days"), ({"baseline": "-3"}, "baseline"), ({"metric": "mood"}, "metric")]
)
def test_what_cannot_be_asked_is_refused_by_name(service, asked, field):
    refused = httpx.get(f"{service.url}/v1/regressions", params=asked)
    assert (refused.status_code, refused.json()["field"]) == (422, field)
