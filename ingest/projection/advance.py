"""Bring tables forward: batches are fetched ahead of the fold, and committed together while the log is long."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TypeVar

import pyarrow as pa

from ingest.projection.fold import Folder, Undone
from ingest.projection.source import LogSource

__all__ = ["advance", "read_ahead"]

Piece = TypeVar("Piece")


_HELD_EVENTS = 200_000
_HELD_S = 5.0
"""So many events, or so long, are one transaction at the most."""


def advance(
    folder: Folder,
    source: LogSource,
    to: int | None = None,
    batch_rows: int | None = None,
    *,
    writing: AbstractContextManager[object] | None = None,
    go_on: Callable[[], bool] = lambda: True,
    moved: Callable[[], None] = lambda: None,
) -> None:
    """Apply what the log holds above the folder's position (up to `to`).

    With `batch_rows` no batch has more events, and each is a transaction of its own. `writing` is held while rows are written, not while they are fetched; `moved` is called after each commit.
    """
    writing = writing or contextlib.nullcontext()
    more = True
    while more and go_on():
        try:
            _pass(folder, source, to, batch_rows, writing, go_on, moved)
            more = False
        except Undone:
            # Somewhere in the held batches is an event that cannot be projected: once more, each batch on its own.
            for batch in source.batches(folder.position, folder.failed, chain=folder.chain):
                with writing:
                    if not go_on():
                        return
                    folder.apply(batch)
                moved()


def _pass(
    folder: Folder,
    source: LogSource,
    to: int | None,
    batch_rows: int | None,
    writing: AbstractContextManager[object],
    go_on: Callable[[], bool],
    moved: Callable[[], None],
) -> None:
    begun = time.monotonic()
    pieces = source.batches(folder.position, to, chain=folder.chain)
    try:
        with contextlib.closing(read_ahead(pieces)) as tables:
            for batch in _cut(tables, batch_rows):
                with writing:
                    if not go_on():
                        break
                    folder.belong_to(source.history)
                    folder.apply(batch, hold=batch_rows is None)
                    if folder.reached - folder.position >= _HELD_EVENTS or time.monotonic() - begun >= _HELD_S:
                        folder.commit()
                        begun = time.monotonic()
                moved()
    finally:
        # What was applied before the log could not be read any further is whole; applied again it would be there twice.
        with writing:
            if folder.reached > folder.position:
                folder.commit()
    with writing:
        if go_on():
            folder.belong_to(source.history)
    moved()


def _cut(tables: Iterable[pa.Table], most: int | None) -> Iterator[pa.Table]:
    """Yield the tables, those of more than `most` rows in pieces."""
    for table in tables:
        for first in range(0, table.num_rows, most or table.num_rows):
            yield table.slice(first, most)


def read_ahead(pieces: Iterator[Piece], depth: int = 1) -> Generator[Piece, None, None]:
    """Yield the pieces in order, up to `depth` of them fetched in advance by a thread; errors come where they arose.

    The first is fetched here: most logs that are followed have only one. Leaving early waits for the piece under way.
    """
    first = next(pieces, None)
    if first is None:
        return
    ready: queue.Queue[tuple[Piece | None, BaseException | None]] = queue.Queue(depth)
    leaving = threading.Event()

    def fetch() -> None:
        error: BaseException | None = None
        try:
            for piece in pieces:
                ready.put((piece, None))
                if leaving.is_set():
                    return
        except BaseException as raised:
            error = raised
        finally:
            ready.put((None, error))

    thread = threading.Thread(target=fetch, name="read-ahead", daemon=True)
    thread.start()
    try:
        yield first
        while True:
            piece, error = ready.get()
            if error is not None:
                raise error
            if piece is None:
                return
            yield piece
    finally:
        leaving.set()
        while thread.is_alive():
            try:
                ready.get(timeout=0.05)
            except queue.Empty:
                continue
        thread.join()
