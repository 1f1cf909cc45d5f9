"""What an importer is, and the stream of events and refusals that a list of paths becomes."""

from __future__ import annotations

import glob
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import msgspec

from domain.canonical import canonical
from domain.errors import UnknownFormat, UsageError

__all__ = ["Importer", "Refused", "Summary", "expand", "import_paths", "row_id", "sniff"]

_NAMESPACE = uuid.UUID("6f1d4a52-55e0-5d59-9c0f-3f0f6f9d7a11")


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A row that could not be understood (`row` counts lines from 1), or a whole file (`row` None), and why."""

    path: str
    reason: str
    row: int | None = None
    field: str | None = None


class Importer(Protocol):
    """One format. `name` is what users type, `title` what the format is, `licence` an SPDX name or None."""

    name: str
    title: str

    def sniff(self, path: Path) -> bool:
        """Return whether the file is of this format, by its name and its first bytes."""

    def rows(self, path: Path) -> Iterator[dict[str, Any] | Refused]:
        """Yield events, ready to be encoded, and refusals, in the file's order and with flat memory.

        Reading a file again gives the same events with the same ids, byte for byte.
        """


class Summary:
    """Counts what went by: events taken by type, refusals by reason, with an example of each."""

    def __init__(self) -> None:
        self.taken: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.examples: dict[str, Refused] = {}

    def watch(self, items: Iterable[dict[str, Any] | Refused]) -> Iterator[dict[str, Any] | Refused]:
        """Pass the items on, counting them."""
        for item in items:
            if isinstance(item, Refused):
                self.refused[item.reason] += 1
                self.examples.setdefault(item.reason, item)
            else:
                self.taken[item["type"]] += 1
            yield item


def row_id(*parts: Any) -> str:
    """Return the UUID (version 5) that these JSON values name: the same row gets the same id for ever."""
    return str(uuid.uuid5(_NAMESPACE, canonical(list(parts)).decode()))


def sniff(path: Path, importers: Mapping[str, Importer]) -> Importer | None:
    """Return the importer that recognises the file, or None."""
    return next((importer for importer in importers.values() if importer.sniff(path)), None)


def expand(paths: Iterable[Path | str]) -> Iterator[tuple[Path, bool]]:
    """Yield files, and whether each was named: folders are walked, patterns are matched, in sorted order.

    UsageError for a path that matches nothing.
    """
    for given in paths:
        path = Path(given).expanduser()
        if path.is_dir():
            yield from ((found, False) for found in sorted(path.rglob("*")) if found.is_file())
        elif path.exists():
            yield path, True
        else:
            found_by_pattern = sorted(glob.glob(str(path), recursive=True))  # noqa: PTH207 - Path.glob takes no absolute pattern
            if not found_by_pattern:
                raise UsageError(f"there is no {path}.", field="path", remedy="Name a file, a folder or a pattern.")
            yield from ((Path(found), True) for found in found_by_pattern if Path(found).is_file())


def import_paths(
    format: str,  # noqa: A002 - the word that users type
    paths: Iterable[Path | str],
    importers: Mapping[str, Importer] | None = None,
) -> Iterator[dict[str, Any] | Refused]:
    """Yield the events and refusals of all files; `format` is an importer's name or `auto`.

    With `auto`, a file that was named and that nobody recognises is refused; one that lay in a folder is passed over.
    UnknownFormat where there is no such format.
    """
    if importers is None:
        from ingest.importers.registry import IMPORTERS

        importers = IMPORTERS
    if format != "auto" and format not in importers:
        raise UnknownFormat(format, sorted(importers), field="format", remedy="Or let `auto` find out.")
    return _import(format, paths, importers)


def _import(
    name: str,
    paths: Iterable[Path | str],
    importers: Mapping[str, Importer],
) -> Iterator[dict[str, Any] | Refused]:
    for path, named in expand(paths):
        try:
            importer = sniff(path, importers)
            if name != "auto" and (importer is not None or named):
                importer = importers[name]
            if importer is not None:
                yield from importer.rows(path)
            elif named:
                yield Refused(path=str(path), reason="no importer recognises this file")
        except (OSError, UnicodeDecodeError) as error:
            yield Refused(path=str(path), reason=f"cannot be read: {error}")
