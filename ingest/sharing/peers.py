"""Peers in Postgres: which there are, how far each was read, and what may be taken of a page of one."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import psycopg
from psycopg.rows import dict_row

from domain.errors import (
    AssayError,
    MalformedBody,
    NameTaken,
    NotFound,
    PeerRefused,
    ServiceUnavailable,
    VersionConflict,
)
from domain.events import Decoded, decode_event
from domain.sharing.peers import (
    PAGE_EVENTS,
    ExactEvent,
    NewPeer,
    Peer,
    PeerPage,
    RefusedEvent,
    RemovedPeer,
    Whence,
    matches,
    require_peer,
)
from ingest.log.append import Appended
from ingest.log.event_log import WHENCE, EventLog, Transaction
from ingest.log.postgres import connect

__all__ = [
    "ArrivalReader",
    "PageEvents",
    "PeerStore",
    "check_page",
    "keep_arrivals",
    "read_page",
    "stored_peer",
    "unread",
]

_COLUMNS = (
    "id, name, url, sources, types, relayed, token_file, log::text, epoch, position, last_position, accepted, duplicate, "
    "refused, refusal, problem, problem_at, added_at, pulled_at"
)
_ADD = f"""
INSERT INTO peer (name, url, sources, types, relayed, token_file)
VALUES (%(name)s, %(url)s, %(sources)s, %(types)s, %(relayed)s, %(token_file)s)
ON CONFLICT (name) WHERE removed_at IS NULL DO NOTHING RETURNING {_COLUMNS}
"""
_LIST = f"SELECT {_COLUMNS} FROM peer WHERE removed_at IS NULL ORDER BY id"
_GET = f"SELECT {_COLUMNS} FROM peer WHERE removed_at IS NULL AND name = %s"
_REMOVE = """
UPDATE peer SET removed_at = clock_timestamp() WHERE removed_at IS NULL AND name = %s
RETURNING name, (SELECT count(*) FROM peer_arrival WHERE peer_arrival.peer = peer.id) AS events
"""
_PROBLEM = f"""
UPDATE peer SET problem = %s, problem_at = clock_timestamp() WHERE removed_at IS NULL AND name = %s RETURNING {_COLUMNS}
"""
_UNREAD = """
SELECT name, last_position - position, extract(epoch FROM pulled_at)::float8, problem IS NOT NULL
FROM peer WHERE removed_at IS NULL ORDER BY name
"""
_BROUGHT = "SELECT EXISTS (SELECT FROM peer_arrival) AS brought"
_ARRIVED = """
INSERT INTO peer_arrival (position, peer, peer_position)
SELECT here, %(peer)s, there FROM unnest(%(here)s::bigint[], %(there)s::bigint[]) AS arrived (here, there)
"""
_ADVANCE = """
UPDATE peer SET log = %(log)s, epoch = %(epoch)s, position = %(upto)s, last_position = %(last_position)s,
    accepted = accepted + %(accepted)s, duplicate = duplicate + %(duplicate)s, refused = refused + %(refused)s,
    refusal = coalesce(%(refusal)s, refusal), pulled_at = clock_timestamp(), problem = NULL, problem_at = NULL
WHERE id = %(id)s AND removed_at IS NULL AND position = %(after)s RETURNING id
"""
_NAMES = [name.removesuffix("::text") for name in _COLUMNS.split(", ")]
_WITH_LOG = f"SELECT {_COLUMNS}, (SELECT own.id::text FROM log AS own) FROM peer WHERE removed_at IS NULL AND name = %s"
_LINES = msgspec.json.Decoder(ExactEvent)

ASKED_EVERY_S = 5.0


class PeerStore:
    """The peers in one database; connects for each call, safe from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url

    def add(self, peer: NewPeer) -> Peer:
        """Add a peer, to be read from its first position on; NameTaken where another has its name."""
        require_peer(peer)
        rows = self._peers(_ADD, msgspec.structs.asdict(peer))
        if not rows:
            raise NameTaken(
                f"a peer is called {peer.name!r} already.",
                field="name",
                remedy=f"Give another --name, or `assay peer remove {peer.name}` first: what it brought stays.",
            )
        return rows[0]

    def listed(self) -> list[Peer]:
        """Return the peers, in the order in which they were added."""
        return self._peers(_LIST)

    def get(self, name: str) -> Peer:
        """Return the peer of a name; NotFound without one."""
        return self._named(self._peers(_GET, [name]), name)

    def remove(self, name: str) -> RemovedPeer:
        """Remove a peer; what it brought stays in the log, and still says from where it came."""
        rows = self._run(_REMOVE, [name])
        if not rows:
            raise _unknown(name)
        return RemovedPeer(**rows[0])

    def report(self, name: str, problem: str) -> Peer:
        """Keep why a pull ended early, until the next one succeeds."""
        return self._named(self._peers(_PROBLEM, [problem, name]), name)

    def brought(self) -> bool:
        """Return whether any peer ever brought an event."""
        return bool(self._run(_BROUGHT)[0]["brought"])

    def whence(self, positions: Sequence[int]) -> dict[int, Whence]:
        """Return by position which peer brought events, and their positions there; others are left out."""
        rows = self._run(WHENCE, [list(positions)])
        return {row["position"]: Whence(peer=row["name"], position=row["peer_position"]) for row in rows}

    def _named(self, rows: list[Peer], name: str) -> Peer:
        if not rows:
            raise _unknown(name)
        return rows[0]

    def _peers(self, statement: str, values: Any = None) -> list[Peer]:
        return [Peer(**row) for row in self._run(statement, values)]

    def _run(self, statement: str, values: Any = None) -> list[dict[str, Any]]:
        try:
            with connect(self.url, connect_timeout=5, row_factory=dict_row) as connection:
                return list(connection.execute(statement, values).fetchall())
        except psycopg.OperationalError as error:
            raise ServiceUnavailable(f"Postgres does not answer: {error}.", remedy="Retry.") from error
        except psycopg.errors.UndefinedTable as error:
            raise ServiceUnavailable("the database has no peers.", remedy="Run `assay db upgrade` once.") from error


def _unknown(name: str) -> NotFound:
    return NotFound(f"no peer is called {name!r}.", field="name", remedy="`assay peer list` shows them.")


async def unread(log: EventLog) -> list[UnreadPeer]:
    """Return how far each peer is read, by a connection of the log."""
    return [UnreadPeer(*row) for row in await log.fetch(_UNREAD)]


class ArrivalReader:
    """Says of positions of this log which peer brought them; asks nothing while no peer has brought any."""

    def __init__(self, url: str) -> None:
        self._store = PeerStore(url)
        self._any = False
        self._asked_at = -math.inf

    def whence(self, positions: Sequence[int]) -> dict[int, Whence] | None:
        """Return the peer of each position that came from one; None where nothing ever came from any."""
        if not self._any and time.monotonic() - self._asked_at > ASKED_EVERY_S:
            self._asked_at = time.monotonic()
            self._any = self._store.brought()
        return self._store.whence(positions) if self._any else None

    def noticed(self) -> None:
        """Say that a peer has brought something to this process."""
        self._any = True

    def beside(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Add `peer` and `peer_position` to rows with a position, where any peer ever brought something."""
        known = self.whence([row["position"] for row in rows]) if rows else None
        if known is not None:
            for row in rows:
                whence = known.get(row["position"])
                row["peer"] = None if whence is None else whence.peer
                row["peer_position"] = None if whence is None else whence.position
        return rows


async def stored_peer(log: EventLog, name: str) -> tuple[Peer, str]:
    """Return the peer of a name, and the id of this log, by a connection of the log; NotFound without one."""
    rows = await log.fetch(_WITH_LOG, [name])
    if not rows:
        raise _unknown(name)
    *values, own = rows[0]
    return Peer(**dict(zip(_NAMES, values, strict=True))), own


class UnreadPeer(NamedTuple):
    """Positions of a peer's log that were unread at the last pull, when that was, and whether it ended early."""

    name: str
    lag: int | None
    pulled_at_s: float | None
    failed: bool


class PageEvents(NamedTuple):
    """The events of a page by their positions in the peer's log; of some that are not well-formed, why."""

    events: list[tuple[int, Decoded]]
    refused: list[RefusedEvent]
    expired: int


def read_page(content: bytes) -> tuple[PeerPage, list[ExactEvent]]:
    """Return a page from its lines: what it covers, then its events; MalformedBody or PeerRefused otherwise."""
    head, _, rest = content.partition(b"\n")
    try:
        page = msgspec.json.decode(head, type=PeerPage)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise MalformedBody(
            f"the first line is no page: {error}.", field="$", remedy="Use `assay peer pull`."
        ) from error
    if rest.count(b"\n") > PAGE_EVENTS:
        raise _lie(f"a page has more than {PAGE_EVENTS:,} events", "page")
    try:
        return page, _LINES.decode_lines(rest)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _lie(f"a line is not an event of a log ({error})", "page") from error


def check_page(peer: Peer, page: PeerPage, own_log: str, lines: Sequence[ExactEvent]) -> PageEvents:
    """Return the events of a page; PeerRefused where the page cannot come from an honest peer.

    An event that this version does not accept is refused alone: the peer may run another version.
    """
    _check_log(peer, page, own_log)
    events: list[tuple[int, Decoded]] = []
    refused: list[RefusedEvent] = []
    before, expired = page.after, 0
    for line in lines:
        if not before < line.position <= page.upto:
            raise _lie(f"position {line.position} follows {before} in a page up to {page.upto}", "position")
        before = line.position
        if line.body is None:
            expired += 1
            continue
        try:
            event = decode_event(line.body)
        except AssayError as error:
            refused.append(RefusedEvent(position=line.position, field=error.field, detail=error.detail))
            continue
        if event.digest.hex() != line.digest:
            raise _lie(f"the event at position {line.position} does not match its digest", "digest")
        if event.type not in peer.types:
            raise _lie(f"position {line.position} has an event of type {event.type!r}, which was not asked for", "type")
        if not matches(peer.sources, event.source):
            raise _lie(f"position {line.position} has an event of {event.source!r}, which was not asked for", "source")
        events.append((line.position, event))
    return PageEvents(events, refused, expired)


def _check_log(peer: Peer, page: PeerPage, own_log: str) -> None:
    again = f"If that is right, `assay peer remove {peer.name}` and add it again: known events are not taken twice."
    if page.log == own_log:
        raise PeerRefused(
            "the peer is this service itself, or a copy of its log.",
            field="url",
            remedy="Name another service; a log that was restored from a backup of this one cannot be its peer.",
        )
    if peer.log is not None and page.log != peer.log:
        raise PeerRefused(f"the peer has another log now ({page.log}, not {peer.log}).", field="log", remedy=again)
    if peer.epoch is not None and page.epoch != peer.epoch:
        raise PeerRefused(
            f"the log of the peer lost or replaced events (epoch {page.epoch}, not {peer.epoch}).",
            field="epoch",
            remedy=again,
        )
    if page.after != peer.position:
        raise VersionConflict(
            f"{peer.name} is read up to position {peer.position}, not {page.after}.",
            field="after",
            remedy="Another pull was quicker; go on from there.",
        )
    if not page.after <= page.upto <= page.last_position:
        raise PeerRefused(
            f"the log of the peer ends at position {page.last_position} and was read up to {page.upto}.",
            field="last_position",
            remedy=again,
        )


async def keep_arrivals(
    transaction: Transaction,
    peer: Peer,
    page: PeerPage,
    answers: Sequence[tuple[int, Appended]],
    refused: Sequence[RefusedEvent],
) -> None:
    """Record, in the transaction that appends a page, where its events came from and how far the peer is read.

    `answers` are positions of the peer's log with what became of their events. Raises PeerRefused where an event has another
    body than the one here, VersionConflict after another pull.
    """
    for there, answer in answers:
        if answer.status == "conflict":
            raise _lie(f"the event at position {there} is not the one of its id here: {answer.detail}", "id")
    arrived = [(answer.position, there) for there, answer in answers if answer.status == "accepted"]
    last = refused[-1] if refused else None
    values = {
        **msgspec.structs.asdict(page),
        "id": peer.id,
        "accepted": len(arrived),
        "duplicate": len(answers) - len(arrived),
        "refused": len(refused),
        "refusal": None if last is None else f"position {last.position}: {last.detail}"[:1000],
    }
    if not await transaction.fetch(_ADVANCE, values):
        raise VersionConflict(
            f"{peer.name} was read by another pull, or removed.",
            field="after",
            remedy="Go on from where it is read now.",
        )
    here, there_too = [pair[0] for pair in arrived], [pair[1] for pair in arrived]
    await transaction.fetch(_ARRIVED, {"peer": peer.id, "here": here, "there": there_too})


def _lie(what: str, field: str) -> PeerRefused:
    return PeerRefused(
        f"{what}; nothing of this page was kept.",
        field=field,
        remedy="Ask whoever runs the peer; `assay peer remove` ends it, and what came before stays.",
    )
