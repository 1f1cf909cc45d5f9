"""This machine: what is installed, the room on its disks, and what was left behind in the data directory."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from assay.diagnosis.finding import Finding, fine, note, problem
from assay.home import Home, running
from presentation import formatting

__all__ = ["installed", "left_behind", "room", "spooled"]

LEAST_FREE_BYTES = 2e9
_NEEDED = ("duckdb", "litestar", "lightgbm", "pyarrow", "psycopg")
_OPTIONAL = ("streamlit", "torch", "openvino")
_WAITING = "SELECT refused, count(*) FROM spooled GROUP BY refused"


def installed() -> Iterator[Finding]:
    """Yield the versions of Python, of Assay and of the packages it stands on."""
    yield fine("python", sys.version.split()[0])
    try:
        yield fine("assay", version("assay-bench"))
    except PackageNotFoundError:
        yield note("assay", "runs from a source tree", "Releases are installed: pip install 'assay-bench[all]'")
    for name in (*_NEEDED, *_OPTIONAL):
        try:
            yield fine(name, version(name))
        except PackageNotFoundError:
            report = note if name in _OPTIONAL else problem
            yield report(name, "not installed", "pip install 'assay-bench[all]'")


def room(folder: Path, what: str, bytes_a_day: float | None = None) -> Finding:
    """Return how much room a folder's disk has, and for how many days that lasts as the log grows."""
    free = shutil.disk_usage(folder).free
    text = f"{formatting.memory(free)} free at {folder}"
    if bytes_a_day:
        days = free / bytes_a_day
        text += f"; the log grew by {formatting.memory(bytes_a_day)} a day last week: enough for {formatting.count(int(days))} days"
        if days < 30:
            return problem(what, text, "Make room, archive to another disk (ASSAY_ARCHIVE) and `assay archive trim`.")
    if free < LEAST_FREE_BYTES:
        return problem(what, text, "Make room: under 2 GB is too little.")
    return fine(what, text)


def spooled(home: Home) -> Iterator[Finding]:
    """Yield whether events of this machine wait to be sent, or were refused."""
    if not home.spool.exists():
        return
    try:
        connection = sqlite3.connect(f"file:{home.spool}?mode=ro", uri=True)
        try:
            counts = dict(connection.execute(_WAITING).fetchall())
        finally:
            connection.close()
    except sqlite3.Error as error:
        yield problem(
            "spool", f"{home.spool} cannot be read: {error}", "Keep the file; it holds measurements not sent yet."
        )
        return
    if counts.get(1):
        yield problem(
            "spool", f"{counts[1]} events were refused by the service", "`assay bench` names them when it sends."
        )
    if counts.get(0):
        yield note("spool", f"{counts[0]} events wait to be sent", "The next `assay bench` sends them.")
    if not counts:
        yield fine("spool", "empty")


def left_behind(home: Home, archive: Path, existing: Sequence[tuple[str, str | None]]) -> Iterator[Finding]:
    """Yield files that nothing uses: unfinished ones, old copies of the tables, files of the archive without a row.

    `known` are the facts and samples files of the archive's segments. Files that may be in use are left alone while
    a service runs; a whole segment without a row is never removed by itself: the database may be an older backup.
    """
    dead = list(archive.glob("*.writing")) if archive.is_dir() else []
    if running(home) is None:
        dead += _stale_tables(home.path / "projection")
        dead += sorted((home.path / "snapshots").glob("*"))
    names = {name for pair in existing for name in pair if name}
    facts = {name for name, _ in existing}
    for path in sorted(archive.glob("*.parquet")):
        if path.name in names:
            continue
        # Its facts are known, so this is a generation of samples that another one has replaced, or that expired.
        if (
            path.name.startswith("samples-")
            and "facts-" + path.name.split("-", 1)[1].split(".")[0] + ".parquet" in facts
        ):
            dead.append(path)
        else:
            yield problem(
                "archive",
                f"{path} belongs to no segment of this log",
                "It may be of a newer state than this database: keep it until that is clear, then remove it.",
            )
    if dead:

        def remove() -> None:
            for path in dead:
                path.unlink(missing_ok=True)

        size = sum(path.stat().st_size for path in dead)
        shown = ", ".join(path.name for path in dead[:3]) + (", …" if len(dead) > 3 else "")
        yield problem(
            "left behind",
            f"{len(dead)} files that nothing uses, {formatting.memory(size)}: {shown}",
            "assay doctor --fix",
            remove,
        )
    else:
        yield fine("left behind", "no files that nothing uses")


def _stale_tables(folder: Path) -> list[Path]:
    """Return the tables' files that are not the current one, as Store.sweep would when the next service starts."""
    if not folder.is_dir():
        return []
    from ingest.projection.store import Store

    current = Store(folder).current.name
    return [path for path in sorted(folder.glob("assay-v*.duckdb*")) if not path.name.startswith(current)]
