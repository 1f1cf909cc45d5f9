"""A long pull from a peer: both sides are killed again and again, and both logs hold the same bytes; and how quick it is."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from assay.synthesis import events, lines_of
from domain.events import decode_event, encode_event, new_event
from domain.payloads import MeasurementRetracted
from domain.sharing.peers import DEFAULT_TYPES, NewPeer
from ingest.log.event_log import EventLog
from ingest.log.verify import verify_log
from tests.torture.processes import ROOT, Served, until

EVENTS = int(os.environ.get("ASSAY_TORTURE_PEER_EVENTS", "1000000"))
KILLS = int(os.environ.get("ASSAY_TORTURE_PEER_KILLS", "20"))
SEED = int(os.environ.get("ASSAY_TORTURE_SEED", "1"))
ROUNDS, ROUND_EVENTS = 3, 20_000
SOURCE = "urn:assay:bench-data"
LEAST_OF_POST = 0.5
RSS_LIMIT_KB = 300_000
LONGEST_S = 3600
DIGESTS = "SELECT id::text, digest FROM event WHERE source = %s ORDER BY id"
PULL = """
import pathlib, sys
from assay.client import Client
from assay.client.peers import pull

with Client(sys.argv[1], patience_s=120) as client:
    pulled = pull(client, "lab", None, patience_s=120)
status = pathlib.Path("/proc/self/status").read_text()
print(pulled.accepted, next(line for line in status.splitlines() if line.startswith("VmHWM")).split()[1])
"""

pytestmark = pytest.mark.torture


class Pair:
    """Two services, each on a log of its own, which are started again whenever they end."""

    def __init__(self, folder: Path, lab_url: str, here_url: str) -> None:
        self.lab_url, self.here_url = lab_url, here_url
        self.lab = Served(folder / "lab", url=lab_url)
        self.here = Served(folder / "here", url=here_url)

    def pulling(self) -> subprocess.Popen[str]:
        """Start a process that pulls until it has what the lab has."""
        return subprocess.Popen(
            [sys.executable, "-c", PULL, self.here.url], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> int:
        """Return how many events were taken."""
        with psycopg.connect(self.here_url) as connection:
            ((accepted,),) = connection.execute("SELECT accepted FROM peer").fetchall()
        return int(accepted)


@pytest.fixture
def pair(postgres_server: Any, database_template: str, tmp_path: Path) -> Iterator[Pair]:
    names = [f"peers_{os.getpid()}_{side}" for side in ("lab", "here")]
    urls = [postgres_server.create(name, template=database_template).url for name in names]
    with psycopg.connect(urls[0]) as connection:
        # Both are copies of one database, and so is their log's identity.
        connection.execute("UPDATE log SET id = gen_random_uuid()")
    both = Pair(tmp_path, *urls)
    with ExitStack() as until_the_end:
        for name in names:
            until_the_end.callback(postgres_server.drop, name)
        for service in (both.lab, both.here):
            until_the_end.callback(service.stop)
            service.keep()
        for service in (both.lab, both.here):
            service.until_ready()
        with both.here.client() as client:
            client.add_peer(NewPeer(name="lab", url=both.lab.url, sources=[SOURCE], types=list(DEFAULT_TYPES)))
        yield both


def fill(url: str, rows: int) -> int:
    """Append so many made-up measurements to a log, then take back the run of the first; return how many events that were.

    Such a retraction is judged by the tables, which are far behind when it arrives.
    """

    async def run() -> None:
        async with EventLog(url) as log:
            lines = events(rows, SEED)
            while batch := list(itertools.islice(lines, 5000)):
                await log.append([decode_event(event) for event in batch])
            run_id = msgspec.json.decode(next(events(rows, SEED)))["data"]["run_id"]
            retraction = MeasurementRetracted(reason="the clock was wrong", run_id=run_id)
            event = new_event("assay.measurement.retracted.v1", retraction, source=SOURCE)
            await log.append([decode_event(encode_event(event))])

    asyncio.run(run())
    return lines_of(rows) + 1


def digest_of(url: str) -> tuple[int, str]:
    """Return how many events of the source a log has, and a digest of their ids and digests."""
    total = sha256()
    count = 0
    with psycopg.connect(url) as connection, connection.cursor("digests") as cursor:
        cursor.itersize = 10_000
        cursor.execute(DIGESTS, [SOURCE])
        for identifier, digest in cursor:
            total.update(identifier.encode() + bytes(digest))
            count += 1
    return count, total.hexdigest()


def test_killed_on_either_side_both_logs_hold_the_same(pair: Pair, figures: Callable[[str], None]) -> None:
    made = fill(pair.lab_url, EVENTS)
    dice = random.Random(SEED)
    victims = [("pull", "lab", "here")[number % 3] for number in range(KILLS)]
    dice.shuffle(victims)
    begun = time.monotonic()
    process = pair.pulling()
    peak_kb = 0
    try:
        for number, victim in enumerate(victims, 1):
            share = (number - dice.random() / 2) / (KILLS + 1)
            until(lambda share=share: pair.read() >= share * made, f"{share:.0%} taken", LONGEST_S)  # type: ignore[misc]
            if victim == "pull":
                process.kill()
                process.communicate()
                process = pair.pulling()
            else:
                (pair.lab if victim == "lab" else pair.here).kill()
        out, _ = process.communicate(timeout=LONGEST_S)
        assert process.returncode == 0
        peak_kb = int(out.split()[1])
    finally:
        process.kill()
        process.communicate()
    took_s = time.monotonic() - begun
    there, here = digest_of(pair.lab_url), digest_of(pair.here_url)
    assert there == here
    assert there[0] == made
    assert not list(verify_log(pair.here_url, None).breaks)
    with psycopg.connect(pair.here_url) as connection:
        arrived = connection.execute("SELECT count(*), count(DISTINCT peer_position) FROM peer_arrival").fetchone()
    assert arrived == (made, made)
    again = pair.pulling()
    out, _ = again.communicate(timeout=LONGEST_S)
    assert out.split()[0] == "0"
    assert max(peak_kb, int(out.split()[1])) < RSS_LIMIT_KB
    counts = ", ".join(f"{victims.count(victim)} of {victim}" for victim in ("pull", "lab", "here"))
    figures(
        f"{made:,} events, {KILLS} kills ({counts}) in {took_s:.0f} s ({made / took_s:,.0f} a second): digests equal "
        f"({there[1][:16]}), 0 new in a second pull, at most {peak_kb / 1000:.0f} MB in a process that pulls"
    )


def test_pull_is_at_least_half_as_quick_as_post(pair: Pair, figures: Callable[[str], None], tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ASSAY_")}
    seconds: dict[str, list[float]] = {"post": [], "peer pull": []}

    def timed(verb: str, service: Served, *words: str) -> None:
        command = [sys.executable, "-m", "assay.cli", *verb.split(), *words, "--server", service.url]
        begun = time.monotonic()
        subprocess.run(command, cwd=ROOT, env={**environment, "ASSAY_HOME": str(tmp_path)}, check=True)
        seconds[verb].append(time.monotonic() - begun)

    for number in range(ROUNDS):
        file = tmp_path / f"{number}.ndjson"
        file.write_bytes(b"".join(event + b"\n" for event in events(ROUND_EVENTS, SEED + number)))
        timed("post", pair.lab, str(file))
        timed("peer pull", pair.here, "lab")
    assert digest_of(pair.lab_url) == digest_of(pair.here_url)
    post, pulled = (sum(values) for values in seconds.values())
    figures(
        f"{ROUNDS} × {lines_of(ROUND_EVENTS):,} events: assay post {post:.1f} s, assay peer pull {pulled:.1f} s, "
        f"{post / pulled:.2f} times as quick"
    )
    assert post / pulled >= LEAST_OF_POST
