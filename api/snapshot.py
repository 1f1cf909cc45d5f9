"""Copies of the tables for child processes: DuckDB lets no second process open a file that is being written."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.projection import Projection

__all__ = ["Snapshots"]


class Snapshots:
    """The folder of copies. A copy is shared by all who ask at its position and removed after the last of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._making = threading.Lock()
        self._users: dict[Path, int] = {}
        self._newest: tuple[int, Path] | None = None

    @contextmanager
    def at(self, projection: Projection, position: int) -> Iterator[tuple[Path, int]]:
        """Give the path and position of a copy that holds at least `position`, for as long as the block lasts."""
        with self._making:
            if self._newest is None or self._newest[0] < position or not self._newest[1].exists():
                self._newest = self._make(projection)
            reached, path = self._newest
            self._users[path] = self._users.get(path, 0) + 1
        try:
            yield path, reached
        finally:
            with self._making:
                self._users[path] -= 1
                if not self._users[path] and (self._newest is None or self._newest[1] != path):
                    self._forget(path)

    def _make(self, projection: Projection) -> tuple[int, Path]:
        if not self._users:
            self.folder.mkdir(parents=True, exist_ok=True)
            for left_behind in self.folder.glob("tables-*.duckdb*"):
                left_behind.unlink(missing_ok=True)
        path = self.folder / f"tables-{uuid.uuid4().hex}.duckdb"
        name = f"copy_{uuid.uuid4().hex}"
        with contextlib.closing(projection.cursor()) as cursor:
            ((source,),) = cursor.execute("SELECT current_database()").fetchall()
            cursor.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS {name}")
            try:
                cursor.execute(f'COPY FROM DATABASE "{source}" TO {name}')
                ((reached,),) = cursor.execute(f"SELECT position FROM {name}.projection").fetchall()
            finally:
                cursor.execute(f"DETACH {name}")
        old = self._newest
        if old is not None and not self._users.get(old[1]):
            self._forget(old[1])
        return int(reached), path

    def _forget(self, path: Path) -> None:
        self._users.pop(path, None)
        path.unlink(missing_ok=True)
