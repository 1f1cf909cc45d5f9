"""What became of each file of a tree that is imported: which format it has, what was taken, and what was not and why."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from ingest.importers.base import Importer
from ingest.importers.files import File
from ingest.importers.legacy.other import SeedOther, what_it_is
from ingest.importers.refusals import Refused

__all__ = ["Entry", "Ledger", "sha256_of"]

_NOT_FACTS = ("assay.run.",)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Entry(msgspec.Struct, kw_only=True):
    """One file. `path` is where it lies, None for a member of an archive; `rejected` counts events that the service refused.

    `note` says what a file is that has no results, or that nobody recognises it.
    """

    name: str
    path: Path | None = None
    sha256: str | None = None
    size_bytes: int = 0
    modified_s: float = 0.0
    format: str | None = None
    note: str | None = None
    taken: Counter[str] = msgspec.field(default_factory=Counter)
    simulated: int = 0
    refused: list[Refused] = msgspec.field(default_factory=list)
    rejected: int = 0

    @property
    def facts(self) -> int:
        """Events that were taken, without those that only tell of the import itself."""
        return sum(count for type_, count in self.taken.items() if not type_.startswith(_NOT_FACTS))

    @property
    def migrated(self) -> bool:
        """Whether all that the file holds is in the log: it was recognised, and nothing of it was refused."""
        return self.format is not None and self.note is None and not self.refused and not self.rejected

    @property
    def why_not(self) -> str | None:
        """Why it is not migrated, or None."""
        if self.migrated:
            return None
        if self.note:
            return self.note
        if self.refused:
            return self.refused[0].reason
        return f"{self.rejected} events were refused by the service" if self.rejected else "nobody recognises it"


class Ledger:
    """Follows an import: give it as the `watcher` of `import_paths`, and pass what comes out through `follow`.

    `entries` has the files in the order in which they were read.
    """

    def __init__(self, tree: Path) -> None:
        self._tree = tree.resolve()
        self.entries: list[Entry] = []
        self._starts: list[int] = []
        self._events = 0

    def opened(self, file: File, importer: Importer | None) -> None:
        """Begin the entry of the next file."""
        real = file.path.resolve()
        inside = real.is_relative_to(self._tree) and not file.path.is_symlink()
        stat = file.path.stat()
        entry = Entry(
            name=file.name,
            path=file.path if inside else None,
            sha256=sha256_of(file.path),
            size_bytes=stat.st_size,
            modified_s=stat.st_mtime,
            format=importer.name if importer else None,
        )
        if importer is None:
            entry.note = "nobody recognises it"
        elif isinstance(importer, SeedOther):
            entry.note = f"holds no results: it is {what_it_is(file)}"
        self._begin(entry)

    def read(self, size: float) -> None:
        """Bytes that were read; not kept."""

    def follow(self, items: Iterable[dict[str, Any] | Refused]) -> Iterator[dict[str, Any]]:
        """Pass the events on, and note them and the refusals under the file that they come from."""
        for item in items:
            if isinstance(item, Refused):
                if not self.entries or self.entries[-1].name != item.path:
                    self._begin(Entry(name=item.path))
                self.entries[-1].refused.append(item)
                continue
            entry = self.entries[-1]
            entry.taken[item["type"]] += 1
            provenance = item["data"].get("provenance") or {}
            entry.simulated += provenance.get("origin") == "simulated"
            self._events += 1
            yield item

    def reject(self, index: int) -> None:
        """Note that the service refused the event of this index, counted over all that `follow` passed on."""
        self.entries[bisect_right(self._starts, index) - 1].rejected += 1

    def _begin(self, entry: Entry) -> None:
        self.entries.append(entry)
        self._starts.append(self._events)
