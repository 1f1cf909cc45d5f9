"""Answers in bytes: the same rows are the same bytes, no memory leaks under nulls, no cell is a formula."""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from api.http.encoding import encoded
from api.http.media import ARROW, CSV, PARQUET
from domain.cells import zeroed

SECRET = b"secret!!"
KINDS = {
    "whole": "i", "double": "i::DOUBLE", "boolean": "i % 2 = 0", "text": "'text ' || i", "list": "[i, NULL, 7]",
    "texts": "['a' || i, NULL]", "struct": "{'a': i, 'b': 't' || i}", "map": "MAP {'k' || i: i}",
    "decimal": "i::DECIMAL(10, 2)", "huge": "i::HUGEINT", "time": "make_timestamptz(i)", "array": "[i, i]::INTEGER[2]",
    "enum": "(['a', 'b'][1 + i % 2])::ENUM ('a', 'b')", "interval": "to_days(i::INTEGER)", "date": "DATE '2026-01-01' + i::INTEGER",
    "blob": "('b' || i)::BLOB", "json": "to_json(i)", "nested": "[{'a': [i], 'b': i % 2 = 0}]", "union": "union_value(k := i)",
}  # fmt: skip


def every_kind(rows: int) -> pa.Table:
    """Return a table with a column of every kind; each column has its nulls elsewhere."""
    columns = ", ".join(
        f'IF((i + {at}) % 3 = 0, {text}, NULL) AS "{name}"' for at, (name, text) in enumerate(KINDS.items())
    )
    return duckdb.sql(f"SELECT {columns}, NULL AS nothing FROM range({rows}) AS t(i)").to_arrow_table()


def poisoned(values: bytes, valid: list[bool], kind: pa.DataType, *buffers: pa.Buffer) -> pa.Array:
    mask = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
    return pa.Array.from_buffers(kind, len(valid), [mask, *buffers, pa.py_buffer(values)])


def buffers(array: Any) -> Iterator[bytes]:
    yield from (one.to_pybytes() for one in array.buffers() if one is not None)


@pytest.mark.parametrize("media", [ARROW, PARQUET, CSV])
def test_the_same_rows_are_the_same_bytes_however_they_came(media):
    rows = 100
    table = every_kind(rows)
    if media == PARQUET:
        table = table.drop_columns(["union", "interval"])  # Parquet has no such types.
    first = encoded(table, media)
    assert encoded(pa.concat_tables([table.slice(0, 33), table.slice(33)]), media) == first
    again = every_kind(rows).select(table.column_names)
    assert encoded(again, media) == first
    if media == ARROW:
        assert pa.ipc.open_stream(first).read_all().equals(table)
    elif media == PARQUET:
        assert pyarrow.parquet.read_table(io.BytesIO(first)).num_rows == rows


def test_nothing_stands_under_nulls():
    number = poisoned(SECRET * 2 + bytes(8), [False, False, True], pa.int64())
    text = poisoned(SECRET, [False, True], pa.string(), pa.py_buffer(np.array([0, 8, 8], np.int32).tobytes()))
    fixed = poisoned(SECRET * 2, [False, True], pa.decimal64(10, 2))
    inner = pa.array([b"secret!!", b"x"], pa.binary())
    mask = pa.py_buffer(np.packbits([False, True], bitorder="little").tobytes())
    struct = pa.Array.from_buffers(pa.struct([("a", pa.binary())]), 2, [mask], children=[inner])
    ends = pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes())
    lists = pa.Array.from_buffers(pa.list_(pa.binary()), 2, [mask, ends], children=[inner])
    fixed_lists = pa.Array.from_buffers(pa.list_(pa.binary(), 1), 2, [mask], children=[inner])
    for array in (number, text, struct, lists, fixed_lists):
        table = pa.table({"a": array})
        assert any(SECRET in one for one in buffers(array))
        assert SECRET not in encoded(table, ARROW)
        assert zeroed(table).equals(table)
    assert zeroed(pa.table({"a": fixed})).column("a").chunk(0).buffers()[1].to_pybytes()[:8] == bytes(8)
    bits = poisoned(b"\xff", [False, True, False], pa.bool_())
    assert [one[0] for one in buffers(zeroed(pa.table({"a": bits})).column("a").chunk(0))] == [0b010, 0b010]


@pytest.mark.parametrize(("begin", "rows"), [(0, 0), (1, 5), (7, 20)])
def test_a_part_of_a_table_stays_what_it_is(begin, rows):
    table = every_kind(40).slice(begin, rows)
    clean = zeroed(table)
    clean.validate(full=True)
    assert clean.equals(table)
    assert clean.schema.equals(table.schema, check_metadata=True)


def test_a_large_table_is_zeroed_in_a_moment():
    columns = ", ".join(f"IF(hash(i, {at}) % 3 = 0, i::DOUBLE, NULL) AS c{at}" for at in range(40))
    table = duckdb.sql(f"SELECT {columns} FROM range(100_000) AS t(i)").to_arrow_table()
    begun = time.process_time()
    assert zeroed(table).num_rows == 100_000
    assert time.process_time() - begun < 2


def test_no_cell_of_csv_and_no_name_of_a_column_is_a_formula():
    sql = """SELECT '=1+1' AS "=cmd", '@x'::BLOB AS blob, '-1'::ENUM ('-1') AS enum, -1.5 AS number, ['=x'] AS list, '''=x' AS quoted"""
    ((*names,), (*cells,)) = csv.reader(io.StringIO(encoded(duckdb.sql(sql).to_arrow_table(), CSV).decode()))
    assert names == ["'=cmd", "blob", "enum", "number", "list", "quoted"]
    assert cells == ["'=1+1", "'@x", "'-1", "-1.5", '["=x"]', "''=x"]
