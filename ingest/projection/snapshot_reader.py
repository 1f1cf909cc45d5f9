"""One unmoving state of the tables: what is asked of it by names and filters, now or as of any position of the log."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb

from ingest.projection.history import History
from ingest.projection.memory.best_rows import ONLY_ROWS, BestRows, Snapshot, types_since
from ingest.projection.memory.histories import Histories
from ingest.projection.names import Names, names_of
from ingest.projection.rows import beside, fetched, has_arrow, joined, taken
from ingest.projection.time_travel import POSTED, state_at, views_at
from ingest.projection.view_queries import (
    CONTEXT,
    FACTS,
    FEW,
    SUBJECT,
    SUBJECT_OF,
    Page,
    chosen,
    column,
    may_be_few,
    narrow_first,
    narrowed,
    pieces,
    plain,
)

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Filter", "Memory", "State", "StateChanged", "TablesCursor"]

Filter = str | int | bool | Sequence[str] | Sequence[int] | None
_STRETCH = 10_000
"""Positions among which the first or newest rows are looked for first, at the least."""
_MANY_A_POSITION = {"kernels": 65536}
"""Views with many rows a position, and how many keys each position has."""
_NEXT_TIMING = "SELECT min(timing_id) FROM main.kernel WHERE timing_id > ?"
_STATE = "SELECT log, epoch, position FROM main.projection"
_NOW = """
SELECT (SELECT max_by(digest, position) FROM (
        SELECT digest, position FROM main.predictor WHERE accepted UNION ALL SELECT digest, position FROM main.predictor_choice)),
    (SELECT coalesce(list((kind, alias, canonical) ORDER BY position), []) FROM main.alias)
"""


class _Now(NamedTuple):
    """What many answers begin with, asked for at once: each statement costs a millisecond."""

    predictor: str | None
    names: dict[str, Names]


class _Wanted(NamedTuple):
    """Conditions on subjects, on contexts and on whole rows, and the values of their parameters in that order."""

    subjects: list[str]
    contexts: list[str]
    rest: list[str]
    values: list[Any]


class Memory:
    """What readers of the newest state share: its names, its predictor in force, best rows, and histories of models."""

    def __init__(self, best_rows: BestRows) -> None:
        self.best_rows = best_rows
        self.histories = Histories()
        self.now: tuple[Snapshot, _Now] | None = None
        self.empty: dict[tuple[str, bool], pa.Table] = {}
        """Answers without rows, by view and by whether they are Arrow tables: the columns are the same in every state."""


class StateChanged(Exception):
    """The tables are in another state than the one that was expected: read again."""


class TablesCursor:
    """A transaction on the tables that begins at once, or with the first statement where a state is `expected`."""

    def __init__(
        self, connect: Callable[[], tuple[str, duckdb.DuckDBPyConnection]], expected: Snapshot | None = None
    ) -> None:
        """`connect` returns the file in use and a connection to it."""
        self._connect = connect
        self._expected = expected
        self._file = ""
        self._cursor = self._begin() if expected is None else None

    def connection(self) -> duckdb.DuckDBPyConnection:
        """Return the connection in its transaction. Raises StateChanged where the tables are not in the expected state any more."""
        if self._cursor is None:
            cursor = self._begin()
            if _snapshot(cursor, self._file) != self._expected:
                cursor.close()
                raise StateChanged
            self._cursor = cursor
        return self._cursor

    def snapshot(self) -> Snapshot:
        """Return which state the tables are in."""
        return self._expected or _snapshot(self.connection(), self._file)

    def close(self) -> None:
        """Close the connection."""
        if self._cursor is not None:
            self._cursor.close()

    def _begin(self) -> duckdb.DuckDBPyConnection:
        self._file, cursor = self._connect()
        return cursor.begin()


def _snapshot(cursor: duckdb.DuckDBPyConnection, file: str = "") -> Snapshot:
    ((log, epoch, position),) = cursor.execute(_STATE).fetchall()
    return Snapshot(file, str(History(log, epoch)), position)


class State:
    """One unmoving state of the tables, behind a DuckDB cursor in a transaction; by default as of `as_of` (None: as it is).

    As of a position: the rows at or below it, without those retracted at or below it, under the aliases declared at or
    below it. Filters that are None do not filter; a list means any of them; `model` and `hardware` take aliases as well.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection | TablesCursor, as_of: int | None = None) -> None:
        self._source = cursor
        self.as_of = as_of
        self.memory: Memory | None = None
        """What is read again and again and changes seldom; without it everything is read from the tables."""
        self._aliases: dict[int, dict[str, Names]] = {}

    @property
    def cursor(self) -> duckdb.DuckDBPyConnection:
        """The connection, in its transaction."""
        return self._source.connection() if isinstance(self._source, TablesCursor) else self._source

    @property
    def position(self) -> int:
        """The position that answers tell of: the projection's own, or `as_of` where that is lower."""
        position = self.checkpoint
        return position if self.as_of is None else min(position, self.as_of)

    @property
    def checkpoint(self) -> int:
        """The position that the tables have reached, whatever is asked of them."""
        return self.snapshot.position

    @property
    def history(self) -> str:
        """Which log, in which epoch, the tables tell of: positions name one state only within it."""
        return self.snapshot.history

    @functools.cached_property
    def snapshot(self) -> Snapshot:
        """Which state the tables are in, whatever is asked of them."""
        # By itself, because an answer whose readings are kept asks for nothing else: a fifth of `_now`.
        return self._source.snapshot() if isinstance(self._source, TablesCursor) else _snapshot(self._source)

    def resolve(self, kind: str, name: str, as_of: int | None = None) -> str:
        """Return the canonical id that a `model` or `hardware` name stands for; an unknown one stands for itself."""
        return self._names(self._at(as_of))[kind].resolve(name)

    def names(self, kind: str) -> Names:
        """Return what all names of a kind stand for, for whoever keeps it beside the position."""
        return self._names(self._at(None))[kind]

    def resolve_model(self, name: str, as_of: int | None = None) -> str:
        """Return the canonical id of a model."""
        return self.resolve("model", name, as_of)

    def resolve_hardware(self, name: str, as_of: int | None = None) -> str:
        """Return the canonical id of a hardware."""
        return self.resolve("hardware", name, as_of)

    def knows(self, kind: str, name: str, as_of: int | None = None) -> bool:
        """Whether any row tells of this `model` or `hardware` (an id or an alias)."""
        view = {"model": "models", "hardware": "hardware"}[kind]
        return self.count(view, {kind: name}, as_of=as_of) > 0

    def count(self, name: str, filters: Mapping[str, Filter] | None = None, *, as_of: int | None = None) -> int:
        """Return how many rows a view or table has, without reading them."""
        at = self._at(as_of)
        conditions, values = self._conditions(filters or {}, at)
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        relation, what = name, f'SELECT count(*) FROM "{name}"'
        if name == "measurements" and SUBJECT.issuperset(column(item) for item in filters or {}):
            relation = "best"  # It reads standing and subject.
            what = "SELECT coalesce(sum(measurements), 0) FROM standing"
            what += " JOIN subject ON standing.subject = subject.id" if conditions else ""
        clause, front = ("", []) if at is None else state_at(at, self._renamed(at), relation)
        ((count,),) = self.cursor.execute(f"{clause}{what}{where}", front + values).fetchall()
        return int(count)

    def view(
        self,
        name: str,
        filters: Mapping[str, Filter] | None = None,
        *,
        columns: Sequence[str] | None = None,
        after: int | None = None,
        limit: int | None = None,
        offset: int | None = None,
        descending: bool = False,
        as_of: int | None = None,
    ) -> pa.Table:
        """Return a view or table of docs/tables.md, filtered, in its order (the other way round with `descending`).

        `after` is a position (of kernels a `timing_id`), for paging through what is ordered by it. Unknown names and columns are duckdb errors: the
        caller offers a choice, not free text.
        """
        at = self._at(as_of)
        page = Page(after=after, upto=None, limit=limit, offset=offset, descending=descending)
        lies_in_order = name in FACTS and name != "best_measurements" and (not filters or descending)
        if limit is None or offset or not (lies_in_order or name in _MANY_A_POSITION):
            return self._read(name, filters or {}, columns, page, at)
        # Rows lie in the order of their positions: a page is looked for in a growing stretch of them.
        pieces: list[pa.Table] = []
        each = _MANY_A_POSITION.get(name, 1)
        low, high = after or 0, ((self.position if at is None else at) + 1) * each - 1
        span = max(_STRETCH, 20 * limit)
        while True:
            if name in _MANY_A_POSITION and not descending:
                # Most positions have no such rows: begin where the next ones are.
                ((following,),) = self.cursor.execute(_NEXT_TIMING, [low]).fetchall()
                low = high if following is None else min(high, following - 1)
            above, upto = (max(low, high - span), high) if descending else (low, min(low + span, high))
            page = Page(after=above, upto=upto, limit=limit, offset=None, descending=descending)
            pieces.append(self._read(name, filters or {}, columns, page, at))
            limit -= pieces[-1].num_rows
            low, high, span = (low, above, 8 * span) if descending else (upto, high, 8 * span)
            if limit <= 0 or low >= high:
                return joined(pieces)

    def best(self, filters: Mapping[str, Filter], columns: Sequence[str]) -> list[dict[str, Any]]:
        """Return these columns of the best row of each configuration, by position; of models, from memory where it has them."""
        rows = self._best_in_memory(filters, columns)
        return self.view("best_measurements", filters, columns=columns).to_pylist() if rows is None else rows

    def _best_in_memory(self, filters: Mapping[str, Filter], columns: Sequence[str]) -> list[dict[str, Any]] | None:
        memory, supplied = self.memory, {key: value for key, value in filters.items() if value is not None}
        models = supplied.pop("model", None)
        chooses = bool(supplied) if models is None else bool(models)
        if memory is None or not chooses or self._at(None) is not None:
            return None
        best_rows = memory.best_rows
        if not set(best_rows.columns).issuperset((*columns, *map(column, supplied))):
            return None

        def read(names: Sequence[str]) -> pa.Table:
            return self._read("best_measurements", {"model": names}, best_rows.columns, Page(), None)

        # A filter asks whether the best row has a value: not for the best of those that have it.
        wanted = {column(key): self._among(key, value, None) for key, value in supplied.items()}
        names = list(dict.fromkeys((*columns, "position")))
        among = None if models is None else self._among("model", models, None)
        rows = best_rows.rows(self.snapshot, among, names, wanted, lambda: self.cursor, read)
        return None if rows is None else [dict(zip(columns, row, strict=False)) for row in rows]

    def newest_each(
        self,
        name: str,
        key: str,
        each: int,
        filters: Mapping[str, Filter],
        *,
        columns: Sequence[str] | None = None,
        as_of: int | None = None,
    ) -> pa.Table:
        """Return of a view of facts the newest `each` rows for every value of a column, by position."""
        at = self._at(as_of)
        among, values = self._statement(name, self._wanted(name, filters, at), ("position", key), Page(), at)
        newest = f'SELECT unnest(max(position, {int(each)})) FROM ({among}) GROUP BY "{key}"'
        positions = [position for (position,) in self.cursor.execute(newest, values).fetchall()]
        return self._read(name, {"position": positions}, columns, Page(), at)

    def select(
        self, relations: str, statement: str, values: Sequence[Any] = (), *, as_of: int | None = None
    ) -> pa.Table:
        """Return what a SELECT of ours says of these tables and views (names with spaces between), as they are or were."""
        at = self._at(as_of)
        clause, front = ("", []) if at is None else state_at(at, self._renamed(at), relations)
        return self._arrow(f"{clause}{statement}", [*front, *values])

    def views_then(self) -> dict[str, str]:
        """Return by name the SELECT that gives each stable view as of `as_of`; none where that is the newest state."""
        at = self._at(None)
        return {} if at is None else dict(views_at(at, self._renamed(at)))

    def _read(
        self, name: str, filters: Mapping[str, Filter], columns: Sequence[str] | None, page: Page, at: int | None
    ) -> pa.Table:
        wanted = self._wanted(name, filters, at)
        if at is None and may_be_few(name, columns, page, wanted.contexts, wanted.rest):
            statement = chosen(name, page, wanted.subjects, wanted.contexts)
            found = self.cursor.execute(statement, wanted.values).fetchall()
            if len(found) <= FEW:
                return self._few(name, columns, found)
        return self._arrow(*self._statement(name, wanted, columns, page, at))

    def _few(self, name: str, columns: Sequence[str] | None, found: Sequence[Sequence[int]]) -> pa.Table:
        # A run that is waited for: planning takes many times as long as seeing that it has no rows yet.
        shape = name, has_arrow()
        if found or columns is not None or self.memory is None:
            return self._of_pieces(name, columns, found)
        if shape not in self.memory.empty:
            self.memory.empty[shape] = self._of_pieces(name, None, [])
        return self.memory.empty[shape]

    def _of_pieces(self, name: str, columns: Sequence[str] | None, found: Sequence[Sequence[int]]) -> pa.Table:
        names, read = pieces(name, None if columns is None else tuple(columns))
        tables = []
        for piece in read:
            table = self._arrow(piece.of(found), [])
            places = {key: place for place, key in enumerate(table.column("key").to_pylist())}
            tables.append(taken(table, [places[row[piece.place]] for row in found]))
        return beside(tables, names)

    def _wanted(self, name: str, filters: Mapping[str, Filter], at: int | None) -> _Wanted:
        supplied = {key: value for key, value in filters.items() if value is not None}
        by_subject = {key: supplied.pop(key) for key in list(supplied) if column(key) in SUBJECT_OF.get(name, ())}
        by_context = {}
        if at is None and name in FACTS and name != "best_measurements":
            by_context = {key: supplied.pop(key) for key in list(supplied) if column(key) in CONTEXT}
        subjects, values = self._conditions(by_subject, at)
        contexts, more = self._conditions(by_context, at)
        rest, last = self._conditions(supplied, at)
        return _Wanted(subjects, contexts, rest, [*values, *more, *last])

    def _statement(
        self, name: str, wanted: _Wanted, columns: Sequence[str] | None, page: Page, at: int | None
    ) -> tuple[str, list[Any]]:
        subjects, contexts, rest, values = wanted
        if at is None and narrowed(name, page):
            return narrow_first(name, columns, page, subjects, contexts, rest), values
        if at is None:
            return plain(name, columns, page, [*subjects, *contexts, *rest]), values
        clause, front = state_at(at, self._renamed(at), name, " AND ".join(subjects) or "true")
        return clause + plain(name, columns, page, [*contexts, *rest]), [*front, *values]

    def _arrow(self, statement: str, values: list[Any]) -> pa.Table:
        return fetched(self.cursor.sql(statement, params=values))

    def _at(self, as_of: int | None) -> int | None:
        wanted = self.as_of if as_of is None else as_of
        return None if wanted is None or wanted >= self.checkpoint else wanted

    @functools.cached_property
    def _now(self) -> _Now:
        memory = self.memory
        if memory is not None and memory.now is not None:
            snapshot, now = memory.now
            if snapshot == self.snapshot:
                return now
            same_log = snapshot[:2] == self.snapshot[:2] and snapshot.position < self.snapshot.position
            if same_log and types_since(self.cursor, snapshot.position) <= ONLY_ROWS:
                memory.now = (self.snapshot, now)
                return now
        ((predictor, aliases),) = self.cursor.execute(_NOW).fetchall()
        now = _Now(predictor, names_of(aliases))
        if memory is not None:
            memory.now = (self.snapshot, now)
        return now

    def _conditions(self, filters: Mapping[str, Filter], at: int | None) -> tuple[list[str], list[Any]]:
        conditions: list[str] = []
        values: list[Any] = []
        for name, wanted in filters.items():
            if wanted is None:
                continue
            among = self._among(name, wanted, at)
            conditions.append(f'"{column(name)}" IN ({", ".join("?" * len(among))})' if among else "false")
            values.extend(among)
        return conditions, values

    def _among(self, name: str, wanted: str | int | bool | Sequence[Any], at: int | None) -> list[Any]:
        """Return the values that a filter is for; of models and hardware their canonical ids."""
        among: list[Any] = [wanted] if isinstance(wanted, str | int | bool) else list(wanted)
        if among and name in ("model", "hardware"):
            # Names of one thing are one name: DuckDB looks for a single one where rows lie, and for several in all rows.
            names = self._names(at)[name]
            among = list(dict.fromkeys(names.resolve(item) for item in among))
        return among

    def _names(self, at: int | None) -> dict[str, Names]:
        if at is None:
            return self._now.names
        if at not in self._aliases:
            statement = "SELECT kind, alias, canonical FROM main.alias WHERE position <= ? ORDER BY position"
            self._aliases[at] = names_of(self.cursor.execute(statement, [at]).fetchall())
        return self._aliases[at]

    def _renamed(self, at: int) -> dict[str, dict[str, str]]:
        """Return, by kind, the posted names that stood for another id at that position than they do now."""
        ((later,),) = self.cursor.execute("SELECT count(*) FROM main.alias WHERE position > ?", [at]).fetchall()
        if not later:
            return {"model": {}, "hardware": {}}
        then, now = self._names(at), self._names(None)
        return {
            kind: {
                name: old for name in self._posted(kind) if (old := then[kind].resolve(name)) != now[kind].resolve(name)
            }
            for kind in ("model", "hardware")
        }

    def _posted(self, kind: str) -> list[str]:
        query = " UNION ".join(
            f"SELECT {noun}_id_posted FROM main.{table} WHERE {noun}_id_posted IS NOT NULL"
            for table, noun in POSTED[kind]
        )
        return sorted(name for (name,) in self.cursor.execute(query).fetchall())
