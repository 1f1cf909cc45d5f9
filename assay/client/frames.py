"""What the service's lists, views and queries hold as tables: Arrow, pandas or polars; and lists as structs.

pyarrow, pandas and polars are asked for when they are needed, and PartMissing says what to install.
"""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast, overload
from urllib.parse import quote

import msgspec

from assay.client.row_types import Row
from assay.client.transport import Json, Wire, checked, decoded
from domain.errors import PartMissing, UsageError

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

__all__ = ["Form", "Tabular"]

Form = Literal["arrow", "pandas", "polars"]
Shape = TypeVar("Shape", bound=Row)
ARROW = "application/vnd.apache.arrow.stream"
PAGE = 1000
TABLE_PAGE = 10_000
"""Rows of a page of a view: about 10 MB of measurements."""
_FILTERED_THERE = frozenset(
    (
        "model",
        "hardware",
        "platform",
        "precision",
        "mode",
        "origin",
        "category",
        "family",
        "configuration",
        "run_id",
        "batch_size",
        "as_of",
        "min_position",
    )
)


class Tabular(Wire):
    """A connection whose answers can be had as tables."""

    def rows(self, shape: type[Shape], *, limit: int | None = None, **filters: Any) -> Iterator[Shape]:
        """Yield the rows of a list as structs of `assay.client.row_types`, page by page, all of one state of the log."""
        cursor: str | None = None
        value = 0
        while limit is None or value < limit:
            size = PAGE if limit is None else min(PAGE, limit - value)
            page = self._get(f"/v1/{shape.noun}", cursor=cursor, limit=size, **{**shape.asked, **filters})
            for item in page["items"]:
                yield msgspec.convert(item, shape)
            value += len(page["items"])
            cursor = page.get("next_cursor")
            if cursor is None:
                return

    @overload
    def table(
        self,
        view: str,
        *,
        columns: Sequence[str] = (),
        limit: int | None = None,
        as_: Literal["arrow"] = "arrow",
        **filters: Any,
    ) -> pa.Table: ...
    @overload
    def table(
        self,
        view: str,
        *,
        columns: Sequence[str] = (),
        limit: int | None = None,
        as_: Literal["pandas"],
        **filters: Any,
    ) -> pd.DataFrame: ...
    @overload
    def table(
        self,
        view: str,
        *,
        columns: Sequence[str] = (),
        limit: int | None = None,
        as_: Literal["polars"],
        **filters: Any,
    ) -> pl.DataFrame: ...
    def table(
        self, view: str, *, columns: Sequence[str] = (), limit: int | None = None, as_: Form = "arrow", **filters: Any
    ) -> Any:
        """Return a view (docs/tables.md) of any length, in its own order and types, all of one state of the log.

        Filters are columns and the value that they equal; `model` and `hardware` may be aliases, and `as_of` and
        `min_position` say of when. Columns of JSON are text. The position is in the schema's metadata
        (`assay.position`), of a pandas frame in `attrs["position"]`.
        """
        return _given(self._pages(view, list(columns), limit, filters), as_)

    @overload
    def query(self, sql: str, *, as_: Literal["json"] = "json", **options: Any) -> Json: ...
    @overload
    def query(self, sql: str, *, as_: Literal["arrow"], **options: Any) -> pa.Table: ...
    @overload
    def query(self, sql: str, *, as_: Literal["pandas"], **options: Any) -> pd.DataFrame: ...
    @overload
    def query(self, sql: str, *, as_: Literal["polars"], **options: Any) -> pl.DataFrame: ...
    def query(self, sql: str, *, as_: Literal["json"] | Form = "json", **options: Any) -> Any:
        """Return the rows of one SELECT over the documented views; `limit`, `timeout_s`, `as_of` and `min_position` are
        options.

        JSON has `columns`, `rows`, `position` and `truncated`. A table is never cut unsaid: UsageError where there are more
        rows than the limit, unless `limit` was given.
        """
        if as_ == "json":
            return self._post("/v1/query", {"sql": sql, **options})
        limit = options.pop("limit", None)
        return _given(self._asked(sql, limit, options), as_)

    def query_file(self, sql: str, media_type: str, **options: Any) -> bytes:
        """Return the rows of one SELECT as the API sends them in a media type: CSV, Parquet or Arrow."""
        values = {name: value for name, value in {"sql": sql, **options}.items() if value is not None}
        response = self._send(
            "POST",
            "/v1/query",
            content=msgspec.json.encode(values),
            headers={"Content-Type": "application/json", "Accept": media_type},
        )
        if not response.is_success:
            checked(response, decoded(response))
        return response.content

    def _asked(self, sql: str, limit: int | None, options: Json) -> pa.Table:
        """Return the answer to a query as Arrow; UsageError where it was cut and nobody asked for that."""
        said = {"sql": sql, "limit": limit, **options}
        values = {name: value for name, value in said.items() if value is not None}
        response = self._send(
            "POST",
            "/v1/query",
            content=msgspec.json.encode(values),
            headers={"Content-Type": "application/json", "Accept": ARROW},
        )
        if not response.is_success:
            checked(response, decoded(response))
        table = _arrow(response.content)
        if limit is None and response.headers.get("Assay-Truncated") == "True":
            raise UsageError(
                f"the answer has more than {table.num_rows:,} rows.",
                field="limit",
                remedy="Give limit= (100,000 at most), narrow the question, or use `assay export`.",
            )
        return _positioned(table, response.headers.get("Assay-Position"))

    def _pages(self, view: str, columns: list[str], limit: int | None, filters: Json) -> pa.Table:
        """Read a view page by page. What the service does not filter by is filtered here."""
        arrow = _part("pyarrow", "pyarrow")
        sent = {name: value for name, value in filters.items() if name in _FILTERED_THERE}
        here = {name: value for name, value in filters.items() if name not in sent and value is not None}
        request = [*columns, *(name for name in here if name not in columns)] if columns else []
        pages: list[pa.Table] = []
        cursor: str | None = None
        rows = 0
        while True:
            size = TABLE_PAGE if limit is None or here else min(TABLE_PAGE, limit - rows)
            answer = self.fetch(
                f"/v1/tables/{quote(view, safe='')}",
                ARROW,
                cursor=cursor,
                limit=size,
                columns=",".join(request) or None,
                **sent,
            )
            page = _filtered(_arrow(answer.content), here)
            rows += page.num_rows
            pages.append(page.select(columns) if columns else page)
            cursor = answer.headers.get("Assay-Next-Cursor")
            if cursor is None or (limit is not None and rows >= limit):
                table = arrow.concat_tables(pages).slice(0, limit)
                return _positioned(table, answer.headers.get("Assay-Position"))

    def _rows(self, noun: str, *, limit: int | None = None, **filters: Any) -> list[Json]:
        rows: list[Json] = []
        cursor: str | None = None
        while True:
            page = self._get(f"/v1/{noun}", cursor=cursor, limit=min(limit or 1000, 1000), **filters)
            rows += page["items"]
            cursor = page.get("next_cursor")
            if cursor is None or (limit is not None and len(rows) >= limit):
                return rows[:limit]


def _filtered(table: pa.Table, wanted: Json) -> pa.Table:
    for name, value in wanted.items():
        if name not in table.column_names:
            raise UsageError(
                f"the view has no column {name!r}.", field=name, remedy=f"It has {', '.join(table.column_names)}."
            )
        compute = _part("pyarrow.compute", "pyarrow")
        try:
            table = table.filter(compute.equal(table[name], value))
        except _part("pyarrow", "pyarrow").ArrowException as error:
            kind = table.schema.field(name).type
            raise UsageError(
                f"{value!r} cannot be compared with {kind}.", field=name, remedy="Give a value of its type."
            ) from error
    return table


def _part(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise PartMissing(
            f"{package} is not installed.", field="as_", remedy=f"pip install {package}, or ask for JSON rows."
        ) from error


def _arrow(content: bytes) -> pa.Table:
    ipc = _part("pyarrow.ipc", "pyarrow")
    return cast("pa.Table", ipc.open_stream(io.BytesIO(content)).read_all())


def _positioned(table: pa.Table, position: str | None) -> pa.Table:
    if position is None:
        return table
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"assay.position": position.encode()})


def _given(table: pa.Table, form: str) -> Any:
    if form == "arrow":
        return table
    if form == "polars":
        return _part("polars", "polars").from_arrow(table)
    if form == "pandas":
        _part("pandas", "pandas")
        frame = table.to_pandas()
        position = (table.schema.metadata or {}).get(b"assay.position")
        if position is not None:
            frame.attrs["position"] = int(position)
        return frame
    raise UsageError(f"{form!r} is no form of a table.", field="as_", remedy="Choose json, arrow, pandas or polars.")
