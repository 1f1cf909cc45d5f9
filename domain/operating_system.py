"""What differs between operating systems: locks on open files, the number of the user, and whether a service can run."""

from __future__ import annotations

import os
import sys
import time

from domain.errors import PartMissing

__all__ = ["POSIX_MODULES", "lock", "require_service_support", "service_unsupported", "unlock", "user_id"]

POSIX_MODULES = frozenset({"fcntl", "grp", "pwd", "resource", "termios"})
"""Modules of Python that Windows lacks."""

_LOCKED_BYTE = 1 << 30
"""Windows locks bytes, and nobody else can read a locked one: this one is far behind the end of every file that is locked."""
_LOOK_AGAIN_S = 0.05


def lock(descriptor: int, *, wait: bool = False, shared: bool = False) -> bool:
    """Lock an open file for this handle alone, until `unlock`, `close` or the end of the process.

    Return False where another handle holds it; with `wait` wait for that one instead. Windows' own lock gives up after
    ten seconds, so that waiting is trying again there. `shared` locks go together; Windows has none, and each is alone.
    """
    while not _locked(descriptor, wait, shared):
        if not wait:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True


def require_service_support() -> None:
    """Raise PartMissing where the service and its Postgres cannot run."""
    if sys.platform == "win32":
        raise service_unsupported()


def service_unsupported() -> PartMissing:
    """Return the error that says where the service runs, and what to do on Windows."""
    return PartMissing(
        "the service does not run on Windows.",
        remedy="Run it in WSL or in a container, and name its address with --server or ASSAY_SERVER (docs/platforms.md).",
    )


if sys.platform == "win32":
    import msvcrt

    def _locked(descriptor: int, wait: bool, shared: bool) -> bool:  # noqa: ARG001 - the other systems have these
        try:
            _at_locked_byte(descriptor, msvcrt.LK_NBLCK)
        except PermissionError:
            return False
        return True

    def _at_locked_byte(descriptor: int, mode: int) -> None:
        before = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, mode, 1)
        finally:
            os.lseek(descriptor, before, os.SEEK_SET)

    def unlock(descriptor: int) -> None:
        """Let another handle lock the file. Windows frees the lock of a handle that is merely closed some time later."""
        _at_locked_byte(descriptor, msvcrt.LK_UNLCK)

    def user_id() -> int | None:
        """Return the number of the effective user, 0 for root; None on Windows, where users have none."""
        return None
else:
    import fcntl

    def _locked(descriptor: int, wait: bool, shared: bool) -> bool:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        return True

    def unlock(descriptor: int) -> None:
        """Let another handle lock the file. Windows frees the lock of a handle that is merely closed some time later."""
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def user_id() -> int | None:
        """Return the number of the effective user, 0 for root; None on Windows, where users have none."""
        return os.geteuid()
