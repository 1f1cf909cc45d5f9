"""The log: idempotent, ordered, complete for whoever tails it."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from contextlib import suppress
from datetime import UTC, datetime

import psycopg
import pytest

from domain.errors import CorruptArtifact, Expired, NotFound, ServiceUnavailable, TooBusy, VersionConflict
from domain.events import decode_event, encode_event
from ingest.log.append import Appended
from ingest.log.artifacts import ArtifactStore
from ingest.log.coalescer import Coalescer
from ingest.log.event_log import EventLog, Expected
from ingest.log.schema import ORDERING_LOCK
from tests.conftest import rechain


def decoded(event):
    return decode_event(encode_event(event))


def test_a_batch_is_stored_in_its_order_exactly_as_sent(database, build):
    raw = [
        b'{ "specversion":"1.0", "id":"0190f1a0-0000-7000-8000-00000000000%d", "source":"urn:x",\n "type":"x.y.v1", "data":{"b":1.50,"a":"\\u00e9"} }'
        % number
        for number in range(3)
    ]

    async def run():
        async with EventLog(database.url) as log:
            answers = await log.append([decode_event(text) for text in raw])
            return answers, await log.read()

    answers, stored = asyncio.run(run())
    assert [answer.status for answer in answers] == ["accepted"] * 3
    assert [event.position for event in stored] == [answer.position for answer in answers]
    assert [event.body.encode() for event in stored] == raw
    assert stored[0].event["data"] == {"a": "é", "b": 1.5}


def test_a_known_event_is_a_duplicate_and_keeps_its_position(append, build):
    event = build.measurement()
    (first,) = append([event])
    reordered = dict(reversed(event.items()))
    (again,) = append([reordered])
    assert (again.status, again.position) == ("duplicate", first.position)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"source": "urn:someone:else"}, "source"),
        ({"data": {"metrics": {"latency_ms": {"p50": 9.0}}}}, "data.environment"),
    ],
)
def test_the_same_id_with_another_body_or_source_conflicts_and_names_the_difference(append, build, change, path):
    event = build.measurement()
    (first,) = append([event])
    (answer,) = append([{**event, "type": "x.y.v1" if "data" in change else event["type"], **change}])
    assert answer.status == "conflict"
    assert answer.position == first.position
    assert answer.difference == path
    assert path in answer.detail


def test_an_id_twice_in_one_batch_is_answered_like_one_that_is_known(append, build):
    event, other = build.measurement(), build.measurement()
    changed = {**event, "subject": "another"}
    answers = append([event, other, event, changed])
    assert [answer.status for answer in answers] == ["accepted", "accepted", "duplicate", "conflict"]
    assert answers[2].position == answers[3].position == answers[0].position
    assert answers[3].difference == "subject"


def test_a_mixed_batch_keeps_the_good_ones(append, build, database):
    known = build.measurement()
    append([known])
    answers = append([build.measurement(), known, {**known, "source": "urn:z"}, build.measurement()])
    assert [answer.status for answer in answers] == ["accepted", "duplicate", "conflict", "accepted"]
    with psycopg.connect(database.url) as connection:
        assert connection.execute("SELECT count(*) FROM event").fetchone() == (3,)


def test_read_filters_by_type_and_range(append, build, database):
    answers = append([build.measurement(), build.alias("a", "b"), build.measurement()])

    async def run():
        async with EventLog(database.url) as log:
            aliases = await log.read(types=["assay.alias.declared.v1"])
            upto = await log.read(upto=answers[1].position)
            after = await log.read(after=answers[1].position, limit=10)
            assert await log.last_position() == answers[2].position
            assert await log.recorded_at(answers[0].position) == upto[0].recorded_at
            return [[event.position for event in part] for part in (aliases, upto, after)]

    one, two, three = (answer.position for answer in answers)
    assert asyncio.run(run()) == [[two], [one, two], [three]]


def test_read_filters_by_subject_source_and_time(append, build, database):
    subjects = ["urn:a", "urn:b", None, "urn:a"]
    answers = append([{**build.measurement(source=f"urn:{n}"), "subject": name} for n, name in enumerate(subjects)])
    positions = [answer.position for answer in answers]
    with psycopg.connect(database.url) as connection:
        for hour, position in enumerate(positions):
            at = datetime(2026, 11, 20, hour, tzinfo=UTC)
            connection.execute("UPDATE event SET recorded_at = %s WHERE position = %s", [at, position])
        rechain(connection)

    async def run(**filters):
        async with EventLog(database.url) as log:
            return [positions.index(event.position) for event in await log.read(**filters)]

    at_one, at_three = datetime(2026, 11, 20, 1, tzinfo=UTC), datetime(2026, 11, 20, 3, tzinfo=UTC)
    assert asyncio.run(run(subject="urn:a")) == [0, 3]
    assert asyncio.run(run(subject="urn:a", after=positions[0])) == [3]
    assert asyncio.run(run(source="urn:1")) == [1]
    assert asyncio.run(run(since=at_one, until=at_three)) == [1, 2]
    assert asyncio.run(run(since=at_one, subject="urn:a")) == [3]


def test_a_subject_that_has_moved_on_refuses_the_whole_batch(database, build):
    def of(subject):
        return decoded({**build.measurement(), "subject": subject})

    async def run():
        async with EventLog(database.url) as log:
            (first,) = await log.append([of("s")], expected=Expected(subject="s", version=0))
            (second,) = await log.append([of("s")], expected=Expected(subject="s", version=first.position))
            with pytest.raises(VersionConflict, match=str(second.position)) as moved:
                await log.append([of("s"), of("t")], expected=Expected(subject="s", version=first.position))
            assert moved.value.version == second.position
            with pytest.raises(VersionConflict):
                await log.append([of("s")], expected=Expected(subject="s", version=0))
            assert [event.position for event in await log.read()] == [first.position, second.position]

    asyncio.run(run())


def test_a_batch_that_is_sent_again_is_known_whatever_version_it_expected(database, build):
    event = decoded({**build.measurement(), "subject": "s"})

    async def run():
        async with EventLog(database.url) as log:
            (first,) = await log.append([event], expected=Expected(subject="s", version=0))
            (again,) = await log.append([event], expected=Expected(subject="s", version=0))
            assert (again.status, again.position) == ("duplicate", first.position)

    asyncio.run(run())


def test_positions_are_right_when_others_draw_from_the_sequence(database, build):
    stop = threading.Event()

    def draw():
        with psycopg.connect(database.url, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("SELECT nextval('event_position_seq')")

    async def run():
        async with EventLog(database.url) as log:
            for _ in range(20):
                events = [decoded(build.measurement()) for _ in range(50)]
                answers = await log.append(events)
                stored = {event.id: event.position for event in await log.get([event.id for event in events])}
                assert [answer.position for answer in answers] == [stored[event.id] for event in events]

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        asyncio.run(run())
    finally:
        stop.set()
        thread.join()


def test_bodies_that_have_left_the_database_are_read_from_the_archive(database, build):
    known, samples = build.measurement(), build.measurement()

    class Archive:
        def bodies(self, positions):
            return {position: text for position, text in kept.items() if position in positions}

    kept: dict[int, str] = {}

    async def run():
        async with EventLog(database.url, archive=Archive()) as log:
            first, second = await log.append([decoded(known), decoded(samples)])
            kept[first.position] = encode_event(known).decode()
            with psycopg.connect(database.url) as connection:
                connection.execute("UPDATE event SET body = NULL")
            stored = await log.read()
            assert stored[0].event == known
            with pytest.raises(Expired):
                _ = stored[1].event
            respelled = decoded(dict(reversed(known.items())))
            other = decoded({**known, "subject": "other"})
            answers = await log.append([respelled, other, decoded(samples), decoded({**samples, "subject": "other"})])
            assert [answer.status for answer in answers] == ["duplicate", "conflict", "duplicate", "conflict"]
            assert [answer.difference for answer in answers] == [None, "subject", None, "$"]
            assert [answer.position for answer in answers] == [first.position] * 2 + [second.position] * 2

    asyncio.run(run())


def test_a_later_batch_waits_until_an_earlier_one_is_committed(database, build):
    """Without the lock it would be committed first, and a reader would pass over the earlier, lower positions."""
    done = threading.Event()

    async def append_one():
        async with EventLog(database.url) as log:
            await log.append([decoded(build.measurement())])
        done.set()

    with psycopg.connect(database.url) as earlier, psycopg.connect(database.url, autocommit=True) as watcher:
        earlier.execute("SELECT pg_advisory_xact_lock(%s)", [ORDERING_LOCK])
        thread = threading.Thread(target=lambda: asyncio.run(append_one()))
        thread.start()
        until = time.monotonic() + 20
        while not watcher.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchall():
            assert not done.is_set(), "the batch did not wait for the lock"
            assert time.monotonic() < until
        assert watcher.execute("SELECT count(*) FROM event").fetchone() == (0,)
        earlier.rollback()
        thread.join(20)
    assert done.is_set()


def test_a_tailing_reader_misses_nothing_and_sees_nothing_twice_under_four_writers(database, build):
    writers, each = 4, 150
    shared = [decoded(build.measurement()) for _ in range(20)]
    failures: list[BaseException] = []

    def write(seed):
        draw = random.Random(seed)
        events = [decoded(build.measurement(p50=1 + draw.random())) for _ in range(each)] + shared
        draw.shuffle(events)

        async def run():
            async with EventLog(database.url) as log:
                while events:
                    batch = [events.pop() for _ in range(min(len(events), draw.randint(1, 12)))]
                    await log.append(batch)

        try:
            asyncio.run(run())
        except BaseException as error:
            failures.append(error)

    async def tail():
        seen, until = [], time.monotonic() + 60
        async with EventLog(database.url) as log:
            while len(seen) < writers * each + len(shared) and time.monotonic() < until:
                found = await log.read(after=seen[-1][0] if seen else 0, limit=50)
                seen += [(event.position, event.id) for event in found]
        return seen

    threads = [threading.Thread(target=write, args=(seed,)) for seed in range(writers)]
    for thread in threads:
        thread.start()
    seen = asyncio.run(tail())
    for thread in threads:
        thread.join()
    assert not failures
    with psycopg.connect(database.url) as connection:
        stored = connection.execute("SELECT position, id::text FROM event ORDER BY position").fetchall()
    assert len(stored) == writers * each + len(shared)
    assert seen == stored


def test_the_coalescer_answers_each_after_one_commit_for_many(database, build):
    batches: list[int] = []

    async def run():
        async with EventLog(database.url) as log:

            async def counted(events):
                batches.append(len(events))
                return await log.append(events)

            events = [decoded(build.measurement()) for _ in range(100)]
            async with Coalescer(counted) as coalescer:
                answers = await asyncio.gather(*(coalescer.append(event) for event in [*events, events[0]]))
            return answers, await log.get([event.id for event in events])

    answers, stored = asyncio.run(run())
    assert [answer.status for answer in answers] == ["accepted"] * 100 + ["duplicate"]
    assert len(stored) == 100
    assert len(batches) <= 3


def test_a_full_coalescer_refuses_and_a_failing_log_fails_every_waiting_caller(build):
    release = asyncio.Event

    async def run():
        gate, writing = release(), release()

        async def away(events):
            writing.set()
            await gate.wait()
            raise ServiceUnavailable("gone")

        coalescer = Coalescer(away, bound=2, largest=1)
        coalescer.start()
        first = asyncio.create_task(coalescer.append(decoded(build.measurement())))
        while not writing.is_set():
            await asyncio.sleep(0)
        others = [asyncio.create_task(coalescer.append(decoded(build.measurement()))) for _ in range(3)]
        await asyncio.wait(others, return_when=asyncio.FIRST_COMPLETED)
        gate.set()
        results = await asyncio.gather(first, *others, return_exceptions=True)
        await coalescer.stop()
        return results

    results = asyncio.run(run())
    assert sum(isinstance(result, TooBusy) for result in results) >= 1
    assert all(isinstance(result, TooBusy | ServiceUnavailable) for result in results)


def test_the_coalescer_is_bounded_in_bytes(build):
    async def run():
        release = asyncio.Event()

        async def waits(events):
            await release.wait()
            return [Appended(position=1, status="accepted") for _ in events]

        events = [decoded(build.measurement()) for _ in range(3)]
        async with Coalescer(waits, bound_bytes=len(events[0].raw) + len(events[1].raw)) as coalescer:
            waiting = [asyncio.create_task(coalescer.append(event)) for event in events[:2]]
            await asyncio.sleep(0)
            with pytest.raises(TooBusy, match="bytes wait"):
                await coalescer.append(events[2])
            release.set()
            await asyncio.gather(*waiting)
            assert (await coalescer.append(events[2])).status == "accepted"

    asyncio.run(run())


def test_a_postgres_that_stands_still_is_given_up_in_time_and_taken_again_when_it_goes_on(database, build):
    """Another session holds the table: every statement waits, as with a server that is halted."""

    async def run():
        async with EventLog(database.url, deadline_s=0.5, connections=2) as log:
            with psycopg.connect(database.url) as holder:
                holder.execute("LOCK TABLE event IN ACCESS EXCLUSIVE MODE")
                with pytest.raises(ServiceUnavailable, match="does not answer"):
                    await log.append([decoded(build.measurement())])
                with pytest.raises(ServiceUnavailable, match="does not answer"):
                    await log.read()
            (answer,) = await log.append([decoded(build.measurement())])
            assert [event.position for event in await log.read()] == [answer.position]

    asyncio.run(run())


def test_a_connection_that_was_cancelled_in_its_work_is_not_used_again(database, build):
    """An append waits for the lock, in the middle of its pipeline, and is cancelled there."""

    async def run():
        async with EventLog(database.url, connections=1) as log:
            with psycopg.connect(database.url) as holder, psycopg.connect(database.url, autocommit=True) as watcher:
                holder.execute("SELECT pg_advisory_xact_lock(%s)", [ORDERING_LOCK])
                task = asyncio.create_task(log.append([decoded(build.measurement())]))
                waits = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
                while not watcher.execute(waits).fetchall():
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            (answer,) = await log.append([decoded(build.measurement())])
            assert answer.status == "accepted"
            assert len(await log.read()) == 1

    asyncio.run(run())


def test_a_connection_that_the_server_ended_is_replaced_unnoticed(database, build):
    ending = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"

    async def run():
        async with EventLog(database.url, connections=1) as log:
            await log.append([decoded(build.measurement())])
            with psycopg.connect(database.url, autocommit=True) as other:
                while other.execute(ending).fetchall():
                    await asyncio.sleep(0.01)
            return await log.append([decoded(build.measurement())])

    (answer,) = asyncio.run(run())
    assert answer.status == "accepted"


def test_artifacts_are_kept_once_and_refused_when_their_bytes_changed(database):
    store = ArtifactStore(database.url)
    digest = store.put(b"trees", {"rows": 3}, "predictor")
    assert store.put(b"trees", {"rows": 4}, "predictor") == digest
    assert store.get(digest).content == b"trees"
    assert store.get(digest).card == {"rows": 3}
    with psycopg.connect(database.url) as connection:
        connection.execute("UPDATE artifact SET content = 'other'")
    with pytest.raises(CorruptArtifact):
        store.get(digest)
    with pytest.raises(NotFound):
        store.get("sha256:" + "0" * 64)


def test_a_postgres_that_is_away_or_empty_is_said_so(postgres_server):
    async def opened(url):
        async with EventLog(url, patience_s=0.5):
            pass

    with pytest.raises(ServiceUnavailable, match="does not answer"):
        asyncio.run(opened("postgresql://nobody@/nothing?host=/nonexistent"))
    empty = postgres_server.create("without_schema")
    try:
        with pytest.raises(ServiceUnavailable, match="no event log"):
            asyncio.run(opened(empty.url))
    finally:
        postgres_server.drop("without_schema")


def test_a_transaction_changes_tables_and_log_together_or_not_at_all(database, build):
    event = decode_event(encode_event(build.measurement()))
    add = "INSERT INTO job_needs (digest, needs) VALUES (%(digest)s, '{}')"

    async def work() -> tuple[list, int]:
        async with EventLog(database.url) as log:
            with suppress(ZeroDivisionError):
                async with log.transaction() as transaction:
                    await transaction.fetch(add, {"digest": "undone"})
                    await transaction.append([event])
                    raise ZeroDivisionError
            assert await log.last_position() == 0
            async with log.transaction() as transaction:
                await transaction.fetch(add, {"digest": "done"})
                await transaction.append([event])
                await transaction.append([event])
                assert transaction.appended == 1
            return await log.fetch("SELECT digest FROM job_needs"), len(await log.read())

    assert asyncio.run(work()) == ([("done",)], 1)
