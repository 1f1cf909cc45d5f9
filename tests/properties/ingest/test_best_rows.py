"""Best rows in memory are those of the view, whatever the log says between two questions."""

from __future__ import annotations

from contextlib import closing, contextmanager, suppress

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.reads import comparison_rows
from api.routes import hardware_coverage, registry
from ingest.projection import Tables, rows
from ingest.projection.fold import Folder, create
from ingest.projection.memory import best_rows
from ingest.projection.memory.best_rows import BestRows
from ingest.projection.snapshot_reader import Memory, StateChanged, TablesCursor
from ingest.projection.view_queries import FACTS
from tests.properties.ingest.test_projection_properties import table

COLUMNS = (
    "event_id", "model_id", "hardware_id", "configuration", "platform", "precision", "mode", "batch_size", "latency_p50_ms",
    "time", "origin", "verdict", "energy_verdict", "options", "run_id", "position",
)  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c"])
ORIGINS = st.sampled_from(["measured", "measured", "measured", "imported", "simulated"])
VERDICTS = st.sampled_from(["valid", "valid", "suspect", "invalid"])
TIMES_US = st.none() | st.integers(-(10**14), 10**16)
ASK = "ask"
RUNS = NAMES | st.just("absent")
OF_CONTEXT = st.fixed_dictionaries(
    {"run_id": st.none() | RUNS | st.lists(RUNS, max_size=2)},
    optional={"origin": ORIGINS, "model": NAMES, "platform": st.sampled_from(["pytorch", "onnx"])},
)


@st.composite
def steps(draw: st.DrawFn, build) -> list[object]:
    """Events with questions between them."""
    result: list[object] = []
    events: list[dict] = []
    for kind in draw(
        st.lists(
            st.sampled_from(["measurement"] * 6 + [ASK] * 4 + ["void", "void", "alias", "test"]),
            min_size=3,
            max_size=30,
        )
    ):
        if kind == ASK:
            result.append(ASK)
            continue
        if kind == "measurement":
            event = build.measurement(
                p50=draw(st.integers(1, 9)), model=draw(NAMES), hardware=draw(NAMES), run_id=draw(NAMES),
                precision=draw(st.sampled_from(["fp32", "fp16"])),
                provenance={"origin": draw(ORIGINS), "source": "x"}, validity={"verdict": draw(VERDICTS)},
            )  # fmt: skip
        elif kind == "alias":
            event = build.alias(draw(NAMES), draw(NAMES), kind=draw(st.sampled_from(["model", "hardware"])))
        elif kind == "void":
            # Also a retraction, which restores what it took away.
            target = draw(st.sampled_from(events))["id"] if events and draw(st.booleans()) else None
            event = build.retraction(event_id=target, run_id=None if target else draw(NAMES))
        else:
            event = build.test(draw(st.sampled_from(["passed", "failed"])), model=draw(NAMES))
        events.append(event)
        result.append(event)
    return [*result, ASK]


@contextmanager
def reading(connection: duckdb.DuckDBPyConnection, memory: Memory | None, as_of: int | None = None):
    with connection.cursor() as cursor:
        cursor.begin()
        tables = Tables(cursor, as_of=as_of)
        tables.memory = memory
        yield tables


FILTERS = st.fixed_dictionaries(
    {},
    optional={
        "model": NAMES | st.lists(NAMES, min_size=1, max_size=3),
        "hardware": NAMES | st.lists(NAMES, max_size=2), "mode": st.sampled_from(["inference", "training"]),
        "precision": st.sampled_from([None, ["fp32"], ["fp32", "fp16"]]), "batch_size": st.integers(1, 3),
        "origin": st.sampled_from(["measured", "imported"]), "run_id": NAMES,
    },
)  # fmt: skip


@contextmanager
def expecting(connection: duckdb.DuckDBPyConnection, memory: Memory, as_of: int | None = None):
    """Give the tables in the state that memory knows, opened by the first statement."""
    assert memory.now is not None
    with closing(TablesCursor(lambda: ("", connection.cursor()), memory.now[0])) as cursor:
        tables = Tables(cursor, as_of)
        tables.memory = memory
        yield tables


def assert_same(connection: duckdb.DuckDBPyConnection, memory: Memory, as_of: int | None = None) -> None:
    """Compare the best rows of every model from memory with those of the view."""
    with reading(connection, memory, as_of) as kept, reading(connection, None, as_of) as plain:
        every = plain.view("best_measurements", columns=COLUMNS)
        for model in "abc":
            of_model = every.filter(pc.equal(every.column("model_id"), plain.resolve_model(model)))
            # As text: 1 is not True, and a time has its zone.
            rows = repr(of_model.to_pylist())
            assert repr(kept.best({"model": model}, COLUMNS)) == rows
            with expecting(connection, memory, as_of) as later:
                assert repr(later.best({"model": model}, COLUMNS)) == rows
        assert kept.predictor == plain.predictor


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_best_rows_in_memory_are_those_of_the_view(build, data):
    log = data.draw(steps(build))
    positions = table([event for event in log if event is not ASK])
    times = data.draw(st.lists(TIMES_US, min_size=positions.num_rows, max_size=positions.num_rows))
    column = pa.array(times, positions.schema.field("time").type)
    positions = positions.set_column(positions.schema.get_field_index("time"), "time", column)
    room_bytes, together = data.draw(st.sampled_from([(2**20, 30_000), (2**20, 2), (8_000, 3)]))
    memory = Memory(BestRows(COLUMNS, room_bytes))
    with duckdb.connect(config={"threads": 1}) as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(best_rows, "TOGETHER", together)
        patch.setattr(best_rows, "_ROW_BYTES", 1)
        patch.setattr(best_rows, "AGAIN", data.draw(st.sampled_from([0, 1_000])))
        create(connection)
        folder, done, waiting = Folder(connection.cursor()), 0, 0
        for step in log:
            if step is not ASK:
                waiting += 1
                continue
            with reading(connection, memory) as before:
                assert before.checkpoint == done
                rows_before = repr(before.best({"model": "a"}, COLUMNS))
                with expecting(connection, memory) as expected:
                    assert expected.predictor == before.predictor
                    if waiting:
                        folder.apply(positions.slice(done, waiting))
                    # All of an answer is of the state that it began with, or there is none.
                    with suppress(StateChanged):
                        assert repr(expected.best({"model": "a"}, COLUMNS)) == rows_before
                    if waiting:
                        with pytest.raises(StateChanged):
                            expected.count("measurements")
                done, waiting = done + waiting, 0
                assert_same(connection, memory)
                assert memory.best_rows.bytes <= room_bytes
                filters, columns = data.draw(FILTERS), data.draw(st.lists(st.sampled_from(COLUMNS), min_size=1))
                columns = list(dict.fromkeys(columns))
                with reading(connection, None) as plain, reading(connection, memory) as kept:
                    assert repr(kept.best(filters, columns)) == repr(plain.best(filters, columns))
                # A reader of the state before: the newest rows are not its own.
                rows = before.best({"model": "a"}, columns)
                before.memory = None
                assert repr(rows) == repr(before.best({"model": "a"}, columns))
        assert_same(connection, memory, as_of=done // 2)


@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_facts_of_a_run_are_those_of_the_view_before_and_after_it_comes(build, data):
    log = data.draw(steps(build))
    positions = table([event for event in log if event is not ASK])
    memory = Memory(BestRows(COLUMNS))
    # Asked before anything is there, and again after each step: what has no rows yet may have some then.
    questions = data.draw(st.lists(st.tuples(st.sampled_from(sorted(FACTS)), OF_CONTEXT), min_size=1, max_size=2))
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        folder, done, waiting = Folder(connection.cursor()), 0, 0
        for step in [ASK, *log]:
            if step is not ASK:
                waiting += 1
                continue
            folder.apply(positions.slice(done, waiting))
            done, waiting = done + waiting, 0
            as_of, limit = data.draw(st.none() | st.integers(0, done)), data.draw(st.sampled_from([None, 1, 100]))
            for name, filters in questions:
                with reading(connection, None, as_of) as plain, reading(connection, memory, as_of) as kept:
                    expected = plain.view(name, filters, after=0, limit=limit)
                    assert kept.view(name, filters, after=0, limit=limit).equals(expected)
                    with rows.as_lists():
                        as_lists = kept.view(name, filters, after=0, limit=limit)
                    assert isinstance(as_lists, rows.Rows)
                    assert as_lists.to_pylist() == plain.view(name, filters, after=0, limit=limit).to_pylist()


def test_a_run_that_had_no_rows_is_asked_for_again(build):
    log, memory = table([build.measurement(run_id="a"), build.measurement(run_id="b")]), Memory(BestRows(COLUMNS))
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        folder = Folder(connection.cursor())
        for done in (0, 1, 2):
            folder.apply(log.slice(done - 1, 1) if done else log.slice(0, 0))
            for _ in range(2):
                with reading(connection, memory) as kept:
                    rows_of = [kept.view("measurements", {"run_id": run}, limit=5).num_rows for run in ("a", "b", "c")]
                assert rows_of == [int(done >= 1), int(done >= 2), 0]


def test_each_event_that_touches_a_model_takes_its_rows_from_memory(build):
    first, better, late = (
        build.measurement(model=name, p50=p50, run_id=run)
        for name, p50, run in (("a", 2, "r"), ("a", 1, "s"), ("b", 3, "late"))
    )
    void = build.retraction(event_id=better["id"])
    events = [
        first, build.measurement(model="c"), better, void, build.retraction(event_id=void["id"]), build.retraction(run_id="late"),
        late, build.alias("b", "a"), build.measurement(model="b", p50=9, run_id="s"), build.retraction(run_id="s"),
        build.alias("acme-one", "acme-two", kind="hardware"), build.alias("b", "c"), build.measurement(model="a", validity={"verdict": "invalid"}),
    ]  # fmt: skip
    log, memory = table(events), Memory(BestRows(COLUMNS))
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        folder = Folder(connection.cursor())
        for number in range(len(events)):
            folder.apply(log.slice(number, 1))
            assert_same(connection, memory)


def test_models_that_nobody_measured_since_are_not_read_again(build):
    memory, reads = Memory(BestRows(COLUMNS)), []
    log = table(
        [build.measurement(model=name, batch_size=size) for name in "abc" for size in (1, 2)]
        + [build.measurement(model="a")]
    )
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        folder = Folder(connection.cursor())

        def rows_of(model: str) -> int:
            with reading(connection, memory) as tables:
                plain = tables._read
                tables._read = lambda *asked: reads.append(asked[1]["model"]) or plain(*asked)
                return len(tables.best({"model": model}, COLUMNS))

        folder.apply(log.slice(0, 6))
        assert [rows_of(name) for name in "abc"] == [2, 2, 2] and reads == [["a", "b", "c"]]
        folder.apply(log.slice(6))
        assert [rows_of(name) for name in "abc"] == [2, 2, 2] and reads == [["a", "b", "c"], ["a"]]
        assert rows_of("nobody") == 0


def test_rows_of_a_device_are_not_read_again_by_all_models_where_many_changed(build, monkeypatch):
    memory, reads = Memory(BestRows(COLUMNS)), []
    log = table([build.measurement(model=name, batch_size=size) for size in (1, 2, 3) for name in "abc"])
    with duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        folder = Folder(connection.cursor())

        def rows_of_device() -> int:
            with reading(connection, memory) as tables:
                plain = tables._read
                tables._read = lambda *request: reads.append(request[1].get("model")) or plain(*request)
                return len(tables.best({"hardware": "acme-one"}, COLUMNS))

        first = log.slice(0, 3)
        device = build.measurement()["data"]["hardware"]["id"]
        assert device == "acme-one"
        folder.apply(first)
        assert rows_of_device() == 3 and reads == [["a", "b", "c"]]
        folder.apply(log.slice(3, 1))
        assert rows_of_device() == 4 and reads[1:] == [["a"]]
        monkeypatch.setattr(best_rows, "AGAIN", 3)
        folder.apply(log.slice(4, 3))
        assert rows_of_device() == 7 and reads[2:] == [None]


def test_comparisons_and_the_pages_of_models_and_devices_read_from_memory():
    read = {*comparison_rows.COLUMNS, *comparison_rows._WORK_COLUMNS, *comparison_rows.STAGES, *registry._MEASURED}
    read |= {*hardware_coverage._BEST, *hardware_coverage._WORK, *hardware_coverage._TIMES}
    assert read <= set(best_rows.COLUMNS)
