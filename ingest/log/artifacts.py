"""Artifacts: bytes under their digest, in the log's database; predictors are kept here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg

from domain.errors import CorruptArtifact, NotFound, ServiceUnavailable
from ingest.log.postgres import connect

__all__ = ["Artifact", "ArtifactStore"]

_PUT = """
INSERT INTO artifact (digest, kind, content, card) VALUES (%s, %s, %s, %s) ON CONFLICT (digest) DO UPDATE SET content = excluded.content
"""
_STORED = "SELECT digest FROM artifact WHERE digest = ANY(%s)"
_GET = "SELECT kind, content, card FROM artifact WHERE digest = %s"


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """Content and its card (JSON) under `digest`, `sha256:<hex>` of the content."""

    digest: str
    kind: str
    content: bytes
    card: dict[str, Any]


class ArtifactStore:
    """Artifacts in the Postgres at a libpq URL. Connects for each call; safe from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url

    def put(self, content: bytes, card: dict[str, Any], kind: str) -> str:
        """Keep the content and return its digest; the same content twice is kept once, with its first card, and
        takes the place of bytes under its digest that are not its own."""
        digest = _digest(content)
        with self._connect() as connection:
            connection.execute(_PUT, [digest, kind, content, json.dumps(card)])
        return digest

    def get(self, digest: str) -> Artifact:
        """Return the artifact; NotFound where there is none, CorruptArtifact where the bytes are not its own."""
        with self._connect() as connection:
            row = connection.execute(_GET, [digest]).fetchone()
        if row is None:
            raise NotFound(f"no artifact {digest}.", field="digest", remedy="Train again, or restore it from a backup.")
        kind, content, card = row
        if _digest(bytes(content)) != digest:
            raise CorruptArtifact(
                f"the bytes stored as {digest} are others.", field="digest", remedy="Restore it from a backup."
            )
        return Artifact(digest=digest, kind=kind, content=bytes(content), card=json.loads(card))

    def stored(self, digests: Sequence[str]) -> set[str]:
        """Return those of the digests that have an artifact."""
        with self._connect() as connection:
            return {digest for (digest,) in connection.execute(_STORED, [list(digests)])}

    def _connect(self) -> psycopg.Connection[Any]:
        try:
            return connect(self.url, connect_timeout=5)
        except psycopg.OperationalError as error:
            raise ServiceUnavailable(f"Postgres does not answer: {error}.", remedy="Retry.") from error


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()
