"""For any log and any way of cutting it into batches: one state. And one name for one configuration."""

from __future__ import annotations

import itertools
import json
import uuid
from datetime import UTC, datetime, timedelta

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.configuration import Configuration, Execution, Hardware, Model, Parallelism, Runtime, Workload
from ingest.projection import facts, fold
from ingest.projection.fold import BATCH_SCHEMA, Folder, Undone, create
from tests import variants
from tests.alerts import change, raised, stated
from tests.jobs import job_event

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
QUIET = settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


def table(events: list[dict[str, object] | str]) -> pa.Table:
    rows = []
    for position, event in enumerate(events, start=1):
        poisonous = isinstance(event, str)
        rows.append(
            {
                "position": position,
                "event_id": f"{position:032x}" if poisonous else event["id"],
                "type": "assay.measurement.recorded.v1" if poisonous else event["type"],
                "source": "urn:x",
                "attestation": "anonymous",
                "chain": position.to_bytes(32),
                "time": None,
                "recorded_at": BEGIN + timedelta(seconds=position),
                "body": event if poisonous else json.dumps(event),
            }
        )
    return pa.Table.from_pylist(rows, schema=BATCH_SCHEMA)


def projected(log: pa.Table, cuts: list[int]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    create(connection)
    folder = Folder(connection)
    edges = sorted({0, log.num_rows, *(cut for cut in cuts if cut < log.num_rows)})
    for low, high in itertools.pairwise(edges):
        folder.apply(log.slice(low, high - low))
    return connection


NAMES = st.sampled_from(["a", "b", "c", "d"])
VARIANT_EVENTS = (
    lambda build, model, other: variants.variant(build, base=other, model=model, run_id=other),
    lambda build, model, other: variants.quality(build, model, base=other, hardware=model, run_id=other),
    lambda build, model, other: variants.endpoint(build, "ready", other, model={"id": model}, hardware={"id": model}),
    lambda build, model, other: variants.delivery(build, name=other, model={"id": model}),
)


@st.composite
def logs(draw: st.DrawFn, build) -> list[dict[str, object] | str]:
    events: list[dict[str, object] | str] = []
    for _ in range(draw(st.integers(1, 14))):
        kind = draw(
            st.sampled_from(
                [
                    "measurement",
                    "measurement",
                    "test",
                    "alias",
                    "void",
                    "run",
                    "alert",
                    "job",
                    "variant",
                    "unknown",
                    "poison",
                ]
            )
        )
        if kind == "measurement":
            events.append(build.measurement(model=draw(NAMES), hardware=draw(NAMES), run_id=draw(NAMES)))
        elif kind == "test":
            events.append(build.test(draw(st.sampled_from(["passed", "failed"])), model=draw(NAMES)))
        elif kind == "alias":
            events.append(build.alias(draw(NAMES), draw(NAMES), kind=draw(st.sampled_from(["model", "hardware"]))))
        elif kind == "void":
            known = [event["id"] for event in events if isinstance(event, dict)]
            target = draw(st.sampled_from(known)) if known and draw(st.booleans()) else None
            events.append(build.retraction(event_id=target, run_id=None if target else draw(NAMES)))
        elif kind == "run":
            events.append(build.event("assay.run.started.v1", {"run_id": draw(NAMES), "kind": "bench"}))
        elif kind == "alert":
            changes = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
            name, state = draw(NAMES), draw(st.sampled_from(["raised", "acknowledged", "withdrawn"]))
            about = [change(item, draw(st.floats(-1.0, 1.0))) for item in changes]
            events.append(raised(name, about) if state == "raised" else stated(name, state, "ada", gone=changes))
        elif kind == "job":
            became = draw(st.sampled_from(["requested", "started", "failed", "finished", "cancelled"]))
            events.append(job_event(became, draw(NAMES)))
        elif kind == "variant":
            events.append(draw(st.sampled_from(VARIANT_EVENTS))(build, draw(NAMES), draw(NAMES)))
        elif kind == "unknown":
            events.append(build.event("acme.other.v1", {"x": draw(st.integers())}))
        else:
            events.append(draw(st.sampled_from(["{", "[]", '{"data": {"run_id": "r", "workload": {"mode": 3}}}'])))
    return events


@QUIET
@given(data=st.data())
def test_the_state_does_not_depend_on_where_the_log_was_cut(build, assert_same_projection, data):
    log = table(data.draw(logs(build)))
    cuts = data.draw(st.lists(st.integers(1, 14), max_size=6))
    with projected(log, []) as at_once, projected(log, cuts) as in_pieces:
        assert_same_projection(at_once, in_pieces)


@QUIET
@given(data=st.data())
def test_the_state_does_not_depend_on_transactions_or_memory(build, assert_same_projection, data):
    log = table(data.draw(logs(build)) + data.draw(logs(build)))
    edges = sorted({0, log.num_rows, *data.draw(st.sets(st.integers(1, log.num_rows), max_size=10))})
    committed = data.draw(st.sets(st.sampled_from(edges), max_size=2))
    counted = data.draw(st.none() | st.sampled_from(edges))
    with projected(log, []) as at_once, duckdb.connect(config={"threads": 1}) as connection:
        create(connection)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fold, "FEW", data.draw(st.sampled_from([0, 2])))
            most = data.draw(st.sampled_from([0, 1, 1000]))
            patch.setattr(facts, "_MOST", dict.fromkeys(facts._MOST, most))
            folder = Folder(connection)
            if counted is not None:
                folder.postpone_standings()
            for low, high in itertools.pairwise(edges):
                if low == counted:
                    folder.count_standings()
                try:
                    folder.apply(log.slice(low, high - low), hold=True)
                except Undone:
                    folder.apply(log.slice(folder.position, high - folder.position))
                if high in committed:
                    folder.commit()
            folder.count_standings()
        assert_same_projection(at_once, connection)


COUNT = st.none() | st.integers(1, 2**53 - 1)
POSITIVE = st.none() | st.floats(min_value=1e-9, max_value=1e18, allow_nan=False)
WORD = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,12}", fullmatch=True)
IDENTIFIER = st.text(st.characters(exclude_categories=("C", "Z"), exclude_characters='"\\'), min_size=1, max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=5),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=4), inner, max_size=2),
    max_leaves=4,
)  # fmt: skip
WORKLOADS = st.builds(
    Workload, mode=WORD, scenario=st.none() | WORD, batch_size=COUNT, audio_seconds=POSITIVE,
    arrival_rate_per_s=POSITIVE, gradient_checkpointing=st.none() | st.booleans(),
)  # fmt: skip
EXECUTIONS = st.builds(
    Execution, platform=WORD, runtime=st.none() | st.builds(Runtime, name=WORD, version=st.none() | WORD),
    precision=st.none() | WORD, compiled=st.none() | st.booleans(), threads=COUNT, power_limit_w=POSITIVE,
    parallelism=st.none() | st.builds(Parallelism, tensor=COUNT, data=COUNT),
    options=st.none() | st.dictionaries(WORD, JSON, max_size=3),
)  # fmt: skip


@QUIET
@given(
    workload=WORKLOADS, execution=EXECUTIONS, model=IDENTIFIER, hardware=IDENTIFIER, count=st.integers(1, 4096),
    actual=st.none() | WORD,
)  # fmt: skip
def test_sql_names_a_configuration_as_the_domain_does(build, workload, execution, model, hardware, count, actual):
    import msgspec

    event = build.measurement(observed={"platform": actual, "precision": actual} if actual else {})
    event["data"] |= {
        "model": {"id": model},
        "hardware": {"id": hardware, "count": count},
        "workload": msgspec.to_builtins(workload) | {"a_member_of_the_future": 1},
        "execution": msgspec.to_builtins(execution),
    }
    with projected(table([event]), []) as connection:
        rows = connection.execute("SELECT configuration, model_id, hardware_id FROM measurements").fetchall()
        assert not connection.execute("SELECT reason FROM dead_letter").fetchall()
    ((key, model_id, hardware_id),) = rows
    if actual:
        execution = msgspec.structs.replace(execution, platform=actual, precision=actual)
    expected = Configuration(
        model=Model(id=model_id), workload=workload, execution=execution, hardware=Hardware(id=hardware_id, count=count)
    )
    assert key == expected.key


def test_a_poisonous_log_leaves_one_letter_an_event(build):
    log = table(["{", build.measurement(), "{", "[]", build.measurement()])
    with projected(log, []) as connection:
        letters = [row for (row,) in connection.execute("SELECT position FROM dead_letter ORDER BY 1").fetchall()]
        assert letters == [1, 3, 4]
        assert connection.execute("SELECT position FROM measurement ORDER BY 1").fetchall() == [(2,), (5,)]


HALVES = st.sampled_from([0, 1, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1)


@QUIET
@given(
    identifiers=st.lists(st.tuples(HALVES, HALVES), min_size=2, max_size=6, unique=True),
    data=st.data(),
)
def test_any_event_id_comes_back_and_is_retracted_by_its_text(build, identifiers, data):
    names = [str(uuid.UUID(int=high << 64 | low)) for high, low in identifiers]
    target = data.draw(st.sampled_from(names))
    spelled = data.draw(st.sampled_from([target, target.upper()]))
    retraction = build.event("assay.measurement.retracted.v1", {"event_id": spelled, "reason": "wrong"})
    log = table([*(build.measurement(id=name) for name in names), retraction])
    with projected(log, []) as connection:
        stored = connection.execute("SELECT event_id::VARCHAR FROM measurement ORDER BY position").fetchall()
        assert stored == [(name,) for name in names]
        rows = connection.execute("SELECT event_id FROM measurements ORDER BY position").fetchall()
        assert rows == [(name,) for name in names if name != target]
        (last,) = connection.execute("SELECT genuine_event::VARCHAR FROM standing").fetchall()
        assert last == rows[-1]
