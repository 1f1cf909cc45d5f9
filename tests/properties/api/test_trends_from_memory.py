"""Trends from rows in memory are byte for byte those of the view, whatever the log says between two questions."""

from __future__ import annotations

import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import duckdb
import msgspec
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.routes.trends import METRICS, TrendQuestion, trends_of
from domain.errors import UnknownModel
from ingest.projection import Tables, rows
from ingest.projection.fold import BATCH_SCHEMA, Folder, create
from ingest.projection.memory import histories
from ingest.projection.memory.best_rows import BestRows
from ingest.projection.memory.histories import Histories
from ingest.projection.snapshot_reader import Memory
from tests.properties.api.trends_by_sql import trends_by_sql

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = st.sampled_from(["a", "a", "b"])
VALUES = st.sampled_from([1.0, 1.0, 1.04, 1.2, 1.6, 0.5])
VERDICTS = st.sampled_from(
    [{"verdict": "valid"}] * 4 + [{"verdict": "suspect", "reasons": ["x"]}, {"verdict": "invalid"}]
)
ENVIRONMENTS = st.sampled_from(
    [{"fingerprint": "env-1", "os": "Linux"}] * 3
    + [{"fingerprint": "env-1"}, {"fingerprint": "env-2"}, {"fingerprint": "env-2", "driver": "9", "libraries": {"torch": "2"}}, None]
)  # fmt: skip
ASK = "ask"


def moment(hours: int) -> datetime:
    return BEGIN + timedelta(hours=hours, microseconds=hours % 3 * 250_000)


@st.composite
def measurements(draw: st.DrawFn, build: Any) -> dict[str, Any]:
    value = draw(VALUES)
    latency = {"p50": value, "mean": value, "n": draw(st.integers(3, 9)), "stddev": 0.01}
    if draw(st.booleans()):
        latency["ci95"] = {"p50": [value * 0.99, value * 1.01]}
    if draw(st.integers(0, 5)) == 0:
        del latency["p50"]
        latency.pop("ci95", None)
    metrics = {"latency_ms": latency, "throughput_per_s": 1 / value, "peak_memory_bytes": int(2**40 * value)}
    if draw(st.booleans()):
        metrics["energy_j"] = value
    if draw(st.integers(0, 4)) == 0:
        del metrics["latency_ms"]
    verdict = draw(VERDICTS)
    if draw(st.booleans()):
        judged = draw(st.sampled_from(["latency_ms", "energy_j", "throughput_per_s"]))
        verdict = verdict | {"metrics": {judged: draw(VERDICTS)}}
    event: dict[str, Any] = build.measurement(
        model=draw(NAMES), hardware=draw(NAMES), run_id=draw(NAMES), batch_size=draw(st.sampled_from([1, 1, 2])),
        provenance={"origin": draw(st.sampled_from(["measured"] * 4 + ["imported", "simulated"])), "source": "x"},
        validity=verdict, metrics=metrics, environment=draw(ENVIRONMENTS),
        # Most come in the order of their times.
        time=moment(draw(st.integers(0, 40))),
    )  # fmt: skip
    event["data"]["execution"]["runtime"]["version"] = draw(st.sampled_from(["2.9", "2.9", "2.10"]))
    event["data"]["model"]["weights"] = draw(st.sampled_from(["random", "pretrained"]))
    if event["data"]["environment"] is None:
        del event["data"]["environment"]
    return event


@st.composite
def steps(draw: st.DrawFn, build: Any) -> list[Any]:
    """Events with questions between them."""
    result: list[Any] = []
    events: list[dict[str, Any]] = []
    kinds = ["measurement"] * 12 + [ASK] * 3 + ["void", "void", "alias"]
    for kind in draw(st.lists(st.sampled_from(kinds), min_size=4, max_size=40)):
        if kind == ASK:
            result.append(ASK)
            continue
        if kind == "measurement":
            event = draw(measurements(build))
        elif kind == "alias":
            event = build.alias(draw(NAMES), draw(NAMES), kind=draw(st.sampled_from(["model", "hardware"])))
        else:
            # Also a retraction, which restores what it took away.
            target = draw(st.sampled_from(events))["id"] if events and draw(st.booleans()) else None
            event = build.retraction(event_id=target, run_id=None if target else draw(NAMES))
        events.append(event)
        result.append(event)
    return [*result, ASK]


WINDOWS = st.tuples(*[st.none() | st.integers(0, 40).map(moment)] * 2)
QUESTIONS = st.builds(
    TrendQuestion, model=NAMES, metric=st.sampled_from(["latency_ms", "latency_ms", *METRICS]),
    hardware=st.none() | st.just(["b"]), mode=st.none() | st.just("inference"), window=WINDOWS,
    limit=st.none() | st.integers(0, 3), top=st.none() | st.integers(1, 2), points_top=st.none() | st.integers(1, 2),
    along=st.sampled_from(["time", "time", "version"]), undated=st.booleans(),
)  # fmt: skip


def table(events: list[dict[str, Any]], dated: list[bool]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                "position": position, "event_id": event["id"], "type": event["type"], "source": "urn:x",
                "attestation": "anonymous", "chain": position.to_bytes(32), "body": json.dumps(event, default=str),
                "time": datetime.fromisoformat(event["time"]) if is_dated and "time" in event else None, "recorded_at": moment(position),
            }
            for position, (event, is_dated) in enumerate(zip(events, dated, strict=True), start=1)
        ],
        schema=BATCH_SCHEMA,
    )  # fmt: skip


@contextmanager
def reading(connection: duckdb.DuckDBPyConnection, memory: Memory | None = None, as_of: int | None = None):
    with connection.cursor() as cursor:
        cursor.begin()
        tables = Tables(cursor, as_of=as_of)
        tables.memory = memory
        yield tables


def answered(tables: Tables, question: TrendQuestion, answer=trends_of) -> bytes:
    try:
        return msgspec.json.encode(answer(tables, question))
    except UnknownModel as error:
        return str(error).encode()


def assert_same(connection: duckdb.DuckDBPyConnection, memory: Memory, question: TrendQuestion, then: int) -> None:
    with reading(connection, memory) as kept, reading(connection) as plain:
        expected = answered(plain, question, trends_by_sql)
        assert answered(kept, question) == expected
        assert answered(kept, question) == expected
        with rows.as_lists():
            assert answered(plain, question) == expected
    with reading(connection, memory, then) as before:
        assert answered(before, question) == answered(before, question, trends_by_sql)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_trends_in_memory_are_those_of_the_view(build, data):
    log = data.draw(steps(build))
    events = [event for event in log if event is not ASK]
    dated = data.draw(st.lists(st.sampled_from([True, True, True, False]), min_size=len(events), max_size=len(events)))
    positions = table(events, dated)
    room_bytes = data.draw(st.sampled_from([2**30, 2**30, 12_000]))
    memory = Memory(BestRows())
    memory.histories = Histories(room_bytes)
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        create(connection)
        folder, done, waiting = Folder(connection.cursor()), 0, 0
        for step in log:
            if step is not ASK:
                waiting += 1
                continue
            with reading(connection, memory) as older:
                assert older.checkpoint == done
                if waiting:
                    folder.apply(positions.slice(done, waiting))
                done, waiting = done + waiting, 0
                usual = TrendQuestion(model="a")
                for question in (usual, *data.draw(st.lists(QUESTIONS, min_size=1, max_size=2))):
                    assert_same(connection, memory, question, then=data.draw(st.integers(0, done)))
                    assert memory.histories.bytes <= room_bytes
                # A reader of the state before: the newest rows are not its own.
                assert answered(older, usual) == answered(older, usual, trends_by_sql)


STEADY = st.tuples(
    st.sampled_from([1.0, 1.02, 1.05, 1.15, 1.3, 1.6]),
    st.sampled_from(["env-1"] * 6 + ["env-2"]),
    st.sampled_from([{"verdict": "valid"}] * 6 + [{"verdict": "suspect", "reasons": ["x"]}]),
    st.sampled_from(["p50"] * 8 + ["mean"]),
)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(runs=st.lists(STEADY, min_size=10, max_size=40))
def test_runs_of_one_configuration_widen_intervals_as_those_of_the_view(build, runs):
    events = []
    for number, (value, fingerprint, verdict, statistic) in enumerate(runs):
        event = build.measurement(
            model="a", time=moment(number), validity=verdict, environment={"fingerprint": fingerprint}
        )
        event["data"]["metrics"]["latency_ms"] = {statistic: value, "n": 60, "stddev": 0.001}
        if statistic == "p50":
            event["data"]["metrics"]["latency_ms"] |= {"ci95": {"p50": [value * 0.99, value * 1.01]}, "mean": value}
        events.append(event)
    log, memory = table(events, [True] * len(events)), Memory(BestRows())
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        create(connection)
        folder = Folder(connection.cursor())
        for first, count in ((0, len(events) // 2), (len(events) // 2, len(events))):
            folder.apply(log.slice(first, count))
            assert_same(connection, memory, TrendQuestion(model="a"), then=len(events) // 3)


def test_each_event_that_touches_a_model_is_seen(build):
    first, better, late = (
        build.measurement(model=name, p50=p50, run_id=run, time=moment(number))
        for number, (name, p50, run) in enumerate((("a", 2, "r"), ("a", 1, "s"), ("b", 3, "late")))
    )
    void = build.retraction(event_id=better["id"])
    unsaid, said = ({"fingerprint": "env-9"}, {"fingerprint": "env-9", "os": "Linux", "driver": "9"})
    events = [
        first, build.measurement(model="c"), better, void, build.retraction(event_id=void["id"]), build.retraction(run_id="late"),
        late, build.alias("b", "a"), build.measurement(model="b", p50=9, run_id="s"), build.retraction(run_id="s"),
        build.alias("acme-one", "acme-two", kind="hardware"), build.alias("a", "c"),
        build.measurement(model="a", environment=unsaid), build.measurement(model="b", environment=unsaid),
        build.measurement(model="d", environment=said), build.measurement(model="b", environment=said),
        build.measurement(model="a", time=moment(0), p50=7),
    ]  # fmt: skip
    log, memory = table(events, [True] * len(events)), Memory(BestRows())
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        create(connection)
        folder = Folder(connection.cursor())
        for number in range(len(events)):
            folder.apply(log.slice(number, 1))
            for model in "abc":
                assert_same(connection, memory, TrendQuestion(model=model), then=number)


def test_models_that_nobody_knows_take_no_room(build):
    memory = Memory(BestRows())
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        for number in range(3):
            with reading(connection, memory) as tables, pytest.raises(UnknownModel):
                trends_of(tables, TrendQuestion(model=f"nobody-{number}"))
    assert not memory.histories._kept


def test_what_is_kept_is_every_metric_that_trends_can_follow():
    assert {*METRICS} - {"latency_ms", "latency_p50_ms", "latency_mean_ms"} == {*histories.FIGURES}


@pytest.mark.parametrize("narrowed", [{"configuration": True}, {"alike": True}])
def test_some_lines_of_a_history_go_on_from_the_others(build, narrowed):
    events = [
        build.measurement(p50=n, model="a", batch_size=size, time=moment(n)) for n, size in ((1, 1), (2, 1), (3, 2))
    ]
    events[1]["data"]["execution"]["runtime"]["version"] = "2.14"
    memory = Memory(BestRows())
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        create(connection)
        Folder(connection.cursor()).apply(table(events, [True] * 3))
        with reading(connection) as plain:
            (_, line, _), _ = trends_by_sql(plain, TrendQuestion(model="a"))
        chosen = {name: [line[name]] for name in narrowed}
        assert_same(connection, memory, TrendQuestion(model="a", **chosen), then=2)


def recording(select, values):
    return lambda relations, statement, given: values.append(given) or select(relations, statement, given)


def test_a_newer_position_reads_what_came_since(build):
    events = [build.measurement(p50=n, model="a", time=moment(n)) for n in range(1, 6)]
    log, memory, above = table(events, [True] * 5), Memory(BestRows()), []
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        create(connection)
        folder = Folder(connection.cursor())
        for first, count in ((0, 3), (3, 1), (4, 1)):
            folder.apply(log.slice(first, count))
            with reading(connection, memory) as tables:
                tables.select = recording(tables.select, above)
                (line,), _ = trends_of(tables, TrendQuestion(model="a"))
                assert line["count"] == first + count
        assert [values for values in above if values[-1] == "a" and len(values) == 2] == [[0, "a"], [3, "a"], [4, "a"]]
