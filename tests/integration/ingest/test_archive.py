"""The archive: written whole or not at all, read as the log itself, trimmed, restored, expired; and what damage does."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from domain.errors import Expired, LogAltered, ServiceUnavailable
from domain.events import decode_event, encode_event
from ingest.archive import archive as archive_module
from ingest.archive.archive import Archive, ArchiveDamaged, archive_folder
from ingest.archive.retention import expire_samples
from ingest.log.event_log import EventLog
from ingest.projection.projector import Projection
from ingest.projection.source import LogSource
from tests.conftest import rechain

DAY = timedelta(days=1)


@pytest.fixture
def archive(database, tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_ARCHIVE", str(tmp_path / "archive"))
    return Archive(tmp_path / "archive", database.url)


@pytest.fixture
def samples(build):
    def made(number=3, **envelope):
        data = {
            "run_id": "run-1",
            "digest": "sha256:" + "5" * 64,
            "n": number,
            "values": [1.25 + index for index in range(number)],
        }
        return build.event("assay.samples.recorded.v1", data, **envelope)

    return made


@pytest.fixture
def filled(append, build, samples):
    """Forty events of several types, among them ten of raw samples."""
    events = []
    for number in range(10):
        events += [
            build.measurement(1.5 + number, batch_size=1 + number),
            samples(3 + number),
            build.test(batch_size=1 + number),
            build.event("vendor.note.v7", {"text": 'with "quotes", \\ and ü', "number": number}),
        ]
    append(events)
    return events


def read(database, archive=None, **options):
    async def run():
        async with EventLog(database.url, archive=archive) as log:
            return await log.read(**options)

    return asyncio.run(run())


def values(database, statement, *parameters):
    with psycopg.connect(database.url) as connection:
        return connection.execute(statement, parameters).fetchall()


def projected(folder, database):
    projection = Projection(folder, database)
    projection.open()
    projection.catch_up()
    return projection


def positions(source, *arguments):
    try:
        return [position for batch in source.batches(*arguments) for position in batch.column("position").to_pylist()]
    finally:
        source.close()


def test_what_is_archived_and_trimmed_is_read_as_it_was_sent(database, archive, filled):
    before = read(database)
    made = archive.write(keep=4, segment_events=15)
    assert [(one.first_position, one.last_position, one.events) for one in made] == [
        (1, 15, 15),
        (16, 30, 15),
        (31, 36, 6),
    ]
    assert len(archive.trim()) == 3
    assert values(database, "SELECT count(*) FROM event WHERE body IS NULL") == [(36,)]
    assert read(database, archive) == before
    assert [one.body.encode() for one in read(database, archive)] == [encode_event(event) for event in filled]


def test_archiving_goes_on_where_it_ended_and_twice_is_once(database, archive, filled, append, build):
    archive.write()
    assert archive.write() == []
    append([build.measurement(9.0)])
    (more,) = archive.write()
    assert (more.first_position, more.events) == (41, 1)
    assert sorted(path.name for path in archive.folder.iterdir()) == sorted(
        name for one in archive.segments() for name in (one.facts, one.samples) if name
    )


def test_facts_and_raw_samples_lie_apart(archive, filled):
    (segment,) = archive.write()
    facts, raw = (pq.read_table(archive.folder / name) for name in (segment.facts, segment.samples))
    assert facts.num_rows == 40
    assert raw.num_rows == 10
    stored = zip(facts["type"].to_pylist(), facts["shape"].to_pylist(), facts["body"].to_pylist(), strict=True)
    assert {type_ for type_, shape, body in stored if shape is None and body is None} == {"assay.samples.recorded.v1"}
    assert facts["$.data.metrics.latency_ms.mean"].to_pylist()[0] == 15


def test_a_writer_that_keeps_a_beat_hides_nothing_from_the_plan_of_a_file(
    database, archive, append, build, samples, monkeypatch
):
    monkeypatch.setattr(archive_module, "SAMPLED_EVENTS", 100)
    append([event for number in range(100) for event in (samples(), build.measurement(1.5 + number))])
    (segment,) = archive.write()
    assert "$.data.metrics.latency_ms.mean" in pq.read_schema(archive.folder / segment.facts).names


def test_an_id_stays_unique_after_its_body_has_left(database, archive, filled, append):
    archive.write()
    archive.trim()
    log = EventLog(database.url, archive=archive)

    async def again():
        async with log:
            same = [decode_event(encode_event(event)) for event in filled[:4]]
            respelled = [decode_event(b" " + encode_event(event)) for event in filled[:4]]
            other = decode_event(encode_event({**filled[0], "subject": "another"}))
            return await log.append([*same, *respelled]), await log.append([other])

    known, (conflict,) = asyncio.run(again())
    assert [one.status for one in known] == ["duplicate"] * 8
    assert (conflict.status, conflict.position) == ("conflict", 1)
    assert conflict.difference == "subject"
    assert values(database, "SELECT count(*) FROM event") == [(40,)]


def test_tables_are_the_same_from_archive_and_tail(
    database, archive, filled, append, build, tmp_path, assert_same_projection
):
    with projected(tmp_path / "log", database) as whole:
        archive.write(keep=10, segment_events=15)
        archive.trim()
        with projected(tmp_path / "archive-and-tail", database) as again:
            assert_same_projection(whole, again)
            append([build.measurement(7.0, model="acme/late")])
            for one in (whole, again):
                one.catch_up()
                one.rebuild()
            assert_same_projection(whole, again)
            with whole.tables() as tables:
                assert tables.measurements(model="acme/late").num_rows == 1


def test_batches_pass_from_archive_to_tail_without_a_gap_or_a_repeat(database, archive, filled):
    archive.write(keep=12, segment_events=10)
    archive.trim(keep=25)
    trimmed = [one for one in archive.segments() if one.trimmed_at]
    assert [one.last_position for one in trimmed] == [10]
    for after in (0, 3, 10, 14, 40):
        expected = list(range(after + 1, 41))
        assert positions(LogSource(database.adbc_uri), after) == expected
        assert positions(LogSource(database.adbc_uri), after, 20) == [p for p in expected if p <= 20]


def test_a_body_that_is_trimmed_while_it_is_being_read_comes_from_the_archive(database, archive, filled):
    """The source has asked how far the log is trimmed, and is about to read the rest from the database."""

    class Overtaken(LogSource):
        def _stored(self, *arguments):
            archive.trim()
            yield from super()._stored(*arguments)

    archive.write()
    assert positions(Overtaken(database.adbc_uri), 3, 30) == list(range(4, 31))


def test_a_fact_without_a_body_and_without_an_archive_is_no_dead_letter(database, filled):
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE event SET body = NULL WHERE position = 5")
    with pytest.raises(ArchiveDamaged, match="without a body"):
        positions(LogSource(database.adbc_uri), 0)


def test_the_projection_never_sees_raw_samples(database, archive, filled):
    def bodies():
        source = LogSource(database.adbc_uri)
        try:
            return {
                (type_, body is None)
                for batch in source.batches(0)
                for type_, body in zip(batch["type"].to_pylist(), batch["body"].to_pylist(), strict=True)
            }
        finally:
            source.close()

    from_log = bodies()
    archive.write()
    archive.trim()
    assert from_log == bodies()
    assert {type_ for type_, absent in from_log if absent} == {"assay.samples.recorded.v1"}


@pytest.mark.parametrize("harm", ["removed", "cut", "bit"])
def test_a_damaged_archive_is_said_and_waited_for_and_loses_nothing(
    database, archive, filled, tmp_path, harm, assert_same_projection
):
    with projected(tmp_path / "whole", database) as whole:
        archive.write()
        archive.trim()
        (segment,) = archive.segments()
        file = archive.folder / segment.facts
        good, told = file.read_bytes(), read(database, archive)
        if harm == "removed":
            file.unlink()
        elif harm == "cut":
            file.write_bytes(good[:-100])
        else:
            middle = len(good) // 3
            file.write_bytes(good[:middle] + bytes([good[middle] ^ 255]) + good[middle + 1 :])
        with pytest.raises(ArchiveDamaged) as verified:
            archive.verify(segment)
        assert segment.facts in verified.value.detail
        assert "copy of the archive" in verified.value.remedy
        with Projection(tmp_path / "again", database) as again:
            with pytest.raises(ArchiveDamaged, match=segment.facts):
                again.catch_up()
            assert again.position == 0
            with again.tables() as tables:
                assert tables.dead_letters().num_rows == 0
            # A byte that no body rests on may be wrong: then what is read is right, and never anything else.
            with pytest.raises(ArchiveDamaged) if harm != "bit" else suppress(ArchiveDamaged):
                assert read(database, archive) == told
            file.write_bytes(good)
            again.catch_up()
            assert_same_projection(whole, again)
        archive.verify(segment)


def test_nothing_is_trimmed_that_the_file_does_not_hold(database, archive, filled):
    (segment,) = archive.write()
    (archive.folder / segment.samples).unlink()
    with pytest.raises(ArchiveDamaged):
        archive.trim()
    assert values(database, "SELECT count(*) FROM event WHERE body IS NULL") == [(0,)]
    assert archive.segments()[0].trimmed_at is None


def test_a_log_that_differs_from_the_file_is_noticed(database, archive, filled):
    (segment,) = archive.write()
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE event SET digest = sha256('x') WHERE position = 7")
    with pytest.raises(LogAltered, match="at position 7 was altered"):
        archive.verify(segment)
    archive.verify(segment, deep=False)


def test_bodies_come_back_into_the_database(database, archive, filled, tmp_path):
    before = read(database)
    archive.write(segment_events=15)
    archive.trim()
    assert len(archive.restore()) == 3
    assert read(database) == before
    assert archive.restore() == []
    for path in archive.folder.iterdir():
        path.unlink()
    assert positions(LogSource(database.adbc_uri), 0) == list(range(1, 41))


def test_samples_expire_everywhere_and_facts_never(
    database, archive, filled, append, samples, tmp_path, assert_same_projection
):
    append([samples(5)])
    aged(database, "position <= 20", 100)
    aged(database, "position BETWEEN 21 AND 30", 95)
    with projected(tmp_path / "before", database) as before:
        archive.write(segment_events=18)
        archive.trim(keep=20)
        told = expire_samples(archive, 90 * DAY, dry_run=True)
        assert (told.log_events, told.archived_events, told.files) == (3, 8, 2)
        assert values(database, "SELECT count(*) FROM event WHERE body IS NOT NULL") == [(23,)]
        done = expire_samples(archive, 90 * DAY)
        assert (done.log_events, done.archived_events, done.files) == (3, 8, 2)
        events = read(database, archive)
        gone = [one.position for one in events if one.body is None]
        assert gone == list(range(2, 31, 4))
        with pytest.raises(Expired, match="have expired"):
            _ = events[1].event
        assert [one.event for one in events if one.position not in gone][:30] == [
            event for position, event in enumerate(filled, 1) if position not in gone
        ][:30]
        with projected(tmp_path / "after", database) as after:
            assert_same_projection(before, after)
    segments = archive.segments()
    for one in segments:
        archive.verify(one)
    names = {name for one in segments for name in (one.facts, one.samples) if name}
    assert {path.name for path in archive.folder.iterdir()} == names
    assert sum(one.size_bytes for one in segments) == sum(path.stat().st_size for path in archive.folder.iterdir())
    again = expire_samples(archive, 90 * DAY)
    assert (again.log_events, again.archived_events) == (0, 0)


def aged(database, condition, days):
    with psycopg.connect(database.url) as connection:
        connection.execute(f"UPDATE event SET recorded_at = recorded_at - interval '{days} days' WHERE {condition}")
        rechain(connection)


def test_samples_that_expired_before_they_were_archived_stay_expired(database, archive, filled):
    aged(database, "true", 100)
    expire_samples(archive, 90 * DAY)
    (segment,) = archive.write()
    assert segment.samples is None
    archive.trim()
    events = read(database, archive)
    assert sum(one.body is None for one in events) == 10
    archive.restore()
    assert values(database, "SELECT count(*) FROM event WHERE body IS NULL") == [(10,)]


def test_a_clock_that_goes_back_confuses_nothing(
    database, archive, append, build, samples, tmp_path, assert_same_projection
):
    """Positions order the log; recorded_at is only what a clock said."""
    append([build.measurement(1.0), samples(3), build.measurement(2.0), samples(4)])
    aged(database, "position >= 3", 400)
    expire_samples(archive, 300 * DAY)
    assert [one.position for one in read(database, archive) if one.body is None] == [4]
    with projected(tmp_path / "before", database) as before:
        archive.write(segment_events=2)
        archive.trim()
        with projected(tmp_path / "after", database) as after:
            assert_same_projection(before, after)
    source = LogSource(database.adbc_uri)
    aged(database, "position = 4", -4000)
    last, events, seconds = source.lag(3)
    source.close()
    assert (last, events, seconds) == (4, 1, 0.0)
    since = datetime.now(UTC) - DAY
    assert [one.position for one in read(database, archive, since=since)] == [1, 2, 4]


WRITER = """
import os, sys
from ingest import archive as module
from ingest.archive.archive import Archive
stage, folder, url = sys.argv[1:]
archive = Archive(folder, url)
def die(*_, **__):
    os.kill(os.getpid(), 9)
if stage == "writing":
    archive.write(segment_events=15, progress=die)
elif stage == "before-the-record":
    archive._compare = die
    archive.write(segment_events=15)
elif stage == "trimming":
    module.TRIM_EVENTS = 7
    archive.write(segment_events=15)
    archive.trim(progress=die)
"""


@pytest.mark.parametrize("stage", ["writing", "before-the-record", "trimming"])
def test_a_kill_leaves_nothing_or_a_whole_segment_and_the_next_call_goes_on(
    database, archive, filled, stage, tmp_path, assert_same_projection
):
    before = read(database)
    done = subprocess.run(
        [sys.executable, "-c", WRITER, stage, str(archive.folder), database.url],
        env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        check=False,
    )
    assert done.returncode == -signal.SIGKILL
    for one in archive.segments():
        archive.verify(one)
    assert read(database, archive) == before
    assert positions(LogSource(database.adbc_uri), 0) == list(range(1, 41))
    archive.write(segment_events=15)
    archive.trim()
    assert values(database, "SELECT count(*) FROM event WHERE body IS NULL") == [(40,)]
    assert read(database, archive) == before
    assert len(archive.segments()) == 3


def test_two_processes_do_not_change_the_archive_at_once(database, archive, filled):
    def second(_):
        with pytest.raises(ServiceUnavailable, match="another process works on the archive"):
            Archive(archive.folder, database.url).trim()

    archive.write(progress=second)


def test_where_the_archive_is(monkeypatch, tmp_path):
    monkeypatch.delenv("ASSAY_ARCHIVE", raising=False)
    assert archive_folder(tmp_path) == tmp_path / "archive"
    monkeypatch.setenv("ASSAY_ARCHIVE", str(tmp_path / "elsewhere"))
    assert archive_folder(tmp_path) == tmp_path / "elsewhere"
