"""Answers that were given: the same question to the same state has the same bytes, so they are not made twice."""

from __future__ import annotations

import threading
from collections.abc import Hashable

import cachetools
import msgspec
from litestar import Response

__all__ = ["CachedAnswer", "ResponseCache"]

ROOM_BYTES = 32 * 2**20
LARGEST_BYTES = 2 * 2**20
"""An answer above it is not kept: pages and comparisons are below, and whoever reads everything reads it once."""


class CachedAnswer(msgspec.Struct, frozen=True):
    """The body of an answer, with the headers that tell of it."""

    content: bytes
    media_type: str
    headers: dict[str, str]

    def response(self) -> Response[bytes]:
        """Return it as it is sent."""
        return Response(self.content, media_type=self.media_type, headers=dict(self.headers))


class ResponseCache:
    """The answers asked for last, by question and state, in a bounded room; for any number of threads."""

    def __init__(self, room_bytes: int = ROOM_BYTES) -> None:
        self._lock = threading.Lock()
        self._kept: cachetools.LRUCache[Hashable, CachedAnswer] = cachetools.LRUCache(
            room_bytes, getsizeof=lambda value: len(value.content)
        )

    def find(self, question: Hashable) -> CachedAnswer | None:
        """Return the answer that was given to this question, None where it is not kept."""
        with self._lock:
            return self._kept.get(question)

    def keep(self, question: Hashable, values: CachedAnswer) -> None:
        """Keep an answer, and forget those that were not asked for the longest."""
        if len(values.content) <= LARGEST_BYTES:
            with self._lock:
                self._kept[question] = values
