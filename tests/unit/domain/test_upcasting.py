"""Upcasters: one version at a time, without touching what they are given."""

import json
from pathlib import Path

import pytest

from domain.events import DATA_TYPES, decode_event
from domain.upcasting import UPCASTERS, newest, upcast

GOLDEN = Path(__file__).parents[2] / "golden"


def seconds_to_ms(data):
    return {**data, "latency_ms": data["latency_s"] * 1000, "latency_s": None}


def renamed(data):
    data["model"] = data.pop("name")
    return data


CHAIN = {"acme.thing.v1": ("acme.thing.v2", seconds_to_ms), "acme.thing.v2": ("acme.thing.v3", renamed)}


def test_a_chain_is_walked_to_its_end_from_wherever_it_is_entered():
    type_, data = upcast("acme.thing.v1", {"name": "m", "latency_s": 0.5}, CHAIN)
    assert (type_, data) == ("acme.thing.v3", {"model": "m", "latency_ms": 500.0, "latency_s": None})
    assert upcast("acme.thing.v2", {"name": "m"}, CHAIN) == ("acme.thing.v3", {"model": "m"})
    assert upcast("acme.thing.v3", {"model": "m"}, CHAIN) == ("acme.thing.v3", {"model": "m"})
    assert newest("acme.thing.v1", CHAIN) == "acme.thing.v3"


def test_what_is_given_stays_as_it_was_even_where_a_step_changes_its_argument():
    given = {"name": "m", "latency_s": 0.5}
    upcast("acme.thing.v1", given, CHAIN)
    upcast("acme.thing.v2", given, CHAIN)
    assert given == {"name": "m", "latency_s": 0.5}


def test_a_circle_is_a_mistake_of_ours_and_not_walked_for_ever():
    circle = {"a.v1": ("a.v2", dict), "a.v2": ("a.v1", dict)}
    with pytest.raises(ValueError, match="circle"):
        upcast("a.v1", {}, circle)


def test_every_old_version_has_a_golden_event_that_becomes_one_the_gate_takes():
    for old in UPCASTERS:
        event = json.loads((GOLDEN / f"{old}.json").read_text())
        type_, data = upcast(old, event["data"])
        assert type_ in DATA_TYPES
        assert decode_event(json.dumps({**event, "type": type_, "data": data})).warnings == ()


def test_the_newest_version_of_every_type_is_its_own():
    for known in DATA_TYPES:
        assert newest(known) == known
