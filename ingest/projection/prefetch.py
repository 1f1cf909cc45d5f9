"""Read ahead: the next pieces are fetched while this one is worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator, Iterator
from typing import TypeVar

__all__ = ["read_ahead"]

Piece = TypeVar("Piece")


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
