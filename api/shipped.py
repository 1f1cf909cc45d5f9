"""Answers without a log: the published measurements and the predictor that ship, read from one file of tables.

The application has the routes that read, and no others; it runs in the process that asks (`assay.offline`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
from litestar import Litestar, Request

from api.http.problems import EXCEPTION_HANDLERS
from api.http.response_cache import ResponseCache
from domain.errors import NotFound, PartMissing, ProjectionBehind, UsageError
from ingest.projection import Tables
from ingest.projection.history import History
from predictor.answering.table_cache import Reading, Readings
from predictor.live.answerer import LiveAnswerer

__all__ = ["REMEDY", "ShippedContainer", "create_shipped_app"]

REMEDY = "Start a service: `assay up` (it needs the extra `service`: pip install 'assay-bench[service]')."
_SETTINGS: dict[str, Any] = {"memory_limit": "512MiB", "autoinstall_known_extensions": False}


class TableFile:
    """One file of tables that nobody changes. Safe from any thread; every reading has a cursor of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = duckdb.connect(str(path), read_only=True, config=_SETTINGS)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def cursor(self) -> duckdb.DuckDBPyConnection:
        """Return a connection of its own to the tables; close it after use."""
        return self._connection.cursor()

    @contextlib.contextmanager
    def tables(self, as_of: int | None = None) -> Iterator[Tables]:
        """Give Tables over the file."""
        cursor = self.cursor()
        try:
            cursor.begin()
            yield Tables(cursor, as_of=as_of)
        finally:
            cursor.close()

    @cached_property
    def _state(self) -> tuple[int, History]:
        ((position, log, epoch),) = self._connection.execute("SELECT position, log, epoch FROM projection").fetchall()
        return int(position), History(log, epoch)

    @property
    def position(self) -> int:
        """The position up to which the tables tell."""
        return self._state[0]

    @property
    def history(self) -> History:
        """The log that the tables were made of."""
        return self._state[1]


class NoArrivals:
    """Says that no peer brought any row, as `ingest.sharing.peers.ArrivalReader` does where none did."""

    def beside(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the rows as they are."""
        return rows


class ShippedContainer:
    """What the routes that read work with, as `api.container.Container` of a service; appending raises PartMissing."""

    def __init__(self, path: Path) -> None:
        self.projection = TableFile(path)
        self.answerer = LiveAnswerer(self.projection.cursor, _no_artifact)
        self.answered = ResponseCache()
        self.arrivals = NoArrivals()
        self._readings = Readings()

    def close(self) -> None:
        """Close the file."""
        self.projection.close()

    def tables(self, as_of: int | None) -> contextlib.AbstractContextManager[Tables]:
        """Return the context manager of Tables over one unmoving state."""
        return self.projection.tables(as_of)

    def kept(self, tables: Tables) -> Reading:
        """Return what was read of these tables before."""
        return self._readings.at((tables.position, tables.checkpoint))

    async def reach(self, position: int | None, field: str = "min_position") -> None:
        """Raise where a position is asked for that the tables do not have."""
        if position is None:
            return
        if position < 0:
            raise UsageError("a position is 0 or more.", field=field, remedy="Leave it out for the newest.")
        if position > self.projection.position:
            raise ProjectionBehind(
                f"what ships ends at position {self.projection.position}.", field=field, remedy=REMEDY
            )

    async def append(self, *_: object) -> list[Any]:
        """Raise PartMissing: there is no log."""
        raise PartMissing("this answers from what ships, and keeps nothing.", field="record", remedy=REMEDY)


def _no_artifact(digest: str) -> bytes:
    raise NotFound(f"no predictor {digest[:80]!r} ships.", field="digest", remedy=REMEDY)


async def _without_token(request: Request[Any, Any, Any]) -> None:
    request.state.token = None


def create_shipped_app(path: Path) -> Litestar:
    """Return the application over the file of tables at `path`; close `app.state.parts` after use."""
    from api.routes import (
        answers,
        comparisons,
        compatibility,
        fleets,
        hardware_coverage,
        matrix,
        operators,
        prices,
        registry,
        regressions,
        rooflines,
        rows,
        suggestions,
        trends,
    )
    from api.routes.variants import variants

    modules = (
        rows, registry, comparisons, answers, suggestions, prices, compatibility, fleets, trends, regressions, matrix,
        rooflines, operators, hardware_coverage, variants,
    )  # fmt: skip
    app = Litestar(
        [module.router for module in modules],
        before_request=_without_token,
        exception_handlers=EXCEPTION_HANDLERS,
        logging_config=None,
        openapi_config=None,
    )
    app.state.parts = ShippedContainer(path)
    return app
