"""The protocols of an importer and of what watches an import."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from ingest.importers.files import File
from ingest.importers.refusals import Refused

__all__ = ["Importer", "Remote", "Watcher"]


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


@runtime_checkable
class Remote(Importer, Protocol):
    """A format whose rows may lie behind an address, such as `sqlite:///runs.db` or `http://host:5000`."""

    remote: bool

    def fetch(self, address: str) -> Iterator[dict[str, Any] | Refused]:
        """Yield the events and refusals of what the address holds; Unavailable or UsageError where nothing answers."""


class Watcher(Protocol):
    """Callbacks that follow an import."""

    def opened(self, file: File, importer: Importer | None) -> None:
        """The next file, and who reads it; None where it is passed over, or refused, because nobody recognises it."""

    def read(self, size: float) -> None:
        """So many more bytes have been read, of `files.total_bytes` in all."""
