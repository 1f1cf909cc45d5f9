"""The watch over histories: raises an alert where a confirmed change is new, and withdraws one whose changes are gone.

It follows the log by its position, and what it has seen of it is kept in Postgres. A change is new where the tables as of that
position do not show it and no alert has it. One node watches at a time; the others wait for its lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

import msgspec
import psycopg

from api.alerts import OnAlerts
from api.background.audit import written
from api.background.background_task import BackgroundTask
from api.container import Container
from api.reads.alerts import alert_of, alerts_by_id
from api.reads.histories import Configurations, histories_of, touched_since
from domain.errors import AssayError, ProjectionBehind
from domain.events import ALERT_CHANGED, ALERT_RAISED, Decoded, encode_event, new_event
from domain.history.alerts import OPEN, Alert, KnownChanges, grouped
from domain.history.history import Change, History, HistoryReport
from domain.payloads import AlertChanged, AlertRaised
from domain.permissions import SERVICE_SOURCE
from ingest.log.postgres import connect
from ingest.projection import Tables

__all__ = ["AlertWatch"]

LOOK_S = 0.25
REST = 9.0
"""After a look, and within a long one while the log grows, it rests for so many times as long as the work took: requests and
appends have the processor for the rest."""
AUTHOR = "assay"
CHANGES_AN_EVENT = 50
EVENTS_A_BATCH = 500
_CHUNK = 100
"""Configurations whose histories are examined in one reading."""
_REMEMBERED = 20_000
"""Configurations whose changes are in memory; beyond that all are read again."""
_ENDING_S = 10.0
_AGAIN_S = 5.0
"""After a look that failed."""
_LOCK = 4_702_111_234_474_983_811
_NAMESPACE = uuid.UUID("a9d8e6a0-4a3b-5a1e-8c57-1f0c6d3f9b42")
_EVENTS = """
SELECT alert, event_id FROM (
    SELECT position, alert, event_id FROM alert_raised UNION ALL SELECT position, alert, event_id FROM alert_changed
) WHERE position > ? ORDER BY position
"""
_LOG = logging.getLogger(__name__)
Result = TypeVar("Result")


class Found(msgspec.Struct, kw_only=True):
    """What one look found: new changes, and by alert the changes that are gone, each with the reason."""

    new: list[Change] = []
    gone: dict[str, dict[str, str]] = {}


class Look(msgspec.Struct, kw_only=True):
    """One look: the configurations that got or lost points above `since`, the alerts as of `upto`, and what is found.

    `reports` are those of the first chunk. `states` names all that a report rests on beside its points.
    """

    since: int
    upto: int
    moment: datetime | None
    configurations: Sequence[Configurations]
    alerts: Sequence[Alert]
    reports: Sequence[tuple[History, HistoryReport]]
    states: frozenset[tuple[str, ...]]
    found: Found


class Ending(Exception):
    """The service ends; what was looked at is looked at again when it starts."""


class Cursor:
    """Up to which position the log was examined, for all nodes; a context manager that holds the lock of the watch."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._connection: psycopg.Connection[Any] | None = None

    def begin(self, position: int) -> None:
        """Begin at a position, where no node has begun before."""
        with connect(self._url, autocommit=True) as connection:
            connection.execute("INSERT INTO alert_cursor (position) VALUES (%s) ON CONFLICT DO NOTHING", [position])

    def acquire(self) -> int | None:
        """Take the lock and return the position; None where another node has the lock."""
        self._connection = connect(self._url, autocommit=True)
        ((held,),) = self._connection.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK]).fetchall()
        rows = self._connection.execute("SELECT position FROM alert_cursor").fetchall() if held else []
        return int(rows[0][0]) if rows else None

    def move(self, position: int) -> None:
        """Keep that the log was examined up to a position."""
        assert self._connection is not None
        self._connection.execute("UPDATE alert_cursor SET position = %s", [position])

    def release(self) -> None:
        """Give the lock back, whether it is held or not."""
        connection, self._connection = self._connection, None
        if connection is not None:
            # Postgres frees the locks of a closed connection a moment later: the next look would find it taken.
            with connection, contextlib.suppress(psycopg.Error):
                connection.execute("SELECT pg_advisory_unlock_all()")


class AlertWatch(BackgroundTask):
    """Looks at what the log got since the last look; `on_alerts` hears of every event about an alert."""

    def __init__(self, container: Container, on_alerts: OnAlerts | None = None) -> None:
        self._parts = container
        self._on_alerts = on_alerts
        self._cursor = Cursor(container.database.url)
        self._ending = threading.Event()
        self._work: asyncio.Future[Any] | None = None
        self._begun = False
        self._seen = -1
        self._working_since = time.monotonic()
        # The changes of each history by `alike`, as of the position and with the alerts of `_changes_of`.
        self._changes: dict[str, list[Change]] = {}
        self._changes_of: tuple[int, frozenset[tuple[str, ...]]] | None = None

    async def __aenter__(self) -> Self:
        """Begin at the log's end where nobody watched it before: what is in an old log raises nothing."""
        if self._parts.settings.appends:
            await self._begin()
        return await super().__aenter__()

    async def close(self) -> None:
        """End the task, and wait for what it does in a thread: that reads tables which are closed afterwards."""
        self._ending.set()
        await super().close()
        if self._work is not None:
            await asyncio.wait([self._work], timeout=_ENDING_S)
            if self._work.done() and not self._work.cancelled():
                self._work.exception()  # Ending; nobody else asks for it.
        self._cursor.release()

    async def look(self) -> bool:
        """Examine what came since the last look; return whether events were appended, so that there is more to look at."""
        parts = self._parts
        if parts.projection.position == self._seen or not (self._begun or await self._begin()):
            return False
        try:
            since = await self._threaded(self._cursor.acquire)
            if since is None:
                return False
            last = await parts.log.last_position()
            await parts.reach(last)
            look = await self._threaded(lambda: self._begin_look(min(since, last)))
            for begin in range(0, len(look.configurations), _CHUNK):
                grown = parts.projection.position
                await self._threaded(functools.partial(self._examine, look, begin))
                if begin + _CHUNK < len(look.configurations) and parts.projection.position > grown:
                    await self._rest()
            events = await self._threaded(lambda: self._outcome(look))
            for begin in range(0, len(events), EVENTS_A_BATCH):
                await parts.append(events[begin : begin + EVENTS_A_BATCH])
            await self._threaded(lambda: self._cursor.move(look.upto))
            self._seen = look.upto
            return bool(events)
        finally:
            await self._threaded(self._cursor.release)

    async def _begin(self) -> bool:
        try:
            last = await self._parts.log.last_position()
            await self._threaded(lambda: self._cursor.begin(last))
            self._begun = True
        except (AssayError, psycopg.Error) as error:
            _LOG.warning("alerts wait for Postgres: %s", error)
        return self._begun

    async def _follow(self) -> None:
        if not self._parts.settings.appends:
            _LOG.info("this node appends nothing, so it raises no alerts; a node of role all does")
            return
        while True:
            self._working_since, rest = time.monotonic(), LOOK_S
            try:
                while await self.look():
                    pass
            except ProjectionBehind:
                pass  # The tables are being made; the next look finds them further on.
            except (AssayError, psycopg.Error) as error:
                rest = _AGAIN_S
                _LOG.warning("histories were not examined: %s", error)
            except Exception:
                rest = _AGAIN_S
                _LOG.exception("the watch over histories failed; it looks again")
            await self._rest(rest)

    async def _rest(self, least_s: float = 0.0) -> None:
        await asyncio.sleep(max(least_s, REST * (time.monotonic() - self._working_since)))
        self._working_since = time.monotonic()

    async def _threaded(self, work: Callable[[], Result]) -> Result:
        self._work = future = asyncio.ensure_future(asyncio.to_thread(work))
        return await asyncio.shield(future)

    def _begin_look(self, since: int) -> Look:
        with self._parts.tables(None) as tables:
            upto, moment = tables.position, tables.recorded_at()
            self._hear(tables, since)
            configurations = touched_since(tables, since)
            alerts = [alert_of(row) for row in tables.alerts().to_pylist()] if configurations else []
            # Read now and not as of `upto`, which costs twice as much; most looks have no other chunk.
            reports = self._reports(tables, configurations[:_CHUNK])
        states = frozenset((alert.id, alert.state, *(change.id for change in alert.changes)) for alert in alerts)
        if not configurations and self._changes_of is not None:
            states = self._changes_of[1]  # They are compared when they are needed again.
        if self._changes_of != (since, states) or len(self._changes) > _REMEMBERED:
            self._changes = {}
        self._changes_of = None
        return Look(
            since=since,
            upto=upto,
            moment=moment,
            configurations=configurations,
            alerts=alerts,
            reports=reports,
            states=states,
            found=Found(),
        )

    def _outcome(self, look: Look) -> list[Decoded]:
        """Return the events that come of a look at all configurations."""
        self._changes_of = look.upto, look.states
        found, alerts = look.found, look.alerts
        return [
            *_withdrawals(found, alerts, look.upto, look.moment),
            *_raisings(found, alerts, look.upto, look.moment),
        ]

    def _hear(self, tables: Tables, since: int) -> None:
        """Tell of the events about alerts above a position."""
        if self._on_alerts is None:
            return
        rows = tables.select("alert_raised alert_changed", _EVENTS, [since]).to_pylist()
        alerts = alerts_by_id(tables, sorted({row["alert"] for row in rows}))
        if rows:
            self._on_alerts([(alerts[row["alert"]], row["event_id"]) for row in rows if row["alert"] in alerts])

    def _examine(self, look: Look, begin: int) -> None:
        """Find what is new or gone in a chunk; no state of the tables is held for longer than that takes."""
        chunk = look.configurations[begin : begin + _CHUNK]
        reports = look.reports if begin == 0 else self._reports_at(look.upto, chunk)
        unknown = [item for item in chunk if item.alike not in self._changes]
        if unknown:
            self._remember(unknown, self._reports_at(look.since, unknown))
        before = KnownChanges(change for item in chunk for change in self._changes[item.alike])
        raised = KnownChanges(change for alert in look.alerts if alert.state != "withdrawn" for change in alert.changes)
        for _, report in reports:
            look.found.new += [change for change in report.changes if change not in raised and change not in before]
        _find_gone(look.found, {item.alike for item in chunk}, reports, look.alerts)
        self._remember(chunk, reports)

    def _remember(
        self, configurations: Sequence[Configurations], reports: Sequence[tuple[History, HistoryReport]]
    ) -> None:
        self._changes |= {item.alike: [] for item in configurations}
        for history, report in reports:
            self._changes.setdefault(history.alike, []).extend(report.changes)

    def _reports_at(
        self, position: int, configurations: Sequence[Configurations]
    ) -> Sequence[tuple[History, HistoryReport]]:
        with self._parts.tables(position) as tables:
            return self._reports(tables, configurations)

    def _reports(
        self, tables: Tables, configurations: Sequence[Configurations]
    ) -> Sequence[tuple[History, HistoryReport]]:
        reports = []
        if configurations:
            for pair in self._parts.examinations.reports(histories_of(tables, configurations)):
                if self._ending.is_set():
                    raise Ending
                reports.append(pair)
        return reports


def _find_gone(
    found: Found, alike: set[str], reports: Sequence[tuple[History, HistoryReport]], alerts: Sequence[Alert]
) -> None:
    """Add the changes of open alerts that the histories of some configurations do not show any more."""
    shown = KnownChanges(change for _, report in reports for change in report.changes)
    points = {(history.alike, history.metric): history.points for history, _ in reports}
    for alert in alerts:
        for change in alert.changes if alert.state in OPEN else ():
            if change.alike not in alike or change in shown:
                continue
            there = points.get((change.alike, change.metric), [])
            if (
                there
                and change.first_time
                and (there[0].time or there[0].recorded_at or change.first_time) > change.first_time
            ):
                continue  # Its points are older than those that are read.
            events = {point.event_id for point in there}
            retracted = not {change.first, change.last, change.confirmed_by} <= events
            why = (
                "a row that it rested on was retracted"
                if retracted
                else "with newer points there is no change any more"
            )
            found.gone.setdefault(alert.id, {})[change.id] = why


def _raisings(found: Found, alerts: Sequence[Alert], position: int, moment: datetime | None) -> list[Decoded]:
    events = []
    for raised in grouped(found.new, alerts):
        alert = raised.alert
        for begin in range(0, len(raised.added), CHANGES_AN_EVENT):
            data = AlertRaised(
                alert=alert.id,
                title=alert.title[:4000],
                direction=alert.direction,
                kind=alert.kind,
                changes=raised.added[begin : begin + CHANGES_AN_EVENT],
                cause=alert.cause,
                position=position,
            )
            events.append(_event(ALERT_RAISED, alert.id, data, position, moment))
    return events


def _withdrawals(found: Found, alerts: Sequence[Alert], position: int, moment: datetime | None) -> list[Decoded]:
    events = []
    for alert in alerts:
        gone = found.gone.get(alert.id)
        if not gone:
            continue
        whole = len(gone) == len(alert.changes)
        reason = "; ".join(dict.fromkeys(gone.values()))
        data = AlertChanged(
            alert=alert.id,
            state="withdrawn" if whole else alert.state,
            author=AUTHOR,
            reason=reason if whole else f"{len(gone)} of {len(alert.changes)} changes are gone: {reason}",
            gone=sorted(gone),
        )
        events.append(_event(ALERT_CHANGED, alert.id, data, position, moment))
    return events


def _event(type_: str, alert: str, data: AlertRaised | AlertChanged, position: int, moment: datetime | None) -> Decoded:
    """Return an event whose id is the same wherever the same is found at the same position."""
    name = str(uuid.uuid5(_NAMESPACE, f"{type_}:{alert}:{position}:{msgspec.json.encode(data).decode()}"))
    event = new_event(type_, data, source=SERVICE_SOURCE, subject=f"alert/{alert}", time=moment, id=name)
    return written(encode_event(event))
