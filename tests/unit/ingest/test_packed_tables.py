"""The tables that ship are those that a service makes of what ships."""

from __future__ import annotations

from pathlib import Path

import duckdb

from domain.upcasting import UPCASTERS
from ingest import evidence
from ingest.evidence.tables import unpacked
from ingest.projection.definitions import definitions_digest


def test_the_packed_tables_are_of_today_s_definitions_and_of_all_that_ships(tmp_path: Path) -> None:
    with duckdb.connect(str(unpacked(tmp_path)), read_only=True) as connection:
        ((position, definitions),) = connection.execute("SELECT position, definitions FROM projection").fetchall()
        ((runs,),) = connection.execute("SELECT list_sort(list(DISTINCT run_id)) FROM runs").fetchall()
    # Made again by `python -m research.pack_tables`.
    assert definitions == definitions_digest(UPCASTERS)
    assert position == evidence.count()
    assert set(map(str, runs)) == evidence.runs()
