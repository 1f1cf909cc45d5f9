"""A table of a CSV or Parquet file by its columns: texts and numbers as arrays, and the rows that cannot be used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from domain.errors import PartMissing
from ingest.importers.document import Document
from ingest.importers.files import File
from ingest.importers.reading import BadFile, csv_rows, csv_text, number, text
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import header_of
from ingest.importers.tables.parquet_rows import is_parquet, parquet_columns

__all__ = ["Columns", "Texts", "columns_of", "names_of", "numbered"]

ROWS = 20_000_000
"""More rows are refused: all of a table are in memory at once, about 100 bytes a row."""
SHORTEST_MS, LONGEST_MS = 1e-6, 1e9
"""A nanosecond is a few clocks, and nobody waits eleven days for a kernel."""
_MOST_WHOLE = 2**53 - 1


class Texts(NamedTuple):
    """A column of texts: `values[code]` by row, -1 where there is none."""

    codes: Any
    values: list[str]

    def mapped(self, change: Callable[[str], str | None]) -> Texts:
        """Return the column with each text changed; what becomes None is missing."""
        import numpy as np

        changed = [change(value) for value in self.values]
        values = list(dict.fromkeys(value for value in changed if value is not None))
        places = {value: place for place, value in enumerate(values)}
        table = np.array([-1 if value is None else places[value] for value in changed] + [-1], np.int32)
        return Texts(table[self.codes], values)


def numbered(values: Any) -> Texts:
    """Return whole numbers as texts, for grouping by them."""
    import numpy as np

    distinct, codes = np.unique(values, return_inverse=True)
    return Texts(codes.astype(np.int32), [str(value) for value in distinct.tolist()])


def names_of(file: File) -> set[str]:
    """Return the names of a table's columns; none where it is no table."""
    if is_parquet(file):
        return set(parquet_columns(file))
    return set(header_of(file)) if file.suffix in (".csv", ".txt") else set()


class Columns:
    """The rows of a table. Reading a column notes the rows whose value cannot be used; `kept` are the others.

    `rows` are their numbers in the file, `refused` what was no row of the table.
    """

    def __init__(self, file: File, table: Any, rows: Any, refused: Sequence[Refused]) -> None:
        import numpy as np

        self._file = file
        self._table = table
        self.rows = rows
        self.refused = list(refused)
        self._bad: dict[int, BadRow] = {}
        self._good = np.ones(table.num_rows, bool)

    def __contains__(self, name: str) -> bool:
        return name in self._table.column_names

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @property
    def kept(self) -> Any:
        """The places of the rows in which nothing was found wrong so far."""
        import numpy as np

        return np.flatnonzero(self._good)

    def refuse(self, wrong: Any, field: str, reason: str) -> None:
        """Note that rows, given by a mask, are wrong in a field; the first reason of a row counts."""
        import numpy as np

        for place in np.flatnonzero(wrong & self._good).tolist():
            self._bad[place] = BadRow(field, reason)
        self._good &= ~wrong

    def refusals(self, document: Document) -> Iterable[Refused]:
        """Yield what was no row, and the rows that were noted, each with the smallest file that holds it."""
        yield from self.refused
        names = self._table.column_names
        for place in sorted(self._bad):
            values = [self._table.column(name)[place].as_py() for name in names]
            content = csv_text([names, ["" if value is None else value for value in values]])
            bad = self._bad[place]
            yield document.refused(bad.reason, row=int(self.rows[place]), field=bad.field, content=content)

    def texts(self, name: str, *, needed: bool = False, literal: bool = False) -> Texts:
        """Return a column of texts, stripped; words for "missing" (`nan`, `inf` …) are, unless it is taken as `literal`."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if name not in self:
            result = Texts(np.full(len(self), -1, np.int32), [])
        else:
            column = self._table.column(name)
            if not pa.types.is_dictionary(column.type):
                column = _cast(column, pa.string(), name).dictionary_encode()
            encoded = column.unify_dictionaries().combine_chunks()
            encoded = encoded.chunk(0) if isinstance(encoded, pa.ChunkedArray) else encoded
            codes = pc.fill_null(encoded.indices.cast(pa.int32()), -1).to_numpy(zero_copy_only=False)
            values = [str(value) for value in encoded.dictionary.to_pylist()]
            result = Texts(codes, values).mapped(str.strip if literal else lambda value: text({"": value}, ""))
        if needed:
            self.refuse(result.codes < 0, name, "is missing")
        return result

    def whole(self, name: str, *, needed: bool = True, least: int = 0) -> Any:
        """Return a column of whole numbers; -1 where there is none, which is wrong of a needed one."""
        import numpy as np

        values = self._numbers(name)
        missing = np.isnan(values)
        if needed:
            self.refuse(missing, name, "is missing")
        values = np.where(missing, -1.0, values)
        odd = ~missing & ((values != np.floor(values)) | (values > _MOST_WHOLE))
        self.refuse(odd, name, "is not a whole number")
        self.refuse(~missing & ~odd & (values < least), name, f"is below {least}")
        return np.where(odd, -1.0, values).astype(np.int64)

    def times(self, name: str, *, needed: bool = True) -> Any:
        """Return a column of times in ms; NaN where there is none, or 0, which is wrong of a needed one."""
        import numpy as np

        values = self._numbers(name)
        values = np.where(values > 0, values, np.nan)
        if needed:
            self.refuse(np.isnan(values), name, "is missing")
        self.refuse((values < SHORTEST_MS) | (values > LONGEST_MS), name, "is no time that a kernel takes")
        return values

    def _numbers(self, name: str) -> Any:
        """Return a column as numbers from 0; NaN where there is none."""
        import numpy as np
        import pyarrow as pa

        if name not in self:
            return np.full(len(self), np.nan)
        column = self._table.column(name)
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            values = column.cast(pa.float64(), safe=False).to_numpy()
            values = np.where(np.isfinite(values), values, np.nan)
            self.refuse(values < 0, name, "is below 0")
            return values
        values = np.full(len(self), np.nan)
        wrong: dict[str, list[int]] = {}
        for place, value in enumerate(_cast(column, pa.string(), name).to_pylist()):
            try:
                read = number({name: value}, name, zero=True)
            except BadRow as bad:
                wrong.setdefault(bad.reason, []).append(place)
            else:
                values[place] = np.nan if read is None else read
        for reason, places in wrong.items():
            mask = np.zeros(len(self), bool)
            mask[places] = True
            self.refuse(mask, name, reason)
        return values


def columns_of(
    file: File, needed: Iterable[str], optional: Iterable[str] = (), names: Mapping[str, str] | None = None
) -> Columns:
    """Read a table. BadFile where a needed column is missing, or where there are too many rows.

    `names` gives columns that a file calls otherwise our names, which those asked for are.
    """
    names = names or {}
    parquet = is_parquet(file)
    existing = parquet_columns(file) if parquet else header_of(file)
    ours = {names.get(name, name): name for name in existing}
    missing = [name for name in needed if name not in ours]
    if missing:
        raise BadFile(f"has no column {', '.join(missing)}; its columns are {', '.join(existing)[:300]}", 1)
    wanted = [name for name in (*needed, *optional) if name in ours]
    if parquet:
        table = _parquet(file, {name: ours[name] for name in wanted})
        refused: list[Refused] = []
        import numpy as np

        rows = np.arange(1, table.num_rows + 1)
    else:
        table, rows, refused = _csv(file, names)
    return Columns(file, table, rows, refused)


def _parquet(file: File, wanted: Mapping[str, str]) -> Any:
    pyarrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(file.path) as opened:
            if opened.metadata.num_rows > ROWS:
                raise BadFile(f"has {opened.metadata.num_rows:,} rows; {ROWS:,} are taken at once")
            schema = opened.schema_arrow
        texts = [name for name in wanted.values() if pyarrow.types.is_string(schema.field(name).type)]
        table = parquet.read_table(file.path, columns=list(wanted.values()), read_dictionary=texts)
        return table.select(list(wanted.values())).rename_columns(list(wanted))
    except (pyarrow.ArrowException, ValueError, OverflowError) as error:
        raise BadFile(f"is not Parquet: {str(error).splitlines()[0][:200]}") from error


def _csv(file: File, names: Mapping[str, str]) -> tuple[Any, Any, list[Refused]]:
    import numpy as np

    pyarrow, _ = _pyarrow()
    columns: dict[str, list[str]] = {}
    rows: list[int] = []
    refused: list[Refused] = []
    for item in csv_rows(file):
        if isinstance(item, Refused):
            refused.append(item)
            continue
        line, row = item
        if all(name == value for name, value in row.items()):
            continue  # Files that were appended to hold their header again.
        if len(rows) >= ROWS:
            raise BadFile(f"has more than {ROWS:,} rows", line)
        rows.append(line)
        for name, value in row.items():
            columns.setdefault(names.get(name, name), []).append(value)
    if any(len(values) != len(rows) for values in columns.values()):
        raise BadFile("names a column twice", 1)
    table = pyarrow.table({name: pyarrow.array(values, pyarrow.string()) for name, values in columns.items()})
    return table, np.array(rows, np.int64), refused


def _cast(column: Any, kind: Any, name: str) -> Any:
    pyarrow, _ = _pyarrow()
    try:
        return column.cast(kind)
    except pyarrow.ArrowException as error:
        raise BadFile(f"its column {name} holds {column.type}, neither texts nor numbers") from error


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError as error:
        raise PartMissing(
            "reading tables of kernels needs pyarrow and numpy.",
            field="format",
            remedy="Install `assay-bench[service]`.",
        ) from error
    return pyarrow, parquet
