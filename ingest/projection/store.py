"""The DuckDB file of a projection: which one is current, who owns it, and what to do when it cannot be read."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import re
from pathlib import Path
from typing import IO

import duckdb

from domain.errors import ServiceUnavailable
from ingest.projection.fold import create
from ingest.projection.names import catalogue_digest

__all__ = ["SCHEMA_VERSION", "Store"]

SCHEMA_VERSION = 1
"""Raise it with every change of the tables or of how events become rows: the file is then made anew."""

_LOG = logging.getLogger(__name__)
_FILE = re.compile(r"assay-v\d+(\.\d+)?(\.building)?\.duckdb(\.wal)?")
_SETTINGS: dict[str, str | bool] = {
    "memory_limit": "1GiB",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
}
_UNREADABLE = (
    duckdb.IOException, duckdb.SerializationException, duckdb.CatalogException, duckdb.InternalException,
    duckdb.FatalException, duckdb.InvalidInputException, duckdb.BinderException,
)  # fmt: skip


class Store:
    """The folder of the projection's files. The first file is `assay-v<schema>.duckdb`; a rebuild makes the next one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._owner: IO[bytes] | None = None

    def own(self) -> None:
        """Take the folder, or raise ServiceUnavailable: a DuckDB file has one writing process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        owner = (self.folder / "owner.lock").open("ab")
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner.close()
            raise ServiceUnavailable(
                f"another process owns the projection in {self.folder}.",
                field="ASSAY_HOME",
                remedy="Use the service that runs there, stop it, or give this one another ASSAY_HOME.",
            ) from error
        self._owner = owner

    def disown(self) -> None:
        """Let others take the folder."""
        if self._owner is not None:
            self._owner.close()
            self._owner = None

    @property
    def current(self) -> Path:
        """The file in use: the one that the last swap named, else the first."""
        with contextlib.suppress(FileNotFoundError):
            name = (self.folder / "current").read_text().strip()
            if name.startswith(f"assay-v{SCHEMA_VERSION}.") and (self.folder / name).exists():
                return self.folder / name
        return self.folder / f"assay-v{SCHEMA_VERSION}.duckdb"

    def open(self) -> duckdb.DuckDBPyConnection:
        """Open the current file; one that is missing, broken or made with other names is replaced by an empty one."""
        path = self.current
        if path.exists():
            connection = None
            try:
                connection = _connect(path)
                if connection.execute("SELECT catalogue FROM projection").fetchall() == [(catalogue_digest(),)]:
                    return connection
                _LOG.warning("the catalogues know other names than %s was made with: it is made again", path)
            except _UNREADABLE as error:
                _LOG.warning("%s cannot be read and is made again from the log: %s", path, error)
            if connection is not None:
                # DuckDB gives an open file again to whoever opens its path, even when another lies there by then.
                connection.close()
        self.remove(path)
        return self.create(path)

    def create(self, path: Path) -> duckdb.DuckDBPyConnection:
        """Make an empty projection at `path`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        connection = _connect(path)
        create(connection)
        return connection

    @staticmethod
    def connect(path: Path) -> duckdb.DuckDBPyConnection:
        """Return one more connection to a file that this process has open.

        Not a cursor of another connection: that one cannot be closed while the cursor works, and takes it along.
        """
        return duckdb.connect(str(path), config=_SETTINGS)

    def next(self) -> Path:
        """Return a path that no file has, for a rebuild."""
        number = 2
        while (path := self.folder / f"assay-v{SCHEMA_VERSION}.{number}.duckdb").exists():
            number += 1
        return path

    def swap(self, path: Path) -> None:
        """Make `path` the current file, in one step."""
        note = self.folder / "current.new"
        note.write_text(path.name + "\n")
        note.replace(self.folder / "current")

    def sweep(self) -> None:
        """Remove the files that are not current: what a rebuild replaced, or left unfinished, or an older version."""
        current = self.current
        for path in self.folder.iterdir():
            if _FILE.fullmatch(path.name) and path.name not in (current.name, current.name + ".wal"):
                path.unlink(missing_ok=True)

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a file and its write-ahead log."""
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".wal").unlink(missing_ok=True)


def _connect(path: Path) -> duckdb.DuckDBPyConnection:
    connection = Store.connect(path)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection
