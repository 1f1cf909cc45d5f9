"""Parts that are away, full, broken or taken: each ends in a state that says so, loses nothing, and comes back."""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from domain.errors import ServiceUnavailable
from ingest.log.postgres import open_database
from ingest.projection.projector import Projection
from tests.torture.load import assert_kept, sending
from tests.torture.mounts import volume
from tests.torture.processes import Postgres, Served, postgres, until

AWAY_S = float(os.environ.get("ASSAY_TORTURE_AWAY_S", "60"))
SAID_S = 15.0
"""Within so long a service has to say that a part is away."""


@pytest.fixture
def server() -> Iterator[Postgres]:
    with postgres() as one:
        yield one


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Makes services that are stopped in any case."""
    made: list[Served] = []

    def make(home: Path, *arguments: str, **options: Any) -> Served:
        made.append(Served(home, *arguments, **options))
        return made[-1]

    yield make
    for served in made:
        if served.process is not None and served.process.poll() is None:
            served.kill()
            served.process.wait()


def says(served: Served, *words: str, patience_s: float = SAID_S) -> str:
    """Wait until readiness says no with one of these words, and return its sentence."""

    def told() -> str | None:
        status, body = served.health()
        sentence = f"{(body or {}).get('detail')} {(body or {}).get('remedy')}"
        return sentence if status == 503 and any(word in sentence for word in words) else None

    return str(until(told, f"503 with one of {words}; it is {served.health()}", patience_s))


def post(served: Served, events: list[dict[str, Any]]) -> int:
    with served.client() as client:
        answer = client.post_events(events)
    assert answer["accepted"] + answer["duplicate"] == len(events)
    return int(answer["last_position"])


def some(build: Any, count: int = 50) -> list[dict[str, Any]]:
    return [build.measurement(p50=float(number + 1), batch_size=number + 1) for number in range(count)]


def caught_up(served: Served, position: int, patience_s: float = 60) -> None:
    with served.client() as client:
        client.wait_for(position, patience_s)


def assert_true_tables(home: Path, url: str, folder: Path, compare: Any) -> None:
    """Fail unless the tables under `home` are those that the log gives."""
    with Projection(home, url) as kept, Projection(folder, url) as anew:
        assert anew.catch_up() == kept.catch_up()
        compare(kept, anew)


@pytest.mark.parametrize(
    ("how", "away_s"),
    [
        pytest.param("shut down", 3.0, id="shut down-short"),
        pytest.param("shut down", AWAY_S, id="shut down-long", marks=pytest.mark.torture),
        pytest.param("halted", AWAY_S, id="halted-long", marks=pytest.mark.torture),
    ],
)
def test_postgres_away(how, away_s, server, serve, build, tmp_path, assert_same_projection, figures):
    served = serve(tmp_path / "home", url=server.url).start()
    served.until_ready()
    with sending([served.url] * 2, build) as senders:
        until(lambda: all(sender.acknowledged for sender in senders), "first answers")
        begun = time.monotonic()
        if how == "halted":
            with server.halted():
                sentence = says(served, "Postgres")
                said_s = time.monotonic() - begun
                time.sleep(max(0.0, away_s - said_s))
        else:
            server.shut_down()
            sentence = says(served, "Postgres")
            said_s = time.monotonic() - begun
            time.sleep(max(0.0, away_s - said_s))
            server.again()
        back = time.monotonic()
        served.until_ready()
        ready_s = time.monotonic() - back
        before = [len(sender.acknowledged) for sender in senders]
        until(lambda: all(len(s.acknowledged) > b for s, b in zip(senders, before, strict=True)), "answers again")
    events = assert_kept(server.url, senders)
    with served.client() as client:
        caught_up(served, client.ready()["log_position"])
    assert served.stop() == 0
    assert_true_tables(served.home, server.url, tmp_path / "anew", assert_same_projection)
    figures(
        f"away {away_s:.0f} s: said so after {said_s:.1f} s ({sentence[:90]}), ready {ready_s:.1f} s after; {events:,} events"
    )


@pytest.mark.torture
def test_the_embedded_postgres_of_a_service_dies(serve, build, tmp_path, figures):
    """Nobody else looks after that server: the service starts it again, or says what to do."""
    home = Path(tempfile.mkdtemp(prefix="assay-"))
    served = serve(home).start()
    try:
        served.until_ready()
        post(served, some(build))
        with open_database(home) as database:
            pid = database.server.pid
        os.kill(pid, 9)
        begun = time.monotonic()
        sentence = None
        while served.ready() is None and time.monotonic() - begun < 30:
            sentence = sentence or says(served, "Postgres")
            time.sleep(0.1)
        if served.ready() is None:
            assert sentence is not None and "restart" in sentence, sentence
            served.stop()
            served.start()
            served.until_ready()
        took_s = time.monotonic() - begun
        with served.client() as client:
            assert len(list(client.events())) == 50
        assert post(served, some(build)) > 50
        assert served.stop() == 0
        figures(f"answers again after {took_s:.1f} s")
    finally:
        shutil.rmtree(home, ignore_errors=True)


@pytest.mark.torture
def test_disk_full_for_the_log(serve, build, tmp_path, figures):
    """What was acknowledged is there; what was not is refused with 503; with room again all goes on."""
    with volume(tmp_path / "disk", 200) as disk, closing(Postgres(disk.path)) as server:
        served = serve(tmp_path / "home", url=server.url).start()
        served.until_ready()
        with sending([served.url], build, 3) as senders:
            until(lambda: senders[0].acknowledged, "a first answer")
            disk.fill(leave_bytes=2_000_000)
            until(lambda: senders[0].again, "a refusal, for want of room", 60)
            assert served.process is not None and served.process.poll() is None
            answers = _answers(server.url)
            disk.make_room()
            # Postgres ends itself where it cannot write its own log; who runs it starts it again.
            if not _answers(server.url):
                server.again()
            before = len(senders[0].acknowledged)
            served.until_ready()
            until(lambda: len(senders[0].acknowledged) > before, "answers again")
        events = assert_kept(server.url, senders)
        with served.client() as client:
            caught_up(served, client.ready()["log_position"])
        assert served.stop() == 0
        ended = "answered still" if answers else "had ended itself"
        figures(f"{events:,} events, refused {senders[0].again} times; Postgres {ended}")


def _answers(url: str) -> bool:
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True


def test_disk_full_for_the_tables(database, serve, build, tmp_path, assert_same_projection, figures):
    """Events are taken all the same; health names the cause; with room again the tables catch up by themselves."""
    with volume(tmp_path / "disk", 64) as disk:
        served = serve(disk.path / "home", url=database.url).start()
        served.until_ready()
        caught_up(served, post(served, some(build)))
        disk.fill(leave_bytes=100_000)
        events = [build.measurement(p50=1.0 + number / 1000, run_id=f"run-{number}") for number in range(5_000)]
        last = post(served, events)
        sentence = says(served, "space", "disk", "room")
        with served.client() as client:
            assert len(client.measurements(limit=10)) == 10
        disk.make_room()
        begun = time.monotonic()
        served.until_ready()
        caught_up(served, last)
        took_s = time.monotonic() - begun
        with served.client() as client:
            assert client.query("SELECT count(*), count(DISTINCT event_id) FROM measurements")["rows"] == [
                [5_050, 5_050]
            ]
        assert served.stop() == 0
        assert_true_tables(served.home, database.url, tmp_path / "anew", assert_same_projection)
        figures(f"said: {sentence[:120]}; caught up {took_s:.1f} s after there was room")


def halve(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def scribble(path: Path) -> None:
    dice = random.Random(3)
    with path.open("r+b") as file:
        for _ in range(200):
            file.seek(dice.randrange(path.stat().st_size))
            file.write(dice.randbytes(64))


def scribble_pages(path: Path) -> None:
    """Leave the head of the file whole, so that it opens, and ruin what it points to."""
    with path.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(random.Random(4).randbytes(max(0, path.stat().st_size - 3 * 4096)))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\x00" + bytes(8192))


def bad_log(path: Path) -> None:
    path.with_name(path.name + ".wal").write_bytes(random.Random(5).randbytes(10_000))


@pytest.mark.parametrize(
    "damage", [halve, scribble, scribble_pages, empty, other, bad_log], ids=lambda one: one.__name__
)
def test_a_damaged_file_is_made_again(damage, database, append, build, tmp_path, assert_same_projection):
    """Losing the tables loses nothing: the file is thrown away and made from the log, without hands."""
    append(some(build, 500))
    with Projection(tmp_path / "kept", database) as kept:
        kept.catch_up()
        path = kept.path
    damage(path)
    assert_true_tables(tmp_path / "kept", database.url, tmp_path / "anew", assert_same_projection)


def test_the_clock_of_postgres_jumps_back(database, append, build, tmp_path, assert_same_projection):
    """The order is that of positions: when recorded_at falls back by an hour nothing is missed, lost or told twice.

    The moment is the database's own, so it is given a clock that jumps.
    """
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(_JUMPING)
    with Projection(tmp_path / "kept", database) as kept:
        for _ in range(20):
            append(some(build, 30))
            kept.catch_up()
        with psycopg.connect(database.url) as connection:
            rows = connection.execute("SELECT position, recorded_at FROM event ORDER BY position").fetchall()
        assert [moment for _, moment in rows] != sorted(moment for _, moment in rows)
        told = kept.health()
        assert (told.position, told.lag_events, told.dead_letters, told.error) == (rows[-1][0], 0, 0, None)
        with kept.tables() as tables:
            assert tables.measurements().num_rows == 600
        # "As of" goes by position as well: what was logged up to there, whatever the clock said.
        with kept.tables(as_of=rows[299][0]) as tables:
            assert tables.measurements().num_rows == 300
        with Projection(tmp_path / "anew", database) as anew:
            anew.catch_up()
            assert_same_projection(kept, anew)


_JUMPING = """
CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql
    AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 hour' * sin(random() * 6.3) $$;
DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database()); END $$
"""


def test_two_projectors_on_one_file(database, append, build, tmp_path):
    """The second is told who has it, and the first does not notice."""
    append(some(build))
    with Projection(tmp_path, database) as first:
        with pytest.raises(ServiceUnavailable, match="another process owns the projection") as told:
            Projection(tmp_path, database).open()
        assert told.value.field == "ASSAY_HOME" and "stop it" in str(told.value)
        assert first.catch_up() > 0
    with Projection(tmp_path, database) as second:
        assert second.catch_up() > 0


@pytest.mark.torture
def test_the_directory_is_removed_while_it_runs(database, serve, build, tmp_path, assert_same_projection):
    """The log is elsewhere: events are taken or refused, never lost; after a restart the tables are there again."""
    served = serve(tmp_path / "home", url=database.url).start()
    served.until_ready()
    caught_up(served, post(served, some(build)))
    shutil.rmtree(served.home)
    last = post(served, some(build))
    # Either the open file still serves, or readiness says what is wrong; both are clear.
    status, body = until(lambda: _settled(served, last), "a clear state")
    assert status == 200 or body["remedy"]
    served.stop()
    served.start()
    served.until_ready()
    caught_up(served, last)
    with served.client() as client:
        assert len(client.measurements()) == 100
    assert served.stop() == 0
    assert_true_tables(served.home, database.url, tmp_path / "anew", assert_same_projection)


def _settled(served: Served, position: int) -> tuple[int, Any] | None:
    status, body = served.health()
    return (status, body) if status == 503 or (status == 200 and body["position"] >= position) else None


@pytest.mark.torture
def test_a_read_only_directory(database, serve, build, tmp_path):
    """At the start: one sentence and exit 3. While it runs: events are taken, and health says that tables stand still."""
    with volume(tmp_path / "disk", 64) as disk:
        served = serve(disk.path / "home", url=database.url, log=tmp_path / "log")
        disk.read_only(True)
        process = served.start().process
        assert process is not None and process.wait(30) in (2, 3)
        assert "Traceback" not in served.said()
        assert "Read-only" in served.said() or "written" in served.said() or "write" in served.said()
        disk.read_only(False)
        served.start().until_ready()
        caught_up(served, post(served, some(build)))
        assert served.stop() == 0


@pytest.mark.torture
def test_slow_clients_do_not_shut_out_others(database, serve, build, tmp_path):
    """Many clients that hold a body open: a quick one is answered all the same, at the latest by the rules of retrying."""
    served = serve(tmp_path / "home", url=database.url, ASSAY_BODY_DEADLINE_S="2").start()
    served.until_ready()
    head = b"POST /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-ndjson\r\nContent-Length: 10000000\r\n\r\n{"
    held = [socket.create_connection(("127.0.0.1", served.port), timeout=10) for _ in range(60)]
    try:
        for connection in held:
            connection.sendall(head)
        begun = time.monotonic()
        post(served, some(build, 1))
        post(served, some(build, 2000))
        assert time.monotonic() - begun < 10
        for connection in held:
            assert connection.recv(100).split(b" ")[1] in (b"408", b"429")
    finally:
        for connection in held:
            connection.close()
    assert served.ready()
    assert served.stop() == 0
