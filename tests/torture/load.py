"""Clients that go on sending whatever happens to the service, by the documented rules, and remember what was answered."""

from __future__ import annotations

import random
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg

from assay.client import Client
from domain.errors import Unavailable

__all__ = ["Sender", "assert_kept", "sending"]

LARGEST = 200


class Sender(threading.Thread):
    """Posts batches of events until it is told to stop; what was not acknowledged is sent again, unchanged."""

    def __init__(self, url: str, build: Any, seed: int, patience_s: float = 2.0) -> None:
        super().__init__(daemon=True)
        self.acknowledged: list[str] = []
        self.again = 0
        self.failure: BaseException | None = None
        self._url = url
        self._build = build
        self._dice = random.Random(seed)
        self._patience_s = patience_s
        self._stop_asked = threading.Event()

    def run(self) -> None:
        try:
            with Client(self._url, patience_s=self._patience_s, timeout_s=20) as client:
                while not self._stop_asked.is_set():
                    self._send(client, self._batch())
        except BaseException as failure:
            self.failure = failure

    def finish(self, patience_s: float = 60.0) -> None:
        """Let it bring its last batch home; AssertionError where it cannot."""
        self._stop_asked.set()
        self.join(patience_s)
        assert not self.is_alive(), "a client's last batch was not acknowledged"
        if self.failure is not None:
            raise self.failure

    def _send(self, client: Client, batch: list[dict[str, Any]]) -> None:
        while True:
            try:
                answer = client.post_events(batch)
            except Unavailable:
                self.again += 1
                continue
            assert not answer["rejected"], answer["rejected"][:3]
            assert answer["accepted"] + answer["duplicate"] == len(batch)
            self.acknowledged += [event["id"] for event in batch]
            return

    def _batch(self) -> list[dict[str, Any]]:
        size = 1 if self._dice.random() < 0.5 else self._dice.randint(2, LARGEST)
        return [self.event() for _ in range(size)]

    def event(self) -> dict[str, Any]:
        dice, build = self._dice, self._build
        parts: dict[str, Any] = {
            "model": f"acme/model-{dice.randrange(20)}", "hardware": f"acme-{dice.randrange(5)}",
            "batch_size": 2 ** dice.randrange(6), "run_id": f"run-{dice.randrange(50)}",
        }  # fmt: skip
        roll = dice.random()
        if roll < 0.02 and self.acknowledged:
            event = build.retraction(event_id=dice.choice(self.acknowledged))
        elif roll < 0.04:
            event = build.alias(f"alias-{dice.randrange(30)}", f"acme/model-{dice.randrange(20)}")
        elif roll < 0.2:
            event = build.test(dice.choice(["passed", "failed"]), **parts)
        elif roll < 0.3:
            event = build.failure(**parts)
        else:
            event = build.measurement(p50=dice.uniform(0.5, 50), **parts)
        return {**event, "id": str(uuid.UUID(int=dice.getrandbits(128), version=4))}


@contextmanager
def sending(urls: Sequence[str], build: Any, seed: int = 1) -> Iterator[list[Sender]]:
    """Send to each address for as long as the block runs; after it, everything that was begun is acknowledged."""
    senders = [Sender(url, build, seed * 1000 + number) for number, url in enumerate(urls)]
    for sender in senders:
        sender.start()
    try:
        yield senders
    finally:
        for sender in senders:
            sender._stop_asked.set()
    for sender in senders:
        sender.finish()


def assert_kept(url: str, senders: Sequence[Sender]) -> int:
    """Fail unless the log holds what was acknowledged, each event once, and nothing else; return how many."""
    acknowledged = [identifier for sender in senders for identifier in sender.acknowledged]
    assert len(set(acknowledged)) == len(acknowledged)
    with psycopg.connect(url) as connection:
        logged = [row[0] for row in connection.execute("SELECT id::text FROM event").fetchall()]
        # Noisy latencies may raise alerts, which are events of the service's own.
        raised = connection.execute("SELECT id::text FROM event WHERE type LIKE 'assay.alert.%'").fetchall()
    assert len(set(logged)) == len(logged)
    assert set(acknowledged) == set(logged) - {row[0] for row in raised}
    return len(logged)
