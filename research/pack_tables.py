"""Make the tables that ship: what a service has projected when it starts with an empty log.

    python -m research.pack_tables [--out ingest/evidence/tables.duckdb.xz]

Runs after `research.pack_evidence`, and after each change of what the tables are made by: a test says when.
"""

from __future__ import annotations

import argparse
import asyncio
import lzma
import tempfile
from collections.abc import Sequence
from pathlib import Path

import duckdb

from api.background.shipped_data import load_into_empty
from ingest.evidence.tables import PACKED
from ingest.log import migrate
from ingest.log.event_log import EventLog
from ingest.log.postgres import open_database
from ingest.projection.projector import Projection
from ingest.projection.store import BLOCK_BYTES

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the packed file and print its size."""
    parser = argparse.ArgumentParser(prog="python -m research.pack_tables", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=PACKED, help="file to write (%(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="assay-pack-") as folder:
        content = _tables(Path(folder)).read_bytes()
    options.out.write_bytes(lzma.compress(content, preset=9 | lzma.PRESET_EXTREME))
    print(f"{options.out}: {len(content):,} bytes of tables in {options.out.stat().st_size:,}")


def _tables(home: Path) -> Path:
    database = open_database(home, None)
    try:
        migrate.upgrade(database.url)
        asyncio.run(_load(database.url))
        made = home / "copy.duckdb"
        with Projection(home, database) as projection:
            projection.catch_up()
            projection.publish(made)
    finally:
        database.close()
    # Written anew, the file has no free pages.
    whole = home / "tables.duckdb"
    with duckdb.connect() as connection:
        connection.execute(f"ATTACH '{made}' AS made (READ_ONLY)")
        connection.execute(f"ATTACH '{whole}' AS whole (BLOCK_SIZE {BLOCK_BYTES})")
        connection.execute("COPY FROM DATABASE made TO whole")
    return whole


async def _load(url: str) -> None:
    async with EventLog(url, connections=1) as log:
        await load_into_empty(log)


if __name__ == "__main__":
    main()
