"""Copy a file as cheaply as the system can: by reference where the file system shares blocks, inside the kernel else."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from domain.errors import ServiceUnavailable

if TYPE_CHECKING:
    from ingest.projection.fold import Folder

__all__ = ["copy_file", "publish"]

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
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.ioctl(copy.fileno(), _FICLONE, source.fileno())
            return True
    return False


def _moved(source: IO[bytes], copy: IO[bytes]) -> bool:
    """Copy without the bytes coming through here; False, and nothing copied, where the system cannot."""
    if sys.platform == "linux":
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
    else:
        return False


def publish(
    folder_now: Callable[[], Folder], writing: AbstractContextManager[object], source: Callable[[], Path], path: Path
) -> int:
    """Copy the tables that a Folder writes into the file `source` to `path`, and return their position.

    The writer waits for the checkpoint, not for the copy; where readers of older states do not let the file be brought up
    to date, it waits for the copy of the file and of its write-ahead log, which goes beside the path.
    """
    with writing:
        folder = folder_now()
        folder.checkpoint_by_hand(True)
        whole = False
        try:
            whole = folder.checkpoint()
            position, current = folder.position, source().open("rb")
            if not whole:
                log = source().with_name(source().name + ".wal")
                with current, log.open("rb") as written:
                    copy_file(current, path)
                    copy_file(written, path.with_name(path.name + ".wal"))
                return position
        finally:
            if not whole:
                folder.checkpoint_by_hand(False)
    # What is written until the next checkpoint goes to the write-ahead log and to blocks that nothing refers to.
    try:
        with current:
            copy_file(current, path)
    finally:
        with writing, contextlib.suppress(ServiceUnavailable):
            if folder_now() is folder:
                folder.checkpoint_by_hand(False)
    return position
