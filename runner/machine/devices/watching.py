"""A device looked at before a model is loaded, again and again while samples are taken, and afterwards."""

from __future__ import annotations

import threading
from typing import Protocol

from domain.performance.device_state import DeviceConditions, DeviceState, summary
from runner.measure.power.meter import Meter, Unread

__all__ = ["Watcher", "Watching"]

PERIOD_S = 0.5


class Watcher(Protocol):
    """Shows the state of one device. `key` names the device itself, whatever a process calls it.

    One that is dear to ask says with `period_s` how seldom it should be.
    """

    key: str
    part: str | None

    def state(self) -> DeviceState:
        """Return its state now; never raises, absent figures are None."""

    def meter(self) -> Meter | Unread:
        """Return its power meter."""


class Watching:
    """Looks at the device while the block runs; no watcher gives the reason that stands in its place."""

    def __init__(self, watcher: Watcher | Unread | None, before: DeviceState | None = None) -> None:
        self._watcher = watcher
        self._before = before
        self._states: list[DeviceState] = []
        self._after: DeviceState | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watching:
        if self._seeing:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._seeing:
            self._over.set()
            self._thread.join()
            self._after = self._now()

    @property
    def _seeing(self) -> bool:
        return self._watcher is not None and not isinstance(self._watcher, Unread)

    def _now(self) -> DeviceState:
        assert self._watcher is not None
        assert not isinstance(self._watcher, Unread)
        return self._watcher.state()

    def _look(self) -> None:
        # A moment after the start: a device needs some milliseconds to reach its clock.
        period = getattr(self._watcher, "period_s", PERIOD_S)
        while not self._over.wait(period if self._states else PERIOD_S / 5):
            self._states.append(self._now())

    def conditions(self) -> DeviceConditions | None:
        """Return what was seen; None on a platform that has no device of its own. Asked after the block."""
        if self._watcher is None:
            return None
        if isinstance(self._watcher, Unread):
            return DeviceConditions(unread=str(self._watcher))
        during = summary(self._states)
        return DeviceConditions(before=self._before, during=during, after=self._after, part=self._watcher.part)
