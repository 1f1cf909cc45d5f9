"""What a panel offers to take away: its rows as CSV and Parquet, its picture as PNG, SVG and a page that stands alone."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from dashboard.frame import Download
from presentation.charts import chart_files

__all__ = ["picture_files", "sent_files", "stem", "table_files"]

Row = Mapping[str, Any]


def stem(page: str, subject: str, position: int) -> str:
    """Return how a panel's files are called: `assay_<page>_<subject>_p<position>`, without what a file system refuses."""
    kept = "".join(char if char.isalnum() or char in "._-" else "-" for char in subject)
    return "_".join(part for part in ("assay", page, kept, f"p{position}") if part)


def table_files(name: str, rows: Sequence[Row] | Callable[[], Sequence[Row]], *, as_of: int) -> list[Download]:
    """Offer every row with every key as CSV and as Parquet; rows that are not on the page are asked for when a file is.

    `as_of` is a column of each, so that a file says at which position of the log it is true. Missing is an empty cell
    or null; a list or an object is JSON text.
    """

    def make() -> tuple[list[str], list[dict[str, Any]]]:
        result = rows() if callable(rows) else rows
        heads = list(dict.fromkeys([*(key for row in result for key in row), "as_of"]))
        return heads, [{"as_of": as_of, **{key: _flat(value) for key, value in row.items()}} for row in result]

    return [
        ("CSV, every column", f"{name}.csv", "text/csv", lambda: _csv(*make())),
        ("Parquet, every column", f"{name}.parquet", "application/vnd.apache.parquet", lambda: _parquet(*make())),
    ]


def sent_files(name: str, sent: Sequence[msgspec.Raw], *, as_of: int) -> list[Download]:
    """Offer rows as the service sent them, every key of each, as CSV and as Parquet."""
    return table_files(name, lambda: [msgspec.json.decode(row) for row in sent], as_of=as_of)


def picture_files(name: str, draw: Callable[[], Any], title: str, *, answer: str, footer: str) -> list[Download]:
    """Offer a chart as PNG, SVG and HTML; `draw` makes it with its colours set, and is called only when asked for."""

    def picture() -> Any:
        return chart_files.titled(draw(), title, answer=answer, footer=footer)

    return [
        ("PNG picture", f"{name}.png", "image/png", lambda: chart_files.png(picture())),
        ("SVG picture", f"{name}.svg", "image/svg+xml", lambda: chart_files.svg(picture())),
        ("HTML, stands alone", f"{name}.html", "text/html", lambda: chart_files.html(picture())),
    ]


def _flat(value: Any) -> Any:
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, ensure_ascii=False)
    return value


def _csv(heads: Sequence[str], rows: Sequence[Row]) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, heads, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()


def _parquet(heads: Sequence[str], rows: Sequence[Row]) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {head: _column([row.get(head) for row in rows]) for head in heads}
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def _column(values: list[Any]) -> Any:
    """Return one typed column; where values of one key are of several types, all are text."""
    import pyarrow as pa

    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return pa.array([None if value is None else str(value) for value in values])
