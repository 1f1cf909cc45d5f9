"""The DuckDB file of a projection: which one is current, who owns it, and what to do when it cannot be read."""

from __future__ import annotations

import contextlib
import logging
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import duckdb

from domain.errors import ServiceUnavailable, unusable_file
from domain.operating_system import lock, unlock
from ingest.projection.fold import CHECKPOINT_AT, create
from ingest.projection.reference import comment
from ingest.projection.statements import SCHEMA_VERSION

__all__ = ["BLOCK_BYTES", "Store", "out_of_order"]

_LOG = logging.getLogger(__name__)
_FILE = re.compile(r"assay-v\d+(\.\d+)?(\.building|\.piece-\d+)?\.duckdb(\.wal)?")
_NUMBERED = re.compile(r"assay-v\d+\.(\d+)\.duckdb")
BLOCK_BYTES = 65_536
"""The size of a block in new files. Every table has one that it does not fill: of 256 KiB they are half of a small file."""
_MEMORY, _LITTLE_MEMORY = "512MiB", "128MiB"
_SETTINGS: dict[str, str | bool] = {
    "memory_limit": _MEMORY,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "default_block_size": str(BLOCK_BYTES),
}


def out_of_order(error: BaseException) -> bool:
    """Whether an error says that the file itself is damaged, so that only making it again helps."""
    return isinstance(error, duckdb.Error) and any(
        words in str(error) for words in ("Corrupt database file", "checksum", "SerializationException")
    )


class Store:
    """The folder of the projection's files. The first file is `assay-v<schema>.duckdb`; a rebuild makes the next one.

    `definitions` names what tables are made by (`definitions_digest`): a file made by others is replaced.
    """

    def __init__(self, folder: Path, definitions: str = "") -> None:
        self.folder = folder
        self.definitions = definitions
        self._owner: IO[bytes] | None = None
        self._naming = threading.Lock()
        self._begun = 0
        self._described: Path | None = None

    def own(self) -> None:
        """Take the folder, or raise ServiceUnavailable: a DuckDB file has one writing process."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            owner = (self.folder / "owner.lock").open("ab")
        except OSError as error:
            raise unusable_file(error) from error
        if not lock(owner.fileno()):
            owner.close()
            raise ServiceUnavailable(
                f"another process owns the projection in {self.folder}.",
                field="ASSAY_HOME",
                remedy="Use the service that runs there, stop it, or give this one another ASSAY_HOME.",
            )
        self._owner = owner

    def disown(self) -> None:
        """Let others take the folder."""
        if self._owner is not None:
            unlock(self._owner.fileno())
            self._owner.close()
            self._owner = None

    @property
    def current(self) -> Path:
        """The file in use: the one that the last swap named, else the first."""
        with contextlib.suppress(FileNotFoundError):
            name = (self.folder / "current").read_text("utf-8").strip()
            if name.startswith(f"assay-v{SCHEMA_VERSION}.") and (self.folder / name).exists():
                return self.folder / name
        return self.folder / f"assay-v{SCHEMA_VERSION}.duckdb"

    def open(self) -> tuple[duckdb.DuckDBPyConnection, str | None]:
        """Open the current file, and return the connection and why it was made anew, None where it was not.

        One that is missing, broken or made by other definitions is replaced by an empty one.
        """
        path = self.current
        reason: str | None = None
        for place in (path, path.with_name(path.name + ".wal")):
            if place.is_dir():
                raise ServiceUnavailable(
                    f"{place} is a folder where the tables' file belongs.",
                    field="ASSAY_HOME",
                    remedy="Move it away; the tables are made anew from the log.",
                )
        if path.exists():
            connection = None
            try:
                connection = _connect(path)
                if connection.execute("SELECT definitions FROM projection").fetchall() == [(self.definitions,)]:
                    return connection, None
                reason = "this version makes the tables by other definitions than the file was made by"
            except duckdb.Error as error:
                if "lock on file" in str(error):
                    raise ServiceUnavailable(
                        f"another process has {path.name} open: {str(error).splitlines()[0][:200]}",
                        field="ASSAY_HOME",
                        remedy="End it; query through the service or on a copy.",
                    ) from error
                reason = f"the file could not be read: {str(error).splitlines()[0][:200]}"
            _LOG.warning("%s is made again from the log: %s", path.name, reason)
            if connection is not None:
                # DuckDB gives an open file again to whoever opens its path, even when another lies there by then.
                connection.close()
        elif any(_FILE.fullmatch(other.name) for other in self.folder.iterdir()):
            reason = "the file of another version lies there"
        self.remove(path)
        return self.create(path), reason

    def create(self, path: Path) -> duckdb.DuckDBPyConnection:
        """Make an empty projection at `path`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        connection = _connect(path)
        create(connection, self.definitions)
        return connection

    @staticmethod
    def connect(path: Path) -> duckdb.DuckDBPyConnection:
        """Return one more connection to a file that this process has open.

        Not a cursor of another connection: that one cannot be closed while the cursor works, and takes it along.
        """
        return duckdb.connect(str(path), config=_SETTINGS)

    @staticmethod
    def forget_blocks(connection: duckdb.DuckDBPyConnection) -> None:
        """Drop most blocks of the file from memory, for a file that is written and not read.

        Where the memory is full of them, every statement frees some before it gets any: a quarter of the time of a fold.
        """
        with contextlib.suppress(duckdb.OutOfMemoryException):
            connection.execute(f"SET GLOBAL memory_limit = '{_LITTLE_MEMORY}'")
        connection.execute(f"SET GLOBAL memory_limit = '{_MEMORY}'")

    def describe(self, path: Path) -> None:
        """Write what the views mean into a file that this process has open; for those who read a copy of it."""
        if self._described != path:
            with contextlib.closing(self.connect(path)) as connection:
                comment(connection)
            self._described = path

    def next(self) -> Path:
        """Return a path that no file has, for a rebuild; above the current one, so that a name never comes again soon."""
        match = _NUMBERED.fullmatch(self.current.name)
        number = int(match[1]) + 1 if match else 2
        while (path := self.folder / f"assay-v{SCHEMA_VERSION}.{number}.duckdb").exists():
            number += 1
        return path

    def begin(self, fill: Callable[[Path], object] | None = None) -> tuple[Path, duckdb.DuckDBPyConnection]:
        """Make a file beside the current one, empty or as `fill` makes it; until `end`, nothing is swept."""
        with self._naming:
            path = self.next()
            connection = self.create(path)
            self._begun += 1
        if fill is None:
            return path, connection
        connection.close()
        try:
            fill(path)
            return path, _connect(path)
        except BaseException:
            self.remove(path)
            self.end()
            raise

    def end(self) -> None:
        """Say that the file which `begin` made is in place, or was removed."""
        with self._naming:
            self._begun -= 1

    def start_over(self) -> None:
        """Make an empty file the current one, under another name.

        Readers may still hold the old one open, and DuckDB would give it again to whoever opens its name.
        """
        with self._naming:
            path = self.next()
            self.create(path).close()
            self.swap(path)
        self.sweep()

    def swap(self, path: Path) -> None:
        """Make `path` the current file, in one step."""
        note = self.folder / "current.new"
        note.write_text(path.name + "\n", encoding="utf-8")
        note.replace(self.folder / "current")

    def sweep(self) -> None:
        """Remove the files that are not current: what a rebuild replaced, or left unfinished, or an older version."""
        if self._begun:
            return
        current = self.current
        for path in self.folder.iterdir():
            if _FILE.fullmatch(path.name) and path.name not in (current.name, current.name + ".wal"):
                path.unlink(missing_ok=True)

    @staticmethod
    def remove(path: Path) -> None:
        """Remove a file and its write-ahead log."""
        path.unlink(missing_ok=True)
        path.with_name(path.name + ".wal").unlink(missing_ok=True)


def _connect(path: Path) -> Any:
    connection = Store.connect(path)
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute(f"SET GLOBAL wal_autocheckpoint = '{CHECKPOINT_AT}'")
    return connection
