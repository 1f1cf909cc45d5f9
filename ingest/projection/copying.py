"""Copy a file as cheaply as the system can: by reference where the file system shares blocks, inside the kernel else."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sys
from pathlib import Path
from typing import IO

__all__ = ["copy_file"]

_FICLONE = 0x40049409
"""Linux' request to share the blocks of another file (btrfs, XFS, bcachefs)."""
_PIECE_BYTES = 64 * 2**20


def copy_file(source: IO[bytes], target: Path) -> None:
    """Copy an open file to `target`, which must not exist; a copy that fails leaves nothing."""
    try:
        with target.open("xb") as copy:
            if not _shared(source, copy) and not _moved(source, copy):
                shutil.copyfileobj(source, copy, 2**20)
    except BaseException:
        target.unlink(missing_ok=True)
        raise


def _shared(source: IO[bytes], copy: IO[bytes]) -> bool:
    if sys.platform != "linux":
        return False
    with contextlib.suppress(OSError):
        fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
        return True
    return False


def _moved(source: IO[bytes], copy: IO[bytes]) -> bool:
    """Copy without the bytes coming through here; False, and nothing copied, where the system cannot."""
    if sys.platform != "linux":
        return False
    copied = 0
    while True:
        try:
            count = os.copy_file_range(source.fileno(), copy.fileno(), _PIECE_BYTES, copied, copied)
        except OSError:
            if copied:
                raise
            return False
        if not count:
            return True
        copied += count
