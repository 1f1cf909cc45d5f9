"""Arrow tables, one after another, into one file of a format; memory holds one table of them."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.staging import SUFFIX
from domain.cells import defused, zeroed
from domain.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MONTH", "TYPE", "WRITERS", "DuckdbFile", "write_partitioned"]

TYPE = b"assay.type"
"""Of a field's metadata: the type of the column in the tables, in DuckDB's words."""
MONTH = "month"
"""Made of `recorded_at`, in UTC, where it is asked for as a folder."""
OPEN_FILES = 100
MOST_FOLDERS = 10_000
GROUP_ROWS = 100_000
Tables = Iterable["pa.Table"]
Metadata = Mapping[str, str]


def _parquet(path: Path, schema: pa.Schema, tables: Tables, document: Metadata) -> int:
    import pyarrow.parquet as parquet

    rows = 0
    with parquet.ParquetWriter(path, schema.with_metadata(dict(document)), compression="zstd") as writer:
        for table in tables:
            writer.write_table(table.replace_schema_metadata(dict(document)))
            rows += table.num_rows
    return rows


def _arrow(path: Path, schema: pa.Schema, tables: Tables, document: Metadata) -> int:
    import pyarrow as pa

    rows = 0
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema.with_metadata(dict(document))) as writer:
        for table in tables:
            writer.write_table(zeroed(table).replace_schema_metadata(dict(document)))
            rows += table.num_rows
    return rows


def _csv(path: Path, schema: pa.Schema, tables: Tables, document: Metadata) -> int:  # noqa: ARG001 - a card says it
    """Texts are quoted, so that an empty one is not a null; those that a spreadsheet would run are defused."""
    import pyarrow as pa
    import pyarrow.csv as csv

    rows = 0
    with ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("wb"))
        if path.name.removesuffix(SUFFIX).endswith(".gz"):
            stream = stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0))
        flat = pa.schema(
            [(field.name, pa.string() if pa.types.is_nested(field.type) else field.type) for field in schema]
        )
        writer = stack.enter_context(csv.CSVWriter(stream, flat))
        for table in tables:
            columns = [_cell(column) for column in table.columns]
            writer.write_table(pa.table(columns, schema=flat))
            rows += table.num_rows
    return rows


def _cell(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_nested(column.type):
        texts = [None if value is None else msgspec.json.encode(value).decode() for value in column.to_pylist()]
        column = pa.chunked_array([pa.array(texts, pa.string())])
    return defused(column) if pa.types.is_string(column.type) else column


def _lines(path: Path, schema: pa.Schema, tables: Tables, document: Metadata) -> int:  # noqa: ARG001 - a card says it
    """One object a row; columns that hold JSON as text are JSON here."""
    held = {field.name for field in schema if (field.metadata or {}).get(TYPE) == b"JSON"}
    rows = 0
    with ExitStack() as stack:
        stream: Any = stack.enter_context(path.open("wb"))
        if path.name.removesuffix(SUFFIX).endswith(".gz"):
            stream = stack.enter_context(
                gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0, compresslevel=6)
            )
        for table in tables:
            for row in table.to_pylist():
                for name in held:
                    if row[name] is not None:
                        row[name] = msgspec.Raw(row[name].encode())
                stream.write(msgspec.json.encode(row) + b"\n")
            rows += table.num_rows
    return rows


WRITERS: Mapping[str, Callable[[Path, Any, Tables, Metadata], int]] = {
    "parquet": _parquet,
    "arrow": _arrow,
    "csv": _csv,
    "ndjson": _lines,
}
"""By format, what writes tables of a schema to a file, with their metadata where the format has a place for it."""


def write_partitioned(folder: Path, schema: pa.Schema, tables: Tables, document: Metadata, by: Sequence[str]) -> int:
    """Write Parquet files into folders `column=value`, in the order of `by`; return the rows.

    UsageError for a column that the rows have not, or that holds no words or whole numbers.
    """
    import pyarrow as pa
    import pyarrow.dataset as dataset

    if MONTH in by and MONTH not in schema.names:
        schema, tables = _with_months(schema, tables)
    for name in by:
        kind = schema.field(name).type if name in schema.names else None
        if kind is None or not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
            raise UsageError(
                f"rows cannot be put into folders by {name!r}.",
                field="partition_by",
                remedy="Name columns of words or whole numbers, such as hardware_id, platform, or month.",
            )
    counted = [0]

    def batches() -> Iterator[Any]:
        for table in tables:
            counted[0] += table.num_rows
            yield from table.to_batches()

    try:
        dataset.write_dataset(
            pa.RecordBatchReader.from_batches(schema.with_metadata(dict(document)), batches()),
            folder,
            format="parquet",
            basename_template="part-{i}.parquet",
            partitioning=dataset.partitioning(pa.schema([schema.field(name) for name in by]), flavor="hive"),
            file_options=dataset.ParquetFileFormat().make_write_options(compression="zstd"),
            max_open_files=OPEN_FILES,
            max_partitions=MOST_FOLDERS,
            max_rows_per_group=GROUP_ROWS,
            existing_data_behavior="overwrite_or_ignore",
        )
    except pa.ArrowInvalid as error:
        raise UsageError(
            f"{error}.", field="partition_by", remedy=f"At most {MOST_FOLDERS:,} folders are made: name fewer columns."
        ) from error
    return counted[0]


def _with_months(schema: pa.Schema, tables: Tables) -> tuple[pa.Schema, Tables]:
    import pyarrow as pa
    import pyarrow.compute as compute

    if "recorded_at" not in schema.names:
        raise UsageError("these rows have no time.", field="partition_by", remedy="Name columns that they have.")

    def added() -> Iterator[Any]:
        for table in tables:
            moments = table.column("recorded_at").cast(pa.timestamp("us", tz="UTC")).cast(pa.timestamp("us"))
            yield table.append_column(MONTH, compute.strftime(moments, format="%Y-%m"))

    return schema.append(pa.field(MONTH, pa.string())), added()


class DuckdbFile:
    """A DuckDB file with a table a noun, in the types of the views, and a table `export` that says what it is."""

    def __init__(self, path: Path) -> None:
        import duckdb

        self._connection = duckdb.connect(str(path), config={"threads": 2, "memory_limit": "256MiB"})
        self._connection.execute("SET TimeZone = 'UTC'")

    def __enter__(self) -> DuckdbFile:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def add(self, name: str, schema: pa.Schema, tables: Tables) -> int:
        """Write rows into a new table and return how many."""
        kinds = {field.name: (field.metadata or {}).get(TYPE, b"").decode() for field in schema}
        chosen = ", ".join(
            f'"{column}"::{kind} AS "{column}"' if kind else f'"{column}"' for column, kind in kinds.items()
        )
        self._connection.register("page", schema.empty_table())
        self._connection.execute(f'CREATE TABLE "{name}" AS SELECT {chosen} FROM page')
        rows = 0
        for table in tables:
            self._connection.register("page", table)
            self._connection.execute(f'INSERT INTO "{name}" SELECT {chosen} FROM page')
            rows += table.num_rows
        self._connection.unregister("page")
        return rows

    def tell(self, document: Metadata) -> None:
        """Write what the export says of itself."""
        self._connection.execute("CREATE TABLE export (name VARCHAR, value VARCHAR)")
        self._connection.executemany("INSERT INTO export VALUES (?, ?)", list(document.items()))
