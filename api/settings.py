"""How one process of the service is set up; everything comes from the environment, which `assay serve` fills."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from domain.errors import UsageError
from domain.hosts import ENVIRONMENT as ALLOWED_HOSTS
from domain.hosts import AllowedHosts, allowed_hosts, is_loopback

__all__ = ["DEFAULT_RATE", "LEVELS", "ROLES", "Rate", "Settings"]

ROLES = ("all", "ingest", "query")
LEVELS = ("debug", "info", "warning", "error")
BODY_DEADLINE_S = 30.0
IDLE_TIMEOUT_S = 30.0
CONNECTIONS_PER_ADDRESS = 1024
JOB_LEASE_S = 30.0
_DURATION = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smhd])", re.ASCII)
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """How much one token, or one address where the door is open, may ask of one worker in the long run."""

    requests_per_s: float
    events_per_s: float


DEFAULT_RATE = Rate(requests_per_s=500.0, events_per_s=50_000.0)
"""Where tokens are configured and nothing else is said: ten busy runners' worth, a tenth of what a worker can do."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """`role` says which routes and parts there are: `ingest` has no tables, `query` takes no events, `all` has both.

    `host` is the address that the server binds to; it decides whether the service may be open (see api.http.access).
    `retrain_every_s` None means that the predictor is trained only when somebody asks for it. `rate` None means DEFAULT_RATE where tokens are configured and no limit where none is. `supervisor` is
    the process that started this worker: it waits for a Postgres that is away, ends with its supervisor, and leaves a file in `ready_folder` when it answers.
    A connection that sends no head of a request for `idle_timeout_s` is closed, and so are those that one address
    holds beyond `connections_per_address`. `shipped_data` appends the evidence that ships to a log that is empty. A job whose worker is not heard of for `job_lease_s` is started again. `ray` is the Ray cluster that may rebuild the tables. `allowed_hosts` is the text of ASSAY_ALLOWED_HOSTS; see `hosts`.
    """

    home: Path
    database_url: str | None = None
    role: str = "all"
    host: str = "127.0.0.1"
    rate: Rate | None = None
    log_level: str = "info"
    body_deadline_s: float = BODY_DEADLINE_S
    supervisor: int | None = None
    ready_folder: Path | None = None
    retrain_every_s: float | None = None
    allowed_hosts: str = ""
    idle_timeout_s: float = IDLE_TIMEOUT_S
    connections_per_address: int = CONNECTIONS_PER_ADDRESS
    shipped_data: bool = False
    job_lease_s: float = JOB_LEASE_S
    ray: str | None = None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> Settings:
        """Read ASSAY_HOME, ASSAY_DATABASE_URL, ASSAY_ROLE, ASSAY_HOST, ASSAY_RATE_LIMIT, ASSAY_LOG_LEVEL,
        ASSAY_BODY_DEADLINE_S, ASSAY_RETRAIN_EVERY, ASSAY_ALLOWED_HOSTS,
        ASSAY_IDLE_TIMEOUT_S, ASSAY_CONNECTIONS_PER_ADDRESS, ASSAY_SHIPPED_DATA, ASSAY_JOB_LEASE and ASSAY_RAY; raise UsageError naming the one that is wrong.
        """
        values = os.environ if environment is None else environment
        home = values.get("ASSAY_HOME")
        if not home:
            raise UsageError("no data directory is named.", field="ASSAY_HOME", remedy="Start it with `assay serve`.")
        settings = cls(
            home=Path(home).expanduser().absolute(),
            database_url=values.get("ASSAY_DATABASE_URL") or None,
            role=_among(values.get("ASSAY_ROLE") or "all", ROLES, "ASSAY_ROLE", "role"),
            host=values.get("ASSAY_HOST") or "127.0.0.1",
            rate=_rate(values.get("ASSAY_RATE_LIMIT") or ""),
            log_level=_among((values.get("ASSAY_LOG_LEVEL") or "info").lower(), LEVELS, "ASSAY_LOG_LEVEL", "level"),
            body_deadline_s=_seconds(values, "ASSAY_BODY_DEADLINE_S", BODY_DEADLINE_S),
            idle_timeout_s=_seconds(values, "ASSAY_IDLE_TIMEOUT_S", IDLE_TIMEOUT_S),
            connections_per_address=_count(values, "ASSAY_CONNECTIONS_PER_ADDRESS", CONNECTIONS_PER_ADDRESS),
            job_lease_s=_seconds(values, "ASSAY_JOB_LEASE", JOB_LEASE_S),
            retrain_every_s=_every(values.get("ASSAY_RETRAIN_EVERY") or ""),
            supervisor=int(values["ASSAY_SUPERVISOR"]) if values.get("ASSAY_SUPERVISOR") else None,
            allowed_hosts=values.get(ALLOWED_HOSTS) or "",
            ready_folder=Path(values["ASSAY_READY_FOLDER"]) if values.get("ASSAY_READY_FOLDER") else None,
            shipped_data=_among(values.get("ASSAY_SHIPPED_DATA") or "no", ("yes", "no"), "ASSAY_SHIPPED_DATA", "choice")
            == "yes",
            ray=values.get("ASSAY_RAY") or None,
        )
        settings.hosts()
        return settings

    def hosts(self) -> AllowedHosts:
        """Return the names under which this process may be addressed; UsageError where an entry is no host name."""
        return allowed_hosts(self.allowed_hosts, self.host)

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
        return is_loopback(self.host)


def _among(value: str, choice: tuple[str, ...], field: str, noun: str) -> str:
    if value not in choice:
        raise UsageError(f"{value!r} is not a {noun}.", field=field, remedy=f"One of {', '.join(choice)}.")
    return value


def _rate(text: str) -> Rate | None:
    """Read `off`, `requests` or `requests,events`, each a second."""
    if not text:
        return None
    if text == "off":
        return Rate(requests_per_s=math.inf, events_per_s=math.inf)
    parts = text.split(",")
    try:
        requests, events = (float(parts[0]), float(parts[1])) if len(parts) == 2 else (float(text), math.inf)
    except ValueError:
        requests = events = 0.0
    if not requests > 0 or not events > 0:
        raise UsageError(
            f"{text!r} is not a limit.",
            field="ASSAY_RATE_LIMIT",
            remedy="Give requests a second, or requests,events a second (500,50000), or off.",
        )
    return Rate(requests_per_s=requests, events_per_s=events)


def _seconds(values: Mapping[str, str], name: str, default: float) -> float:
    text = values.get(name) or str(default)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise UsageError(f"{text!r} is not a time.", field=name, remedy="Give seconds above 0.")
    return seconds


def _count(values: Mapping[str, str], name: str, default: int) -> int:
    text = values.get(name) or str(default)
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 2**31):
        raise UsageError(f"{text!r} is not a count.", field=name, remedy="Give a whole number above 0.")
    return int(text)


def _every(text: str) -> float | None:
    """Read `24h`, `30m`, `90s`, `7d` or `off`."""
    if text in ("", "off"):
        return None
    match = _DURATION.fullmatch(text)
    if match is None or not float(match[1]) > 0:
        raise UsageError(
            f"{text!r} is not a time between trainings.",
            field="ASSAY_RETRAIN_EVERY",
            remedy="Give 24h, 30m, 7d or off.",
        )
    return float(match[1]) * _SECONDS[match[2]]
