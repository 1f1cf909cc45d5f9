"""One runner on one device: a lock in the machine's temporary folder, which ends with whoever holds it, however it ends."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from domain.errors import TooBusy
from domain.operating_system import lock, unlock

__all__ = ["DeviceLock", "take"]

_NOT_NAME = re.compile(r"[^A-Za-z0-9.-]+")


class DeviceLock:
    """Held from when it is made until it is closed or its process ends."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        """Return the open file's number; a child that inherits it holds the lock as well."""
        return self._descriptor

    def close(self) -> None:
        """Let others measure."""
        unlock(self._descriptor)
        os.close(self._descriptor)


def take(key: str, folder: Path | None = None) -> DeviceLock:
    """Return the lock of the device that has this key; raises TooBusy, naming the process, where another holds it."""
    path = (folder or Path(tempfile.gettempdir())) / f"assay-device-{_NOT_NAME.sub('-', key)}.lock"
    # The file stays: removing it would let two hold locks of the same name.
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except PermissionError:
        # Somebody else's, which can be locked and not written.
        descriptor = os.open(path, os.O_RDONLY)
    if not lock(descriptor):
        holder = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise TooBusy(
            f"another runner measures on {key}{f' (process {holder})' if holder else ''}; both would be slower than they are.",
            field="device",
            remedy="Wait until it has ended and run again with --resume, or name another device.",
        )
    with contextlib.suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
    return DeviceLock(descriptor)
