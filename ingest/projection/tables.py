"""Typed reading of the projection: rows as Arrow tables, now or as of any position of the log."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from ingest.projection.names import Names, names_of
from ingest.projection.past import POSTED, state_at, views_at
from ingest.projection.reading import CONTEXT, FACTS, SUBJECT, SUBJECT_OF, Page, column, narrow_first, plain

__all__ = ["Tables"]

_PAGING = ("columns", "after", "limit", "offset", "descending")
_NEAR = 200_000
"""Positions among which the newest event at or below one is looked for first."""
_STRETCH = 10_000
"""Positions among which the first or newest rows are looked for first, at the least."""
_NEWEST = " UNION ALL ".join(
    f"SELECT position, recorded_at FROM main.{table} WHERE position <= $upto AND position > $above"
    for table in ("measurement", "test", "moment", "dead_letter")
)


Filter = str | int | bool | Sequence[str] | Sequence[int] | None
_NOW = """
SELECT (SELECT max_by(digest, position) FROM (
        SELECT digest, position FROM main.predictor WHERE accepted UNION ALL SELECT digest, position FROM main.predictor_choice)),
    (SELECT coalesce(list((kind, alias, canonical) ORDER BY position), []) FROM main.alias)
"""


_LINE = """
SELECT digest FROM (
    SELECT position, digest FROM main.predictor WHERE accepted UNION ALL SELECT position, digest FROM main.predictor_choice
) WHERE position <= ? ORDER BY position
"""
_SHIPPED = "shipped"
_TRIES = """tries AS (
    SELECT subject, first_position AS earliest, last_position AS latest FROM standing
    UNION ALL SELECT subject, min(position), max(position) FROM test ANTI JOIN void USING (position) GROUP BY subject
)"""
_TRIED_AGAIN = """
SELECT DISTINCT configuration FROM (
    SELECT configuration, min(earliest) OVER alike AS earliest, max(latest) OVER alike AS latest
    FROM tries JOIN subject ON tries.subject = subject.id {among}
    WINDOW alike AS (PARTITION BY model_id, hardware_id, hardware_count, mode, scenario, batch_size, sequence_length, image_size,
        images, audio_seconds, frames, input_tokens, output_tokens, concurrency, arrival_rate_per_s, optimizer,
        gradient_checkpointing, platform, precision, runtime_name, compiled, layout, threads, streams, power_limit_w)
) WHERE earliest <= ? AND latest > ? ORDER BY configuration
"""


class _Now(NamedTuple):
    """What many answers begin with, asked for at once: each statement costs a millisecond."""

    predictor: str | None
    aliases: list[tuple[str, str, str]]


class Tables:
    """One unmoving state of the tables, behind a DuckDB cursor in a transaction; by default as of `as_of` (None: as it is).

    As of a position: the rows at or below it, without those retracted at or below it, under the aliases declared at or
    below it. Every method returns a pyarrow.Table in a fixed order; `.to_pylist()` gives dictionaries. Filters that are
    None do not filter; a list means any of them; `model` and `hardware` take aliases as well.
    """

    def __init__(self, cursor: duckdb.DuckDBPyConnection, as_of: int | None = None) -> None:
        self.cursor = cursor
        self.as_of = as_of
        self._aliases: dict[int | None, dict[str, Names]] = {}

    @property
    def position(self) -> int:
        """The position that answers tell of: the projection's own, or `as_of` where that is lower."""
        position = self.checkpoint
        return position if self.as_of is None else min(position, self.as_of)

    @property
    def predictor(self) -> str | None:
        """The digest of what was accepted or chosen last; None before anything was, and where the shipped one was chosen."""
        if self._at(None) is None:
            return None if self._now.predictor == _SHIPPED else self._now.predictor
        line = self.predictor_line()
        return line[-1] if line else None

    def predictor_line(self) -> list[str]:
        """Return the digests that answer, the one in force last, and before each the one to go back to from it.

        Choosing one that stands in the line takes away what came after it; below the first is the one that ships with Assay.
        """
        line: list[str] = []
        for (digest,) in self.cursor.execute(_LINE, [self.position]).fetchall():
            if digest == _SHIPPED:
                line.clear()
            elif digest in line:
                del line[line.index(digest) + 1 :]
            else:
                line.append(digest)
        return line

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

    def position_at(self, moment: datetime) -> int:
        """Return the position before the first event that was recorded after a moment; the newest where none was."""
        ((found,),) = self.cursor.execute(
            f"SELECT min(position) - 1 FROM ({_NEWEST}) WHERE recorded_at > $moment",
            {"upto": self.position, "above": 0, "moment": moment},
        ).fetchall()
        return self.position if found is None else int(found)

    def recorded(self, since: datetime, step_s: int) -> dict[int, int]:
        """Return how many events the log took in each step of the clock from a moment on, by the step's start in Unix time."""
        rows = self.cursor.execute(
            f"SELECT epoch(recorded_at)::BIGINT // $step * $step, count(*) FROM ({_NEWEST})"
            " WHERE recorded_at >= $since GROUP BY 1 ORDER BY 1",
            {"upto": self.position, "above": 0, "since": since, "step": step_s},
        ).fetchall()
        return {int(start): int(events) for start, events in rows}

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
        """Return one row a model, platform and precision (and hardware): built, ran, verified, measured, or why not."""
        return self._filtered("compatibility_by_hardware" if by_hardware else "compatibility", as_of, filters)

    def matrix(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row a model and platform, over all precisions and hardware: the best that was seen, or why not."""
        return self._filtered("matrix", as_of, filters)

    def cells(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the rows of compatibility with when and how often, what stopped it, and its speed over the plain CPU."""
        return self._filtered("cells", as_of, filters)

    def aliases(self, *, as_of: int | None = None) -> pa.Table:
        """Return the declared aliases by position."""
        return self.view("alias", as_of=as_of)

    def retractions(self, *, as_of: int | None = None) -> pa.Table:
        """Return the retractions by position."""
        return self.view("retraction", as_of=as_of)

    def predictors(self, *, as_of: int | None = None) -> pa.Table:
        """Return the trained predictors by position; `in_force` says which one answers."""
        return self.view("predictors", as_of=as_of)

    def predictor_choices(self, *, as_of: int | None = None) -> pa.Table:
        """Return the choices of a predictor by hand, by position."""
        return self.view("predictor_choices", as_of=as_of)

    def scored_predictions(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the predictions given out beside the measurements that came after them, by position of these."""
        return self._filtered("scored_predictions", as_of, filters)

    def recommendations(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the recommendations that were recorded, by position."""
        return self._filtered("recommendation", as_of, filters)

    def dead_letters(self, *, as_of: int | None = None) -> pa.Table:
        """Return the events that could not be projected, with the reason."""
        return self.view("dead_letter", as_of=as_of)

    def operations(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return what was done to the service, by position: action, actor, object, and `details` as JSON text."""
        return self._filtered("operations", as_of, filters)

    def snapshots(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the positions that have a name, by name."""
        return self._filtered("snapshots", as_of, filters)

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
        if name == "measurements" and SUBJECT.issuperset(column(one) for one in filters or {}):
            relation = "best"  # It reads standing and subject.
            what = "SELECT coalesce(sum(measurements), 0) FROM standing"
            what += " JOIN subject ON standing.subject = subject.id" if conditions else ""
        clause, front = ("", []) if at is None else state_at(at, self._renamed(at), relation)
        ((count,),) = self.cursor.execute(f"{clause}{what}{where}", front + values).fetchall()
        return int(count)

    def tried_again(self, since: int, filters: Mapping[str, Filter] | None = None) -> list[str]:
        """Return the configurations that were tried above position `since`, they or ones much like them also before.

        Much alike: of the same model, hardware, work, platform, precision and runtime, of whatever version. Failures and tests
        are tries as well. Filters are on columns of `subject`.
        """
        at = self._at(None)
        conditions, values = self._conditions(filters or {}, at)
        clause, front = ("WITH ", []) if at is None else state_at(at, self._renamed(at), "standing subject test void")
        among = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        tries = _TRIES if at is None else f",{_TRIES}"
        statement = f"{clause}{tries} {_TRIED_AGAIN.format(among=among)}"
        found = self.cursor.execute(statement, [*front, *values, since, since]).fetchall()
        return [name for (name,) in found]

    def measured_position(self) -> int:
        """Return the position of the newest measurement that is now in the tables, 0 without any."""
        ((found,),) = self.cursor.execute("SELECT coalesce(max(last_position), 0) FROM main.standing").fetchall()
        return int(found)

    def newest(self, as_of: int | None = None) -> datetime | None:
        """Return when the newest measurement was made (taken into the log where it does not say), None without any."""
        at = self._at(as_of)
        clause, values = ("", []) if at is None else state_at(at, self._renamed(at), "standing")
        ((found,),) = self.cursor.execute(f"{clause}SELECT epoch_us(max(newest)) FROM standing", values).fetchall()
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
        page = Page(after=after, upto=None, limit=limit, offset=offset, descending=descending)
        if limit is None or offset or name not in FACTS or name == "best_measurements":
            return self._read(name, filters or {}, columns, page, at)
        if filters and not descending:
            return self._read(name, filters, columns, page, at)
        # Rows lie in the order of their positions: a page is looked for in a growing stretch of them.
        pieces: list[pa.Table] = []
        low, high = after or 0, self.position if at is None else at
        span = max(_STRETCH, 20 * limit)
        while True:
            above, upto = (max(low, high - span), high) if descending else (low, min(low + span, high))
            page = Page(after=above, upto=upto, limit=limit, offset=None, descending=descending)
            pieces.append(self._read(name, filters or {}, columns, page, at))
            limit -= pieces[-1].num_rows
            low, high, span = (low, above, 8 * span) if descending else (upto, high, 8 * span)
            if limit <= 0 or low >= high:
                return pa.concat_tables(pieces)

    def newest_each(
        self, name: str, key: str, each: int, filters: Mapping[str, Filter], as_of: int | None = None
    ) -> pa.Table:
        """Return of a view of facts the newest `each` rows for every value of a column, by position."""
        at = self._at(as_of)
        among, values = self._statement(name, filters, ("position", key), Page(), at)
        newest = f'SELECT unnest(max(position, {int(each)})) FROM ({among}) GROUP BY "{key}"'
        positions = [position for (position,) in self.cursor.execute(newest, values).fetchall()]
        return self._read(name, {"position": positions}, None, Page(), at)

    def told(self, relations: str, statement: str, values: Sequence[Any] = (), *, as_of: int | None = None) -> pa.Table:
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
        return self._arrow(*self._statement(name, filters, columns, page, at))

    def _statement(
        self, name: str, filters: Mapping[str, Filter], columns: Sequence[str] | None, page: Page, at: int | None
    ) -> tuple[str, list[Any]]:
        given = {key: value for key, value in filters.items() if value is not None}
        by_subject = {key: given.pop(key) for key in list(given) if column(key) in SUBJECT_OF.get(name, ())}
        by_context = {}
        if at is None and name in FACTS and name != "best_measurements":
            by_context = {key: given.pop(key) for key in list(given) if column(key) in CONTEXT}
        subjects, values = self._conditions(by_subject, at)
        contexts, more = self._conditions(by_context, at)
        rest, last = self._conditions(given, at)
        values += more + last
        if at is None and name in FACTS:
            statement = narrow_first(name, columns, page, subjects, contexts, rest)
        else:
            narrowed = " AND ".join(subjects) or "true"
            clause = ""
            front: list[Any] = []
            if at is not None:
                clause, front = state_at(at, self._renamed(at), name, narrowed)
            values[:0] = front
            rest += [] if at is not None else subjects
            statement = clause + plain(name, columns, page, rest)
        return statement, values

    def _arrow(self, statement: str, values: list[Any]) -> pa.Table:
        return self.cursor.sql(statement, params=values).to_arrow_table()

    def _filtered(self, name: str, as_of: int | None, filters: dict[str, Any]) -> pa.Table:
        paging = {key: filters.pop(key) for key in _PAGING if key in filters}
        return self.view(name, filters, as_of=as_of, **paging)

    def _at(self, as_of: int | None) -> int | None:
        wanted = self.as_of if as_of is None else as_of
        return None if wanted is None or wanted >= self.checkpoint else wanted

    @functools.cached_property
    def checkpoint(self) -> int:
        """The position that the tables have reached, whatever is asked of them."""
        # By itself, because an answer whose readings are kept asks for nothing else: a fifth of `_now`.
        ((position,),) = self.cursor.execute("SELECT position FROM main.projection").fetchall()
        return int(position)

    @functools.cached_property
    def _now(self) -> _Now:
        (found,) = self.cursor.execute(_NOW).fetchall()
        return _Now(*found)

    def _conditions(self, filters: Mapping[str, Filter], at: int | None) -> tuple[list[str], list[Any]]:
        conditions: list[str] = []
        values: list[Any] = []
        names = self._names(at) if filters.get("model") or filters.get("hardware") else {}
        for name, wanted in filters.items():
            if wanted is None:
                continue
            among: list[Any] = [wanted] if isinstance(wanted, str | int | bool) else list(wanted)
            if name in names:
                among = [names[name].resolve(one) for one in among]
            conditions.append(f'"{column(name)}" IN ({", ".join("?" * len(among))})' if among else "false")
            values.extend(among)
        return conditions, values

    def _names(self, at: int | None) -> dict[str, Names]:
        if at not in self._aliases:
            self._aliases[at] = names_of(
                self._now.aliases
                if at is None
                else self.cursor.execute(
                    f"SELECT kind, alias, canonical FROM main.alias WHERE position <= {at} ORDER BY position"
                ).fetchall()
            )
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
        query = " UNION ".join(f"SELECT {kind}_id_posted FROM main.{table}" for table in POSTED[kind])
        return sorted(name for (name,) in self.cursor.execute(query).fetchall())
