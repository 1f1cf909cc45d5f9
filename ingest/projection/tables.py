"""Typed reading of the projection: rows as Arrow tables, now or as of any position of the log."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ingest.projection.snapshot_reader import Filter, State
from ingest.projection.time_travel import state_at

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Tables"]

_PAGING = ("columns", "after", "limit", "offset", "descending")
_NEAR = 200_000
"""Positions among which the newest event at or below one is looked for first."""
_NEWEST = " UNION ALL ".join(
    f"SELECT position, recorded_at FROM main.{table} WHERE position <= $upto AND position > $above"
    for table in ("measurement", "test", "moment", "dead_letter")
)
_TYPES_AT = """
SELECT type, count(*) AS events, min(position) AS first_position, max(position) AS last_position, any_value(known) AS known
FROM (
    SELECT type, position FROM main.moment UNION ALL SELECT type, position FROM main.dead_letter
    UNION ALL
    SELECT fact.type, position FROM (
        SELECT 'assay.measurement.recorded.v1' AS type, position FROM main.measurement
        UNION ALL
        SELECT IF(kind = 'test', 'assay.test.reported.v1', 'assay.measurement.failed.v1'), position FROM main.test
    ) AS fact ANTI JOIN main.moment USING (position)
) JOIN (SELECT type, known FROM main.event_type_count) USING (type)
WHERE position <= ? GROUP BY type ORDER BY type
"""
"""An event that came in an old version of a fact's type is in `moment` under that, and among the facts."""
_LINE = """
SELECT digest FROM (
    SELECT position, digest FROM main.predictor WHERE accepted UNION ALL SELECT position, digest FROM main.predictor_choice
) WHERE position <= ? ORDER BY position
"""
_SHIPPED = "shipped"
_TRIES = """tries AS (
    SELECT subject, first_position AS earliest, last_position AS latest FROM standing
    UNION ALL SELECT subject, min(position), max(position) FROM test ANTI JOIN void USING (position) GROUP BY subject
), spanned AS (
    SELECT model_id, hardware_id, platform, mode FROM tries JOIN subject ON tries.subject = subject.id {among}
    GROUP BY ALL HAVING min(earliest) <= ? AND max(latest) > ?
)"""
"""`spanned`: where something was tried at or below a position and above it, so that only there is looked at what is much alike."""
_TRIED_AGAIN = """
SELECT DISTINCT configuration FROM (
    SELECT configuration, min(earliest) OVER alike AS earliest, max(latest) OVER alike AS latest
    FROM tries JOIN subject ON tries.subject = subject.id SEMI JOIN spanned USING (model_id, hardware_id, platform, mode) {among}
    WINDOW alike AS (PARTITION BY model_id, hardware_id, hardware_count, mode, scenario, batch_size, sequence_length, image_size,
        images, audio_seconds, frames, input_tokens, output_tokens, steps, concurrency, arrival_rate_per_s, optimizer,
        gradient_checkpointing, platform, precision, runtime_name, compiled, layout, threads, streams, power_limit_w)
) WHERE earliest <= ? AND latest > ? ORDER BY configuration
"""


class Tables(State):
    """The typed readings of one state: every method returns a pyarrow.Table in a fixed order, unless it says otherwise.

    `.to_pylist()` gives dictionaries; what filters and `as_of` mean is said of State.
    """

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
            ((result,),) = self.cursor.execute(
                f"SELECT epoch_us(max_by(recorded_at, position)) FROM ({_NEWEST})", {"upto": wanted, "above": above}
            ).fetchall()
            if result is not None:
                return datetime.fromtimestamp(0, UTC) + timedelta(microseconds=result)
        return None

    def position_at(self, moment: datetime) -> int:
        """Return the position before the first event that was recorded after a moment; the newest where none was."""
        ((result,),) = self.cursor.execute(
            f"SELECT min(position) - 1 FROM ({_NEWEST}) WHERE recorded_at > $moment",
            {"upto": self.position, "above": 0, "moment": moment},
        ).fetchall()
        return self.position if result is None else int(result)

    def recorded(self, since: datetime, step_s: int) -> dict[int, int]:
        """Return how many events the log took in each step of the clock from a moment on, by the step's start in Unix time."""
        rows = self.cursor.execute(
            f"SELECT epoch(recorded_at)::BIGINT // $step * $step, count(*) FROM ({_NEWEST})"
            " WHERE recorded_at >= $since GROUP BY 1 ORDER BY 1",
            {"upto": self.position, "above": 0, "since": since, "step": step_s},
        ).fetchall()
        return {int(start): int(events) for start, events in rows}

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
                "model": model,
                "hardware": hardware,
                "platform": platform,
                "precision": precision,
                "mode": mode,
                "origin": origin,
                "configuration": configuration,
                "run_id": run_id,
            },
            columns=columns,
            after=after,
            limit=limit,
            as_of=as_of,
        )

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
        return self._filtered("hardware", as_of, filters) if filters or as_of is not None else self._devices

    def environments(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row an environment fingerprint, by position."""
        return self._filtered("environments", as_of, filters)

    def traces(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the newest trace of each model and workload, by position; `operators` and `totals` are JSON text."""
        return self._filtered("traces", as_of, filters)

    def kernel_tables(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row a table of kernel timings, by position: device, software, operator, and how many timings it has."""
        return self._filtered("kernel_tables", as_of, filters)

    def kernels(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return kernel timings by `timing_id`, which `after` means here; filters are columns, `hardware` and paging."""
        return self._filtered("kernels", as_of, filters)

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
        return self.view("retractions", as_of=as_of)

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

    def baselines(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the named baselines, by name."""
        return self._filtered("baselines", as_of, filters)

    def snapshots(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return the positions that have a name, by name."""
        return self._filtered("snapshots", as_of, filters)

    def alerts(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row an alert, by the position at which it was raised; `changes` and `states` are JSON text."""
        return self._filtered("alerts", as_of, filters)

    def jobs(self, *, as_of: int | None = None, **filters: Any) -> pa.Table:
        """Return one row a job, by the position at which it was requested; `needs` and `plan` are JSON text."""
        return self._filtered("jobs", as_of, filters)

    def event_type_counts(self) -> pa.Table:
        """Return how many events of each type came up to the position; `known` says whether this version knows the type."""
        at = self._at(None)
        if at is None:
            return self._arrow("SELECT * FROM event_type_count ORDER BY type", [])
        return self._arrow(_TYPES_AT, [at])

    def tried_again(self, since: int, filters: Mapping[str, Filter] | None = None) -> list[str]:
        """Return the configurations that were tried above position `since`, they or ones much like them also before.

        Much alike: of the same model, hardware, work, platform, precision and runtime, of whatever version. Failures and tests
        are tries as well. Filters are on columns of `subject`.
        """
        if since <= 0:  # Nothing stands before the first event.
            return []
        at = self._at(None)
        conditions, values = self._conditions(filters or {}, at)
        clause, front = ("WITH ", []) if at is None else state_at(at, self._renamed(at), "standing subject test void")
        among = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        tries = _TRIES if at is None else f",{_TRIES}"
        statement = f"{clause}{tries.format(among=among)} {_TRIED_AGAIN.format(among=among)}"
        rows = self.cursor.execute(statement, [*front, *values, since, since, *values, since, since]).fetchall()
        return [name for (name,) in rows]

    def measured_position(self) -> int:
        """Return the position of the newest measurement that is now in the tables, 0 without any."""
        ((result,),) = self.cursor.execute("SELECT coalesce(max(last_position), 0) FROM main.standing").fetchall()
        return int(result)

    def newest(self, as_of: int | None = None) -> datetime | None:
        """Return when the newest measurement was made (taken into the log where it does not say), None without any."""
        at = self._at(as_of)
        clause, values = ("", []) if at is None else state_at(at, self._renamed(at), "standing")
        ((result,),) = self.cursor.execute(f"{clause}SELECT epoch_us(max(newest)) FROM standing", values).fetchall()
        return None if result is None else datetime.fromtimestamp(0, UTC) + timedelta(microseconds=result)

    @functools.cached_property
    def _devices(self) -> pa.Table:
        """Every hardware: an answer about one asks for all of them twice, and they are counted from all that was measured."""
        return self.view("hardware")

    def _filtered(self, name: str, as_of: int | None, filters: dict[str, Any]) -> pa.Table:
        paging = {key: filters.pop(key) for key in _PAGING if key in filters}
        return self.view(name, filters, as_of=as_of, **paging)
