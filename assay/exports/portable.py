"""The views as a folder of Parquet files that Spark, DuckDB, Polars and pandas open with the schema in the files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from assay import __version__
from assay.exports.tables import GROUP_ROWS, TYPE
from assay.exports.views import PAGE, read_view, view_names
from assay.staging import Staged
from domain.errors import AssayError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from assay.client import Client

__all__ = ["MANIFEST", "Manifest", "ManifestColumn", "ManifestView", "export_tables", "portable"]

MANIFEST = "manifest.json"


class ManifestColumn(msgspec.Struct, frozen=True, kw_only=True):
    """A column: its type in the file (Arrow's words), its unit (`1` counts and shares, null where there is none), its meaning."""

    name: str
    type: str
    unit: str | None
    meaning: str | None


class ManifestView(msgspec.Struct, frozen=True, kw_only=True):
    """A view: its file, how many rows it has, what each row is, and its columns in their order."""

    name: str
    file: str
    rows: int
    each_row: str | None
    columns: list[ManifestColumn]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a folder of tables holds: the state of the log at `position`, by the views' schema of that version."""

    position: int
    schema_version: int
    assay: str
    views: list[ManifestView]
    layout: int = 1


def export_tables(
    client: Client,
    folder: Path,
    *,
    views: Sequence[str] = (),
    as_of: int | None = None,
    force: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Manifest:
    """Write one Parquet file a view, and the manifest, into `folder`, all of one position; whole, or not at all.

    `force` replaces a folder that holds nothing but exported files. UsageError for a view that there is not.
    """
    names = view_names(client)
    for name in views:
        if name not in names:
            near = get_close_matches(name, names) or names
            raise UsageError(f"no view is called {name!r}.", field="views", remedy=f"Did you mean {', '.join(near)}?")
    position = int(client.ready()["log_position"]) if as_of is None else as_of
    client.wait_for(position)
    described = {view["name"]: view for view in client.schema()["views"]}
    with Staged(force=force) as staged:
        place = staged.folder(folder)
        entries = []
        version = 0
        for name in dict.fromkeys(views or names):
            view = read_view(client, name, as_of=position, page=2 * PAGE)
            version = view.schema_version
            file = place / f"{name}.parquet"
            said = {"assay.position": str(position), "assay.schema_version": str(version)}
            schema, rows = _write(file, view.schema, _counted(view.pages, advance), said)
            entries.append(_entry(name, file.name, rows, schema, described.get(name, {})))
        manifest = Manifest(position=position, schema_version=version, assay=__version__, views=entries)
        (place / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n")
    return manifest


def _entry(name: str, file: str, rows: int, schema: pa.Schema, described: dict[str, Any]) -> ManifestView:
    columns = {column["name"]: column for column in described.get("columns", ())}
    return ManifestView(
        name=name,
        file=file,
        rows=rows,
        each_row=described.get("rows"),
        columns=[
            ManifestColumn(
                name=field.name,
                type=str(field.type),
                unit=columns.get(field.name, {}).get("unit"),
                meaning=columns.get(field.name, {}).get("meaning"),
            )
            for field in schema
        ],
    )


def _counted(pages: Iterator[pa.Table], advance: Callable[[int], None]) -> Iterator[pa.Table]:
    for page in pages:
        yield page
        advance(page.num_rows)


def _write(path: Path, schema: pa.Schema, pages: Iterator[pa.Table], said: dict[str, str]) -> tuple[pa.Schema, int]:
    """Write pages as row groups of about GROUP_ROWS, and return the schema of the file and its rows."""
    import pyarrow as pa
    import pyarrow.parquet as parquet

    target = portable(schema.empty_table()).schema.with_metadata(said)
    rows, waiting = 0, []
    with parquet.ParquetWriter(path, target, compression="zstd", version="2.6", coerce_timestamps="us") as writer:
        for page in pages:
            waiting.append(portable(page).cast(target))
            rows += page.num_rows
            if sum(table.num_rows for table in waiting) >= GROUP_ROWS:
                writer.write_table(pa.concat_tables(waiting))
                waiting = []
        if waiting:
            writer.write_table(pa.concat_tables(waiting))
    return target, rows


def portable(table: pa.Table) -> pa.Table:
    """Return rows in types that every reader of Parquet has.

    Whole numbers are signed, of 64 bits at the most; decimals are doubles; moments are microseconds in UTC; a UUID and
    JSON are texts. AssayError for a type that is none of these.
    """
    import pyarrow as pa

    fields, columns = [], []
    for field, column in zip(table.schema, table.columns, strict=True):
        kind = _portable_type(field)
        if pa.types.is_fixed_size_binary(field.type) and kind == pa.string():
            texts = [None if value is None else str(UUID(bytes=value)) for value in column.to_pylist()]
            column = pa.chunked_array([pa.array(texts, kind)])
        fields.append(pa.field(field.name, kind))
        columns.append(column.cast(kind))
    return pa.table(columns, schema=pa.schema(fields))


def _portable_type(field: pa.Field) -> pa.DataType:
    import pyarrow as pa

    kind, types = field.type, pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(_portable_type(kind.value_field))
    if types.is_integer(kind):
        return kind if types.is_signed_integer(kind) else pa.int64()
    if types.is_decimal(kind):
        return pa.float64()
    if types.is_timestamp(kind):
        return pa.timestamp("us", tz="UTC")
    if types.is_large_string(kind) or types.is_null(kind) or (field.metadata or {}).get(TYPE) == b"UUID":
        return pa.string()
    if types.is_string(kind) or types.is_boolean(kind) or kind in (pa.float64(), pa.float32(), pa.date32()):
        return kind
    raise AssayError(
        f"the column {field.name} is of the type {kind}, which not every reader of Parquet has.", field="views"
    )
