"""ASSAY_HOME: the one directory of an installation, who serves from it, and where that service listens."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from domain.errors import ServiceUnavailable, UsageError
from domain.operating_system import lock, unlock, user_id

__all__ = ["Home", "Service", "data_folder", "find_home", "own", "running"]

_OURS = frozenset(
    [
        "alerts",
        "archive",
        "bisect",
        "cache",
        "calibration",
        "dashboard",
        "jobs",
        "links",
        "migrated",
        "postgres",
        "projection",
        "service",
        "snapshots",
        "spool",
    ]
)
"""First parts of the names of what Assay keeps in a home."""


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A service as it announced itself in `service.json`."""

    url: str
    pid: int
    role: str


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """The data directory and the files of Assay in it."""

    path: Path

    @property
    def lock(self) -> Path:
        """Held by the service for as long as it lives."""
        return self.path / "service.lock"

    @property
    def announcement(self) -> Path:
        """Where the service says its address."""
        return self.path / "service.json"

    @property
    def service_log(self) -> Path:
        """What a service that a verb started had to say."""
        return self.path / "service.log"

    @property
    def dashboard_log(self) -> Path:
        """What the dashboard had to say."""
        return self.path / "dashboard.log"

    @property
    def spool(self) -> Path:
        """Events of this machine that no service has yet."""
        return self.path / "spool.sqlite"

    @property
    def calibration(self) -> Path:
        """Events of a calibration that is not complete."""
        return self.path / "calibration.ndjson"

    @property
    def jobs(self) -> Path:
        """What workers of this machine have in hand."""
        return self.path / "jobs"

    @property
    def cache(self) -> Path:
        """Converted models; can be deleted at any time."""
        return self.path / "cache"


def find_home(path: str | Path | None = None) -> Home:
    """Return the data directory, made where it is missing: `path`, else ASSAY_HOME, else the platform's own place.

    Other users can read neither the directory nor what Assay keeps in it. A directory that also holds other files keeps
    its own mode.
    """
    named = path or os.environ.get("ASSAY_HOME")
    folder = Path(named).expanduser().absolute() if named else data_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _close_to_others(folder)
    except OSError as error:
        raise UsageError(
            f"{folder} cannot be used: {error.strerror}.",
            field="ASSAY_HOME",
            remedy="Set it to a directory that you may write to.",
        ) from error
    return Home(path=folder)


def _close_to_others(folder: Path) -> None:
    """Take the rights of group and others from a home and its entries, as far as they are this user's own.

    On Windows a folder passes its list of rights on to what is in it, and that of AppData lets no other user in.
    """
    if sys.platform == "win32":
        return
    with os.scandir(folder) as scandir:
        entries = list(scandir)
    ours = [entry for entry in entries if entry.name.partition(".")[0] in _OURS and not entry.is_symlink()]
    for entry in ours:
        # Another process may have removed it meanwhile.
        with suppress(FileNotFoundError):
            _close(Path(entry.path), entry.stat(follow_symlinks=False))
    if len(ours) == len(entries):
        _close(folder, folder.stat())


def _close(path: Path, stat_result: os.stat_result) -> None:
    shared = stat_result.st_mode & 0o077 and not stat_result.st_mode & stat.S_ISVTX
    if (
        shared
        and stat_result.st_uid == user_id()
        and (stat.S_ISDIR(stat_result.st_mode) or stat.S_ISREG(stat_result.st_mode))
    ):
        # A mount may be read-only; the service that needs to write says so itself.
        with suppress(OSError):
            path.chmod(stat.S_IMODE(stat_result.st_mode) & ~0o077)


def data_folder() -> Path:
    """Return the platform's own place for the data of Assay, whatever ASSAY_HOME says."""
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "assay"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "assay"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "assay"


def running(home: Home) -> Service | None:
    """Return the service that serves from this directory and answers; a stale announcement counts as none."""
    try:
        service = msgspec.json.decode(home.announcement.read_bytes(), type=Service)
    except (OSError, msgspec.MsgspecError):
        return None
    # Where nobody serves, verbs start without it.
    import httpx

    try:
        # It is asked in plain HTTP: nobody's certificates need to be loaded, which takes as long as the answer.
        httpx.get(f"{service.url}/health/live", timeout=2.0, trust_env=False, verify=False).raise_for_status()
    except (OSError, httpx.HTTPError):
        return None
    return service


@contextmanager
def _private_files() -> Iterator[None]:
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


@contextmanager
def own(home: Home, url: str, role: str) -> Iterator[None]:
    """Hold the directory and announce the service; raise ServiceUnavailable where another one holds it.

    As long as it is held, this process creates files that other users cannot read.
    """
    with _private_files(), home.lock.open("ab") as owner:
        if not lock(owner.fileno()):
            raise ServiceUnavailable(
                f"another service already uses {home.path}.",
                field="ASSAY_HOME",
                remedy="Use that one (`assay status` names it), stop it, or name another directory.",
            )
        announced = Service(url=url, pid=os.getpid(), role=role)
        beside = home.announcement.with_suffix(".new")
        beside.write_bytes(msgspec.json.encode(announced))
        beside.replace(home.announcement)
        try:
            yield
        finally:
            home.announcement.unlink(missing_ok=True)
            unlock(owner.fileno())
