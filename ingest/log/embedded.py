"""A Postgres of our own in one folder, which nobody but its user and root can reach."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import quote

import psutil

from domain.errors import ServiceUnavailable
from ingest.log.account import OWN_SERVER, Account, account_of, programs, runtime_folder

__all__ = ["EmbeddedServer"]

_SETTINGS = """
# Written by Assay when it made this server.
shared_buffers = '128MB'
max_connections = 100
max_wal_size = '2GB'
checkpoint_timeout = '15min'
"""
_ENFORCED = {
    "listen_addresses": "",
    "port": "5432",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
}
"""Given on the server's command line, where neither its files nor ALTER SYSTEM can change them."""
_HBA = """# Written by Assay at each start; changes are lost. Only the users that pg_ident.conf names may connect.
local all all peer map=assay
"""
_SOCKET = ".s.PGSQL.5432"
_LONGEST = 103
"""Bytes of a socket's path: 107 on Linux, 103 on macOS."""
_START_S = 120.0
_STOP_S = 60.0
_LOG = logging.getLogger(__name__)


class EmbeddedServer:
    """A Postgres of our own in one folder, shared by every process that opens it.

    Each user of it holds a shared lock on `<folder>.users`; the last one to close it gets the lock alone and stops the
    server. The kernel drops the lock of a killed process. `settings` are added to the server's command line.
    """

    def __init__(self, folder: Path, settings: Mapping[str, str] | None = None) -> None:
        self.folder = folder.expanduser().resolve()
        self._settings = _ENFORCED | dict(settings or {})
        self._users: IO[bytes] | None = None
        self._pid = 0

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        return self._pid

    def start(self) -> str:
        """Start the server, or find the running one, and return the URL of its maintenance database.

        Call it again after the server has died. A folder made by an earlier version gets this version's access rules.
        """
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._alone(), self._shared():
                account = account_of(self.folder)
                self._forget_dead_postmaster(account)
                socket = self._started(account)
        except (OSError, subprocess.SubprocessError, _NotStarted) as error:
            raise ServiceUnavailable(
                f"the embedded Postgres does not start: {error}{self._last_words()}",
                field="ASSAY_HOME",
                remedy=f"Look into {self.folder / 'log'}, or {OWN_SERVER}.",
            ) from error
        return f"postgresql://postgres@/postgres?host={quote(str(socket), safe='/')}"

    def stop(self) -> bool:
        """Let go of the server; stop it, cleanly, when nobody else uses it. Return whether it was stopped."""
        if self._users is None:
            return False
        with self._alone():
            self._users.close()
            self._users = None
            with self._lock_file(".users") as users:
                try:
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    return False
                self._halt()
                return True

    def _started(self, account: Account) -> Path:
        """Return the folder of the socket of the running server, after starting it where it does not run."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        data = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fchmod(data, 0o700)
            if account.foreign:
                _hand_over(data, account)
            rewritten = False
            if (self.folder / "PG_VERSION").exists():
                rewritten = _write_access(data, account)
            if (lines := _lines(self.folder / "postmaster.pid")) and self._socket_of(lines, account) is None:
                _LOG.warning("restarting a Postgres whose socket other users can reach or that has lost it")
                self._pid = int(lines[0])
                self._halt()
                lines = []
            if not lines:
                self._launch(data, account)
            else:
                self._pid = int(lines[0])
                if rewritten:
                    os.kill(self._pid, signal.SIGHUP)
            return self._when_ready(account)
        finally:
            os.close(data)

    def _launch(self, data: int, account: Account) -> None:
        """Start the server; it is no child of this process, and inherits the open data folder where it needs it.

        Another account may not reach the folder by its path: the directories above it stay closed. It does through the
        descriptor, which Linux shows as a path.
        """
        version = self.folder / "PG_VERSION"
        place = programs(account, version.read_text("utf-8").strip() if version.exists() else None)
        path = f"/proc/self/fd/{data}" if account.foreign else str(self.folder)
        descriptors = (data,) if account.foreign else ()
        if not version.exists():
            _initialise(place, path, descriptors, account)
            _append(data, "postgresql.auto.conf", _SETTINGS)
            _write_access(data, account)
        if len(os.fsencode(self.folder / _SOCKET)) <= _LONGEST:
            socket = path
        else:
            name = f"assay-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]}"
            socket = str(runtime_folder(account, name, _LONGEST - len(_SOCKET) - 1))
        settings = self._settings | {
            "hba_file": f"{path}/pg_hba.conf",
            "ident_file": f"{path}/pg_ident.conf",
            "unix_socket_directories": '"' + socket.replace('"', '""') + '"',
        }
        command = [str(place / "postgres"), "-D", path, *(f"--{name}={value}" for name, value in settings.items())]
        with os.fdopen(os.open("log", _APPENDING, 0o600, dir_fd=data), "ab") as log:
            os.fchmod(log.fileno(), 0o600)
            if account.foreign:
                os.fchown(log.fileno(), account.uid, account.gid)
            # The shell ends at once, and the server belongs to init: it outlives the process that starts it.
            script = f"{shlex.join(command)} </dev/null >&2 & echo $!"
            started = account.run(
                ["/bin/sh", "-c", script],
                stdout=subprocess.PIPE,
                stderr=log,
                pass_fds=descriptors,
                start_new_session=True,
            )
        self._pid = int(started.stdout)

    def _when_ready(self, account: Account) -> Path:
        """Wait until the server takes connections, through a crash recovery too, and return its socket's folder."""
        until = time.monotonic() + _START_S
        while time.monotonic() < until:
            lines = _lines(self.folder / "postmaster.pid")
            if len(lines) >= 8 and lines[7].strip() == "ready" and _is_postmaster(lines, self.folder):
                self._pid = int(lines[0])
                socket = self._socket_of(lines, account)
                if socket is None:
                    raise _NotStarted("its socket is not in a private folder")
                return socket
            if not _lives(self._pid):
                raise _NotStarted("it has ended")
            time.sleep(0.01)
        raise _NotStarted(f"not ready within {_START_S:.0f} s")

    def _halt(self) -> None:
        """Stop the server: cleanly, else as a crash from which it recovers."""
        lines = _lines(self.folder / "postmaster.pid")
        if _is_postmaster(lines, self.folder):
            # Another process may have started it anew.
            self._pid = int(lines[0])
        for request in (signal.SIGINT, signal.SIGQUIT):
            # It may have been killed meanwhile, and its number may belong to another.
            if not _serves(self._pid, self.folder):
                break
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, request)
            until = time.monotonic() + _STOP_S
            while _lives(self._pid) and time.monotonic() < until:
                time.sleep(0.01)
        _remove_runtime_folder(lines[4:5])

    def _socket_of(self, lines: list[str], account: Account) -> Path | None:
        """Return the folder of a server's socket from its pid file; None where others could have replaced it."""
        named = Path(lines[4]) if len(lines) > 4 and lines[4] else self.folder
        folder = self.folder if named.is_relative_to("/proc") else named
        try:
            lstat = folder.lstat()
        except OSError:
            return None
        return folder if lstat.st_uid == account.uid and lstat.st_mode & 0o170077 == 0o040000 else None

    def _forget_dead_postmaster(self, account: Account) -> None:
        """Remove a pid file whose process is not this Postgres: after a reboot its number belongs to another.

        The socket has a lock file of its own that names the same process, and would keep the next one from starting.
        """
        pid_file = self.folder / "postmaster.pid"
        lines = _lines(pid_file)
        if _is_postmaster(lines, self.folder):
            return
        places = {self.folder, self._socket_of(lines, account) or self.folder}
        for lock in [path for place in places for path in place.glob(".s.PGSQL.*.lock")]:
            if not _is_postmaster(_lines(lock), self.folder):
                lock.with_suffix("").unlink(missing_ok=True)
                lock.unlink(missing_ok=True)
        if lines:
            _LOG.warning("removing the pid file of a Postgres that is gone: %s", pid_file)
            if self._socket_of(lines, account) is not None:
                _remove_runtime_folder(lines[4:5])
        pid_file.unlink(missing_ok=True)

    def _last_words(self) -> str:
        try:
            lines = (self.folder / "log").read_text("utf-8", errors="replace").splitlines()
        except OSError:
            return "."
        return ". Its log ends: " + " | ".join(lines[-3:])

    @contextlib.contextmanager
    def _shared(self) -> Iterator[None]:
        """Count as a user of the server from here on, unless the block fails."""
        if self._users is not None:
            self._users.close()
        self._users = self._lock_file(".users")
        try:
            fcntl.flock(self._users, fcntl.LOCK_SH)
            yield
        except BaseException:
            self._users.close()
            self._users = None
            raise

    def _lock_file(self, suffix: str) -> IO[bytes]:
        """Open a lock file beside the folder, which only this user and root can open."""
        path = self.folder.with_name(self.folder.name + suffix)
        file = os.fdopen(os.open(path, _APPENDING, 0o600), "ab")
        # Root may be a guest in another user's home.
        owner = self.folder.parent.stat()
        if os.geteuid() == 0:
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
        os.fchmod(file.fileno(), 0o600)
        return file

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        with self._lock_file(".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


_APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class _NotStarted(Exception):
    """The server did not start; the sentence says at which point."""


def _initialise(place: Path, path: str, descriptors: tuple[int, ...], account: Account) -> None:
    words = ["--auth-local=peer", "--auth-host=reject", "--encoding=utf8", "--username=postgres", f"--pgdata={path}"]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as said:
        made = account.run([place / "initdb", *words], stdout=said, stderr=said, pass_fds=descriptors)
        said.seek(0)
        if made.returncode:
            raise _NotStarted(f"initdb failed: {' '.join(said.read().split())[-300:]}")


def _hand_over(data: int, account: Account) -> None:
    """Give the data folder to the account; what an earlier version left to root's group too."""
    if os.fstat(data).st_uid != account.uid or os.fstat(data).st_gid != account.gid:
        os.fchown(data, account.uid, account.gid)
    with contextlib.suppress(FileNotFoundError):
        if os.stat("PG_VERSION", dir_fd=data, follow_symlinks=False).st_gid == account.gid:
            return
        for _, folders, files, folder in os.fwalk(".", dir_fd=data, follow_symlinks=False):
            for name in (*folders, *files):
                with contextlib.suppress(FileNotFoundError):
                    os.chown(name, account.uid, account.gid, dir_fd=folder, follow_symlinks=False)


def _write_access(data: int, account: Account) -> bool:
    """Write who may connect; return whether that has changed."""
    ident = "".join(f'assay "{name.replace(chr(34), chr(34) * 2)}" postgres\n' for name in account.names)
    changed = [_replace(data, name, text, account) for name, text in (("pg_hba.conf", _HBA), ("pg_ident.conf", ident))]
    return any(changed)


def _replace(data: int, name: str, text: str, account: Account) -> bool:
    """Write a file of the data folder anew where it differs; never through a link that the account has put there."""
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=data), "rb") as file:
            if file.read() == text.encode():
                return False
    except OSError:
        _LOG.debug("%s is missing, or a link", name)
    beside = f"{name}.new"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside, dir_fd=data)
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=data), "wb") as file:
        file.write(text.encode())
        if account.foreign:
            os.fchown(file.fileno(), account.uid, account.gid)
    os.rename(beside, name, src_dir_fd=data, dst_dir_fd=data)
    return True


def _append(data: int, name: str, text: str) -> None:
    with os.fdopen(os.open(name, _APPENDING, 0o600, dir_fd=data), "a") as file:
        file.write(text)


def _remove_runtime_folder(named: list[str]) -> None:
    for folder in (Path(name) for name in named if name):
        if folder.name.startswith("assay-"):
            with contextlib.suppress(OSError):
                folder.rmdir()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []


def _lives(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def _is_postmaster(pid_file: list[str], folder: Path) -> bool:
    """Say whether the process on the first line of a pid file, or of a socket's lock file, is the folder's own Postgres."""
    return bool(pid_file) and pid_file[0].strip().isdigit() and _serves(int(pid_file[0]), folder)


def _serves(pid: int, folder: Path) -> bool:
    try:
        process = psutil.Process(pid)
        # A zombie is dead; where process 1 does not reap, as in many containers, it stays in the table.
        if "postgres" not in process.name() or process.status() == psutil.STATUS_ZOMBIE:
            return False
        return Path(process.cwd()).resolve() == folder
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
