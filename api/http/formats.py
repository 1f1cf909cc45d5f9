"""Rows as JSON, CSV, Parquet or Arrow by `Accept`, under an ETag of schema, log, epoch, position and predictor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from litestar import Request

from api.http.media import ARROW, CSV, FORMATS, JSON, PARQUET
from api.http.problems import NotAcceptable
from api.http.response_cache import CachedAnswer
from ingest.projection.rows import is_table
from ingest.projection.statements import SCHEMA_VERSION

if TYPE_CHECKING:
    import pyarrow as pa

    from ingest.projection import Tables

__all__ = [
    "ARROW",
    "CSV",
    "JSON",
    "JSON_COLUMNS",
    "PARQUET",
    "chosen_format",
    "etag",
    "fresh",
    "headers_of",
    "plain",
    "predictor_in_force",
    "respond",
]

JSON_COLUMNS = frozenset(
    {
        "aliases",
        "answer",
        "card",
        "checks",
        "config",
        "energy_reading",
        "efficiency_reasons",
        "execution",
        "hardware",
        "latency_ci95",
        "libraries",
        "metric_verdicts",
        "operators",
        "options",
        "parallelism",
        "plan",
        "platforms",
        "question",
        "scenario_result",
        "spec",
        "totals",
        "tracer",
        "training_ranks",
        "verdict_reasons",
        "workload",
    }
)
"""Columns that hold JSON as text; answers in JSON carry them as JSON."""


def chosen_format(request: Request[Any, Any, Any]) -> str:
    """Return the format that Accept prefers; JSON where it does not say, NotAcceptable where we have none of it."""
    wanted: list[tuple[float, int, str]] = []
    for order, part in enumerate(request.headers.get("accept", JSON).split(",")):
        media, _, options = part.partition(";")
        quality = next((item.strip()[2:] for item in options.split(";") if item.strip().startswith("q=")), "1")
        try:
            wanted.append((-float(quality), order, media.strip().lower()))
        except ValueError:
            continue
    for weight, _, media in sorted(wanted):
        if weight == 0:
            continue
        if media in FORMATS:
            return media
        if media in ("*/*", "application/*", ""):
            return JSON
        if media == "text/*":
            return CSV
    raise NotAcceptable("nothing of it can be answered with.", field="Accept", remedy=f"Ask for {', '.join(FORMATS)}.")


def etag(history: str, position: int, predictor: str, media: str = JSON) -> str:
    """Return the ETag of an answer at a position of the log with a predictor, in one format.

    `history` names the log and its epoch: after one that lost its tail the same position is another state.
    """
    return f'W/"{SCHEMA_VERSION}-{history}-{position}-{predictor.removeprefix("sha256:")[:12]}-{FORMATS.index(media)}"'


def predictor_in_force(tables: Tables) -> str:
    """Return the digest of the predictor at the position that the tables tell of; `shipped` where that one answers."""
    return tables.predictor or "shipped"


def fresh(request: Request[Any, Any, Any], tag: str) -> bool:
    """Whether the asker holds this answer already."""
    header = request.headers.get("if-none-match", "")
    return header.strip() == "*" or tag.removeprefix("W/") in (
        part.strip().removeprefix("W/") for part in header.split(",")
    )


def headers_of(tag: str, envelope: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers of rows in a format that has no place for an envelope: its plain members are `Assay-…`."""
    headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "no-cache"}
    for name, value in envelope.items():
        if isinstance(value, str | int):
            headers[f"Assay-{name.replace('_', '-').title()}"] = str(value)
    return headers


def respond(
    request: Request[Any, Any, Any],
    rows: Sequence[Mapping[str, Any]] | pa.Table,
    tag: str,
    envelope: Mapping[str, Any],
    *,
    key: str = "items",
) -> CachedAnswer:
    """Return rows in the format asked for; JSON has them under `key` beside the members of the envelope.

    Other formats carry the envelope's plain members as headers `Assay-…`, the cursor of the next page among them.
    """
    media = chosen_format(request)
    if media == JSON:
        headers = headers_of(tag, {})
        items = [plain(row) for row in (rows.to_pylist() if is_table(rows) else rows)]
        return CachedAnswer(msgspec.json.encode({key: items, **envelope}), JSON, headers)
    from api.http.encoding import encoded  # Needs pyarrow, which the base installation has not.

    table = rows if is_table(rows) else _table(rows)
    return CachedAnswer(encoded(table, media), media, headers_of(tag, envelope))


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with the JSON columns as JSON; the row itself where it has none."""
    documents = {
        name: msgspec.Raw(row[name].encode())
        for name in row.keys() & JSON_COLUMNS
        if isinstance(row[name], str) and row[name][:1] in ("{", "[")
    }
    return row if not documents and isinstance(row, dict) else {**row, **documents}


def _table(rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    import pyarrow as pa

    from api.http.encoding import flat

    names = list(dict.fromkeys(name for row in rows for name in row))
    flats = [{name: flat(row.get(name)) for name in names} for row in rows]
    return pa.Table.from_pylist(flats) if flats else pa.table({})
