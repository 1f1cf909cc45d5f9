"""Public keys of runners that sign their events: registered with their source, listed, revoked and looked up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec
import psycopg
from psycopg.rows import dict_row

from domain.errors import NotFound, ServiceUnavailable, UsageError
from domain.signing import key_id, read_public_key

__all__ = ["KeyStore", "SigningKey", "SigningKeys"]

REFRESH_S = 5.0
"""A key that is registered or revoked is known to every worker within this time."""

_COLUMNS = "id, public_key, source, name, revoked_at, created_at"
_REGISTER = f"""
INSERT INTO signing_key (id, public_key, source, name) VALUES (%s, %s, %s, %s)
ON CONFLICT DO NOTHING RETURNING {_COLUMNS}
"""
_LIST = f"SELECT {_COLUMNS} FROM signing_key ORDER BY created_at, id"
_REVOKE = f"""
UPDATE signing_key SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = %s RETURNING {_COLUMNS}
"""


class SigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """A registered key; `public_key` is 32 bytes (base64 in JSON), `source` the only one whose events it may sign."""

    id: str
    public_key: bytes
    source: str
    name: str
    revoked_at: datetime | None
    created_at: datetime

    def details(self) -> dict[str, Any]:
        """Return what the audit trail keeps of the key."""
        return {"name": self.name, "source": self.source}


class KeyStore:
    """The keys in one database; connects for each call, safe from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url

    def register(self, public_key: str, *, source: str, name: str) -> SigningKey:
        """Register a key (PEM or base64) for a source.

        A key that is registered for this source already is returned as it is; UsageError where it is another source's
        or revoked: what a key has signed must keep its meaning.
        """
        content = read_public_key(public_key)
        identifier = key_id(content)
        if rows := self._run(_REGISTER, [identifier, content, source, name]):
            return rows[0]
        registered = next(key for key in self.listed() if key.id == identifier)
        if registered.source != source or registered.revoked_at is not None:
            state = "revoked" if registered.revoked_at is not None else f"registered for {registered.source!r}"
            raise UsageError(f"the key {identifier} is {state}.", field="public_key", remedy="Make another key.")
        return registered

    def listed(self) -> list[SigningKey]:
        """Return all keys, the revoked ones too, oldest first."""
        return self._run(_LIST)

    def revoke(self, identifier: str) -> SigningKey:
        """Revoke the key of this id or name; NotFound, or UsageError where a name fits several."""
        matches = [key for key in self.listed() if identifier in (key.id, key.name)]
        if not matches:
            raise NotFound(f"no signing key is {identifier!r}.", field="key", remedy="`assay token keys` shows them.")
        if len(matches) > 1:
            raise UsageError(f"{len(matches)} keys are {identifier!r}.", field="key", remedy="Give the id of one.")
        return self._run(_REVOKE, [matches[0].id])[0]

    def _run(self, statement: str, values: Any = None) -> list[SigningKey]:
        try:
            with psycopg.connect(self.url, connect_timeout=5, row_factory=dict_row) as connection:
                rows = connection.execute(statement, values).fetchall()
        except psycopg.OperationalError as error:
            raise ServiceUnavailable(f"Postgres does not answer: {error}.", remedy="Retry.") from error
        except psycopg.errors.UndefinedTable as error:
            raise ServiceUnavailable("the database has no signing keys.", remedy="Run `assay db upgrade`.") from error
        return [SigningKey(**row) for row in rows]


class SigningKeys:
    """The keys as this process last read them; nothing is read before the first signed event."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._keys: Mapping[str, SigningKey] = {}
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def current(self) -> Mapping[str, SigningKey]:
        """Return the keys by id, at most REFRESH_S old."""
        async with self._reading:
            if self._read_at is None or time.monotonic() - self._read_at > REFRESH_S:
                await self._read()
        return self._keys

    async def refresh(self) -> None:
        """Read the keys now."""
        async with self._reading:
            await self._read()

    async def _read(self) -> None:
        keys = await asyncio.to_thread(self._store.listed)
        self._keys = {key.id: key for key in keys}
        self._read_at = time.monotonic()
