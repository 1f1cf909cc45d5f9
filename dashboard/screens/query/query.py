"""What the query page asks: the views and what they mean, and one SELECT at a position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dashboard.service import NewerService, checked, client, kept

__all__ = ["FILE_ROWS", "ROWS", "TIMEOUT_S", "filer", "selected", "views"]

ROWS = 1000
"""Rows that the page shows; files have up to FILE_ROWS."""
FILE_ROWS = 100_000
TIMEOUT_S = 10.0


@kept(max_entries=2)
def views(version: int | None) -> list[dict[str, Any]]:
    """Return the documented views of a version of the schema with the type, unit and meaning of each column.

    Raises NewerService where the service has moved on to another version since it was asked for its health.
    """
    result = checked(dict(client().schema()), "views", "schema")
    if version not in (None, result["schema"]):
        raise NewerService("The service has changed its version meanwhile.", remedy="Reload the page.")
    return list(result["views"])


@kept(max_entries=32)
def selected(sql: str, position: int, as_of: int | None) -> dict[str, Any]:
    """Return columns, rows and the position of one SELECT, at this position or a later one; exactly then with `as_of`."""
    answer = client().query(sql, limit=ROWS, timeout_s=TIMEOUT_S, **_at(position, as_of))
    return checked(dict(answer), "columns", "rows", "position", "truncated")


def filer(sql: str, media_type: str, position: int, as_of: int | None) -> Callable[[], bytes]:
    """Return what asks for the whole result as a file, made by the service."""
    item = client()
    return lambda: item.query_file(sql, media_type, limit=FILE_ROWS, timeout_s=TIMEOUT_S, **_at(position, as_of))


def _at(position: int, as_of: int | None) -> dict[str, Any]:
    return {"min_position": position} if as_of is None else {"as_of": as_of}
