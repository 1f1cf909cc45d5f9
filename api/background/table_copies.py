"""Copies of the tables for child processes: DuckDB lets no second process open a file that is being written."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ingest.projection.projector import Projection

__all__ = ["Snapshots"]

_CHEAP_S = 0.25
"""A copy that costs less is made for every position that is asked for."""
_PATIENCE = 10.0
"""A dearer one serves for so many times its cost: at most a tenth of the time goes into copies."""


class _Copy(NamedTuple):
    of: Path
    position: int
    path: Path
    made_at: float
    cost_s: float


class Snapshots:
    """The folder of copies. A copy is shared by all who ask while it serves, and removed after the last of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._making = threading.Lock()
        self._users: dict[Path, int] = {}
        self._newest: _Copy | None = None

    @contextmanager
    def at(self, projection: Projection, position: int, needed: int | None = None) -> Iterator[tuple[Path, int]]:
        """Give the path and position of a copy, for as long as the block lasts.

        It holds `position`, the newest, or where copies are dear, at least `needed` and what was there a little while
        ago: ten times as long as a copy takes.
        """
        with self._making:
            if self._newest is None or not self._serves(self._newest, projection.path, position, needed):
                self._newest = self._make(projection)
            copy = self._newest
            self._users[copy.path] = self._users.get(copy.path, 0) + 1
        try:
            yield copy.path, copy.position
        finally:
            with self._making:
                self._users[copy.path] -= 1
                if not self._users[copy.path] and (self._newest is None or self._newest.path != copy.path):
                    self._forget(copy.path)

    @staticmethod
    def _serves(copy: _Copy, tables: Path, position: int, needed: int | None) -> bool:
        # Tables that were made again are another file, even where they tell of the same position.
        if copy.of != tables or not copy.path.exists() or copy.position < (needed or 0):
            return False
        age_s = time.monotonic() - copy.made_at
        return copy.position >= position or (copy.cost_s > _CHEAP_S and age_s < _PATIENCE * copy.cost_s)

    def _make(self, projection: Projection) -> _Copy:
        if not self._users:
            self.folder.mkdir(parents=True, exist_ok=True)
            for left_behind in self.folder.glob("tables-*.duckdb*"):
                left_behind.unlink(missing_ok=True)
        path = self.folder / f"tables-{uuid.uuid4().hex}.duckdb"
        of = projection.path
        projection.describe()
        begun = time.monotonic()
        position = projection.publish(path)
        made_at = time.monotonic()
        old = self._newest
        if old is not None and not self._users.get(old.path):
            self._forget(old.path)
        return _Copy(of, position, path, made_at, made_at - begun)

    def _forget(self, path: Path) -> None:
        self._users.pop(path, None)
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".wal").unlink(missing_ok=True)
