"""Tables with a header: each row becomes drafts, or a refusal that holds the header and the row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.identity import hardware_of, model_of
from ingest.importers.reading import csv_rows, csv_text, number
from ingest.importers.refusals import BadRow, Refused

__all__ = ["csv_drafts", "hardware_named", "header_of", "in_bytes", "model_named"]


def csv_drafts(
    file: File,
    document: Document,
    read: Callable[[int, dict[str, str]], Iterable[Draft]],
    *,
    delimiter: str = ",",
    repeated: str | None = None,
) -> Iterator[Draft | Refused]:
    """Yield what `read` makes of each row and its line; BadRow refuses the row alone.

    `repeated` names a column of files that were appended to: a row that holds its own name there is another header.
    """
    for item in csv_rows(file, delimiter=delimiter):
        if isinstance(item, Refused):
            yield item
            continue
        line, row = item
        if repeated is not None and row.get(repeated) == repeated:
            continue
        try:
            yield from read(line, row)
        except BadRow as bad:
            content = csv_text([list(row), list(row.values())], delimiter)
            yield document.refused(bad.reason, row=line, field=bad.field, content=content)


def header_of(file: File, delimiter: str = ",") -> list[str]:
    """Return the columns that the first line names, stripped; an empty list where there is no text."""
    return [column.strip().strip('"') for column in file.head().lstrip().partition("\n")[0].split(delimiter)]


@lru_cache(maxsize=8192)
def model_named(name: str) -> dict[str, Any]:
    """Return `model_of(name)`; tables name few models in many rows. Not to be changed by who gets it."""
    return model_of(name)


@lru_cache(maxsize=4096)
def hardware_named(name: str, kind: str | None = None, count: int = 1) -> dict[str, Any]:
    """Return `hardware_of(name)`; tables name few devices in many rows. Not to be changed by who gets it."""
    return hardware_of(name, kind=kind, count=count)


def in_bytes(row: Mapping[str, Any], field: str, factor: float = 1.0) -> int | None:
    """Return a field as bytes, `factor` of them to its unit, or None where it is missing; BadRow where it is no amount."""
    value = number(row, field)
    if value is None:
        return None
    if value * factor > 2**53 - 1:
        raise BadRow(field, "is more than any memory holds")
    return round(value * factor)
