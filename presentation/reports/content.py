"""What a report consists of: sentences, tables and charts in sections. Pure data, without a format and without a picture.

A table's rows keep raw values in SI under keys that name their unit; a column says how a page words them. What a page
shows and what a file holds come from the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

__all__ = ["Chart", "Column", "Part", "Report", "ReportQuestion", "Row", "Section", "Table"]

Row = Mapping[str, Any]


class ReportQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """Which report is asked for: its kind, its subject where it has one, and which rows are let in."""

    kind: str
    subject: str | None = None
    as_of: int | str | None = None
    """A position of the log, or the name of a snapshot."""
    model: str | None = None
    hardware: str | None = None
    category: str | None = None
    platform: tuple[str, ...] = ()
    precision: tuple[str, ...] = ()

    def filters(self) -> dict[str, str]:
        """Return the filters that were set, as words by the name of their flag."""
        values = {name: getattr(self, name) for name in ("model", "hardware", "category", "platform", "precision")}
        return {name: value if isinstance(value, str) else ",".join(value) for name, value in values.items() if value}


class Column(NamedTuple):
    """One column: the key of its raw value, its head on a page (none: only in files) and how a page words a row."""

    key: str
    title: str | None = None
    show: Callable[[Row], str] | None = None
    figures: bool = False


class Table(NamedTuple):
    """Rows under columns. `name` is that of its file; `note` says what a reader must know of the figures."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: Sequence[Row]
    note: str | None = None

    @property
    def shown(self) -> tuple[Column, ...]:
        """The columns of a page."""
        return tuple(column for column in self.columns if column.title is not None)

    def words(self, row: Row) -> list[str]:
        """Return a row as a page words it; what follows a line's end in a cell is said more quietly."""
        return [column.show(row) if column.show else str(row.get(column.key) or "") for column in self.shown]

    def raw(self, row: Row) -> dict[str, Any]:
        """Return a row as files hold it: every column, missing as None."""
        return {column.key: row.get(column.key) for column in self.columns}


class Chart(NamedTuple):
    """One picture: `kind` names its shape in `presentation.reports.charts`, `sentence` says what it shows without the eye."""

    name: str
    title: str
    sentence: str
    kind: str
    rows: Sequence[Row]
    options: Mapping[str, Any] = {}


Part = str | Table | Chart


class Section(NamedTuple):
    """A part of a report under one heading; a string is a sentence of its own."""

    title: str
    parts: Sequence[Part]


class Report(NamedTuple):
    """A whole report, as of one position of the log. The same position and question give the same report."""

    asked: ReportQuestion
    title: str
    question: str
    position: int
    recorded_at: str | None
    """When the event at that position was recorded; a report knows no other clock."""
    facts: Sequence[str]
    sections: Sequence[Section]
    evidence: Table
    server: str | None = None
    """Where its events can be read later, if anywhere."""
    empty: str | None = None
    """Why there is nothing to report, or None where there is."""

    def tables(self) -> Iterator[Table]:
        """Yield the tables in their order, the evidence last."""
        yield from (part for section in self.sections for part in section.parts if isinstance(part, Table))
        if self.evidence.rows:
            yield self.evidence

    def charts(self) -> Iterator[Chart]:
        """Yield the charts in their order."""
        yield from (part for section in self.sections for part in section.parts if isinstance(part, Chart))
