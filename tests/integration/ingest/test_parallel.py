"""Tables made by several processes: the same as those of one fold, also where processes are killed."""

import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from domain.errors import PartMissing, ServiceUnavailable, UsageError
from domain.upcasting import UPCASTERS
from ingest.archive.archive import Archive
from ingest.parallel import ranges
from ingest.parallel.ranges import LogAddress, fold_range, plan_ranges
from ingest.parallel.rebuilding import Processes, Rebuild, fold_log, fold_with
from ingest.projection.definitions import definitions_digest
from ingest.projection.projector import Projection
from tests.conftest import append_raw
from tests.integration.ingest.test_projection import everything

DEFINITIONS = definitions_digest(UPCASTERS)


@pytest.fixture(autouse=True)
def short_ranges(monkeypatch):
    """Logs of tests are short: a range of one event is one as well."""
    monkeypatch.setattr(ranges, "_LEAST_EVENTS", 1)


@pytest.fixture
def question(tmp_path, database):
    return Rebuild(
        log=LogAddress(uri=database.adbc_uri, archive=str(tmp_path / "archive")), path=str(tmp_path / "made.duckdb"),
        definitions=DEFINITIONS, workers=2,
    )  # fmt: skip


def filled(question, report=None):
    def fill(path):
        made = fold_log(Rebuild(log=question.log, path=str(path), definitions=DEFINITIONS, workers=2))
        if report is not None:
            report.append(made)

    return fill


def test_processes_make_the_tables_that_one_fold_makes(
    tmp_path, database, append, build, question, assert_same_projection, monkeypatch
):
    monkeypatch.setenv("ASSAY_ARCHIVE", str(tmp_path / "archive"))
    append(everything(build))
    append_raw(database, "{")
    archive = Archive(tmp_path / "archive", database.url)
    archive.write(segment_events=5, keep=4)
    archive.trim(keep=1)
    reports = []
    with Projection(tmp_path / "one", database) as one, Projection(tmp_path / "many", database) as many:
        one.catch_up()
        many.rebuild(filled(question, reports))
        assert reports[0].ranges == 2
        assert_same_projection(one, many)
        append([build.measurement(), build.retraction(run_id="run-1")])
        for projection in (one, many):
            projection.catch_up()
        assert_same_projection(one, many)
        assert not list(many.path.parent.glob("*piece*"))


def killed_as_it_writes(killed):
    """Return what kills the first process of the first range as soon as its file is there."""

    def started(task, pid):
        if task.number == 0 and not killed:
            killed.append(pid)
            until = time.monotonic() + 60
            while not Path(task.path).exists() and time.monotonic() < until:
                time.sleep(0.005)
            os.kill(pid, signal.SIGKILL)

    return started


def test_a_killed_process_delays_and_changes_nothing(
    tmp_path, database, append, build, question, assert_same_projection
):
    append(everything(build))
    reports, killed = [], []

    def fill(path):
        chosen = Rebuild(log=question.log, path=str(path), definitions=DEFINITIONS)
        reports.append(fold_with(chosen, Processes(2, killed_as_it_writes(killed))))

    with Projection(tmp_path / "one", database) as one, Projection(tmp_path / "many", database) as many:
        one.catch_up()
        many.rebuild(fill)
        assert len(killed) == reports[0].restarted == 1
        assert_same_projection(one, many)


def test_a_range_whose_processes_all_die_is_an_error_that_leaves_nothing(tmp_path, append, build, question):
    append([build.measurement() for _ in range(4)])
    with pytest.raises(ServiceUnavailable, match="-9") as raised:
        fold_with(question, Processes(1, lambda _, pid: os.kill(pid, signal.SIGKILL)))
    assert raised.value.field == "workers"
    assert not list(tmp_path.glob("*.duckdb*"))


def test_what_a_process_refuses_is_its_error_here(tmp_path, append, build, question):
    append([build.measurement() for _ in range(4)])
    with pytest.raises(UsageError, match="other definitions"):
        fold_log(Rebuild(log=question.log, path=question.path, definitions="of another version", workers=2))
    assert not list(tmp_path.glob("*.duckdb*"))


def test_an_empty_log_makes_empty_tables(tmp_path, database, question):
    with Projection(tmp_path / "home", database) as projection:
        assert projection.rebuild(filled(question)) == 0


def test_ranges_follow_each_other_over_gaps_in_the_log(database, append, build, question):
    append([build.measurement() for _ in range(4)])
    append_raw(database, "{")
    for count in (1, 2, 3, 9):
        tasks = plan_ranges(question.log, count, DEFINITIONS)
        assert tasks[0].after == 0
        assert [task.after for task in tasks[1:]] == [task.upto for task in tasks[:-1]]
        assert all(task.chain for task in tasks[1:])
        assert 1 <= len(tasks) <= count


def test_a_log_that_ended_before_the_range_does_is_refused(tmp_path, append, build, question):
    append([build.measurement() for _ in range(2)])
    (task,) = plan_ranges(question.log, 1, DEFINITIONS)
    with pytest.raises(ServiceUnavailable, match="ended at position"):
        fold_range(msgspec.structs.replace(task, upto=task.upto + 10), tmp_path / "range.duckdb")


def test_ray_that_is_absent_is_said_with_the_remedy(question, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(PartMissing, match=r"assay-bench\[ray\]"):
        fold_log(Rebuild(log=question.log, path=question.path, definitions=DEFINITIONS, ray="10.0.0.5:6379"))
