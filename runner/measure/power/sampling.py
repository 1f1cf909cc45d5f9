"""A meter read again and again in a thread of its own, from one moment to another."""

from __future__ import annotations

import threading
from time import sleep

from domain.performance.energy import Energy, PowerReading, energy_of
from runner.measure.power.meter import Meter, Unread

__all__ = ["PERIOD_S", "Sampling", "rest"]

PERIOD_S = 0.2
"""A fifteenth of the longest gap that is let pass, so that one late reading spoils nothing."""


class Sampling:
    """Readings of a meter while the block runs; the first and the last are taken at its very ends."""

    def __init__(self, meter: Meter | Unread, *, idle: Energy | None = None) -> None:
        self._meter = meter
        self._idle = idle
        self._readings: list[PowerReading] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> Sampling:
        if not isinstance(self._meter, Unread):
            self._readings.append(self._meter.read())
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if not isinstance(self._meter, Unread):
            self._over.set()
            self._thread.join()
            self._readings.append(self._meter.read())

    def _sample(self) -> None:
        assert not isinstance(self._meter, Unread)
        while not self._over.wait(PERIOD_S):
            self._readings.append(self._meter.read())

    def energy(self) -> Energy:
        """Return what was read; asked after the block."""
        if isinstance(self._meter, Unread):
            return Energy(unread=str(self._meter))
        return energy_of(
            self._readings,
            meter=self._meter.name,
            scope=self._meter.scope,
            update_s=self._meter.update_s,
            idle=self._idle,
        )


def rest(meter: Meter | Unread, seconds: float) -> Energy | None:
    """Return what the meter shows while this process sleeps for so long; None where nothing can be read."""
    if isinstance(meter, Unread):
        return None
    with Sampling(meter) as sampling:
        sleep(seconds)
    energy = sampling.energy()
    return None if energy.unread else energy
