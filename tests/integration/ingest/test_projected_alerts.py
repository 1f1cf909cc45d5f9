"""Alerts in the tables: what was raised, what still holds, and which state it is in, now and as of any position."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ingest.projection.projector import Projection
from tests.alerts import alert_id, change, raised, stated

Row = dict[str, Any]


@pytest.fixture
def alerts(tmp_path: Path, database: Any, append: Any) -> Iterator[Callable[..., dict[str, Row]]]:
    """Append events and return the alerts by title, as of the last of them or of the event at an index."""
    with Projection(tmp_path, database) as projection:
        positions: list[int] = []

        def told(events: list[Row], at: int = -1) -> dict[str, Row]:
            positions.extend(answer.position for answer in append(events))
            projection.catch_up()
            with projection.tables(positions[at]) as tables:
                return {row["title"]: row for row in tables.alerts().to_pylist()}

        yield told


def changes(row: Row) -> list[str]:
    return [item["id"] for item in json.loads(row["changes"])]


def test_an_alert_is_one_row_with_the_largest_change_first(alerts):
    rows = alerts(
        [
            raised("a", [change("small", 0.1), change("large", -0.5, metric="throughput_per_s", model="acme/big")]),
            raised("a", [change("later", 0.2, alike="other", hardware="acme-two")]),
        ]
    )
    row = rows["a"]
    assert (row["alert"], row["state"], row["worst_change"], row["configurations"]) == (alert_id("a"), "new", -0.5, 2)
    assert changes(row) == ["large", "later", "small"]
    assert (row["models"], row["hardware"]) == (["acme/big", "acme/tiny"], ["acme-one", "acme-two"])
    assert (len(row["event_ids"]), row["event_id"]) == (2, row["event_ids"][0])
    assert (row["position"] < row["last_position"], json.loads(row["states"])) == (True, [])


def test_a_test_that_fails_weighs_more_than_any_figure(alerts):
    rows = alerts([raised("a", [change("slow", 50.0), change("fails", -1.0, kind="functional")])])
    assert (changes(rows["a"]), rows["a"]["severity"]) == (["fails", "slow"], float("inf"))


def test_states_are_kept_in_their_order_and_the_last_one_counts(alerts):
    events = [
        raised("a", [change("c", 0.2)]),
        stated("a", "acknowledged", "ada"),
        stated("a", "expected", "bob", reason="planned"),
    ]
    row = alerts(events)["a"]
    assert (row["state"], [item["state"] for item in json.loads(row["states"])]) == (
        "expected",
        ["acknowledged", "expected"],
    )
    assert json.loads(row["states"])[1] | {"time": None, "event_id": None} == {
        "state": "expected", "author": "bob", "reason": "planned", "time": None, "event_id": None,
    }  # fmt: skip
    assert [alerts([], at)["a"]["state"] for at in (0, 1, 2)] == ["new", "acknowledged", "expected"]


def test_a_change_that_is_gone_leaves_and_comes_again_when_it_is_raised_again(alerts):
    events = [
        raised("a", [change("one", 0.2), change("two", 0.3)]),
        stated("a", "acknowledged", "assay", gone=["two"]),
        raised("a", [change("two", 0.4)]),
    ]
    assert changes(alerts(events)["a"]) == ["two", "one"]
    assert changes(alerts([], 1)["a"]) == ["one"]


def test_a_withdrawn_alert_keeps_what_it_was_about_and_is_new_when_it_is_raised_again(alerts):
    row = alerts([raised("a", [change("one", 0.2)]), stated("a", "withdrawn", "assay", reason="gone", gone=["one"])])[
        "a"
    ]
    assert (row["state"], changes(row)) == ("withdrawn", ["one"])
    row = alerts([raised("a", [change("one", 0.2)])])["a"]
    assert (row["state"], len(json.loads(row["states"]))) == ("new", 1)


def test_a_further_configuration_leaves_the_state_as_it_is(alerts):
    events = [raised("a", [change("one", 0.2)]), stated("a", "acknowledged", "ada"), raised("a", [change("two", 0.2)])]
    assert alerts(events)["a"]["state"] == "acknowledged"
