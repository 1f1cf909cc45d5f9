"""Whatever bytes arrive, the gate answers with an event or with an error of ours; digests and keys are stable."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.canonical import canonical, drop_nulls, first_difference
from domain.catalogues.identity import follow
from domain.errors import AssayError
from domain.events import decode_event
from tests.torture.fuzzing import SLOW_S, examine, fuzz

MEASUREMENT = json.loads((Path(__file__).parents[2] / "golden/assay.measurement.recorded.v1.json").read_text())

scalars = (
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e15, 1e15) | st.text(max_size=8)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
paths = st.sampled_from(
    [
        "id",
        "source",
        "type",
        "time",
        "data",
        "data.model",
        "data.model.id",
        "data.metrics",
        "data.metrics.latency_ms",
        "data.workload.batch_size",
        "data.execution.options",
        "data.hardware",
        "data.validity",
    ]
)


@given(st.binary(max_size=200))
def test_any_bytes(raw: bytes) -> None:
    with pytest.raises(AssayError):
        decode_event(raw)


@settings(max_examples=200, deadline=None)
@given(paths, values)
def test_any_value_anywhere(path: str, value: object) -> None:
    event = json.loads(json.dumps(MEASUREMENT))
    *parents, last = path.split(".")
    target = event
    for name in parents:
        target = target[name]
    target[last] = value
    raw = json.dumps(event).encode()
    try:
        decoded = decode_event(raw)
    except AssayError:
        return
    assert decoded.raw == raw
    assert json.loads(decoded.raw) == decoded.event


def test_changed_events_are_refused_or_read_as_every_other_reader_reads_them() -> None:
    told = fuzz(seconds=3.0, seed=11)
    assert told.taken > 100
    assert told.answers > 100


MEMBERS = ",".join(f'"{number:x}":1' for number in range(28_000))
HEAD = '{"specversion":"1.0","id":"0198c0de-0000-7000-8000-000000000000","source":"a","type":"x","data":'


@pytest.mark.parametrize(
    "data",
    [
        f'{{{MEMBERS},"6d5f":1}}',
        f'{{{MEMBERS},"\\u0036d5f":1}}',
        f"{{{MEMBERS}}}",
        "[" * 300 + "]" * 300,
        '{"a":' * 300 + "1" + "}" * 300,
        "[" + "[]," * 80_000 + "[]]",
        "[" + '"\\u0041",' * 25_000 + '""]',
        '"' + "\\" * 100_000 + '"',
        "9" * 4_000,
        "[" + "1e308," * 40_000 + "1]",
        '"' + " :" * 100_000 + '"',
        '"' + '\\" :' * 50_000 + '"',
    ],
    ids=lambda data: f"{data[:12]}…{data[-8:]}",
)
def test_no_event_under_the_limit_takes_long(data: str) -> None:
    """What is sent costs its sender more than the gate, whatever it is: nothing in it is looked at more than linearly."""
    raw = (HEAD + data + "}").encode()
    assert len(raw) < 256 * 1024
    assert SLOW_S <= 1
    examine(raw)


@given(values)
def test_canonical_json_is_a_fixed_point_and_knows_no_order(value: object) -> None:
    text = canonical(value)
    again = json.loads(text)
    assert canonical(again) == text
    assert first_difference(value, again) is None


@given(values)
def test_dropping_nulls_twice_changes_nothing(value: object) -> None:
    once = drop_nulls(value)
    assert drop_nulls(once) == once


@given(values, values)
def test_a_difference_is_found_exactly_where_there_is_one(one: object, other: object) -> None:
    same = canonical(one) == canonical(other)
    assert (first_difference(one, other) is None) == same


@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from("abcdef"), max_size=6), st.sampled_from("abcdef"))
def test_following_aliases_ends_and_is_idempotent(aliases: dict[str, str], name: str) -> None:
    end = follow(name, aliases)
    assert follow(end, aliases) == end
