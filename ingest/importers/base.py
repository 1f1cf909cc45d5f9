"""What an importer is, and the stream of events and refusals that a list of paths becomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from domain.errors import UnknownFormat
from ingest.importers.files import File, expand
from ingest.importers.reading import BadFile
from ingest.importers.refusals import Refused

__all__ = ["Importer", "import_paths", "sniff"]


class Importer(Protocol):
    """One format. `name` is what users type, `title` what the format is and who writes it."""

    name: str
    title: str

    def sniff(self, file: File) -> bool:
        """Return whether the file is of this format, by its name and its first bytes (`File.head`)."""

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield events, ready to be encoded, and refusals, in the file's order and with flat memory.

        Reading a file again gives the same events with the same ids, byte for byte. `ingest.importers.document.Document`
        makes them from drafts. BadFile and BadRow that are not caught refuse the whole file.
        """


def sniff(file: File, importers: Mapping[str, Importer]) -> Importer | None:
    """Return the importer that recognises the file, or None."""
    return next((importer for importer in importers.values() if importer.sniff(file)), None)


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
    for file in expand(paths):
        if isinstance(file, Refused):
            yield file
            continue
        try:
            importer = sniff(file, importers)
            if name != "auto" and (importer is not None or file.given):
                importer = importers[name]
            if importer is not None:
                yield from importer.rows(file)
            elif file.given:
                yield Refused(path=file.name, reason="no importer recognises this file")
        except BadFile as error:
            yield Refused(path=file.name, reason=error.reason, row=error.row)
        except (OSError, UnicodeError) as error:
            yield Refused(path=file.name, reason=f"cannot be read: {error}")
