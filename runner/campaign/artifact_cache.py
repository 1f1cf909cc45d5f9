"""Converted models and reference outputs, kept by digest so that each is made once on a machine.

An entry is a folder named by the digest of all that determines it. It is made under a file lock in a folder of its
own and moved into place whole, so concurrent runners never see half of one. The least recently used go first when
the whole passes its limit.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from domain.canonical import digest

__all__ = ["DEFAULT_LIMIT_BYTES", "ArtifactStore"]

DEFAULT_LIMIT_BYTES = 10_000_000_000


class ArtifactStore:
    """A folder of entries that together take at most `limit_bytes`; the newest stays even if it alone takes more."""

    def __init__(self, root: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def obtain(self, what: dict[str, Any], make: Callable[[Path], bool]) -> Path | None:
        """Return the folder for `what`, made by `make(folder)` where it is not there yet; None where that says no."""
        key = digest(what).removeprefix("sha256:")[:32]
        entry = self.root / key
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked(key):
            if entry.is_dir():
                os.utime(entry)
                return entry
            with tempfile.TemporaryDirectory(dir=self.root, prefix="new-") as building:
                folder = Path(building) / "entry"
                folder.mkdir()
                if not make(folder):
                    return None
                folder.rename(entry)
        self._prune(keep=entry)
        return entry

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        with (self.root / f"{key}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield

    def _prune(self, keep: Path) -> None:
        """Remove the least recently used entries; one in use stays readable to whoever has it open."""
        entries = [path for path in self.root.iterdir() if path.is_dir() and not path.name.startswith("new-")]
        sizes = {path: sum(file.stat().st_size for file in path.iterdir()) for path in entries}
        held = sum(sizes.values())
        for path in sorted(entries, key=lambda each: each.stat().st_mtime):
            if held <= self.limit_bytes:
                return
            if path != keep:
                shutil.rmtree(path)
                held -= sizes[path]
