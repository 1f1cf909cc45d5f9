"""The tables of the evidence that ships, made once: what a service has projected when it starts with an empty log.

`tables.duckdb.xz` is the file of such a service, made by `python -m research.pack_tables`. A process without a service
unpacks it into its cache on the first question.
"""

from __future__ import annotations

import lzma
import shutil
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import duckdb

__all__ = ["PACKED", "unpacked"]

PACKED = Path(__file__).with_name("tables.duckdb.xz")
ABANDONED_S = 600.0
"""A folder in which nothing was unpacked for so long is one of a process that was killed."""
_NOW = """
UPDATE {table} SET recorded_at = $now WHERE position = (SELECT position FROM projection)
"""
_LAST_IN = ("moment", "measurement")
"""Tables that may hold the last event; its time is the "now" of answers."""


def unpacked(folder: Path) -> Path:
    """Return the file of tables in `folder`, unpacked there where it is missing; other versions of it are removed.

    Raises OSError where the folder cannot be written to. Processes that unpack at the same time do not disturb each other;
    what one that was killed left behind goes with the next version.
    """
    packed = PACKED.read_bytes()
    path = folder / f"shipped-{sha256(packed).hexdigest()[:16]}.duckdb"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    others = list(folder.glob("shipped-*"))
    with tempfile.TemporaryDirectory(dir=folder, prefix="shipped-") as beside:
        made = Path(beside) / path.name
        made.write_bytes(lzma.decompress(packed))
        _load_now(made)
        try:
            made.replace(path)
        except PermissionError:
            # Windows replaces no file that is open: another process was first.
            if not path.exists():
                raise
    for other in others:
        _remove(other)
    return path


def _remove(left: Path) -> None:
    """Remove what another version or a killed process left; what is in use stays."""
    if left.is_dir() and time.time() - left.stat().st_mtime > ABANDONED_S:
        shutil.rmtree(left, ignore_errors=True)
    elif left.suffix == ".duckdb":
        with suppress(OSError):
            left.unlink()


def _load_now(path: Path) -> None:
    """Say that the log took the evidence now, as a service does that starts: prices and figures are as old as that."""
    with duckdb.connect(str(path)) as connection:
        for table in _LAST_IN:
            connection.execute(_NOW.format(table=table), {"now": datetime.now(UTC)})
        connection.execute("CHECKPOINT")
