"""docs/tables.md names every table, view and column that there is."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb

from ingest.projection.fold import create

PAGE = Path(__file__).parents[3] / "docs" / "tables.md"


def test_every_table_view_and_column_is_documented():
    named = set(re.findall(r"`(\w+)`|\*\*(\w+)\*\*|^## (.+)$", PAGE.read_text(), re.MULTILINE))
    words = {word.strip() for found in named for part in found for word in part.split(",") if word}
    with duckdb.connect() as connection:
        create(connection)
        rows = connection.execute("SELECT table_name, column_name FROM information_schema.columns").fetchall()
    assert len(rows) > 300
    missing = sorted({name for row in rows for name in row} - words)
    assert missing == []
