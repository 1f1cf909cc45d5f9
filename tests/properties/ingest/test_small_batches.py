"""What Python reads and counts of a small batch is what DuckDB's statements give, or it leaves the batch to them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.projection import fold
from ingest.projection.fold import Folder, Undone, create
from ingest.projection.small_batches import read_few
from ingest.projection.statements import FOLD
from tests.properties.ingest.test_projection_properties import table

CHECKED = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
NUMBER = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.floats(1e-7, 1e17),
    st.integers(-3, 2**70),
    st.sampled_from([0.0, -0.0, 1e-4, 9.99e-5, 1e15, 1e21, 2**53 + 1, 2**63, 1.0, 5]),
)
LIKELY = st.one_of(st.floats(1e-3, 1e6), st.integers(1, 2**40))
EXPONENTS = (0.0, -0.0, 1e-9, -3.5e-7, 1e-6, 2.5e-5, 1e-4, 9e14, 1e15, 3e16, 2.5e20, 1e21, 2**62, 2**63, 2**64)
"""Numbers that JSON writers may write in different ways."""
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)
ODD = st.one_of(st.none(), st.booleans(), TEXT, st.just([]), st.just({}), st.just({"x": 1.5}))
VALUE = st.one_of(LIKELY, LIKELY, NUMBER, st.none(), ODD)
PAIR = st.one_of(st.lists(LIKELY, min_size=2, max_size=2), st.lists(VALUE, max_size=3))
LATENCY = ("mean", "min", "max", "stddev", "p50", "p90", "p95", "p99", "n")
METRICS = ("throughput_per_s", "tokens_per_s", "ttft_ms", "load_ms", "peak_memory_bytes", "kv_cache_bytes", "future_ms")
DIGEST = "sha256:" + 64 * "a"


@st.composite
def data_members(draw: st.DrawFn) -> dict[str, Any]:
    """Draw members of a measurement's data that take the place of those which the builder gives."""
    likely = draw(st.booleans())
    value = LIKELY if likely else VALUE
    metrics: dict[str, Any] = draw(
        st.dictionaries(st.sampled_from(METRICS[:4] if likely else METRICS), value, max_size=3)
    )
    if draw(st.booleans()):
        latency: dict[str, Any] = draw(st.dictionaries(st.sampled_from(LATENCY[:-1] if likely else LATENCY), value))
        if draw(st.booleans()):
            names = st.sampled_from(["p50", "mean"] if likely else ["p50", "mean", "p90", "p75"])
            latency["ci95"] = draw(st.dictionaries(names, st.lists(LIKELY, min_size=2, max_size=2) if likely else PAIR))
        metrics["latency_ms"] = draw(st.just(latency) if likely else st.one_of(st.just(latency), ODD))
    members: dict[str, Any] = {"metrics": metrics}
    if draw(st.booleans()):
        members["samples"] = draw(
            st.sampled_from([{"digest": DIGEST, "n": 5}, {"digest": "x", "n": 5}, {"n": 0}, None])
        )
    if draw(st.booleans()):
        names = st.sampled_from(["stopped_by", "other_load", "clock_before_hz", "clock_after_hz", "energy", "steady"])
        members["conditions"] = draw(st.dictionaries(names, st.one_of(TEXT, LIKELY, VALUE)))
    if draw(st.booleans()):
        members["observed"] = {"details": {"x": draw(VALUE), "y": draw(TEXT)}}
    if draw(st.booleans()):
        reasons = draw(st.lists(TEXT, max_size=2))
        members["validity"] = {"verdict": draw(st.sampled_from(["valid", "suspect", "invalid"])), "reasons": reasons}
    if draw(st.integers(0, 5)) == 0:
        members[draw(st.sampled_from(["model", "environment", "validity", "run_id", "provenance", "extra"]))] = draw(
            ODD
        )
    return members


WRITERS = st.sampled_from(
    [
        lambda event: msgspec.json.encode(event).decode(),
        lambda event: json.dumps(event, separators=(",", ":"), ensure_ascii=False),
        lambda event: json.dumps(event, separators=(",", ":")),
        json.dumps,
        lambda event: json.dumps(event, separators=(",", ":")).replace('"metrics":', '"metrics":{"load_ms":1},"metrics":', 1),
        lambda event: json.dumps(event, separators=(",", ":")).replace('"metrics":{', '"metrics":{"load_ms":1,"load_ms":2,', 1),
    ]
)  # fmt: skip


def bodies(log: pa.Table, texts: list[str]) -> pa.Table:
    return log.set_column(log.schema.get_field_index("body"), "body", pa.array(texts, pa.string()))


def read_by_duckdb(batch: pa.Table) -> pa.Table:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("batch", batch)
        return connection.sql(FOLD["seen"]).to_arrow_table()


@CHECKED
@given(members=data_members(), write=WRITERS)
def test_a_small_batch_is_read_as_duckdb_reads_it(build, members, write):
    event = build.measurement()
    event["data"] |= members
    require_same(bodies(table([event]), [write(event)]))


@pytest.mark.parametrize("number", EXPONENTS)
def test_a_number_in_a_text_is_written_as_duckdb_writes_it(build, number):
    event = build.measurement(observed={"details": {"x": number}})
    require_same(bodies(table([event]), [msgspec.json.encode(event).decode()]))


def require_same(batch: pa.Table) -> None:
    few = read_few(batch)
    if few is None:
        return
    truth = read_by_duckdb(batch)
    assert [
        name for name in truth.column_names if name not in ("metrics", "samples", "odd", "figures")
    ] == few.column_names
    for name in few.column_names:
        assert few.schema.field(name).type == truth.schema.field(name).type, name
        assert repr(few.column(name).to_pylist()) == repr(truth.column(name).to_pylist()), name


def test_what_runners_send_is_read_in_python(build):
    event = build.measurement(batch_size=4, validity={"verdict": "suspect", "reasons": ["other work: ±2.5 %"]})
    for text in (msgspec.json.encode(event).decode(), json.dumps(event, separators=(",", ":"), ensure_ascii=False)):
        assert read_few(bodies(table([event]), [text])) is not None


NAMES = st.sampled_from(["a", "b"])
ORIGINS = st.sampled_from(["measured", "imported", "page", "simulated"])


@st.composite
def measurements(draw: st.DrawFn, build: Any) -> list[dict[str, Any]]:
    events = []
    for _ in range(draw(st.integers(1, 8))):
        event = build.measurement(model=draw(NAMES), run_id=draw(NAMES))
        event["data"]["metrics"] = draw(
            st.sampled_from([{"load_ms": 2.5}, {"latency_ms": {"p50": 1.5}}, {"tokens_per_s": 7}])
        )
        event["data"]["provenance"] = {"origin": draw(ORIGINS)}
        if draw(st.booleans()):
            event["data"]["validity"] = {"verdict": draw(st.sampled_from(["valid", "suspect", "invalid"]))}
        if draw(st.booleans()):
            event["data"]["environment"] = {"fingerprint": draw(NAMES), "os": draw(NAMES)}
        else:
            del event["data"]["environment"]
        events.append(event)
    return events


@settings(CHECKED, max_examples=20)
@given(data=st.data())
def test_small_batches_make_the_tables_that_statements_make(build, assert_same_projection, data):
    events = data.draw(measurements(build))
    edges = {0}
    if data.draw(st.integers(0, 2)) == 0:
        # In a batch of its own: with a retraction in it, a batch is not one of measurements alone.
        named = [{"event_id": event["id"]} for event in events] + [{"run_id": "a"}, {"run_id": "c"}]
        place = data.draw(st.integers(0, len(events)))
        events.insert(place, build.retraction(**data.draw(st.sampled_from(named))))
        edges |= {place, place + 1}
    log = bodies(table(events), [msgspec.json.encode(event).decode() for event in events])
    times = data.draw(st.lists(st.none() | st.integers(0, 3), min_size=len(events), max_size=len(events)))
    index = log.schema.get_field_index("time")
    log = log.set_column(index, log.schema.field(index), pa.array(times, pa.timestamp("us", tz="UTC")))
    cuts = sorted({*edges, len(events), *data.draw(st.lists(st.integers(1, len(events)), max_size=4))})

    written = data.draw(st.lists(st.sampled_from([400, 400, 0]), min_size=len(cuts) - 1, max_size=len(cuts) - 1))
    undone = data.draw(st.integers(-1, len(cuts) - 2))

    def projected(sizes: list[int], undone: int) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(config={"threads": 1})
        create(connection)
        folder = Folder(connection)
        with pytest.MonkeyPatch.context() as patch:
            for number, (low, high) in enumerate(itertools.pairwise(cuts)):
                patch.setattr(fold, "FEW", sizes[number])
                batch = log.slice(low, high - low)
                if number == undone:
                    require_undone(folder, batch)
                folder.apply(batch)
        return connection

    nothing_in_python = [0] * len(written)
    with projected(nothing_in_python, -1) as by_statements, projected(written, undone) as in_python:
        assert_same_projection(by_statements, in_python)


def require_undone(folder: Folder, batch: pa.Table) -> None:
    """Apply a batch, and let an event after it undo the transaction."""
    folder.apply(batch, hold=True)
    index = batch.schema.get_field_index("body")
    broken = batch.slice(0, 1).set_column(index, "body", pa.array(["{"], pa.string()))
    with pytest.raises(Undone):
        folder.apply(broken, hold=True)


@pytest.mark.parametrize("between", ["undone", "statements", "another start", "retraction and another start"])
def test_small_batches_know_what_came_between_them(build, assert_same_projection, monkeypatch, between):
    events = [build.measurement(model=name, run_id=name) for name in "ababab"]
    if between.startswith("retraction"):
        events[:0] = [build.retraction(run_id="a"), build.retraction(run_id="c")]
    log = bodies(table(events), [msgspec.json.encode(event).decode() for event in events])
    lows = range(0, len(events), 2)

    def projected(few: int, undone: int = -1, by_statements: int = -1) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(config={"threads": 1})
        create(connection)
        folder = Folder(connection)
        for low in lows:
            monkeypatch.setattr(fold, "FEW", 0 if low == by_statements else few)
            if few and between.endswith("another start"):
                folder = Folder(connection)
            if low == undone:
                require_undone(folder, log.slice(low, 2))
            folder.apply(log.slice(low, 2))
        return connection

    with projected(0) as truth:
        for low in (-1, *lows):
            with projected(400, **{"undone" if between == "undone" else "by_statements": low}) as in_python:
                assert_same_projection(truth, in_python)
