"""Answers without a log: the published measurements and the predictor that ship, read from one file of tables.

The application has the routes that read, and no others; it runs in the process that asks (`assay.offline`). Questions
that need nothing of it are answered without it, because its web framework takes longer to load than they do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import msgspec

from domain import spans
from domain.answers import answer_bytes
from domain.errors import NotFound, PartMissing, ProjectionBehind, UsageError
from domain.events import MODEL_TRACED
from ingest.projection import Tables, rows
from ingest.projection.history import History
from predictor.answering.question import PredictQuestion, Question
from predictor.answering.table_cache import Reading, Readings
from predictor.features.shipped_traces import lend_trace
from predictor.live.answerer import LiveAnswerer

if TYPE_CHECKING:
    from litestar import Litestar, Request

    from api.http.response_cache import ResponseCache

__all__ = ["REMEDY", "ShippedContainer", "create_shipped_app", "quick_answer"]

REMEDY = "Start a service: `assay up` (it needs the extra `service`: pip install 'assay-bench[service]')."
T = TypeVar("T")
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
        self.arrivals = NoArrivals()
        self._readings = Readings()

    @cached_property
    def answered(self) -> ResponseCache:
        """Answers that were given before."""
        from api.http.response_cache import ResponseCache

        return ResponseCache()

    def close(self) -> None:
        """Close the file."""
        self.projection.close()

    def tables(self, as_of: int | None) -> contextlib.AbstractContextManager[Tables]:
        """Return the context manager of Tables over one unmoving state."""
        return self.projection.tables(as_of)

    def read(self, as_of: int | None, answer: Callable[[Tables], T]) -> T:
        """Return what `answer` reads from the tables."""
        with self.tables(as_of) as tables:
            return answer(tables)

    def kept(self, tables: Tables) -> Reading:
        """Return what was read of these tables before."""
        return self._readings.at((tables.position, tables.checkpoint))

    def take_traces(self, content: bytes) -> bytes | None:
        """Answer from these traces as well, until this process ends; None where a line of the content is another event."""
        events = [msgspec.json.decode(line) for line in content.splitlines()]
        if any(event["type"] != MODEL_TRACED for event in events):
            return None
        for event in events:
            lend_trace(event["data"])
        self.answerer.read_again()
        self._readings = Readings()
        return msgspec.json.encode({"accepted": len(events), "duplicate": 0, "rejected": [], "warnings": []})

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


def quick_answer(container: ShippedContainer, path: str, content: bytes) -> bytes | None:
    """Return the body with which `POST path` answers a recommendation or a prediction, None where the application has to.

    That is whatever is refused, recorded or asked as of a position: the routes of the application say what is wrong with it.
    """
    answerer = container.answerer
    try:
        with rows.as_lists():
            if path == "/v1/recommendations":
                question = msgspec.json.decode(content, type=Question)
                return answer_bytes(answerer.recommend(question)) if _is_plain(question) else None
            if path == "/v1/predictions":
                asked = msgspec.json.decode(content, type=PredictQuestion)
                return answer_bytes(answerer.predict(asked)) if _is_plain(asked) else None
    except Exception:
        return None
    return None


def _is_plain(question: Question | PredictQuestion) -> bool:
    return not question.record and question.as_of is None and not spans.active()


def create_shipped_app(container: ShippedContainer) -> Litestar:
    """Return the application over the tables of a container."""
    from litestar import Litestar

    from api.http.problems import EXCEPTION_HANDLERS
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
    app.state.parts = container
    return app
