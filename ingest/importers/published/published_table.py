"""A published table as an importer: which columns it has, who published it, and what its rows say."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.reading import number, text
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.csv_drafts import csv_drafts, header_of

__all__ = ["PublishedTable", "needed", "percentiles"]

Row = dict[str, str]


class PublishedTable:
    """The CSV of one source; `columns` are those by which it is recognised, `drafts` reads a row by its line."""

    def __init__(
        self,
        name: str,
        title: str,
        *,
        columns: set[str],
        drafts: Callable[[int, Row], Iterable[Draft]],
        licence: str,
        reference: str,
    ) -> None:
        self.name = name
        self.title = title
        self._columns = columns
        self._drafts = drafts
        self._licence = licence
        self._reference = reference

    def sniff(self, file: File) -> bool:
        """Return whether the header has all of its columns."""
        return file.suffix == ".csv" and set(header_of(file)) >= self._columns

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, its measurements and the end of the run; see Importer."""
        document = Document(file, self.name, source=self.title, licence=self._licence, reference=self._reference)
        return document.events(csv_drafts(file, document, self._drafts))


def needed(row: Row, *fields: str) -> list[str]:
    """Return the texts of fields that every row has; BadRow names the first that is missing."""
    values = []
    for field in fields:
        value = text(row, field)
        if value is None:
            raise BadRow(field, "is missing")
        values.append(value)
    return values


def percentiles(row: Row, **fields: str) -> dict[str, Any] | None:
    """Return a latency in ms from fields by statistic (`mean`, `p50` …); None where the row has none of them."""
    values = {statistic: number(row, field) for statistic, field in fields.items()}
    found = {statistic: value for statistic, value in values.items() if value is not None}
    return found or None
