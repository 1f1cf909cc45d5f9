"""The outbox in Postgres: messages about alerts from the moment that an event is in the log until they are delivered.

A delivery waits (`waiting`, or `held` in quiet hours) until its route gathers: it becomes `pending` itself, or `digested`
into another one that is. It ends as `delivered`, `failed` after a day of attempts, `gone` where the receiver wants no more,
or `dropped` where its alert was withdrawn before it was sent. Nothing here reads or writes the network beside Postgres.
"""

from __future__ import annotations

import hashlib
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from api.alerts.receivers import Outcome
from api.alerts.routes_file import RoutesFile
from domain.answers.deliveries import RouteDeliveries
from domain.errors import ServiceUnavailable
from domain.history.alerts import Alert
from domain.history.notices import Message, Notice, compose, notice_of
from domain.history.routes import (
    Route,
    matching_changes,
    next_due,
    owners_of,
    routes_for,
)
from domain.scrub import scrub
from ingest.log.postgres import connect

__all__ = ["Delivery", "Outbox", "backoff", "is_quiet"]

GATHER = timedelta(seconds=5)
"""A message waits until no other has come to its route for this long, so that many at once become one digest.

A digest's own window takes its place.
"""
MOST_GATHER = timedelta(minutes=5)
LEASE = timedelta(seconds=60)
"""After a claim nobody else sends the message for this long; it is sent again where the process was killed meanwhile."""
MOST_ATTEMPTS = 30
"""A day of attempts, as `backoff` spaces them."""
KEPT = timedelta(days=30)
"""How long a delivery stays in the table after its end."""
_FIRST_S, _FACTOR, _MOST_S = 5.0, 3.0, 3600.0
_NAMESPACE = uuid.UUID("6d5c1a7e-3f0b-5b7e-9a63-0c6f4b8d2e11")
_GATHERING = ("waiting", "held")

_PRIOR = """
SELECT id::text, alert::text, route, state, payload->'notice'->>'state' AS notice_state,
    jsonb_array_length(payload->'notice'->'changes') + coalesce((payload->'notice'->>'more')::integer, 0) AS changes,
    coalesce((payload->>'cycle')::integer, 0) AS cycle
FROM alert_delivery WHERE alert = ANY(%s::uuid[]) AND payload ? 'notice' ORDER BY payload->>'queued_at'
"""
_STOPPED = "SELECT DISTINCT route, payload->>'target' AS target FROM alert_delivery WHERE state = 'gone'"
_INSERT = """
INSERT INTO alert_delivery (id, alert, route, event_id, payload, due_at, state) VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING
"""
_REPLACE = "UPDATE alert_delivery SET payload = payload || %s WHERE id = %s AND state IN ('waiting', 'held')"
_DROP = "UPDATE alert_delivery SET state = 'dropped' WHERE id = ANY(%s::uuid[]) AND state IN ('waiting', 'held')"
_ACTIVE = """
SELECT DISTINCT route FROM alert_delivery WHERE state IN ('waiting', 'held') OR (state = 'pending' AND due_at <= %s)
"""
_GATHERED = """
SELECT id::text, alert::text, state, due_at, payload FROM alert_delivery
WHERE route = %s AND state IN ('waiting', 'held') ORDER BY due_at, id FOR UPDATE SKIP LOCKED
"""
_READY = """
SELECT min(due_at) AS first, max(due_at) AS last, bool_or(state = 'held') AS held FROM alert_delivery
WHERE route = %s AND state IN ('waiting', 'held')
"""
_MOVE = "UPDATE alert_delivery SET state = %s, due_at = %s WHERE id = ANY(%s::uuid[])"
_CLAIM = """
UPDATE alert_delivery SET attempts = attempts + 1, due_at = %s WHERE id = (
    SELECT id FROM alert_delivery WHERE route = %s AND state = 'pending' AND due_at <= %s
    ORDER BY due_at, id LIMIT 1 FOR UPDATE SKIP LOCKED
) RETURNING id::text, payload, attempts
"""
_END = """
UPDATE alert_delivery SET state = %s, delivered_at = %s, last_error = %s, due_at = %s WHERE id = %s AND state = 'pending'
"""
_STOP = """
UPDATE alert_delivery SET state = 'gone', last_error = %s, payload = payload || %s
WHERE route = %s AND state IN ('waiting', 'held', 'pending')
"""
_PRUNE = """
DELETE FROM alert_delivery WHERE due_at < %s AND state IN ('delivered', 'digested', 'dropped', 'failed')
"""
_COUNTS = """
SELECT route, count(*) FILTER (WHERE state IN ('waiting', 'held', 'pending')) AS pending,
    count(*) FILTER (WHERE state = 'held') AS held, count(*) FILTER (WHERE state = 'delivered') AS delivered,
    count(*) FILTER (WHERE state = 'failed') AS failed, bool_or(state = 'gone') AS gone,
    max(delivered_at) AS last_delivered_at, min(due_at) FILTER (WHERE state = 'pending') AS next_attempt_at,
    (array_agg(last_error ORDER BY due_at DESC) FILTER (WHERE last_error IS NOT NULL))[1] AS last_error
FROM alert_delivery GROUP BY route ORDER BY route
"""


class Payload(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of a delivery: one alert, or the message of a digest. `target` is the receiver that is gone.

    `cycle` counts how often the alert had been withdrawn before: raised after that, it is new again.
    """

    queued_at: datetime
    cycle: int = 0
    notice: Notice | None = None
    message: Message | None = None
    target: str | None = None


class Prior(msgspec.Struct, kw_only=True):
    """An earlier message to a route about the same alert: its state in the outbox, and what it says of the alert."""

    id: str
    state: str
    notice_state: str
    changes: int
    cycle: int


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed delivery; its id is that of every attempt."""

    id: str
    attempts: int
    message: Message


def backoff(attempt: int, chance: Callable[[float, float], float] = random.uniform) -> timedelta:
    """Return how long to wait after a failed attempt: 5 s, then three times as long each, an hour at most, ± 20 %."""
    return timedelta(seconds=min(_MOST_S, _FIRST_S * _FACTOR ** (attempt - 1)) * chance(0.8, 1.2))


def is_quiet(route: Route, now: datetime) -> bool:
    """Whether a route sends nothing at this moment."""
    return next_due(now, route.quiet) > now


class Outbox:
    """The deliveries in one database; connects for each call, safe from any thread."""

    def __init__(self, url: str, routes: RoutesFile) -> None:
        self.url = url
        self.routes = routes

    def enqueue(self, alerts: Sequence[tuple[Alert, str]], now: datetime | None = None) -> None:
        """Keep the messages about alerts and the events about them, all or none; see api.alerts.OnAlerts."""
        routes, now = self.routes.current(), now or datetime.now(UTC)
        if not routes.routes or not alerts:
            return
        with self._connected() as connection:
            targets = {row["route"]: row["target"] for row in connection.execute(_STOPPED)}
            active = [route for route in routes.routes if targets.get(route.name) != _target(route)]
            prior: dict[tuple[str, str], list[Prior]] = {}
            for row in connection.execute(_PRIOR, [[alert.id for alert, _ in alerts]]):
                prior.setdefault((row.pop("alert"), row.pop("route")), []).append(Prior(**row))
            for alert, event_id in alerts:
                owned = msgspec.structs.replace(alert, owners=owners_of(alert.changes, routes.owners))
                for route in routes_for(owned, active, routes.owners):
                    notice = notice_of(owned, event_id, matching_changes(owned, route.match, routes.owners))
                    rows = prior.setdefault((alert.id, route.name), [])
                    _keep(connection, route, notice, rows, _cycle(alert), now)

    def active(self, now: datetime) -> set[str]:
        """Return the names of the routes that have something to gather or to send."""
        with self._connected() as connection:
            return {row["route"] for row in connection.execute(_ACTIVE, [now])}

    def gather(self, route: Route, now: datetime) -> None:
        """Make the deliveries of a route that wait pending, once no more are expected, each alone or as one digest."""
        with self._connected() as connection:
            ready = connection.execute(_READY, [route.name]).fetchone()
            if ready is None or ready["first"] is None or not _is_ready(ready, route, now):
                return
            rows = connection.execute(_GATHERED, [route.name]).fetchall()
            identifiers = [row["id"] for row in rows]
            together = route.digest.every is not None or any(row["state"] == "held" for row in rows)
            if len(rows) < 2 or not (together or len(rows) > route.digest.above):
                connection.execute(_MOVE, ["pending", now, identifiers])
                return
            connection.execute(_MOVE, ["digested", now, identifiers])
            notices = [msgspec.convert(row["payload"], Payload).notice for row in rows]
            message = compose([notice for notice in notices if notice], route.name, now, self.routes.current().service)
            identifier = _identifier(route.name, *sorted(identifiers))
            payload = _json(Payload(queued_at=now, message=message))
            connection.execute(_INSERT, [identifier, rows[0]["alert"], route.name, identifier, payload, now, "pending"])

    def claim(self, route: Route, now: datetime) -> Delivery | None:
        """Return the next delivery of a route that is due, and keep everybody else from it for LEASE."""
        with self._connected() as connection:
            row = connection.execute(_CLAIM, [now + LEASE, route.name, now]).fetchone()
        if row is None:
            return None
        payload = msgspec.convert(row["payload"], Payload)
        message = payload.message
        if message is None and payload.notice is not None:
            message = compose([payload.notice], route.name, payload.queued_at, self.routes.current().service)
        if message is None:
            raise AssertionError("a delivery has a notice or a message")
        return Delivery(id=row["id"], attempts=row["attempts"], message=message)

    def record(self, route: Route, delivery: Delivery, outcome: Outcome, now: datetime) -> str:
        """Keep what came of an attempt, and return the state of the delivery after it."""
        detail = scrub(outcome.detail, limit=300)
        with self._connected() as connection:
            if outcome.delivered:
                connection.execute(_END, ["delivered", now, None, now, delivery.id])
                return "delivered"
            if outcome.gone:
                connection.execute(_STOP, [detail, Jsonb({"target": _target(route)}), route.name])
                return "gone"
            wait = max(backoff(delivery.attempts), timedelta(seconds=outcome.retry_after_s or 0.0))
            state = "failed" if delivery.attempts >= MOST_ATTEMPTS else "pending"
            connection.execute(_END, [state, None, detail, now + wait if state == "pending" else now, delivery.id])
            return state

    def prune(self, now: datetime) -> None:
        """Forget deliveries that ended long ago."""
        with self._connected() as connection:
            connection.execute(_PRUNE, [now - KEPT])

    def summary(self) -> list[RouteDeliveries]:
        """Return how each route stands: those of the file in its order, then others that have deliveries."""
        with self._connected() as connection:
            rows = {row["route"]: row for row in connection.execute(_COUNTS)}
            targets = {row["route"]: row["target"] for row in connection.execute(_STOPPED)}
        named = {route.name: route for route in self.routes.current().routes}
        return [
            RouteDeliveries(
                **{name: value for name, value in rows.get(name_, {}).items() if name not in ("route", "gone")},
                route=name_,
                known=name_ in named,
                stopped=name_ in named and targets.get(name_) == _target(named[name_]),
            )
            for name_ in [*named, *(name_ for name_ in rows if name_ not in named)]
        ]

    @contextmanager
    def _connected(self) -> Iterator[psycopg.Connection[Any]]:
        try:
            with connect(self.url, connect_timeout=5, row_factory=dict_row) as connection:
                yield connection
        except psycopg.OperationalError as error:
            raise ServiceUnavailable(f"Postgres does not answer: {error}.", remedy="Retry.") from error
        except psycopg.errors.UndefinedTable as error:
            raise ServiceUnavailable("the database has no alerts.", remedy="Run `assay db upgrade`.") from error


def _cycle(alert: Alert) -> int:
    """Return how often an alert was withdrawn before the state that it has now."""
    withdrawn = sum(change.state == "withdrawn" for change in alert.states)
    return max(0, withdrawn - (alert.state == "withdrawn"))


def _keep(
    connection: psycopg.Connection[Any], route: Route, notice: Notice, prior: list[Prior], cycle: int, now: datetime
) -> None:
    """Keep one message, or change the one that waits: an alert is new to a route once, however often it is raised."""
    identifier = _identifier(route.name, notice.event_id)
    if any(row.id == identifier for row in prior):
        return
    heard = [row for row in prior if row.state != "dropped" and row.cycle == cycle]
    last = heard[-1] if heard else None
    size = len(notice.changes) + notice.more
    same = ("new", "extended") if notice.state == "new" else (notice.state,)
    if last is not None and last.notice_state in same:
        if last.state in _GATHERING:
            kept = msgspec.structs.replace(notice, state=last.notice_state)
            connection.execute(_REPLACE, [Jsonb({"notice": msgspec.to_builtins(kept)}), last.id])
            return
        if "extended" not in route.states or size <= last.changes:
            return
        notice = msgspec.structs.replace(notice, state="extended")
    if notice.state == "withdrawn":
        unsent = [row for row in heard if row.state in _GATHERING]
        connection.execute(_DROP, [[row.id for row in unsent]])
        for row in unsent:
            row.state = "dropped"
        if len(unsent) == len(heard) and "new" in route.states:
            # Nobody heard of it.
            return
    ready = now + (route.digest.window or GATHER)
    due = next_due(ready, route.quiet)
    state = "held" if due > ready else "waiting"
    payload = _json(Payload(queued_at=now, cycle=cycle, notice=notice))
    connection.execute(_INSERT, [identifier, notice.alert, route.name, notice.event_id, payload, due, state])
    prior.append(Prior(id=identifier, state=state, notice_state=notice.state, changes=size, cycle=cycle))


def _is_ready(ready: dict[str, Any], route: Route, now: datetime) -> bool:
    if ready["held"] or route.digest.every is not None:
        return bool(ready["first"] <= now)
    return bool(ready["last"] <= now or ready["first"] <= now - MOST_GATHER)


def _identifier(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "\n".join(parts)))


def _target(route: Route) -> str:
    """Return a digest of a receiver as the file has it, without secrets."""
    return hashlib.sha256(msgspec.json.encode(route.to)).hexdigest()[:16]


def _json(payload: Payload) -> Jsonb:
    return Jsonb(msgspec.to_builtins(payload))
