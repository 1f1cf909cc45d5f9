"""Comparisons of what was measured or imported. Nothing here is predicted or averaged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, PAGE_LIMIT, At, Flag, Row, Text, rows_response
from api.reads.comparison_rows import (
    COLUMNS,
    LOAD,
    RANKED_BY,
    SPEEDUP,
    STAGES,
    Per,
    compared_row,
    counted,
    differences,
    of_model,
    ordered,
    platforms_of,
    several,
)
from domain.catalogues import hardware as hardware_catalogue
from domain.catalogues import models as model_catalogue
from domain.errors import UnknownHardware, UnknownModel, UsageError
from domain.performance.batch_scaling import grouped, most_batches, most_frequent_work
from ingest.projection import Tables

if TYPE_CHECKING:
    from api.container import Container

__all__ = ["require_model", "router"]

Batch = Annotated[int | None, QueryParameter(ge=1, le=2**31 - 1)]
Ranking = Annotated[
    str, QueryParameter(max_length=100, description=f"What orders the rows and marks the best: {', '.join(RANKED_BY)}.")
]
Name = Annotated[str, QueryParameter(min_length=1, max_length=500)]


def require_model(tables: Tables, name: str, rows: Sequence[Any]) -> None:
    """Raise UnknownModel where there are no rows because no event names such a model."""
    if not rows and model_catalogue.find(tables.resolve_model(name)) is None and not tables.knows("model", name):
        raise UnknownModel(name, model_catalogue.nearest(name), field="model")


def _require_hardware(tables: Tables, name: str, rows: Sequence[Any]) -> None:
    existing = rows or tables.resolve_hardware(name) in hardware_catalogue.catalogue()
    if not existing and not tables.knows("hardware", name):
        raise UnknownHardware(name, hardware_catalogue.nearest(name), field="hardware")


@get("/v1/comparisons/hardware", summary="One model on different hardware")
async def on_hardware(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Name,
    mode: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    batch_size: Batch = None,
    sequence_length: Batch = None,
    metric: Annotated[
        str, QueryParameter(max_length=100, description=f"What orders the rows: {', '.join((*RANKED_BY, SPEEDUP))}.")
    ] = RANKED_BY[0],
    per: Annotated[
        Per, QueryParameter(description="Whether latency is ordered by the time of an item or of a call.")
    ] = "item",
    per_hardware: Annotated[
        bool,
        QueryParameter(description="Whether only the first row of each device, and of each number of them, is kept."),
    ] = False,
    limit: Annotated[int | None, QueryParameter(ge=0, le=PAGE_LIMIT)] = None,
) -> Response[bytes]:
    """Return the best measurement of each configuration of a model, by `metric`: fastest an item first.

    Energy and power have a verdict of their own (`energy_verdict`); where it is invalid they are null. `hardware_stated`:
    an endpoint was measured, and its hardware is what the operator said. `best` marks the first of each hardware × platform
    × precision under each load; `same` and `differs` say in which parts of their configurations the rows agree.
    `hardware`, `platform` and `precision` may name several between commas. `limit` returns at most so many of the rows that
    have the metric, in their order; `total` is the number of them; with 0 the answer has no rows. `whole` counts all
    rows of the model and mode, whatever the other filters: by metric, hardware and batch. `speedup_over_cpu` is against the
    fastest measurement in fp32 on plain CPU of the same work, one of `baselines`. `slower_precisions` are the precisions
    that are slower than fp32 in the same software, with both latencies, their ratio and its interval, and a `sentence`.
    `platform` may be `web`, which is wasm, webgpu and webnn.
    """

    _check_metric(metric, (*RANKED_BY, SPEEDUP))
    container: Container = request.app.state.parts

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        name = tables.resolve_model(model)
        whole, plain, slower = of_model(container, tables, name, mode)
        require_model(tables, model, whole)
        passes = _filter(tables, hardware, platform, precision, batch_size, sequence_length)
        rows = list(filter(passes, whole))
        result = ordered(rows, ("hardware", "platform", "precision"), metric, per)
        valued = [row for row in result if row[metric] is not None]
        listed = _first_of_each(result) if per_hardware else result
        kept = listed if limit is None else [row for row in listed if row[metric] is not None][:limit]
        beside = {"model": name, "total": len(valued), "whole": counted(whole), "baselines": plain}
        beside["slower_precisions"] = list(filter(passes, slower))
        return kept, {**beside, **differences(kept)}

    return await rows_response(request, at, answer, key="rows")


@get("/v1/comparisons/models", summary="Different models on one hardware")
async def of_models(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    hardware: Name,
    mode: Text = None,
    platform: Text = None,
    precision: Text = None,
    batch_size: Batch = None,
    sequence_length: Batch = None,
    limit: Annotated[int | None, QueryParameter(ge=1, le=PAGE_LIMIT)] = None,
    metric: Ranking = RANKED_BY[0],
) -> Response[bytes]:
    """Return the best measurement of each configuration on a hardware, by `metric` and with `best` as above.

    `platform` and `precision` may name several between commas. `limit` keeps that many rows, the best of each cell before
    the others, and `total` says how many there are; `same` and `differs` are of the rows that are kept.
    """

    _check_metric(metric)

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        name = tables.resolve_hardware(hardware)
        rows = _best(
            tables,
            hardware=name,
            mode=mode,
            platform=platforms_of(platform),
            precision=several(precision),
            batch_size=batch_size,
            sequence_length=sequence_length,
        )
        _require_hardware(tables, hardware, rows)
        result = ordered(rows, ("model", "platform", "precision"), metric)
        kept = result if limit is None else sorted(result, key=lambda row: not row["best"])[:limit]
        return kept, {"hardware": name, "total": len(rows), **differences(kept)}

    return await rows_response(request, at, answer, key="rows")


@get("/v1/comparisons/modes", summary="Inference beside training")
async def of_modes(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Name,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    batch_size: Batch = None,
    sequence_length: Batch = None,
    limit: Annotated[int | None, QueryParameter(ge=1, le=PAGE_LIMIT)] = None,
    rows: Flag = True,
) -> Response[bytes]:
    """Return the rows of both modes, and `pairs` of an inference and a training row that are alike in all else.

    `ratio` is training latency by inference latency; a side that was not measured is null. `stages` are the means of what
    a step of training is made of, in ms. `platform` and `precision` may name several between commas. `limit` keeps so many
    of the pairs that have a ratio, the largest first, and the rows of these; `rows=false` leaves the rows to the pairs.
    `ratios` are of all pairs that the filters leave, and `whole` counts those of the model, whatever the filters: measured
    in both modes, in one alone, and on which hardware.
    """

    container: Container = request.app.state.parts

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        name = tables.resolve_model(model)
        whole, every = _in_both(container, tables, name)
        require_model(tables, model, whole)
        passes = _filter(tables, hardware, platform, precision, batch_size, sequence_length)
        existing, pairs = list(filter(passes, whole)), list(filter(passes, every))
        if limit is not None:
            pairs = sorted((pair for pair in pairs if pair["ratio"]), key=lambda pair: -pair["ratio"])[:limit]
            existing = [pair[mode] for pair in pairs for mode in ("inference", "training")]
        beside = {"model": name, "pairs": pairs, "ratios": _spread(filter(passes, every)), "whole": _sides(every)}
        listed = ordered(existing, ("hardware", "platform", "precision", "mode")) if rows else []
        return listed, {**beside, **differences(existing)}

    return await rows_response(request, at, answer, key="rows")


def _first_of_each(rows: Sequence[Row]) -> list[Row]:
    """Return the first row of each device, and of each number of them."""
    first: dict[tuple[Any, Any], Row] = {}
    for row in rows:
        first.setdefault((row["hardware"], row["hardware_count"]), row)
    return list(first.values())


def _filter(
    tables: Tables,
    hardware: str | None,
    platform: str | None,
    precision: str | None,
    batch_size: int | None,
    sequence_length: int | None,
) -> Callable[[Row], bool]:
    """Return what says whether a row, or a pair of them, is asked for."""
    wanted: dict[str, Sequence[Any] | None] = {
        "hardware": [tables.resolve_hardware(name) for name in hardware.split(",")] if hardware else None,
        "platform": platforms_of(platform),
        "precision": several(precision),
        "batch_size": [batch_size] if batch_size else None,
        "sequence_length": [sequence_length] if sequence_length else None,
    }
    return lambda row: all(among is None or row[key] in among for key, among in wanted.items())


def _in_both(container: Container, tables: Tables, model: str) -> tuple[list[Row], list[Row]]:
    """Return a model's rows of both modes with their stages, and their pairs; read once for a state of the tables."""

    def read() -> tuple[list[Row], list[Row]]:
        result = tables.best({"model": model}, (*COLUMNS, *STAGES))
        rows = [{**compared_row(row), "stages": {stage: row[stage] for stage in STAGES}} for row in result]
        return rows, _pairs(rows)

    return container.kept(tables).lists(("modes", model), read)


def _spread(pairs: Iterable[Row]) -> Row:
    ratios = sorted(pair["ratio"] for pair in pairs if pair["ratio"])
    if not ratios:
        return {"pairs": 0, "least": None, "median": None, "most": None}
    return {"pairs": len(ratios), "least": ratios[0], "median": median(ratios), "most": ratios[-1]}


def _sides(pairs: Sequence[Row]) -> Row:
    """Count the pairs by the modes that were measured, and by hardware, the most frequent first."""
    sides = Counter(
        "both" if pair["inference"] and pair["training"] else "inference" if pair["inference"] else "training"
        for pair in pairs
    )
    hardware = Counter(pair["hardware"] for pair in pairs).most_common()
    return {
        **{side: sides[side] for side in ("both", "inference", "training")},
        "hardware": [{"hardware": name, "pairs": count} for name, count in hardware],
    }


@get("/v1/comparisons/batches", summary="One model over the batch")
async def of_batches(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Name,
    mode: Text = None,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    sequence_length: Batch = None,
    lines: Annotated[int, QueryParameter(ge=1, le=100)] = 6,
) -> Response[bytes]:
    """Return the rows of the `lines` with most batches: how latency, throughput and memory go with the batch.

    The rows of a line differ in nothing but the batch, of each batch the fastest; `line` counts the lines from 0, by rising
    batch. All are of one `work`: the lengths or sizes that most rows have. `total` says how many lines there are, and
    `batches` which were measured on any. `platform` and `precision` may name several between commas.
    """

    container: Container = request.app.state.parts

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        name = tables.resolve_model(model)
        whole, _, _ = of_model(container, tables, name, mode)
        require_model(tables, model, whole)
        passes = _filter(tables, hardware, platform, precision, None, sequence_length)
        rows = [row for row in filter(passes, whole) if row["batch_size"] and row["latency_ms"]]
        work = most_frequent_work(rows)
        result = grouped([row for row in rows if work.items() <= row.items()])
        kept = [{"line": i, **row} for i, line in enumerate(most_batches(result, lines)) for row in line]
        batches = sorted({row["batch_size"] for line in result for row in line})
        return kept, {"model": name, "work": work, "total": len(result), "batches": batches, **differences(kept)}

    return await rows_response(request, at, answer, key="rows")


def _check_metric(metric: str, names: Sequence[str] = RANKED_BY) -> None:
    if metric not in names:
        raise UsageError(f"{metric!r} orders no comparison.", field="metric", remedy=f"One of {', '.join(names)}.")


def _best(tables: Tables, **filters: Any) -> list[Row]:
    return [compared_row(row) for row in tables.best(filters, COLUMNS)]


def _pairs(rows: Sequence[Row]) -> list[Row]:
    alike = (
        "hardware",
        "hardware_count",
        "platform",
        "precision",
        "batch_size",
        "sequence_length",
        "image_size",
        "runtime",
        "compiled",
        *LOAD,
    )
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        sides = cells.setdefault(tuple(row[part] for part in alike), {})
        side = sides.get(row["mode"])
        if side is None or (row["latency_ms"] or float("inf")) < (side["latency_ms"] or float("inf")):
            sides[row["mode"]] = row
    pairs: list[Row] = []
    for name, sides in sorted(cells.items(), key=lambda item: repr(item[0])):
        inference, other = sides.get("inference"), sides.get("training")
        ratio = None
        if inference and other and inference["latency_ms"] and other["latency_ms"]:
            ratio = other["latency_ms"] / inference["latency_ms"]
        pairs.append({**dict(zip(alike, name, strict=True)), "inference": inference, "training": other, "ratio": ratio})
    return pairs


router = Router(
    "/", route_handlers=[on_hardware, of_models, of_modes, of_batches], dependencies=DEPENDENCIES, tags=["comparisons"]
)
