"""Typed reading of the projection: rows as Arrow tables, now or as of any position of the log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from ingest.projection.names import Names, names_of
from ingest.projection.past import POSTED, state_at

__all__ = ["Tables"]

_BY_POSITION = frozenset(("measurements", "outcomes", "tests", "failures"))
"""Views that are ordered by position and too long to be sorted for a page."""
_OF_BEST = frozenset((
    "configuration", "model_id", "hardware_id", "platform", "precision", "mode", "scenario", "batch_size",
    "sequence_length", "image_size",
))  # fmt: skip
"""Columns by which the best row of a configuration can be found before its figures are read."""
_ORDER = {
    "runs": "position", "measurements": "position", "best_measurements": "position", "tests": "position",
    "failures": "position", "outcomes": "position", "traces": "position", "prices": "position",
    "environments": "position", "operations": "position",
    "models": "model_id", "hardware": "hardware_id",
    "compatibility": "model_id, platform, precision",
    "compatibility_by_hardware": "model_id, hardware_id, platform, precision",
    **dict.fromkeys((
        "run", "run_end", "environment", "alias", "retraction", "predictor", "recommendation", "operation", "dead_letter",
    ), "position"),
}  # fmt: skip
_PAGING = ("columns", "after", "limit", "offset", "descending")
_NEAR = 200_000
"""Positions among which the newest event at or below one is looked for first."""
_NEWEST = " UNION ALL ".join(
    f"SELECT position, recorded_at FROM main.{table} WHERE position <= $upto AND position > $above"
    for table in ("measurement", "test", "moment", "dead_letter")
)


class _Page(NamedTuple):
    after: int | None
    upto: int | None
    limit: int | None
    offset: int | None
    descending: bool


Filter = str | int | bool | Sequence[str] | None


class Tables:
    """The tables behind one DuckDB cursor, by default as of `as_of` (None: as they are).

    As of a position: the rows at or below it, without those retracted at or below it, under the aliases declared at or
    below it. Every method returns a pyarrow.Table in a fixed order; `.to_pylist()` gives dictionaries. Filters that are
    None do not filter; a list means any of them; `model` and `hardware` take aliases as well.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, as_of: int | None = None) -> None:
        self.cursor = cursor
        self.as_of = as_of

    @property
    def position(self) -> int:
        """The position that answers tell of: the projection's own, or `as_of` where that is lower."""
        position = self._checkpoint()
        return position if self.as_of is None else min(position, self.as_of)

    def recorded_at(self, position: int | None = None) -> datetime | None:
        """Return when the newest event at or below `position` was recorded: the "now" of answers there."""
        wanted = self.position if position is None else position
        for above in (max(0, wanted - _NEAR), 0):
            ((found,),) = self.cursor.execute(
                f"SELECT epoch_us(max_by(recorded_at, position)) FROM ({_NEWEST})", {"upto": wanted, "above": above}
            ).fetchall()
            if found is not None:
                return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=found)
        return None

    def resolve(self, kind: str, name: str, as_of: int | None = None) -> str:
        """Return the canonical id that a `model` or `hardware` name stands for; an unknown one stands for itself."""
        return self._names(self._at(as_of))[kind].resolve(name)

    def resolve_model(self, name: str, as_of: int | None = None) -> str:
        """Return the canonical id of a model."""
        return self.resolve("model", name, as_of)

    def resolve_hardware(self, name: str, as_of: int | None = None) -> str:
        """Return the canonical id of a hardware."""
        return self.resolve("hardware", name, as_of)

    def measurements(
        self,
        *,
        model: str | Sequence[str] | None = None,
        hardware: str | Sequence[str] | None = None,
        platform: str | Sequence[str] | None = None,
        precision: str | Sequence[str] | None = None,
        mode: str | None = None,
        origin: str | Sequence[str] | None = None,
        configuration: str | None = None,
        run_id: str | None = None,
        best: bool = False,
        columns: Sequence[str] | None = None,
        after: int | None = None,
        limit: int | None = None,
        as_of: int | None = None,
    ) -> pa.Table:
        """Return measurements by position; with `best`, one a configuration: measured first, then valid, then newest."""
        return self.view(
            "best_measurements" if best else "measurements",
            {
                "model": model, "hardware": hardware, "platform": platform, "precision": precision, "mode": mode,
                "origin": origin, "configuration": configuration, "run_id": run_id,
            },
            columns=columns, after=after, limit=limit, as_of=as_of,
        )  # fmt: skip

    def tests(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return reported tests by position; filters as for measurements, and `outcome`."""
        return self._filtered("tests", as_of, filters)

    def failures(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return configurations that gave no measurement, by position; filters as for tests."""
        return self._filtered("failures", as_of, filters)

    def runs(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return runs by the position of their start; a retracted one says why in `retracted_because`."""
        return self._filtered("runs", as_of, filters)

    def models(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row a model that was described, traced, tested or measured, by id."""
        return self._filtered("models", as_of, filters)

    def hardware(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row a hardware that was described, tested or measured on, by id."""
        return self._filtered("hardware", as_of, filters)

    def environments(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row an environment fingerprint, by position."""
        return self._filtered("environments", as_of, filters)

    def traces(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the newest trace of each model and workload, by position; `operators` and `totals` are JSON text."""
        return self._filtered("traces", as_of, filters)

    def prices(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the newest price of each offer, by position."""
        return self._filtered("prices", as_of, filters)

    def compatibility(self, *, by_hardware: bool = False, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row a model, platform and precision (and hardware): whether it ran, ran right, or why not."""
        return self._filtered("compatibility_by_hardware" if by_hardware else "compatibility", as_of, filters)

    def aliases(self, *, as_of: int | None = None) -> pa.Table:
        """Return the declared aliases by position."""
        return self.view("alias", as_of=as_of)

    def retractions(self, *, as_of: int | None = None) -> pa.Table:
        """Return the retractions by position."""
        return self.view("retraction", as_of=as_of)

    def predictors(self, *, as_of: int | None = None) -> pa.Table:
        """Return the trained predictors by position; the last is the one in force."""
        return self.view("predictor", as_of=as_of)

    def recommendations(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the recommendations that were recorded, by position."""
        return self._filtered("recommendation", as_of, filters)

    def dead_letters(self, *, as_of: int | None = None) -> pa.Table:
        """Return the events that could not be projected, with the reason."""
        return self.view("dead_letter", as_of=as_of)

    def operations(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return what was done to the service, by position: action, actor, object, and `details` as JSON text."""
        return self._filtered("operations", as_of, filters)

    def event_type_counts(self) -> pa.Table:
        """Return how many events of each type the projection has seen; `known` says whether this version knows the type."""
        return self._arrow("SELECT * FROM event_type_count ORDER BY type", [])

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
        if name == "measurements" and _OF_BEST.issuperset(_column(one) for one in filters or {}):
            relation = "best"  # It reads standing and subject.
            what = "SELECT coalesce(sum(measurements), 0) FROM standing JOIN subject ON standing.subject = subject.id"
        ((count,),) = self.cursor.execute(f"{self._as_of(at, values, relation)}{what}{where}", values).fetchall()
        return int(count)

    def newest(self, as_of: int | None = None) -> datetime | None:
        """Return when the newest measurement was made (taken into the log where it does not say), None without any."""
        values: list[Any] = []
        query = f"{self._as_of(self._at(as_of), values, 'standing')}SELECT epoch_us(max(newest)) FROM standing"
        ((found,),) = self.cursor.execute(query, values).fetchall()
        return None if found is None else datetime.fromtimestamp(0, UTC) + timedelta(microseconds=found)

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

        `after` is a position, for paging through what is ordered by it. Unknown names and columns are duckdb errors: the
        caller offers a choice, not free text.
        """
        at = self._at(as_of)
        page = _Page(after=after, upto=None, limit=limit, offset=offset, descending=descending)
        if limit is None or offset or descending or name not in _BY_POSITION:
            return self._read(name, filters or {}, columns, page, at)
        # Rows lie in the order of their positions: a page is looked for in a growing stretch of them.
        pieces: list[pa.Table] = []
        low, span, end = after or 0, max(10_000, 20 * limit), self.position if at is None else at
        while True:
            page = _Page(after=low, upto=low + span, limit=limit, offset=None, descending=False)
            pieces.append(self._read(name, filters or {}, columns, page, at))
            limit -= pieces[-1].num_rows
            low, span = low + span, 8 * span
            if limit <= 0 or low >= end:
                return pa.concat_tables(pieces)

    def _read(
        self, name: str, filters: Mapping[str, Filter], columns: Sequence[str] | None, page: _Page, at: int | None
    ) -> pa.Table:
        best = {
            key: value for key, value in filters.items() if name == "best_measurements" and _column(key) in _OF_BEST
        }
        inner, values = self._conditions(best, at)
        conditions, more = self._conditions({key: value for key, value in filters.items() if key not in best}, at)
        values += more
        if page.after is not None:
            conditions.append(f"position > {int(page.after)}")
        if page.upto is not None:
            conditions.append(f"position <= {int(page.upto)}")
        with_ = self._as_of(at, values, name)
        chosen = ", ".join(f'"{column}"' for column in columns) if columns else "*"
        if name == "best_measurements":
            # Which rows they are is known by the subjects; their figures are read for those alone.
            where = f" WHERE {' AND '.join(inner)}" if inner else ""
            with_ = f"{with_.rstrip()},\n" if with_ else "WITH "
            with_ += f"chosen AS MATERIALIZED (SELECT position FROM best{where})\n"
            name = "measurements"
            conditions.append("position IN (FROM chosen)")
            order = _ORDER["best_measurements"]
        else:
            order = _ORDER[name]
        statement = f'{with_}SELECT {chosen} FROM "{name}"'
        if conditions:
            statement += " WHERE " + " AND ".join(conditions)
        statement += " ORDER BY " + ", ".join(f"{one} DESC" if page.descending else one for one in order.split(", "))
        if page.limit is not None:
            statement += f" LIMIT {int(page.limit)}"
        if page.offset:
            statement += f" OFFSET {int(page.offset)}"
        return self._arrow(statement, values)

    def _arrow(self, statement: str, values: list[Any]) -> pa.Table:
        return self.cursor.sql(statement, params=values).to_arrow_table()

    def _filtered(self, name: str, as_of: int | None, filters: dict[str, Any]) -> pa.Table:
        paging = {key: filters.pop(key) for key in _PAGING if key in filters}
        return self.view(name, filters, as_of=as_of, **paging)

    def _at(self, as_of: int | None) -> int | None:
        wanted = self.as_of if as_of is None else as_of
        return None if wanted is None or wanted >= self._checkpoint() else wanted

    def _checkpoint(self) -> int:
        ((position,),) = self.cursor.execute("SELECT position FROM projection").fetchall()
        return int(position)

    def _conditions(self, filters: Mapping[str, Filter], at: int | None) -> tuple[list[str], list[Any]]:
        conditions: list[str] = []
        values: list[Any] = []
        names = self._names(at) if filters.get("model") or filters.get("hardware") else {}
        for column, wanted in filters.items():
            if wanted is None:
                continue
            among: list[Any] = [wanted] if isinstance(wanted, str | int | bool) else list(wanted)
            if column in names:
                among = [names[column].resolve(name) for name in among]
            conditions.append(f'"{_column(column)}" IN ({", ".join("?" * len(among))})' if among else "false")
            values.extend(among)
        return conditions, values

    def _names(self, at: int | None) -> dict[str, Names]:
        upto = "" if at is None else f"WHERE position <= {at}"
        return names_of(
            self.cursor.execute(f"SELECT kind, alias, canonical FROM main.alias {upto} ORDER BY position").fetchall()
        )

    def _as_of(self, at: int | None, values: list[Any], wanted: str) -> str:
        """Return the WITH clause that puts the state at a position in the place of what `wanted` reads."""
        if at is None:
            return ""
        clause, front = state_at(at, self._renamed(at), wanted)
        values[:0] = front
        return clause

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
        query = " UNION ".join(f"SELECT {kind}_id_posted FROM main.{table}" for table in POSTED[kind])
        return sorted(name for (name,) in self.cursor.execute(query).fetchall())


def _column(name: str) -> str:
    return f"{name}_id" if name in ("model", "hardware") else name
