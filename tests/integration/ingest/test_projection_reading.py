"""Reading: pages, counts and copies say the same as reading everything, now and as of any position."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time

import duckdb
import psycopg
import pyarrow.compute as pc
import pytest

from ingest.projection import projector
from ingest.projection.projector import Projection
from ingest.projection.snapshot_reader import StateChanged
from tests.integration.ingest.test_projection import everything

VIEWS = (
    "measurements", "best_measurements", "tests", "failures", "outcomes", "runs", "models", "hardware", "environments",
    "traces", "prices", "compatibility", "compatibility_by_hardware", "matrix", "cells", "operations", "retractions", "aliases",
    "predictors", "recommendations", "predictions", "snapshots", "dead_letters", "state", "kernels", "kernel_tables",
    "variants", "quality", "endpoints", "deliveries",
)  # fmt: skip
ENDS = (0, 6, 8, 12, 18, 22, 23, 26, 28, -11, -8, -2)
"""Events of `everything` after which one or more of the views are another."""


@pytest.fixture
def projection(tmp_path, database):
    with Projection(tmp_path, database) as opened:
        yield opened


@pytest.mark.parametrize(
    ("ends", "counted"),
    [
        ((8, 12, 26, -11, -8, -2), (12, -2)),
        pytest.param(ENDS, ENDS, marks=pytest.mark.torture),
    ],
    ids=["short", "long"],
)
def test_as_of_a_position_is_what_a_log_that_ends_there_gives(tmp_path, database, append, build, ends, counted):
    """`ends` are the events after which the views are compared, `counted` those after which their counts are, too."""
    answers = append(everything(build))
    with Projection(tmp_path / "whole", database) as whole, Projection(tmp_path / "cut", database) as cut:
        whole.catch_up()
        for end in ends:
            position = answers[end].position
            cut.catch_up(to=position)
            with whole.tables(as_of=position) as then, cut.tables() as now:
                for view in VIEWS:
                    rows = now.view(view).to_pylist()
                    assert then.view(view).to_pylist() == rows, (view, position)
                    if end in counted:
                        assert then.count(view) == now.count(view) == len(rows), (view, position)
                assert (then.newest(), then.recorded_at()) == (now.newest(), now.recorded_at())
                assert then.knows("model", "tiny") == now.knows("model", "tiny")


def test_pages_put_together_are_the_whole(projection, append, build):
    events = [build.measurement(batch_size=1 + number % 3, run_id=f"run-{number % 2}") for number in range(60)]
    append(
        [
            *events,
            *(build.event("acme.filler.v1", {"n": number}) for number in range(5)),
            build.retraction(run_id="run-1"),
        ]
    )
    projection.catch_up()
    with projection.tables() as tables:
        whole = tables.measurements().to_pylist()
        assert len(whole) == 30
        paged, after = [], 0
        while page := tables.measurements(after=after, limit=7).to_pylist():
            paged += page
            after = page[-1]["position"]
        assert paged == whole
        backwards = tables.view("measurements", descending=True, limit=10, offset=5).to_pylist()
        assert backwards == whole[::-1][5:15]
        assert tables.view("measurements", {"batch_size": 2}, limit=100).num_rows == tables.count(
            "measurements", {"batch_size": 2}
        )
        assert tables.count("measurements", {"run_id": "run-0"}) == 30
        assert tables.count("measurements", {"model": "acme/tiny", "platform": "cpu"}) == 30
        assert tables.count("measurements", {"model": "acme/nobody"}) == 0


def test_a_state_that_was_read_before_is_opened_by_the_first_statement(projection, append, build, monkeypatch):
    append([build.measurement()])
    projection.catch_up()
    with projection.tables() as tables:
        state = tables.snapshot
    assert state == projection.newest
    with projection.tables(expected=state) as tables:
        assert tables.count("measurements") == 1
    append([build.measurement()])
    with projection.tables(expected=state) as tables:
        projection.catch_up()
        with pytest.raises(StateChanged):
            tables.count("measurements")
        with pytest.raises(StateChanged):
            tables.count("measurements")
    newest = projection.newest
    assert newest.position > state.position
    # A rebuild gives dead letters another chance: the same position is another state.
    projection.rebuild()
    assert projection.newest == newest._replace(file=projection.newest.file) != newest
    monkeypatch.setattr(projection, "_connect", None)
    with projection.tables(expected=newest) as tables:
        assert tables.position == newest.position


def test_the_newest_rows_are_found_from_the_end_of_the_log(projection, append, build, monkeypatch):
    monkeypatch.setattr("ingest.projection.snapshot_reader._STRETCH", 4)
    events = [build.measurement(hardware=f"acme-{number % 3}", batch_size=1 + number % 5) for number in range(90)]
    append([*events, build.retraction(event_id=events[-1]["id"])])
    projection.catch_up()
    for as_of in (None, 70):
        with projection.tables(as_of=as_of) as tables:
            whole = tables.measurements().to_pylist()[::-1]
            rare = [row for row in whole if row["batch_size"] == 2]
            newest = tables.view("measurements", {"batch_size": 2}, limit=2, descending=True).to_pylist()
            assert newest == rare[:2] and len(rare) > 10
            # A condition that is known only of whole rows.
            filters = {"batch_size": 2, "verdict": whole[0]["verdict"]}
            assert tables.view("measurements", filters, limit=7, descending=True).to_pylist() == rare[:7]
            assert tables.view("measurements", filters, limit=100, descending=True).to_pylist() == rare
            after = rare[4]["position"]
            assert tables.view("measurements", filters, limit=9, descending=True, after=after).to_pylist() == rare[:4]
            each = tables.newest_each("measurements", "hardware_id", 4, {"hardware": ["acme-0", "acme-2"]}).to_pylist()
            for device in ("acme-0", "acme-2"):
                of_one = [row for row in whole if row["hardware_id"] == device][:4]
                assert [row for row in each if row["hardware_id"] == device] == of_one[::-1]
            assert len(each) == 8
            assert tables.newest_each("measurements", "hardware_id", 4, {"hardware": ["nobody"]}).num_rows == 0


def test_each_column_of_the_best_rows_alone_is_that_of_the_whole(projection, append, build):
    append(everything(build))
    projection.catch_up()
    with projection.tables() as tables:
        plain = tables.cursor.sql("SELECT * FROM best_measurements ORDER BY position").to_arrow_table()
        assert plain.num_rows and tables.view("best_measurements").equals(plain)
        for name in plain.column_names:
            alone = tables.view("best_measurements", {"platform": "cpu"}, columns=[name], limit=5).column(name)
            among = plain.filter(pc.equal(plain.column("platform"), "cpu")).column(name)[:5]
            assert alone.to_pylist() == among.to_pylist(), name


def test_the_best_row_of_a_configuration_and_what_takes_its_place(projection, append, build):
    def event(p50, origin="measured", verdict="valid"):
        made = build.measurement(p50=p50, provenance={"origin": origin, "source": "x"})
        made["data"]["validity"]["verdict"] = verdict
        return made

    ranked = [
        event(1.0, "simulated"), event(2.0, verdict="invalid"), event(3.0, "imported"), event(4.0, verdict="suspect"),
        event(5.0), event(6.0, "imported"), event(7.0), event(8.0, verdict="suspect"),
    ]  # fmt: skip
    append(ranked)
    for best in (7.0, 5.0, 8.0, 4.0, 6.0, 3.0):
        projection.catch_up()
        with projection.tables() as tables:
            (row,) = tables.measurements(best=True, model="acme/tiny", hardware="acme-one").to_pylist()
            assert row["latency_p50_ms"] == best
            by_sql = tables.cursor.execute("SELECT event_id FROM best_measurements").fetchall()
            assert by_sql == [(row["event_id"],)]
        append([build.retraction(event_id=row["event_id"])])
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.measurements(best=True).num_rows == 0
        assert tables.count("measurements") == 2


def test_an_alias_makes_one_configuration_of_two_and_the_better_row_is_its_best(projection, append, build):
    append([build.measurement(model="tiny", p50=1.0), build.measurement(model="acme/tiny", p50=2.0)])
    projection.catch_up()
    with projection.tables() as tables:
        assert tables.measurements(best=True).num_rows == 2
    append([build.alias("tiny", "acme/tiny")])
    projection.catch_up()
    with projection.tables() as tables:
        (row,) = tables.measurements(best=True).to_pylist()
        assert row["latency_p50_ms"] == 2.0
        assert tables.measurements(best=True, as_of=2).num_rows == 2


def test_a_copy_is_of_one_position_and_another_process_can_read_it_while_more_arrives(
    tmp_path, database, append, build
):
    (first, *_) = append([build.measurement()])
    projection = Projection(tmp_path, database)
    projection.start()
    projection.wait_for(first.position, 20)
    done = threading.Event()
    failures: list[BaseException] = []

    def write():
        try:
            while not done.is_set():
                append([build.measurement() for _ in range(20)])
                projection.kick()
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        positions = []
        for number in range(4):
            copy = tmp_path / f"copy-{number}.duckdb"
            position = projection.publish(copy)
            told = subprocess.run(
                [sys.executable, "-c", _READ, str(copy)], capture_output=True, text=True, check=True, timeout=60
            ).stdout.split()
            assert told == [str(position), str(position), str(position)]
            positions.append(position)
        assert positions == sorted(positions)
        assert positions[-1] > positions[0]
    finally:
        done.set()
        writer.join()
        projection.stop()
    assert not failures


_READ = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
print(*connection.execute(
    "SELECT (SELECT position FROM projection), (SELECT count(*) FROM measurements), (SELECT coalesce(max(position), 0) FROM measurement)"
).fetchall()[0])
"""


def test_poison_between_held_batches_costs_one_letter_and_nothing_else(
    tmp_path, database, append, build, monkeypatch, assert_same_projection
):
    wrong = {"type": "acme.old.v1", "data": {}}
    upcasters = {"acme.old.v1": ("acme.old.v2", lambda data: data["not there"])}
    for _ in range(3):
        append([build.measurement() for _ in range(200)])
    append([{**build.measurement(), **wrong}])
    append([build.measurement(batch_size=9, run_id="run-7") for _ in range(200)])
    with Projection(tmp_path / "at once", database, upcasters=upcasters) as at_once:
        at_once.catch_up()
        monkeypatch.setattr(projector, "_BATCH_BYTES", 64 * 1024)
        with Projection(tmp_path / "held", database, upcasters=upcasters) as held:
            held.catch_up()
            assert_same_projection(at_once, held)
            with held.tables() as tables:
                assert [row["position"] for row in tables.dead_letters().to_pylist()] == [601]
                assert tables.count("measurements") == 800


def test_a_disk_that_is_full_is_named_and_work_goes_on_when_there_is_room(tmp_path, database, append, build):
    """In a process of its own whose files may not grow: the limit is lifted while it runs."""
    append([build.measurement(p50=1.0 + number / 1000, batch_size=1 + number) for number in range(4000)])
    told = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path), database.adbc_uri], capture_output=True, text=True, timeout=120
    )
    assert told.returncode == 0, told.stderr
    error, dead_letters, running, after, rows = told.stdout.strip().splitlines()
    assert "cannot be written" in error
    assert (dead_letters, running, after, rows) == ("0", "True", "None", "4000")


_FULL = """
import resource, signal, sys, time
from ingest.projection.projector import Projection
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
projection = Projection(sys.argv[1], sys.argv[2])
projection.open()
size = 600_000
resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
projection.start()
until = time.monotonic() + 60
while (health := projection.health()).error is None and time.monotonic() < until:
    time.sleep(0.02)
print(health.error, health.dead_letters, health.running, sep="\\n")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
while (projection.position < 4000 or projection.health().error) and time.monotonic() < until:
    time.sleep(0.02)
print(projection.health().error)
with projection.tables() as tables:
    print(tables.count("measurements"))
projection.stop()
"""


def test_a_reader_does_not_hold_up_a_copy_nor_a_copy_a_reader(projection, append, build, tmp_path):
    append([build.measurement()])
    projection.catch_up()
    with projection.tables() as before:
        assert before.count("measurements") == 1
        append([build.measurement()])
        projection.catch_up()
        assert projection.publish(tmp_path / "copy.duckdb") == 2
        assert before.count("measurements") == 1
    with contextlib.closing(duckdb.connect(str(tmp_path / "copy.duckdb"), read_only=True)) as copy:
        assert copy.execute("SELECT count(*) FROM measurements").fetchall() == [(2,)]


def test_where_nothing_comes_the_log_is_looked_at_seldom_and_what_comes_then_is_soon_told(
    tmp_path, database, append, build
):
    with psycopg.connect(database.url, autocommit=True) as watch, Projection(tmp_path, database) as projection:
        projection.start()
        projection.wait_for(append([build.measurement()])[0].position, 20)
        time.sleep(1.0)
        begun, questions = time.monotonic(), set()
        while time.monotonic() < begun + 1.5:
            questions |= set(watch.execute(_LAST_ASKED).fetchall())
            time.sleep(0.01)
        assert 2 <= len(questions) <= 10
        append([build.measurement()])
        until = time.monotonic() + 5
        while projection.position < 2:
            assert time.monotonic() < until
            time.sleep(0.01)


_LAST_ASKED = """
SELECT pid, query_start FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'
"""
