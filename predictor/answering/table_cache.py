"""What was read of the tables at a position, kept: whatever is asked there again needs no second reading."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import cachetools

__all__ = ["Reading", "Readings"]

POSITIONS = 4
KEPT = 256
"""Readings of a position; one is of a model, a device or the whole."""
LINES = 25_000
"""Lines of the lists that are kept of a position; an option is about a kilobyte, and a question about every device has 11,000."""
T = TypeVar("T")
S = TypeVar("S", bound=tuple[Sequence[Any], ...])


class Reading:
    """Readings at one position, by what was read. Two threads may read the same at once, and both keep it."""

    def __init__(self) -> None:
        """Begin with nothing read."""
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._lists: cachetools.LRUCache[Hashable, Any] = cachetools.LRUCache(LINES, getsizeof=_lines)
        self._lock = threading.Lock()

    def lists(self, what: Hashable, make: Callable[[], S]) -> S:
        """Return the lists that are kept under a name, making them where there are none; nobody may change them."""
        with self._lock:
            kept: S | None = self._lists.get(what)
        if kept is None:
            kept = make()
            if _lines(kept) <= LINES:
                with self._lock:
                    self._lists[what] = kept
        return kept

    def of(self, what: Hashable, read: Callable[[], T]) -> T:
        """Return what is kept under a name, reading it where nothing is."""
        with self._lock:
            if what in self._kept:
                self._kept.move_to_end(what)
                kept: T = self._kept[what]
                return kept
        result = read()
        with self._lock:
            self._kept[what] = result
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        return result


def _lines(lists: tuple[Sequence[Any], ...]) -> int:
    return 1 + sum(map(len, lists))


class Readings:
    """The readings of the positions that were asked last."""

    def __init__(self) -> None:
        """Begin with none."""
        self._at: OrderedDict[Hashable, Reading] = OrderedDict()
        self._lock = threading.Lock()

    def at(self, position: Hashable) -> Reading:
        """Return the readings at a position, or another name of a state: tables in the same state say the same."""
        with self._lock:
            reading = self._at.setdefault(position, Reading())
            self._at.move_to_end(position)
            while len(self._at) > POSITIONS:
                self._at.popitem(last=False)
            return reading
