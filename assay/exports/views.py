"""Views read page by page as Arrow tables, all pages of one state; memory holds one page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from domain.errors import AssayError

if TYPE_CHECKING:
    import pyarrow as pa

    from assay.client import Client

__all__ = ["PAGE", "View", "read_view", "view_names"]

PAGE = 5_000
ARROW = "application/vnd.apache.arrow.stream"


class View(NamedTuple):
    """A view at a position: the schema of its columns, each with its type in the tables, and its rows."""

    schema: pa.Schema
    position: int
    schema_version: int
    pages: Iterator[pa.Table]


def read_view(
    client: Client,
    view: str,
    *,
    as_of: int | None = None,
    columns: Sequence[str] = (),
    page: int = PAGE,
    **filters: Any,
) -> View:
    """Return a view of docs/tables.md, filtered, as of a position (by default the newest).

    The first page is read at once, so that what is wrong with the question is said before a file is begun.
    """
    request = {"as_of": as_of, "columns": ",".join(columns) or None, "limit": page, **filters}
    path = f"/v1/tables/{view}"
    response = client.fetch(path, ARROW, **request)
    waiting = [_table(response.content)]
    headers = response.headers
    del response

    def pages() -> Iterator[pa.Table]:
        yield waiting.pop()
        cursor = headers.get("Assay-Next-Cursor")
        while cursor:
            following = client.fetch(path, ARROW, **request, cursor=cursor)
            cursor = following.headers.get("Assay-Next-Cursor")
            table = _table(following.content)
            del following
            yield table

    return View(waiting[0].schema, int(headers["Assay-Position"]), int(headers["Assay-Schema"]), pages())


def view_names(client: Client) -> list[str]:
    """Return the names of the documented views."""
    return [str(row["name"]) for row in client.fetch("/v1/tables", "application/json").json()["items"]]


def _table(content: bytes) -> Any:
    import pyarrow as pa

    try:
        return pa.ipc.open_stream(content).read_all()
    except pa.ArrowInvalid as error:
        raise AssayError(
            f"the service's answer is no Arrow stream: {error}.", remedy="Is it an Assay of this version?"
        ) from error
