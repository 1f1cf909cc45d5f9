"""Bearer tokens: made, listed, revoked and recognised. Only the SHA-256 of a secret is kept, and it is shown once.

A secret is `assay_` and 256 random bits, so a plain hash of it cannot be guessed and needs no salt.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from psycopg.rows import dict_row

from domain.errors import NotFound, ServiceUnavailable, UsageError
from domain.permissions import PREFIX, SCOPES, Token
from ingest.log.postgres import connect

__all__ = ["TokenStore", "grant"]

RANDOM_BYTES = 32
SHOWN = len(PREFIX) + 6

_COLUMNS = "id::text, prefix, name, source, scopes, expires_at, revoked_at, created_at"
_CREATE = f"""
INSERT INTO token (prefix, sha256, name, source, scopes, expires_at) VALUES (%s, %s, %s, %s, %s, %s)
RETURNING {_COLUMNS}
"""
_LIST = f"SELECT {_COLUMNS} FROM token ORDER BY created_at, id"
_KNOWN = f"SELECT sha256, {_COLUMNS} FROM token"
_REVOKE = f"""
UPDATE token SET revoked_at = coalesce(revoked_at, clock_timestamp())
WHERE id::text = %(name)s OR prefix = %(name)s OR name = %(name)s RETURNING {_COLUMNS}
"""


class TokenStore:
    """The tokens in one database; connects for each call, safe from any thread."""

    def __init__(self, url: str) -> None:
        self.url = url

    def known(self) -> dict[bytes, Token]:
        """Return every token ever made by the SHA-256 of its secret, the revoked and expired ones too."""
        return {bytes(row.pop("sha256")): _token(row) for row in self._run(_KNOWN)}

    def create(
        self, name: str, scopes: Sequence[str], *, source: str | None = None, expires_at: datetime | None = None
    ) -> tuple[str, Token]:
        """Make a token and return its secret, which nobody can read again, with what is kept of it."""
        chosen = sorted(set(scopes))
        if not chosen or not set(chosen) <= set(SCOPES):
            raise UsageError("not the scopes of a token.", field="scopes", remedy=f"Some of {', '.join(SCOPES)}.")
        if not name.strip():
            raise UsageError("a token needs a name.", field="name", remedy="Say whose it is.")
        if expires_at is not None and (expires_at.tzinfo is None or expires_at <= datetime.now(UTC)):
            raise UsageError("not a time to come.", field="expires_at", remedy="Give a later time with its offset.")
        secret = PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
        values = [secret[:SHOWN], sha256(secret.encode()), name.strip(), source, chosen, expires_at]
        return secret, _token(self._run(_CREATE, values)[0])

    def listed(self) -> list[Token]:
        """Return all tokens, oldest first."""
        return [_token(row) for row in self._run(_LIST)]

    def revoke(self, name: str) -> Token:
        """Revoke the token of this id, prefix or name; NotFound, or UsageError where a name fits several."""
        fitting = [token for token in self.listed() if name in (token.id, token.prefix, token.name)]
        if not fitting:
            raise NotFound(f"no token is {name!r}.", field="token", remedy="`assay token list` shows them.")
        if len(fitting) > 1:
            raise UsageError(f"{len(fitting)} tokens are {name!r}.", field="token", remedy="Give the id of one.")
        return _token(self._run(_REVOKE, {"name": fitting[0].id})[0])

    def _run(self, statement: str, values: Any = None) -> list[dict[str, Any]]:
        try:
            with connect(self.url, connect_timeout=5, row_factory=dict_row) as connection:
                return list(connection.execute(statement, values).fetchall())
        except psycopg.OperationalError as error:
            raise ServiceUnavailable(f"Postgres does not answer: {error}.", remedy="Retry.") from error
        except psycopg.errors.UndefinedTable as error:
            raise ServiceUnavailable("the database has no tokens.", remedy="Run `assay db upgrade` once.") from error


def sha256(secret: bytes) -> bytes:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret).digest()


def grant(token: Token) -> dict[str, Any]:
    """Return what the audit trail keeps of a token: whose it is and what it allows."""
    return {"name": token.name, "prefix": token.prefix, "scopes": token.scopes, "source": token.source}


def _token(row: dict[str, Any]) -> Token:
    return Token(**row)
