"""Rows as DuckDB gives them: Arrow tables where pyarrow is installed, else lists with the readings that answers use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, TypeGuard, cast

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

__all__ = ["Rows", "as_lists", "beside", "fetched", "has_arrow", "is_table", "joined", "taken"]

_LISTS = ContextVar("lists", default=False)


class Rows:
    """Rows of a statement, with the names that they have in `pyarrow.Table`.

    The base installation has no pyarrow, which is twice as large as DuckDB; answers read no more than this.
    """

    def __init__(self, column_names: Sequence[str], values: list[tuple[Any, ...]]) -> None:
        self.column_names = list(column_names)
        self._values = values

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self._values)

    def slice(self, offset: int = 0, length: int | None = None) -> Rows:
        """Return the rows from `offset` on, at most `length` of them."""
        end = None if length is None else offset + length
        return Rows(self.column_names, self._values[offset:end])

    def select(self, names: Sequence[str]) -> Rows:
        """Return the rows with these columns alone, in this order."""
        places = [self.column_names.index(name) for name in names]
        return Rows(names, [tuple(row[place] for place in places) for row in self._values])

    def take(self, places: Sequence[int]) -> Rows:
        """Return the rows at these places, in this order."""
        return Rows(self.column_names, [self._values[place] for place in places])

    def drop_columns(self, names: Sequence[str]) -> Rows:
        """Return the rows without these columns."""
        return self.select([name for name in self.column_names if name not in names])

    def column(self, name: str) -> Column:
        """Return one column."""
        index = self.column_names.index(name)
        return Column([row[index] for row in self._values])

    def to_pylist(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        names = self.column_names
        return [dict(zip(names, row, strict=True)) for row in self._values]


class Column:
    """The values of one column."""

    def __init__(self, values: list[Any]) -> None:
        self._values = values

    def to_pylist(self) -> list[Any]:
        """Return the values."""
        return self._values

    @property
    def null_count(self) -> int:
        """How many values are missing."""
        return self._values.count(None)


@contextmanager
def as_lists() -> Iterator[None]:
    """Have the block read lists, as without pyarrow: one answer is given sooner than pyarrow and pandas are loaded."""
    token = _LISTS.set(True)
    try:
        yield
    finally:
        _LISTS.reset(token)


def fetched(relation: duckdb.DuckDBPyRelation) -> pa.Table:
    """Return the rows of a statement: a `pyarrow.Table`, or `Rows` where pyarrow is not installed."""
    if has_arrow():
        return relation.to_arrow_table()
    return cast("pa.Table", Rows(relation.columns, relation.fetchall()))


def joined(pieces: Iterable[pa.Table]) -> pa.Table:
    """Return the rows of several tables of the same columns, one after the other."""
    tables = list(pieces)
    if has_arrow():
        import pyarrow as pa

        return pa.concat_tables(tables)
    values = [row for table in cast("list[Rows]", tables) for row in table._values]
    return cast("pa.Table", Rows(tables[0].column_names, values))


def taken(table: pa.Table, places: Sequence[int]) -> pa.Table:
    """Return the rows of a table at these places, in this order."""
    if not has_arrow():
        return table.take(places)
    import pyarrow as pa

    return table.take(pa.array(places, pa.int64()))


def beside(tables: Sequence[pa.Table], names: Sequence[str]) -> pa.Table:
    """Return these columns of several tables, row beside row."""
    if has_arrow():
        import pyarrow as pa

        columns = {name: table.column(name) for table in tables for name in table.column_names}
        return pa.table([columns[name] for name in names], names)
    by_name = {
        name: table.column(name).to_pylist() for table in cast("Sequence[Rows]", tables) for name in table.column_names
    }
    return cast("pa.Table", Rows(names, list(zip(*(by_name[name] for name in names), strict=True))))


def is_table(value: Any) -> TypeGuard[pa.Table]:
    """Whether a value is what `fetched` returns."""
    return hasattr(value, "to_pylist")


def has_arrow() -> bool:
    """Whether rows are fetched as Arrow tables here."""
    return not _LISTS.get() and _can_import_arrow()


@cache
def _can_import_arrow() -> bool:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return False
    return True
