"""Lists of what the tables hold: runs, measurements, tests, models, hardware, environments, compatibility.

Pages are tied together by a cursor that holds the position of the first page, so that a list read page by page is one
state of the log however much is appended meanwhile.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.params import FromPath, FromQuery, QueryParameter

from api.catalogued import hardware_rows, model_rows
from api.formats import chosen_format, etag, fresh, respond
from api.parts import Parts, predictor_in_force
from domain.errors import NotFound, UnknownModel, UsageError
from domain.models import nearest
from ingest.projection import Tables

__all__ = ["AsOf", "MinPosition", "Text", "at_position", "router"]

PAGE = 100
PAGE_LIMIT = 1000

AsOf = Annotated[int | None, QueryParameter(ge=0, description="Answer as of this position of the log.")]
MinPosition = Annotated[int | None, QueryParameter(ge=0, description="Wait until the tables hold this position.")]
Text = Annotated[str | None, QueryParameter(max_length=500)]
Limit = Annotated[int, QueryParameter(ge=1, le=PAGE_LIMIT)]

Rows = list[dict[str, Any]]
Fetch = Callable[[Tables, int, int], Rows]
"""Rows from an offset, at most so many."""


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """Where the next page begins: the position of the log that the list is of, and how much was read."""

    position: int
    offset: int

    def text(self) -> str:
        """Return the cursor as it is sent."""
        return base64.urlsafe_b64encode(msgspec.msgpack.encode(self)).decode().rstrip("=")

    @classmethod
    def read(cls, text: str) -> Cursor:
        """Return the cursor in a text that an answer gave; UsageError for another."""
        try:
            return msgspec.msgpack.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=cls)
        except (ValueError, msgspec.MsgspecError) as error:
            raise UsageError(
                "not a cursor.", field="cursor", remedy="Give the next_cursor of an answer, or leave it out."
            ) from error


async def at_position(
    request: Request[Any, Any, Any],
    as_of: int | None,
    min_position: int | None,
    answer: Callable[[Tables], tuple[Sequence[Mapping[str, Any]], Mapping[str, Any]]],
    *,
    key: str = "items",
) -> Response[bytes]:
    """Return what `answer` reads from the tables at a position: rows and the members beside them.

    In a thread: DuckDB must not hold up other requests. 304 where the asker holds that state already.
    """
    parts: Parts = request.app.state.parts
    media = chosen_format(request)
    await parts.reach(min_position)
    await parts.reach(as_of, "as_of")

    def read() -> Response[bytes]:
        with parts.tables(as_of) as tables:
            position = tables.position
            tag = etag(position, predictor_in_force(tables), media)
            if fresh(request, tag):
                return Response(b"", status_code=304, headers={"ETag": tag, "Vary": "Accept"})
            rows, beside = answer(tables)
            return respond(request, rows, tag, {**beside, "position": position}, key=key)

    return await asyncio.to_thread(read)


async def _listed(
    request: Request[Any, Any, Any],
    as_of: int | None,
    min_position: int | None,
    cursor: str | None,
    limit: int,
    fetch: Fetch,
) -> Response[bytes]:
    begin = Cursor.read(cursor) if cursor else Cursor(-1, 0)
    at = begin.position if cursor else as_of

    def answer(tables: Tables) -> tuple[Rows, dict[str, Any]]:
        rows = fetch(tables, begin.offset, limit + 1)
        more = len(rows) > limit
        following = Cursor(tables.position, begin.offset + limit).text() if more else None
        return rows[:limit], {"next_cursor": following}

    return await at_position(request, at, min_position, answer)


def _view(name: str, filters: Mapping[str, Any], *, newest_first: bool = False) -> Fetch:
    """Read a view of docs/tables.md in its order, or newest first."""

    def fetch(tables: Tables, offset: int, count: int) -> Rows:
        found = tables.view(name, filters)
        if newest_first:
            found = found.take(list(range(max(0, found.num_rows - offset - count), found.num_rows - offset))[::-1])
            return _named(found.to_pylist())
        return _named(found.slice(offset, count).to_pylist())

    return fetch


def _named(rows: Rows) -> Rows:
    """Add the short names of design section 4 to the columns."""
    for row in rows:
        if "event_id" in row:
            row["id"] = row["event_id"]
        for noun in ("model", "hardware"):
            if f"{noun}_id" in row and noun not in row:
                row[noun] = row[f"{noun}_id"]
    return rows


def _positional(name: str, filters: Mapping[str, Any]) -> Fetch:
    """Read a view whose order is the position, without reading what comes before the page twice."""

    def fetch(tables: Tables, offset: int, count: int) -> Rows:
        # The offset of these lists is the position of the last row read.
        return _named(tables.view(name, filters, after=offset, limit=count).to_pylist())

    return fetch


@get("/v1/measurements", summary="Measurements by position")
async def measurements(
    request: Request[Any, Any, Any],
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    mode: Text = None,
    origin: Text = None,
    configuration: Text = None,
    run_id: Text = None,
    best: FromQuery[bool] = False,
    as_of: AsOf = None,
    min_position: MinPosition = None,
    cursor: Text = None,
    limit: Limit = PAGE,
) -> Response[bytes]:
    """Return measurements that were not retracted; `best` gives one a configuration. Names may be aliases."""
    filters = {
        "model": model, "hardware": hardware, "platform": platform, "precision": precision, "mode": mode,
        "origin": origin, "configuration": configuration, "run_id": run_id,
    }  # fmt: skip
    name = "best_measurements" if best else "measurements"
    return await _by_position(request, as_of, min_position, cursor, limit, _positional(name, filters))


@get("/v1/tests", summary="Test outcomes by position")
async def reported_tests(
    request: Request[Any, Any, Any],
    model: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    outcome: Text = None,
    run_id: Text = None,
    failures: FromQuery[bool] = False,
    as_of: AsOf = None,
    min_position: MinPosition = None,
    cursor: Text = None,
    limit: Limit = PAGE,
) -> Response[bytes]:
    """Return reported tests, or with `failures` the configurations that gave no measurement and at which stage."""
    filters = {
        "model": model, "hardware": hardware, "platform": platform, "precision": precision, "outcome": outcome,
        "run_id": run_id,
    }  # fmt: skip
    name = "failures" if failures else "tests"
    return await _by_position(request, as_of, min_position, cursor, limit, _positional(name, filters))


async def _by_position(
    request: Request[Any, Any, Any],
    as_of: int | None,
    min_position: int | None,
    cursor: str | None,
    limit: int,
    fetch: Fetch,
) -> Response[bytes]:
    begin = Cursor.read(cursor) if cursor else Cursor(-1, 0)

    def answer(tables: Tables) -> tuple[Rows, dict[str, Any]]:
        rows = fetch(tables, begin.offset, limit + 1)
        page = rows[:limit]
        following = Cursor(tables.position, page[-1]["position"]).text() if len(rows) > limit else None
        return page, {"next_cursor": following}

    return await at_position(request, begin.position if cursor else as_of, min_position, answer)


@get("/v1/runs", summary="Runs, newest first")
async def runs(
    request: Request[Any, Any, Any],
    run_id: Text = None,
    kind: Text = None,
    origin: Text = None,
    as_of: AsOf = None,
    min_position: MinPosition = None,
    cursor: Text = None,
    limit: Limit = PAGE,
) -> Response[bytes]:
    """Return runs with what became of them; a retracted one says why."""
    fetch = _view("runs", {"run_id": run_id, "kind": kind, "origin": origin}, newest_first=True)
    return await _listed(request, as_of, min_position, cursor, limit, fetch)


@get("/v1/environments", summary="Environments by position")
async def environments(
    request: Request[Any, Any, Any],
    fingerprint: Text = None,
    as_of: AsOf = None,
    min_position: MinPosition = None,
    cursor: Text = None,
    limit: Limit = PAGE,
) -> Response[bytes]:
    """Return drivers, operating systems and libraries as they were seen, by fingerprint."""
    return await _listed(
        request, as_of, min_position, cursor, limit, _view("environments", {"fingerprint": fingerprint})
    )


@get("/v1/compatibility", summary="What ran where: the matrix of tests and benchmarks")
async def compatibility(
    request: Request[Any, Any, Any],
    model: Text = None,
    platform: Text = None,
    precision: Text = None,
    hardware: Text = None,
    by_hardware: FromQuery[bool] = False,
    as_of: AsOf = None,
    min_position: MinPosition = None,
    cursor: Text = None,
    limit: Limit = PAGE,
) -> Response[bytes]:
    """Return one row a model, platform and precision (and hardware): it ran, it ran right, or at which stage it failed."""
    apart = by_hardware or hardware is not None
    filters = {"model": model, "platform": platform, "precision": precision}
    if apart:
        filters["hardware"] = hardware
    fetch = _view("compatibility_by_hardware" if apart else "compatibility", filters)
    return await _listed(request, as_of, min_position, cursor, limit, fetch)


@get("/v1/models", summary="Models: the catalogue and the log")
async def models(
    request: Request[Any, Any, Any],
    category: Text = None,
    family: Text = None,
    measured: FromQuery[bool] = False,
    as_of: AsOf = None,
    min_position: MinPosition = None,
    cursor: Text = None,
    limit: Limit = PAGE,
) -> Response[bytes]:
    """Return every model by id with how much is known of it; `measured` leaves out those without a measurement."""

    def fetch(tables: Tables, offset: int, count: int) -> Rows:
        wanted = {"category": category, "family": family}
        return _sliced(model_rows(tables), wanted, measured, offset, count)

    return await _listed(request, as_of, min_position, cursor, limit, fetch)


@get("/v1/hardware", summary="Hardware: the catalogue and the log")
async def hardware(
    request: Request[Any, Any, Any],
    kind: Text = None,
    measured: FromQuery[bool] = False,
    as_of: AsOf = None,
    min_position: MinPosition = None,
    cursor: Text = None,
    limit: Limit = PAGE,
) -> Response[bytes]:
    """Return every hardware by id, its specification with sources, and how much was measured on it."""

    def fetch(tables: Tables, offset: int, count: int) -> Rows:
        return _sliced(hardware_rows(tables), {"kind": kind}, measured, offset, count)

    return await _listed(request, as_of, min_position, cursor, limit, fetch)


def _sliced(rows: Rows, wanted: Mapping[str, Any], measured: bool, offset: int, count: int) -> Rows:
    chosen = [
        row
        for row in rows
        if (not measured or row["measurements"])
        and all(value is None or row.get(name) == value for name, value in wanted.items())
    ]
    return chosen[offset : offset + count]


@get("/v1/models/{model_id:path}", summary="One model")
async def model(
    request: Request[Any, Any, Any], model_id: FromPath[str], as_of: AsOf = None, min_position: MinPosition = None
) -> Response[bytes]:
    """Return one model by id or alias, with its traces and where it ran."""

    def answer(tables: Tables) -> tuple[Rows, dict[str, Any]]:
        name = tables.resolve_model(model_id.strip("/"))
        found = [row for row in model_rows(tables) if row["id"] == name]
        if not found:
            raise _missing(UnknownModel(name, nearest(name), field="model"))
        traces = tables.traces(model=name).drop_columns(["operators"]).to_pylist()
        ran = tables.compatibility(model=name).to_pylist()
        return _named(traces), {"model": found[0], "compatibility": ran}

    return await at_position(request, as_of, min_position, answer, key="traces")


@get("/v1/hardware/{hardware_id:str}", summary="One hardware")
async def one_hardware(
    request: Request[Any, Any, Any], hardware_id: FromPath[str], as_of: AsOf = None, min_position: MinPosition = None
) -> Response[bytes]:
    """Return one hardware by id or alias, and what ran on it."""

    def answer(tables: Tables) -> tuple[Rows, dict[str, Any]]:
        name = tables.resolve_hardware(hardware_id)
        found = [row for row in hardware_rows(tables) if row["id"] == name]
        if not found:
            raise NotFound(
                f"no hardware is known as {name!r}.", field="hardware", remedy="GET /v1/hardware lists them."
            )
        ran = tables.compatibility(by_hardware=True, hardware=name).to_pylist()
        return _named(ran), {"hardware": found[0]}

    return await at_position(request, as_of, min_position, answer, key="compatibility")


def _missing(error: UnknownModel) -> NotFound:
    return NotFound(error.detail, field=error.field, remedy=error.remedy or "GET /v1/models lists them.")


router = Router(
    "/",
    route_handlers=[
        measurements, reported_tests, runs, environments, compatibility, models, hardware, model, one_hardware,
    ],
    tags=["tables"],
)  # fmt: skip
