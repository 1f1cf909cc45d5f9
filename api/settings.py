"""How one process of the service is set up; everything comes from the environment, which `assay serve` fills."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from domain.errors import UsageError

__all__ = ["ROLES", "Settings"]

ROLES = ("all", "ingest", "query")


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`role` says which routes and parts there are: `ingest` has no tables, `query` takes no events, `all` has both.

    `host` is the address that the server binds to; it decides whether the service may be open (see api.access).
    """

    home: Path
    database_url: str | None = None
    role: str = "all"
    host: str = "127.0.0.1"

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read ASSAY_HOME, ASSAY_DATABASE_URL, ASSAY_ROLE and ASSAY_HOST; raise UsageError naming what is wrong."""
        values = os.environ if environment is None else environment
        home = values.get("ASSAY_HOME")
        if not home:
            raise UsageError("no data directory is named.", field="ASSAY_HOME", remedy="Start it with `assay serve`.")
        role = values.get("ASSAY_ROLE") or "all"
        if role not in ROLES:
            raise UsageError(f"{role!r} is not a role.", field="ASSAY_ROLE", remedy=f"One of {', '.join(ROLES)}.")
        return cls(
            home=Path(home).expanduser().absolute(),
            database_url=values.get("ASSAY_DATABASE_URL") or None,
            role=role,
            host=values.get("ASSAY_HOST") or "127.0.0.1",
        )

    @property
    def appends(self) -> bool:
        """Whether this process takes events."""
        return self.role in ("all", "ingest")

    @property
    def projects(self) -> bool:
        """Whether this process owns tables and answers from them."""
        return self.role in ("all", "query")

    @property
    def loopback(self) -> bool:
        """Whether only programs on this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False
