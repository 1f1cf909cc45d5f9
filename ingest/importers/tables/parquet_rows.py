"""Rows of a Parquet file, in portions, so that memory stays flat."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from domain.errors import PartMissing
from ingest.importers.files import File
from ingest.importers.reading import BadFile

__all__ = ["is_parquet", "parquet_columns", "parquet_rows"]

_MAGIC = b"PAR1"
_PORTION = 4096


def is_parquet(file: File) -> bool:
    """Return whether the file begins as Parquet does, whatever it is called."""
    with file.path.open("rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC


def parquet_columns(file: File) -> list[str]:
    """Return the names of the columns. BadFile where it is no Parquet, PartMissing without pyarrow."""
    pyarrow, parquet = _pyarrow()
    try:
        return [str(name) for name in parquet.read_schema(file.path).names]
    except pyarrow.ArrowException as error:
        raise BadFile(f"is not Parquet: {str(error).splitlines()[0][:200]}") from error


def parquet_rows(file: File, columns: Sequence[str] | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each row's number, from 1, and its values by column; `columns` are read, all by default."""
    pyarrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(file.path) as opened:
            row = 0
            for portion in opened.iter_batches(batch_size=_PORTION, columns=columns):
                for values in _as_written(pyarrow, portion).to_pylist():
                    row += 1
                    yield row, values
    except pyarrow.ArrowException as error:
        raise BadFile(f"is not Parquet: {str(error).splitlines()[0][:200]}") from error


def _as_written(pyarrow: Any, portion: Any) -> Any:
    """Return the rows with floats of 32 bits as the shortest decimals that they are: 0.248, and not 0.24799999594688416."""
    for index, field in enumerate(portion.schema):
        if pyarrow.types.is_float32(field.type):
            column = portion.column(index).cast(pyarrow.string()).cast(pyarrow.float64())
            portion = portion.set_column(index, pyarrow.field(field.name, pyarrow.float64()), column)
    return portion


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise PartMissing(
            "reading Parquet needs pyarrow.", field="format", remedy="Install `assay-bench[service]`."
        ) from error
    return pyarrow, parquet
