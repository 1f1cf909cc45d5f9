"""The spool: events on this machine's disk before they are sent anywhere.

An event is in the spool once `put` returns, and leaves it when a service has it. What a service refuses stays,
marked, until a person looks. A full spool raises, and so stops the benchmarks: nothing is dropped.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from domain.errors import AssayError, ServiceUnavailable, SpoolFull
from domain.events import encode_event
from runner.spool.state import SpoolState, outcome_of

__all__ = ["DEFAULT_LIMIT_BYTES", "FlushReport", "RefusedEvent", "Spool"]

DEFAULT_LIMIT_BYTES = 1_000_000_000
_BATCH_EVENTS = 1000
_BATCH_BYTES = 4_000_000

_SCHEMA = """
create table if not exists spooled (
    sequence integer primary key autoincrement,
    id text not null unique,
    body blob not null,
    refused integer not null default 0,
    detail text,
    field text
) strict;
create index if not exists spooled_waiting on spooled (refused, sequence);
"""
_PUT = "insert into spooled (id, body) values (?, ?) on conflict (id) do nothing"
_SIZE = "select coalesce(sum(length(body)), 0) from spooled"
_FILE_SIZE = "select page_count * page_size from pragma_page_count, pragma_page_size"
_COUNT = "select count(*) from spooled where refused = ?"
_NEXT = "select id, body from spooled where refused = 0 order by sequence limit ?"
_WAITING = "select body from spooled where refused = 0 order by sequence"
_FORGET = "delete from spooled where id = ?"
_REFUSE = "update spooled set refused = 1, detail = ?, field = ? where id = ?"
_REFUSED = "select id, body, detail, field from spooled where refused = 1 order by sequence"
_DISCARD = "delete from spooled where refused = 1"

Send = Callable[[Sequence[bytes]], Mapping[str, Any]]
"""Posts events (one JSON text each) and returns the answer of `POST /v1/events`, or raises an AssayError."""


class _Typed(msgspec.Struct):
    """An event's type; its other members are passed over."""

    type: str


class RefusedEvent(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a service did not take."""

    id: str
    type: str
    detail: str
    field: str | None


class FlushReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a flush came to. `state` says whether the rest waits for time or for a person."""

    accepted: int = 0
    duplicate: int = 0
    refused: int = 0
    waiting: int = 0
    state: SpoolState = SpoolState()
    error: str | None = None


class Spool:
    """A spool in one SQLite file; safe for several processes."""

    def __init__(self, path: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self.state = SpoolState()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=30, isolation_level=None, check_same_thread=False)
            self._connection.execute("pragma journal_mode = wal")
            # Full: an event that was put survives a power cut, not only a crash of the program.
            self._connection.execute("pragma synchronous = full")
            self._connection.executescript(_SCHEMA)
        except (sqlite3.Error, OSError) as error:
            raise ServiceUnavailable(
                f"the spool {path} cannot be used: {error}.",
                field="ASSAY_HOME",
                remedy="Name a directory that you may write to; `--out FILE` keeps a run's events in a file.",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def put(self, events: Sequence[dict[str, Any]]) -> None:
        """Keep the events, all or none. Known ids are left as they are.

        SpoolFull where they would pass the limit, ServiceUnavailable where the disk does not take them.
        """
        rows = [(event["id"], encode_event(event)) for event in events]
        size = sum(len(body) for _, body in rows)
        try:
            self._begin()
            # The file is never smaller than its bodies, and asking for its size does not read them.
            held = int(self._one(_FILE_SIZE))
            if held + size > self.limit_bytes and (held := self.size_bytes()) + size > self.limit_bytes:
                raise SpoolFull(
                    f"the spool holds {held:,} bytes of {self.limit_bytes:,}; {size:,} more do not fit.",
                    field="spool",
                    remedy="Flush the spool to a service, or raise its limit. Measuring stops until then.",
                )
            self._connection.executemany(_PUT, rows)
            self._connection.execute("commit")
        except BaseException as error:
            # SQLite has rolled back by itself where the disk is full.
            if self._connection.in_transaction:
                self._connection.execute("rollback")
            if isinstance(error, sqlite3.OperationalError):
                raise self._unwritable(error) from error
            raise

    def _unwritable(self, error: sqlite3.OperationalError) -> ServiceUnavailable:
        return ServiceUnavailable(
            f"the spool {self.path} cannot be written: {error}.",
            field="spool",
            remedy="See whether its disk is full. What it held is safe; measuring stops until then.",
        )

    def _begin(self) -> None:
        self._connection.execute("begin immediate")

    def size_bytes(self) -> int:
        """Return the bytes of all events held, waiting and refused."""
        return int(self._one(_SIZE))

    def waiting(self) -> int:
        """Return how many events wait to be sent."""
        return int(self._one(_COUNT, 0))

    def events(self) -> list[bytes]:
        """Return the events that wait to be sent, as lines of JSON, oldest first."""
        with closing(self._connection.execute(_WAITING)) as cursor:
            return [body for (body,) in cursor.fetchall()]

    def waiting_events(self, types: Collection[str]) -> Iterator[dict[str, Any]]:
        """Yield the waiting events of some types, oldest first; they stay in the spool."""
        for body in self.events():
            if msgspec.json.decode(body, type=_Typed).type in types:
                yield msgspec.json.decode(body)

    def _one(self, query: str, *parameters: Any) -> Any:
        with closing(self._connection.execute(query, parameters)) as cursor:
            return cursor.fetchone()[0]

    def refused(self) -> list[RefusedEvent]:
        """Return the events that a service did not take, oldest first."""
        with closing(self._connection.execute(_REFUSED)) as cursor:
            rows = cursor.fetchall()
        return [
            RefusedEvent(id=id_, type=msgspec.json.decode(body).get("type", ""), detail=detail or "", field=field)
            for id_, body, detail, field in rows
        ]

    def refused_events(self) -> list[dict[str, Any]]:
        """Return the refused events themselves, oldest first."""
        with closing(self._connection.execute(_REFUSED)) as cursor:
            return [msgspec.json.decode(body) for _, body, _, _ in cursor.fetchall()]

    def discard_refused(self) -> int:
        """Forget the refused events, because a person has looked; return how many."""
        with closing(self._connection.execute(_DISCARD)) as cursor:
            return cursor.rowcount

    def flush(
        self,
        send: Send,
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> FlushReport:
        """Send what waits, batch by batch, until nothing is left or the state says to wait; never sleeps."""
        accepted = duplicate = refused = 0
        error: str | None = None
        while self.state.may_send(clock()):
            batch = self._next_batch()
            if not batch:
                break
            try:
                answer = send([body for _, body in batch])
            except AssayError as failure:
                retry_after = getattr(failure, "retry_after_s", None)
                self.state, action = self.state.after(
                    outcome_of(failure), now_s=clock(), draw=draw(), retry_after_s=retry_after
                )
                error = str(failure)
                if action == "reject":
                    refused += self._refuse(batch, failure)
                continue
            self.state, _ = self.state.after("accepted", now_s=clock(), draw=0.0)
            accepted += int(answer["accepted"])
            duplicate += int(answer["duplicate"])
            refused += self._settle(batch, answer.get("rejected", []))
        return FlushReport(
            accepted=accepted,
            duplicate=duplicate,
            refused=refused,
            waiting=self.waiting(),
            state=self.state,
            error=error,
        )

    def _next_batch(self) -> list[tuple[str, bytes]]:
        with closing(self._connection.execute(_NEXT, (_BATCH_EVENTS,))) as cursor:
            rows: list[tuple[str, bytes]] = cursor.fetchall()
        size = 0
        for index, (_, body) in enumerate(rows):
            size += len(body) + 1
            if size > _BATCH_BYTES and index:
                return rows[:index]
        return rows

    def _settle(self, batch: list[tuple[str, bytes]], rejected: Sequence[Mapping[str, Any]]) -> int:
        """Forget what the service has and mark what it refused; return how many it refused."""
        reasons = {int(item["index"]): item for item in rejected}
        self._begin()
        accepted = [(id_,) for index, (id_, _) in enumerate(batch) if index not in reasons]
        self._connection.executemany(_FORGET, accepted)
        for index, (id_, _) in enumerate(batch):
            reason = reasons.get(index)
            if reason is not None:
                self._connection.execute(_REFUSE, (reason.get("detail"), reason.get("field"), id_))
        self._connection.execute("commit")
        return len(reasons)

    def _refuse(self, batch: list[tuple[str, bytes]], failure: AssayError) -> int:
        """Mark a batch that was refused as a whole, with each event's own reason where the answer gave it."""
        own = {int(item["index"]): item for item in getattr(failure, "rejected", None) or []}
        self._begin()
        for index, (id_, _) in enumerate(batch):
            reason = own.get(index, {"detail": failure.detail, "field": failure.field})
            self._connection.execute(_REFUSE, (reason.get("detail"), reason.get("field"), id_))
        self._connection.execute("commit")
        return len(batch)
