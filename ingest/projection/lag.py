"""How the tables stand to the log, which is asked in a thread of its own: a Postgres that hangs holds nobody up."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

import msgspec

from domain.errors import AssayError, ServiceUnavailable
from ingest.projection.divergence import Divergence
from ingest.projection.source import LogSource
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["Health", "Lag", "LagAsker"]

Lag = tuple[int, int, float]
"""The log's highest position, the events above the tables' position, and the age of the oldest of them in s."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the projection stands to the log. `error` is set while it cannot go on; `running` says whether it follows.

    `building` says why the tables are being made anew, until they have caught up: what they answer before that is true
    of their position, and much of the log is not in it yet. `diverged` is the last time that this process found the log
    without events that its tables held.
    """

    position: int
    log_position: int | None
    lag_events: int | None
    lag_seconds: float | None
    dead_letters: int
    error: str | None
    running: bool
    building: str | None = None
    diverged: Divergence | None = None
    schema: int = SCHEMA_VERSION


class _Flight:
    def __init__(self, position: int) -> None:
        self.position = position
        self.landed = threading.Event()
        self.answer: Lag | None = None
        self.error: AssayError | None = None


class LagAsker:
    """Asks the log through a connection of its own, which stays open: to connect costs fifty times as much as to ask.

    Whoever comes while a question is under way waits for that one, and asks again where it was of an earlier position.
    """

    def __init__(self, source: LogSource, timeout_s: float = 2.0) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._flight: _Flight | None = None
        self._asking = threading.Lock()

    def ask(self, position: int) -> Lag:
        """Return the lag; ServiceUnavailable where Postgres is away or gives no answer in time."""
        until = time.monotonic() + self._timeout_s
        while True:
            with self._asking:
                flight = self._flight
                if flight is None or flight.landed.is_set():
                    flight = self._flight = _Flight(position)
                    threading.Thread(target=self._fly, args=(flight,), name="lag", daemon=True).start()
            if not flight.landed.wait(max(0.0, until - time.monotonic())):
                raise ServiceUnavailable(
                    f"Postgres does not answer within {self._timeout_s:g} s.", remedy="It is asked again by itself."
                )
            if flight.answer is None:
                raise flight.error or ServiceUnavailable(
                    "Postgres gave no answer.", remedy="It is asked again by itself."
                )
            # The tables may have moved on since it was asked for another caller.
            if flight.position >= position:
                return flight.answer

    def close(self) -> None:
        """Disconnect, once the question under way has its answer; one that hangs keeps its connection."""
        with self._asking:
            if self._flight is None or self._flight.landed.wait(self._timeout_s):
                self._source.close()

    def _fly(self, flight: _Flight) -> None:
        try:
            flight.answer = self._lag(flight.position)
        except AssayError as error:
            flight.error = error
        finally:
            flight.landed.set()

    def _lag(self, position: int) -> Lag:
        if self._source.connected:
            # It may have been cut while nobody asked; the source connects anew after an error.
            with suppress(ServiceUnavailable):
                return self._source.lag(position)
        return self._source.lag(position)
