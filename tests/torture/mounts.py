"""Small file systems to fill and to make read-only; who may not mount is told why."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

__all__ = ["Volume", "volume"]

_MAY_ADMINISTER = 1 << 21
"""CAP_SYS_ADMIN in the set of effective capabilities."""


def _reason() -> str | None:
    """Return why this process may not mount; None where it may, and then a mount that fails is a failure."""
    if not sys.platform.startswith("linux"):
        return f"a small file system is mounted as tmpfs, and {sys.platform} has none"
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff"))
    if not effective & _MAY_ADMINISTER:
        return f"mounting a tmpfs needs CAP_SYS_ADMIN, and uid {os.geteuid()} here has capabilities {effective:x}"
    return None


class Volume:
    """A mounted tmpfs of its own size."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, leave_bytes: int = 0) -> None:
        """Take all room but so many bytes."""
        with self._ballast.open("ab", buffering=0) as ballast:
            while (room := self._free_bytes() - leave_bytes) > 0:
                try:
                    ballast.write(bytes(min(room, 1 << 20)))
                except OSError as error:
                    # Somebody else has taken the last of it.
                    if error.errno != errno.ENOSPC:
                        raise
                    return

    def _free_bytes(self) -> int:
        told = os.statvfs(self.path)
        return told.f_bavail * told.f_frsize

    def make_room(self) -> None:
        """Give it back."""
        self._ballast.unlink(missing_ok=True)

    def read_only(self, yes: bool) -> None:
        """Let nobody write, or again everybody."""
        subprocess.run(["mount", "-o", "remount," + ("ro" if yes else "rw"), str(self.path)], check=True)


@contextmanager
def volume(path: Path, megabytes: int) -> Iterator[Volume]:
    """Mount a file system of so many megabytes at `path`; skips, saying precisely why, where that is not allowed."""
    reason = _reason()
    if reason is not None:
        pytest.skip(reason)
    path.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", str(path)], check=True)
    try:
        yield Volume(path)
    finally:
        # Lazily: what was killed a moment ago may hold a file still.
        subprocess.run(["umount", "-l", str(path)], check=True)
