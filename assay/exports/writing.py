"""One export from the first question to the files in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from assay.exports.card import Card
from assay.exports.events import event_schema, event_tables, write_events, write_lines
from assay.exports.tables import WRITERS, DuckdbFile, write_partitioned
from assay.exports.views import read_view, view_names
from assay.exports.wanted import DOCUMENTS, NOUNS, SUFFIXES, ExportSelection
from assay.staging import Staged
from domain.errors import NotFound, UsageError
from domain.figures import FIGURES, described, figure_of
from presentation import formatting

if TYPE_CHECKING:
    from assay.client import Client
    from assay.exports.views import View

__all__ = [
    "BMF_COLUMNS",
    "Badge",
    "badge_of",
    "benchmark_name",
    "bmf",
    "endpoint",
    "export",
    "github_action",
    "svg",
    "tool",
]

BMF_COLUMNS = (
    "latency_p50_ms",
    "latency_mean_ms",
    "throughput_per_s",
    "tokens_per_s",
    "ttft_ms",
    "tpot_ms",
    "peak_memory_bytes",
    "device_memory_bytes",
    "energy_j",
)
"""The measures of a benchmark where none are asked for."""
LONGEST_NAME = 1024


def benchmark_name(row: Row) -> str:
    """Return the name of a row's benchmark: words, and the key of the configuration in brackets; 1,024 letters at most."""
    key = f" [{row['configuration']}]"
    return described(row)[: LONGEST_NAME - len(key)] + key


def bmf(rows: Iterable[Row], columns: Sequence[str] = ()) -> dict[str, dict[str, dict[str, float]]]:
    """Return the document of Bencher; a benchmark that has none of the figures is left out."""
    _require_figures(columns)
    matches: dict[str, dict[str, dict[str, float]]] = {}
    for row in rows:
        measures: dict[str, dict[str, float]] = {}
        for column in columns or BMF_COLUMNS:
            figure = figure_of(row, column)
            if figure is None:
                continue
            measures[column] = {"value": figure.value}
            if figure.low is not None and figure.high is not None:
                measures[column] |= {"lower_value": figure.low, "upper_value": figure.high}
        if measures:
            matches[benchmark_name(row)] = measures
    return matches


def github_action(rows: Iterable[Row], columns: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Return the list of github-action-benchmark; a name ends in its figure's column, the median latency's alone does not."""
    chosen = columns or ("latency_p50_ms",)
    tool(chosen)
    entries = []
    for row in rows:
        for column in chosen:
            figure = figure_of(row, column)
            if figure is None:
                continue
            name = benchmark_name(row) + ("" if tuple(chosen) == ("latency_p50_ms",) else f" {column}")
            entry = {"name": name, "unit": FIGURES[column].unit, "value": figure.value}
            if figure.low is not None and figure.high is not None:
                entry["range"] = f"± {(figure.high - figure.low) / 2:.3g}"
            entry["extra"] = "\n".join(
                (
                    f"origin: {row.get('origin')}",
                    f"verdict: {row.get('verdict') or 'not judged'}",
                    f"event: {row.get('event_id')}",
                )
            )
            entries.append(entry)
    return entries


def tool(columns: Sequence[str]) -> str:
    """Return what the action's `tool` must be; UsageError where the figures are not all better in one direction."""
    _require_figures(columns)
    ways = {FIGURES[column].better for column in columns or ("latency_p50_ms",)}
    if len(ways) > 1 or "neither" in ways:
        raise UsageError(
            "one file holds figures that are all better when smaller, or all when bigger.",
            field="metric",
            remedy="Write two files.",
        )
    return "customSmallerIsBetter" if ways == {"lower"} else "customBiggerIsBetter"


def _require_figures(columns: Sequence[str]) -> None:
    for column in columns:
        if column not in FIGURES:
            raise UsageError(f"{column!r} is no figure.", field="metric", remedy=f"One of {', '.join(FIGURES)}.")


Row = Mapping[str, Any]
COLOURS = {"measured": "#1a7f37", "imported": "#0969da", "simulated": "#6e7781", "doubted": "#9a6700"}
LABEL_COLOUR = "#424a53"
HEIGHT = 20
PADDING = 6
_NARROW, _WIDE = frozenset("fijlrtI.,:;'|!()[] -\u202f"), frozenset("mwMW@%—")


class Badge(msgspec.Struct, frozen=True, kw_only=True):
    """What a badge says: left, right, the colour of the right side, the configuration in words, and its evidence."""

    label: str
    message: str
    colour: str
    title: str
    evidence: str


def badge_of(rows: Iterable[Row], column: str = "latency_p50_ms", label: str | None = None) -> Badge:
    """Return the badge of the best of some rows, in the better direction of a figure; NotFound where none has it.

    Rows are not alike: which one it is of stands in the title, so narrow them down by filters.
    """
    best, figure = None, None
    for row in rows:
        result = figure_of(row, column)
        if result is None or row.get("origin") == "simulated":
            continue
        if figure is None or (result.value < figure.value) == (FIGURES[column].better == "lower"):
            best, figure = row, result
    if best is None or figure is None:
        raise NotFound(
            f"no measurement with {column} is left by these filters.",
            field="metric",
            remedy="`assay bench` measures; `assay compare hardware MODEL` shows what is there.",
        )
    word = str(best["origin"]) + (f", {best['verdict']}" if best.get("verdict") in ("suspect", "invalid") else "")
    return Badge(
        label=label or f"{str(best['model_id']).rpartition('/')[2]} on {best['hardware_id']}",
        message=f"{formatting.plain(_shown(column, figure.value))} {word}",
        colour=COLOURS["doubted" if word != best["origin"] else str(best["origin"])],
        title=f"{described(best)}: {column} {figure.value:g} {FIGURES[column].unit} {word}",
        evidence=str(best.get("event_id")),
    )


def _shown(column: str, value: float) -> str:
    shape = FIGURES[column]
    if shape.unit == "ms":
        return formatting.latency(value)
    if shape.unit == "B":
        return formatting.memory(value)
    if shape.unit == "1/s":
        return formatting.throughput(value)
    return f"{formatting.significant(value)} {shape.unit}"


def endpoint(badge: Badge) -> dict[str, Any]:
    """Return the badge as shields.io's endpoint schema, version 1."""
    return {
        "schemaVersion": 1,
        "label": badge.label,
        "message": badge.message,
        "color": badge.colour.lstrip("#"),
        "labelColor": LABEL_COLOUR.lstrip("#"),
    }


def svg(badge: Badge) -> str:
    """Return the badge as a picture that needs nothing else; what it is of is its title, also for who cannot see it."""
    left, right = (_width(text) + 2 * PADDING for text in (badge.label, badge.message))
    whole = left + right
    texts = "".join(
        f'<text x="{x}" y="14" textLength="{width - 2 * PADDING}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>'
        for x, width, text in ((left / 2, left, badge.label), (left + right / 2, right, badge.message))
    )
    document = f"{badge.label}: {badge.message}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole}" height="{HEIGHT}" role="img" aria-label={quoteattr(document)}>'
        f"<title>{escape(badge.title)}</title>"
        f'<clipPath id="r"><rect width="{whole}" height="{HEIGHT}" rx="3"/></clipPath>'
        f'<g clip-path="url(#r)"><rect width="{left}" height="{HEIGHT}" fill="{LABEL_COLOUR}"/>'
        f'<rect x="{left}" width="{right}" height="{HEIGHT}" fill="{badge.colour}"/></g>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">{texts}</g></svg>\n'
    )


def _width(text: str) -> int:
    """Return about how wide a text of 11 px is; the picture stretches it to exactly that."""
    return round(sum(4.0 if letter in _NARROW else 10.0 if letter in _WIDE else 7.0 for letter in text))


Advance = Callable[[int], None]
_TELLS_BY_ITSELF = ("parquet", "arrow", "duckdb")
"""Formats that hold the card as metadata."""


def export(
    client: Client,
    wanted: ExportSelection,
    path: Path,
    *,
    force: bool = False,
    advance: Advance = lambda _: None,
    label: str | None = None,
) -> tuple[Card, list[Path]]:
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
    filters = wanted.document | ({"upto": position} if wanted.what == "events" else {})
    card = Card(
        what=wanted.what,
        format=wanted.format,
        position=position,
        schema_version=None,
        filters=filters,
        log_position=last,
    )
    return _Export(client, wanted, card, advance).write(path, force=force, label=label)


class _Export:
    """The state of one export; `rows` by noun and `left_out` by reason grow as it goes."""

    def __init__(self, client: Client, wanted: ExportSelection, card: Card, advance: Advance) -> None:
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
