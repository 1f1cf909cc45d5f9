"""What is known of a bearer token, and what it may be used for."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, get_args

import msgspec

__all__ = ["PREFIX", "SCOPES", "Scope", "Token"]

PREFIX = "assay_"
"""What every secret begins with."""
Scope = Literal["append", "read", "jobs", "admin"]
SCOPES: tuple[str, ...] = get_args(Scope)


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a token; `prefix` is the beginning of its secret, `source` the only one it appends as."""

    id: str
    prefix: str
    name: str
    source: str | None
    scopes: list[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    created_at: datetime

    def valid(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def allows(self, scope: str) -> bool:
        """Whether it covers a scope; admin covers all."""
        return scope in self.scopes or "admin" in self.scopes
