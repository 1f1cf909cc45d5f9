"""`/v1/variants` and `/v1/deliveries`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, At, Text, rows_response
from api.reads.variants import model_variants
from domain.answers.variants import Deliveries, Delivery, Endpoint, VariantRow
from ingest.projection import Tables

__all__ = ["router"]

ModelName = Annotated[
    str, QueryParameter(min_length=1, max_length=500, description="The model, or one of its variants.")
]
Verdict = Annotated[Literal["kept", "broken", "undecided"] | None, QueryParameter()]
Most = Annotated[int, QueryParameter(ge=1, le=1000)]


@get("/v1/variants", summary="A model and its variants: speed, memory, size and quality side by side")
async def variants(request: Request[Any, Any, Any], at: NamedDependency[At], model: ModelName) -> Response[bytes]:
    """Return a row for each measured device, platform and precision of the model and its variants, losers included."""

    def answer(tables: Tables) -> tuple[Sequence[VariantRow], dict[str, Any]]:
        found = model_variants(tables, model)
        return found.items, {"model": found.model, "workload": found.workload, "base_bytes": found.base_bytes}

    return await rows_response(request, at, answer)


@get("/v1/deliveries", summary="What served models delivered beside their promise")
async def deliveries(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Text = None,
    endpoint: Text = None,
    verdict: Verdict = None,
    limit: Most = 100,
) -> Response[bytes]:
    """Return what endpoints delivered, the newest first; `endpoints` has each of them as it stands."""

    def answer(tables: Tables) -> tuple[Sequence[Delivery], dict[str, Any]]:
        listed = _read(tables, {"model": model, "endpoint": endpoint}, verdict, limit)
        return listed.items, {"endpoints": msgspec.to_builtins(listed.endpoints)}

    return await rows_response(request, at, answer)


def _read(tables: Tables, filters: dict[str, str | None], verdict: str | None, limit: int) -> Deliveries:
    rows = tables.view(
        "deliveries",
        {**filters, "verdict": verdict},
        columns=list(Delivery.__struct_fields__),
        limit=limit,
        descending=True,
    )
    standing = tables.view("endpoints", filters, columns=list(Endpoint.__struct_fields__))
    return Deliveries(
        endpoints=[msgspec.convert(row, Endpoint) for row in standing.to_pylist()],
        items=[msgspec.convert(row, Delivery) for row in rows.to_pylist()],
    )


router = Router("/", route_handlers=[variants, deliveries], dependencies=DEPENDENCIES, tags=["rows"])
