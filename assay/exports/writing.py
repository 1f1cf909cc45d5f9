"""One export from the first question to the files in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from assay.exports.badge import badge_of, endpoint, svg
from assay.exports.benchmarks import bmf, github_action, tool
from assay.exports.card import Card
from assay.exports.events import event_schema, event_tables, write_events, write_lines
from assay.exports.tables import WRITERS, DuckdbFile, write_partitioned
from assay.exports.views import read_view, view_names
from assay.exports.wanted import DOCUMENTS, NOUNS, SUFFIXES, Wanted
from assay.staging import Staged
from domain.errors import UsageError

if TYPE_CHECKING:
    from assay.client import Client
    from assay.exports.views import View

__all__ = ["export"]

Advance = Callable[[int], None]
_TELLS_BY_ITSELF = ("parquet", "arrow", "duckdb")
"""Formats that hold the card as metadata."""


def export(
    client: Client, wanted: Wanted, path: Path, *, force: bool = False, advance: Advance = lambda _: None,
    label: str | None = None,
) -> tuple[Card, list[Path]]:  # fmt: skip
    """Write what is wanted and return the card and the files; they appear whole, together, or not at all.

    Everything is of one position: `as_of`, or the log's last one when the export began. What is appended meanwhile is for
    the next.
    """
    last = int(client.ready()["log_position"])
    position = last if wanted.as_of is None else wanted.as_of
    if wanted.what == "events":
        position = min(position, wanted.filters.get("upto") or position)
    else:
        client.wait_for(position)
    filters = wanted.told | ({"upto": position} if wanted.what == "events" else {})
    card = Card(
        what=wanted.what, format=wanted.format, position=position, schema_version=None, filters=filters, log_position=last,
    )  # fmt: skip
    return _Export(client, wanted, card, advance).write(path, force=force, label=label)


class _Export:
    """The state of one export; `rows` by noun and `left_out` by reason grow as it goes."""

    def __init__(self, client: Client, wanted: Wanted, card: Card, advance: Advance) -> None:
        self._client = client
        self._wanted = wanted
        self._card = card
        self._advance = advance
        self._rows: dict[str, int] = {}
        self._read = 0
        self._left_out: dict[str, int] = {}

    def write(self, path: Path, *, force: bool, label: str | None) -> tuple[Card, list[Path]]:
        wanted = self._wanted
        if wanted.monthly:
            result = write_events(self._events(), path, self._card.metadata(), monthly=True, force=force)
            self._rows["events"] = sum(result.values())
            return self._told(), list(result)
        with Staged(force=force) as staged:
            if wanted.format in DOCUMENTS:
                staged.file(path).write_bytes(self._document(path, label))
            elif wanted.format == "duckdb":
                self._database(staged.file(path))
            elif wanted.what == "all":
                folder = staged.folder(path)
                for noun in ("events", *view_names(self._client)):
                    self._file(noun, folder / f"{noun}{SUFFIXES[wanted.format]}")
                (folder / "card.json").write_bytes(self._told().text())
            elif wanted.partition_by:
                self._folders(staged.folder(path))
            else:
                self._file(wanted.what, staged.file(path))
            if wanted.format not in _TELLS_BY_ITSELF and wanted.what != "all":
                staged.file(Card.place(path)).write_bytes(self._told().text())
            return self._told(), list(staged.places)

    def _told(self) -> Card:
        return msgspec.structs.replace(self._card, rows=dict(self._rows), left_out=dict(self._left_out) or None)

    def _file(self, noun: str, path: Path) -> None:
        wanted = self._wanted
        if noun == "events" and wanted.format == "ndjson":
            self._rows[noun], expired = write_lines(self._events(), path)
            if expired:
                self._left_out["raw samples that have expired"] = expired
            return
        schema, tables = self._tables(noun)
        self._rows[noun] = WRITERS[wanted.format](path, schema, tables, self._card.metadata())

    def _folders(self, folder: Path) -> None:
        noun, by = self._wanted.what, self._wanted.partition_by
        schema, tables = self._tables(noun)
        self._rows[noun] = write_partitioned(folder, schema, tables, self._card.metadata(), by)

    def _database(self, path: Path) -> None:
        nouns = ("events", *view_names(self._client)) if self._wanted.what == "all" else (self._wanted.what,)
        with DuckdbFile(path) as file:
            for noun in nouns:
                self._rows[noun] = file.add(NOUNS.get(noun) or noun, *self._tables(noun))
            file.tell(self._told().metadata())

    def _document(self, path: Path, label: str | None) -> bytes:
        wanted = self._wanted
        rows = (row for page in self._counted(self._view(wanted.what)) for row in page.to_pylist())
        document: Any
        if wanted.format == "bmf":
            document = bmf(rows, wanted.metrics)
        elif wanted.format == "github-action":
            self._note(tool=tool(wanted.metrics))
            document = github_action(rows, wanted.metrics)
        else:
            if len(wanted.metrics) > 1:
                raise UsageError("a badge says one figure.", field="metric", remedy="Name one.")
            badge = badge_of(rows, (*wanted.metrics, "latency_p50_ms")[0], label)
            self._note(of=badge.title, evidence=badge.evidence)
            document = endpoint(badge) if path.suffix == ".json" else svg(badge).encode()
        self._rows[wanted.what] = self._read
        if isinstance(document, bytes):
            return document
        return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"

    def _note(self, **notes: str) -> None:
        self._card = msgspec.structs.replace(self._card, notes=notes)

    def _events(self) -> Iterator[dict[str, Any]]:
        """Yield the events up to the position that the export is of, and count them."""
        filters = {**self._wanted.filters, "upto": self._card.position}
        if self._wanted.what == "all":
            filters = {"upto": self._card.position}
        for event in self._client.events(**filters):
            yield event
            self._advance(1)

    def _tables(self, noun: str) -> tuple[Any, Iterable[Any]]:
        """Return the schema and the rows of a noun."""
        if noun == "events":
            return event_schema(), event_tables(self._events())
        view = self._view(noun)
        return view.schema, self._counted(view)

    def _view(self, noun: str) -> View:
        filters = {} if self._wanted.what == "all" else self._wanted.filters
        view = read_view(self._client, NOUNS.get(noun) or noun, as_of=self._card.position, **filters)
        self._card = msgspec.structs.replace(self._card, schema_version=view.schema_version)
        return view

    def _counted(self, view: View) -> Iterable[Any]:
        for page in view.pages:
            yield page
            self._advance(page.num_rows)
            self._read += page.num_rows
