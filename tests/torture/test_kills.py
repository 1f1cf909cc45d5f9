"""SIGKILL of every kind of process, at random moments, under load: nothing acknowledged is lost, nothing is doubled."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from ingest.log.verify import verify_log
from ingest.projection.projector import Projection
from tests.torture.load import assert_kept, sending
from tests.torture.processes import Postgres, Served, postgres, until

KILLS = int(os.environ.get("ASSAY_TORTURE_KILLS", "100"))
SEED = int(os.environ.get("ASSAY_TORTURE_SEED", "1"))
SHORT = ["api", "worker", "backend", "query", "ingest", "postgres"]


def long() -> list[str]:
    """Return so many victims as were asked for, each kind about as often, in a random order."""
    victims = [SHORT[number % len(SHORT)] for number in range(KILLS)]
    random.Random(SEED).shuffle(victims)
    return victims


class House:
    """Every role on one log: a node that does all, an ingest node with two workers, a query node."""

    def __init__(self, folder: Path, server: Postgres) -> None:
        self.server = server
        self.api = Served(folder / "all", url=server.url)
        self.ingest = Served(folder / "ingest", "--role", "ingest", "--workers", "2", url=server.url)
        self.query = Served(folder / "query", "--role", "query", url=server.url)
        self.services = [self.api, self.ingest, self.query]

    def kill(self, victim: str, dice: random.Random) -> None:
        kills: dict[str, Callable[[], None]] = {
            "api": self.api.kill,
            "ingest": self.ingest.kill,
            "query": self.query.kill,
            "worker": lambda: self._kill_worker(dice),
            "backend": self.server.kill_backend,
            "postgres": self.server.kill,
        }
        kills[victim]()

    def _kill_worker(self, dice: random.Random) -> None:
        workers = self.ingest.children()
        if workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                dice.choice(workers).kill()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with postgres() as server:
        house = House(tmp_path, server)
        for service in house.services:
            service.keep()
        try:
            for service in house.services:
                service.until_ready()
            yield house
        finally:
            for service in house.services:
                service.stop()


@pytest.mark.parametrize("victims", [SHORT, pytest.param(long(), marks=pytest.mark.torture)], ids=["short", "long"])
def test_killed_at_random_nothing_is_lost_or_doubled(victims, house, build, tmp_path, assert_same_projection, figures):
    dice = random.Random(SEED)
    begun = time.monotonic()
    with sending([house.api.url, house.api.url, house.ingest.url, house.ingest.url], build, SEED) as senders:
        for victim in victims:
            if dice.random() < 0.7:
                # Mostly in the middle of work; else at once, while others are still starting.
                before = sum(len(sender.acknowledged) for sender in senders)
                until(lambda seen=before: sum(len(sender.acknowledged) for sender in senders) > seen, "answers again")
            time.sleep(dice.random() * 1.5)
            house.kill(victim, dice)
    # Only now: a node that has just begun may not say that it is ready while four clients outrun its projector.
    for service in house.services:
        service.until_ready()
    events = assert_kept(house.server.url, senders)
    assert all(sender.acknowledged for sender in senders)
    took_s = time.monotonic() - begun
    reached = position_of(house)
    for service in (house.api, house.query):
        with service.client() as client:
            client.wait_for(reached)
    for service in house.services:
        assert service.stop() == 0
        # A worker that outlives its parent would go on taking events beside its successors.
        until(lambda served=service: not served.listens(), "nobody listens any more", 10)
    anew = Projection(tmp_path / "anew", house.server.url)
    with (
        anew,
        Projection(house.api.home, house.server.url) as one,
        Projection(house.query.home, house.server.url) as two,
    ):
        assert anew.catch_up() == one.position == two.position
        assert_same_projection(one, anew)
        assert_same_projection(two, anew)
    verified = verify_log(house.server.url)
    assert (verified.events, verified.breaks) == (events, [])
    figures(
        f"{len(victims)} kills in {took_s:.0f} s ({counted(victims)}); {events:,} events acknowledged, all there once; "
        f"{sum(sender.again for sender in senders):,} times a client began again; both projections equal a fresh one; "
        "hash chain valid"
    )


def position_of(house: House) -> int:
    told: dict[str, Any] = house.ingest.until_ready()
    return int(told["position"])


def counted(victims: list[str]) -> str:
    return ", ".join(f"{victims.count(victim)} {victim}" for victim in SHORT)
