"""All that is known at a glance: coverage, freshness and failures, counted by the service."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from assay.client import Client


@pytest.fixture(scope="module")
def known(new_service: Any) -> Iterator[Client]:
    with new_service() as url, Client(url) as client:
        yield client


def family(event: dict[str, Any], name: str) -> dict[str, Any]:
    event["data"]["model"]["family"] = name
    return event


def test_coverage_freshness_and_failures_are_counted_and_stay_what_they_were(known: Client, build: Any) -> None:
    def measured(model: str, day: str, **more: Any) -> dict[str, Any]:
        return {**family(build.measurement(model=model, **more), model.partition("-")[0]), "time": f"{day}T12:00:00Z"}

    events = [
        measured("bert-a", "2026-01-05"), measured("bert-a", "2026-02-01"), measured("bert-b", "2026-01-05"),
        measured("vit-a", "2026-01-05", platform="openvino"),
        family(build.failure(model="vit-a"), "vit"), family(build.failure(model="vit-b"), "vit"),
    ]  # fmt: skip
    position = known.post_events(events)["last_position"]
    told = known.overview(min_position=position)
    cells = {(cell["family"], cell["platform"]): cell for cell in told["cells"]}
    assert [cells["bert", "cpu"][key] for key in ("models", "configurations", "measurements")] == [2, 2, 3]
    assert set(cells) == {("bert", "cpu"), ("vit", "openvino")}
    assert told["days"] == [
        {"day": "2026-02-01", "configurations": 1}, {"day": "2026-01-05", "configurations": 2},
    ]  # fmt: skip
    assert told["configurations"] == 3
    (failing,) = told["failing"]
    assert (failing["failures"], failing["models"], failing["platform"]) == (2, 2, "cpu")
    assert failing["message"] and failing["evidence"]
    narrow = known.overview(families=1)
    assert (narrow["families"], narrow["families_total"]) == (["bert"], 2)
    more = known.post_events([measured(f"gpt-{uuid.uuid4().hex[:6]}", "2026-03-01")])["last_position"]
    assert known.overview(min_position=more)["families_total"] == 3
    assert known.overview(as_of=position) == told


def test_counts_are_kept_for_a_state_of_the_tables_and_for_no_other(known: Client, build: Any) -> None:
    def types(summary: dict[str, Any]) -> int:
        return sum(int(one["events"]) for one in summary["event_types"])

    position = known.post_events([build.measurement(model="kept-a")])["last_position"]
    before = known.summary(min_position=position)
    assert known.summary(min_position=position) == before
    more = known.post_events([build.measurement(model="kept-b")])["last_position"]
    after = known.summary(min_position=more)
    assert after["measurements"] == before["measurements"] + 1
    then = known.summary(as_of=position)
    assert then["measurements"] == before["measurements"] and types(then) == types(before) == types(after) - 1
