"""The archive's files give back every event to the byte, whatever its text is, and take little room."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.archive.columns import Column, chosen
from ingest.archive.files import ArchiveDamaged, Chained, bodies_at, samples, whole, write_facts, write_samples
from ingest.archive.shapes import planned

WHEN = datetime(2026, 11, 20, 14, 5, 0, 353718, tzinfo=UTC)
CHAINED = Chained(log=str(uuid.UUID(int=1)), before="00" * 32, link="00" * 32)
GOLDEN = Path(__file__).parents[2] / "golden"


def table(bodies, identifiers, time=WHEN):
    rows = len(bodies)
    return pa.table(
        {
            "position": pa.array(range(1, rows + 1), pa.int64()),
            "id": pa.array([uuid.UUID(one).bytes for one in identifiers], pa.binary()),
            "type": ["vendor.note.v1"] * rows,
            "source": ["urn:x"] * rows,
            "subject": pa.array([None] * rows, pa.string()),
            "time": pa.array([time] * rows, pa.timestamp("us", tz="UTC")),
            "recorded_at": pa.array([WHEN] * rows, pa.timestamp("us", tz="UTC")),
            "body": pa.array(bodies, pa.string()),
            "attestation": ["anonymous"] * rows,
            "digest": pa.array([None] * rows, pa.binary()),
        }
    )


def through(path, bodies, identifiers=None):
    identifiers = identifiers or [str(uuid.UUID(int=number)) for number in range(len(bodies))]
    sample = [(one, body, WHEN) for one, body in zip(identifiers, bodies, strict=True) if body is not None]
    write_facts(path, planned(sample), [table(bodies, identifiers)], CHAINED)
    groups = list(whole(path))
    assert [one for group in groups for one in group["event_id"].to_pylist()] == identifiers
    return [body for group in groups for body in group["body"].to_pylist()]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "facts.parquet"


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1.21", "1.1", "6612.0", "0.0", "-0.5", "1e-7", "3"], "decimal"),
        (["37.256490", "1.000000", "12.123456", "0.5"], "decimal"),
        (["12", "-3", "9223372036854775807", "9223372036854775808", "012", "-0"], "decimal"),
        (["1.0472949494930293", "6612.0", "1e-07", "0.1", "3", "1E5", '"x"'], "float"),
        ([f'"sha256:{digit * 64}"' for digit in "0af"] + ['"sha256:AB"'], "hex"),
        (['"cuda"', '"cpu"', '"ü \\" \\\\"', "3"], "text"),
    ],
)
def test_a_column_gives_back_each_spelling(texts, kind):
    column = chosen(texts, [])
    assert column.kind == kind
    array = pa.array([*texts, None], pa.string())
    values, rest = column.encoded(array, array)
    back = rest if values is None else pa.compute.coalesce(rest, column.text(values, array))
    assert back.to_pylist() == [*texts, None]


def test_numbers_are_stored_as_numbers():
    values, rest = chosen(["1.25", "3.5", "0.0"], []).encoded(pa.array(["1.25", "3.5", "nope"]), pa.array(["", "", ""]))
    assert values.to_pylist() == [125, 350, None]
    assert rest.to_pylist() == [None, None, "nope"]


def test_an_event_s_own_id_is_not_stored_twice():
    assert chosen(['"a"', '"b"', '"c"'], ['"a"', '"b"', '"x"'], kind="id") == Column(kind="id")


def test_what_two_paths_have_in_common_is_stored_once():
    alike = [json.dumps({"n": number, "m": {"n": number}, "k": 1, "l": 1}) for number in range(4)]
    columns = planned([(str(uuid.UUID(int=number)), body, WHEN) for number, body in enumerate(alike)]).columns
    # Of two paths the first in order has the column; what never changes has one of its own.
    assert columns["$.n"] == Column(kind="same", of="$.m.n")
    assert {path: column.kind for path, column in columns.items() if path != "$.n"} == dict.fromkeys(
        ("$.k", "$.l", "$.m.n"), "decimal"
    )


FEW = st.none() | st.sampled_from([1, 2, 1.5, "1", "x"])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(FEW, FEW, FEW), min_size=1, max_size=12))
def test_paths_that_differ_after_the_sample_come_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("same") / "facts.parquet"
    alike = [json.dumps({"a": value, "b": {"c": value}, "d": value}) for value in (1, 2, 3, 1)]
    others = [
        json.dumps({key: value for key, value in (("a", a), ("b", {"c": c}), ("d", d)) if value is not None})
        for a, c, d in rows
    ]
    # Shapes without one of the paths are in the sample too.
    shapes = ['{"a": 1}', '{"a": 2}', '{"b": {"c": 1}}', '{"b": {"c": 2}}']
    bodies = [*alike, *others]
    identifiers = [str(uuid.UUID(int=number)) for number in range(len(bodies))]
    for sample in (alike, alike + shapes):
        plan = planned([(identifiers[0], body, WHEN) for body in sample])
        write_facts(path, plan, [table(bodies, identifiers)], CHAINED)
        assert [body for group in whole(path) for body in group["body"].to_pylist()] == bodies
    assert planned([(identifiers[0], body, WHEN) for body in alike]).columns["$.d"].kind == "same"


@pytest.mark.parametrize("file", sorted(GOLDEN.glob("*.json")), ids=lambda file: file.stem)
def test_golden_events_come_back_however_they_were_spelled(path, file):
    pretty = file.read_text()
    event = json.loads(pretty)
    spellings = [
        pretty,
        json.dumps(event),
        json.dumps(event, separators=(",", ":")),
        json.dumps(event, ensure_ascii=True),
    ]
    bodies = [body for body in spellings for _ in range(3)]
    assert through(path, bodies, [event["id"]] * len(bodies)) == bodies


SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
)
KEYS = st.text(alphabet='abc.$[]0 "\\:,ü', max_size=4)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12
)


@settings(max_examples=60, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=12), st.booleans())
def test_any_json_comes_back(tmp_path_factory, values, spaced):
    path = tmp_path_factory.mktemp("any") / "facts.parquet"
    separators = (", ", ": ") if spaced else (",", ":")
    bodies = [json.dumps({"data": value}, separators=separators, ensure_ascii=spaced) for value in values]
    assert through(path, bodies * 2) == bodies * 2


def test_what_is_rare_stays_whole_and_samples_stay_null(path):
    bodies = ['{"a":1}', '{"a":2}', '{"b":[3]}', None]
    assert through(path, bodies) == bodies
    stored = pq.read_table(path)
    assert stored["shape"].to_pylist() == ['{"a":\x1f}', '{"a":\x1f}', None, None]
    assert stored["body"].to_pylist() == [None, None, '{"b":[3]}', None]


def test_a_range_and_single_events_are_found(path):
    bodies = [json.dumps({"n": number}) for number in range(40_000)]
    identifiers = [str(uuid.UUID(int=number)) for number in range(len(bodies))]
    write_facts(path, planned([(identifiers[0], bodies[0], None)] * 2), [table(bodies, identifiers)], CHAINED)
    assert pq.ParquetFile(path).num_row_groups == 5
    found = [position for group in whole(path, 16_000, 33_000) for position in group["position"].to_pylist()]
    assert found == list(range(16_001, 33_001))
    assert bodies_at(path, [1, 8_192, 8_193, 40_000, 40_001]) == {
        position: bodies[position - 1] for position in (1, 8_192, 8_193, 40_000)
    }


def test_a_file_of_another_version_is_not_guessed_at(path):
    pq.write_table(pa.table({"position": [1]}), path)
    with pytest.raises(ArchiveDamaged, match="a version that this Assay knows"):
        list(whole(path))


def raw(bodies, identifiers):
    return pa.table(
        {
            "position": pa.array(range(1, len(bodies) + 1), pa.int64()),
            "id": pa.array([uuid.UUID(one).bytes for one in identifiers], pa.binary()),
            "recorded_at": pa.array([WHEN] * len(bodies), pa.timestamp("us", tz="UTC")),
            "body": pa.array(
                [body.replace(one, "\x1f") for body, one in zip(bodies, identifiers, strict=True)], pa.string()
            ),
        }
    )


def samples_through(path, bodies):
    identifiers = [str(uuid.UUID(int=number)) for number in range(len(bodies))]
    bodies = [body.replace("OWN", one) for body, one in zip(bodies, identifiers, strict=True)]
    write_samples(path, [raw(bodies, identifiers)])
    (group,) = whole(path)
    assert group["event_id"].to_pylist() == identifiers
    assert pa.concat_tables(samples(path))["body"].to_pylist() == raw(bodies, identifiers)["body"].to_pylist()
    return bodies, group["body"].to_pylist()


MILLISECONDS = st.decimals(0, 10**6, places=6).map(lambda value: float(value))
NUMBERS = st.lists(MILLISECONDS | st.floats(allow_nan=False, allow_infinity=False) | st.integers(), max_size=6)
BETWEEN = st.text(alphabet='OWN[1.5,2]\x1d {}"', max_size=8)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(BETWEEN, st.lists(NUMBERS, max_size=3), st.booleans()), min_size=1, max_size=8))
def test_raw_samples_come_back_however_they_are_spelled(tmp_path_factory, events):
    path = tmp_path_factory.mktemp("raw") / "samples.parquet"
    bodies = [
        json.dumps({"id": "OWN", "note": note, "lists": lists}, separators=(", ", ": ") if spaced else (",", ":"))
        for note, lists, spaced in events
    ]
    expected, result = samples_through(path, bodies)
    assert result == expected


def test_lists_of_samples_are_stored_as_differences_from_their_median(path):
    bodies = ['{"values":[1.5,1.250001,2.0],"warmup":[80.1]}', '{"values":[1.50,2.5],"warmup":[3]}', '{"values":[]}']
    expected, result = samples_through(path, bodies)
    assert result == expected
    stored = pq.read_table(path)
    assert stored["lists"].to_pylist() == [[[3_000_000, 0, 499_997, 1_000_000], [160_200_000, 0]], [], []]
    assert stored["body"].to_pylist()[1:] == bodies[1:]


def test_a_file_of_samples_of_version_2_is_read(path):
    body = '{"id":"\x1f","values":[1.5,2.5]}'
    table = raw([body], [str(uuid.UUID(int=7))]).set_column(1, "id", pa.array([uuid.UUID(int=7).bytes], pa.uuid()))
    pq.write_table(table.replace_schema_metadata({"assay.archive": "2"}), path)
    assert bodies_at(path, [1]) == {1: body.replace("\x1f", str(uuid.UUID(int=7)))}
    assert pa.concat_tables(samples(path))["body"].to_pylist() == [body]
