"""How far the log is ahead: asked in a thread of its own, so that a Postgres that hangs holds nobody up."""

from __future__ import annotations

import threading
from collections.abc import Callable

from domain.errors import AssayError, ServiceUnavailable
from ingest.projection.source import LogSource

__all__ = ["Lag", "LagAsker"]

Lag = tuple[int, int, float]
"""The log's highest position, the events above the tables' position, and the age of the oldest of them in s."""


class _Flight:
    def __init__(self) -> None:
        self.landed = threading.Event()
        self.answer: Lag | None = None
        self.error: AssayError | None = None


class LagAsker:
    """Asks the log through connections of its own; whoever comes while a question is under way waits for that one."""

    def __init__(self, source: Callable[[], LogSource], timeout_s: float = 2.0) -> None:
        self._source = source
        self._timeout_s = timeout_s
        self._flight: _Flight | None = None
        self._asking = threading.Lock()

    def ask(self, position: int) -> Lag:
        """Return the lag; ServiceUnavailable where Postgres is away or gives no answer in time."""
        with self._asking:
            flight = self._flight
            if flight is None or flight.landed.is_set():
                flight = self._flight = _Flight()
                threading.Thread(target=self._fly, args=(flight, position), name="lag", daemon=True).start()
        if not flight.landed.wait(self._timeout_s):
            raise ServiceUnavailable(
                f"Postgres does not answer within {self._timeout_s:g} s.", remedy="It is asked again by itself."
            )
        if flight.answer is None:
            raise flight.error or ServiceUnavailable("Postgres gave no answer.", remedy="It is asked again by itself.")
        return flight.answer

    def _fly(self, flight: _Flight, position: int) -> None:
        source = self._source()
        try:
            flight.answer = source.lag(position)
        except AssayError as error:
            flight.error = error
        finally:
            flight.landed.set()
            source.close()
