"""Tables as the bytes of a media type. Needs no web framework: child processes encode what they found by themselves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa

from api.http.media import CSV, PARQUET
from domain.cells import defused, zeroed

__all__ = ["encoded", "flat", "rows_as_json"]

_SLICE_ROWS = 1000


def encoded(table: pa.Table, media: str) -> bytes:
    """Return a table as CSV, Parquet or an Arrow stream; equal tables give equal bytes.

    CSV holds no text that a spreadsheet would run as a formula.
    """
    sink = io.BytesIO()
    if media == CSV:
        import pyarrow.csv

        pyarrow.csv.write_csv(_defused(_plain(table)), sink)
    elif media == PARQUET:
        import pyarrow.parquet

        # Where batches end decides where pages end.
        pyarrow.parquet.write_table(table.combine_chunks(), sink)
    else:
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(zeroed(table))
    return sink.getvalue()


def flat(value: Any) -> Any:
    """Return what a cell of CSV holds: lists and mappings are JSON text."""
    return msgspec.json.encode(value).decode() if isinstance(value, list | dict | tuple) else value


def rows_as_json(table: pa.Table) -> Iterator[bytes]:
    """Yield the text of a JSON list of rows, each a list of values, in pieces: a whole one would be large as objects."""
    yield b"["
    begun = False
    for batch in table.to_batches(max_chunksize=_SLICE_ROWS):
        values = [column.to_pylist() for column in batch.columns]
        text = msgspec.json.encode([list(row) for row in zip(*values, strict=True)], enc_hook=str)[1:-1]
        yield b"," + text if begun and text else text
        begun |= bool(text)
    yield b"]"


def _plain(table: pa.Table) -> pa.Table:
    """Arrow's writer of CSV knows no types of other libraries and no nested ones: storage and JSON text are written."""
    for index, field in enumerate(table.schema):
        column = table.column(index)
        if isinstance(field.type, pa.BaseExtensionType):
            stored = pa.chunked_array([chunk.storage for chunk in column.chunks], field.type.storage_type)
            table = table.set_column(index, field.name, stored)
        elif pa.types.is_nested(field.type) or pa.types.is_interval(field.type):
            texts = [None if value is None else str(flat(value)) for value in column.to_pylist()]
            table = table.set_column(index, field.name, pa.array(texts, pa.string()))
    return table


def _defused(table: pa.Table) -> pa.Table:
    """Defuse every text, the names of columns included: a query names its columns as it likes."""
    columns = [_decoded(column) for column in table.columns]
    columns = [defused(column) if _is_text(column.type) else column for column in columns]
    names = defused(pa.array(table.column_names, pa.string())).to_pylist()
    return pa.Table.from_arrays(columns, names=names)


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    return any(
        (
            pa.types.is_string(kind),
            pa.types.is_large_string(kind),
            pa.types.is_binary(kind),
            pa.types.is_large_binary(kind),
        )
    )
