"""Comparisons of what was measured or imported. Nothing here is predicted or averaged."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.paging import DEPENDENCIES, PAGE_LIMIT, At, Row, Text, told
from domain import hardware as hardware_catalogue
from domain import models as model_catalogue
from domain.energy import per_item_j
from domain.errors import UnknownHardware, UnknownModel, UsageError
from domain.measured import STATED
from domain.metrics import METRICS
from ingest.projection import Tables

__all__ = ["compared_row", "require_model", "router"]

_PARTS = (
    "mode", "scenario", "batch_size", "sequence_length", "image_size", "runtime", "runtime_version", "compiled",
    "layout", "threads", "weights", "environment", "concurrency", "arrival_rate_per_s", "target_latency_ms",
    "hardware_stated",
)  # fmt: skip
_COLUMNS = (
    "arrival_rate_per_s", "batch_size", "compiled", "concurrency", "configuration", "device", "energy_j",
    "energy_per_item_j", "energy_per_token_j", "energy_verdict", "environment_fingerprint", "event_id", "fallback_share",
    "hardware_count", "hardware_id", "hardware_kind", "image_size", "latency_mean_ci95_high_ms",
    "latency_mean_ci95_low_ms", "latency_mean_ms", "latency_n", "latency_p50_ci95_high_ms", "latency_p50_ci95_low_ms",
    "latency_p50_ms", "layout", "mode", "model_id", "origin", "peak_memory_bytes", "platform", "platform_asked",
    "position", "power_w", "precision", "precision_asked", "run_id", "runtime_name", "runtime_version", "scenario",
    "scenario_result", "sequence_length", "threads", "throughput_per_s", "time", "verdict", "weights",
)  # fmt: skip
"""What `compared_row` reads: reading the other sixty columns would be most of the time."""
_LOAD = ("concurrency", "arrival_rate_per_s")
"""How requests come. Rows of other loads stand side by side, and none is the best of another's."""
RANKED_BY = (
    "latency_ms", "throughput_per_s", "peak_memory_bytes", "energy_per_item_j", "energy_per_token_j", "power_w",
)  # fmt: skip
_STAGES = ("forward_ms", "loss_ms", "backward_ms", "optimizer_ms")
"""What a step of training is made of."""
Batch = Annotated[int | None, QueryParameter(ge=1, le=2**31 - 1)]
Ranking = Annotated[
    str, QueryParameter(max_length=100, description=f"What orders the rows and marks the best: {', '.join(RANKED_BY)}.")
]
Name = Annotated[str, QueryParameter(min_length=1, max_length=500)]


def compared_row(row: Mapping[str, Any]) -> Row:
    """Return a row of `measurements` under the names that ranked answers use; intervals are 95 % CIs of the samples."""
    median = row["latency_p50_ms"]
    statistic = "p50" if median is not None else "mean"
    latency = median if median is not None else row["latency_mean_ms"]
    low, high = row[f"latency_{statistic}_ci95_low_ms"], row[f"latency_{statistic}_ci95_high_ms"]
    rate = row["throughput_per_s"]
    alone = row["concurrency"] is None and row["arrival_rate_per_s"] is None
    if rate is None and latency and row["batch_size"] and alone:
        rate = row["batch_size"] * 1000.0 / latency
    return {
        "configuration": row["configuration"],
        "model": row["model_id"],
        "hardware": row["hardware_id"],
        "hardware_kind": row["hardware_kind"],
        "hardware_count": row["hardware_count"],
        "platform": row["platform"],
        "precision": row["precision"],
        "batch_size": row["batch_size"],
        "basis": "measured" if row["origin"] == "measured" else "imported",
        "origin": row["origin"],
        "latency_ms": latency,
        "latency_ms_low": low,
        "latency_ms_high": high,
        "latency_is_mean": statistic == "mean" and latency is not None,
        "throughput_per_s": rate,
        "peak_memory_bytes": row["peak_memory_bytes"],
        **_energy(row),
        "n": row["latency_n"],
        "verdict": row["verdict"],
        "fallback_share": row["fallback_share"],
        "platform_asked": row["platform_asked"],
        "precision_asked": row["precision_asked"],
        "mode": row["mode"],
        "scenario": row["scenario"],
        **_load(row),
        "hardware_stated": row["device"] == STATED,
        "sequence_length": row["sequence_length"],
        "image_size": row["image_size"],
        "runtime": row["runtime_name"],
        "runtime_version": row["runtime_version"],
        "compiled": row["compiled"],
        "layout": row["layout"],
        "threads": row["threads"],
        "weights": row["weights"],
        "environment": row["environment_fingerprint"],
        "time": row["time"],
        "run_id": row["run_id"],
        "evidence": [row["event_id"]],
        "position": row["position"],
    }


def _energy(row: Mapping[str, Any]) -> Row:
    """Return energy and power with their own verdict; where it is invalid there are no figures."""
    names = ("energy_j", "energy_per_token_j", "power_w")
    known = {name: None if row["energy_verdict"] == "invalid" else row[name] for name in names}
    return {**known, "energy_per_item_j": per_item_j(row), "energy_verdict": row["energy_verdict"]}


def _load(row: Mapping[str, Any]) -> Row:
    """Return how requests came, and what a scenario was held against and came to."""
    result = msgspec.json.decode(row["scenario_result"]) if row["scenario_result"] else {}
    return {
        "concurrency": row["concurrency"],
        "arrival_rate_per_s": row["arrival_rate_per_s"],
        "target_latency_ms": result.get("target_latency_ms"),
        "scenario_result": result.get("result"),
    }


def _marked(rows: list[Row], cell: Sequence[str], metric: str = "latency_ms") -> list[Row]:
    """Order by a metric, latency by item, and mark the best of each cell under each load; without it none is best."""
    larger = METRICS[metric].better == "higher"

    def rank(row: Row) -> float:
        value: float | None = row[metric]
        if value is None or value <= 0:
            return float("inf")
        if metric == "latency_ms":
            value /= row["batch_size"] or 1
        return -value if larger else value

    ordered = sorted(rows, key=lambda row: (rank(row), row["position"]))
    seen: set[tuple[Any, ...]] = set()
    for row in ordered:
        name = tuple(row[part] for part in (*cell, *_LOAD))
        row["best"] = name not in seen and rank(row) < float("inf")
        if row["best"]:
            seen.add(name)
    return ordered


def _differences(rows: Iterable[Row]) -> dict[str, Any]:
    """Return the parts of the configurations in which the rows agree, and those in which they do not."""
    kept = list(rows)
    same: dict[str, Any] = {}
    differs: dict[str, list[Any]] = {}
    for part in _PARTS:
        values = sorted({repr(row[part]): row[part] for row in kept}.items())
        if len(values) == 1:
            same[part] = values[0][1]
        elif values:
            differs[part] = [value for _, value in values]
    return {"same": same, "differs": differs}


def require_model(tables: Tables, name: str, rows: Sequence[Any]) -> None:
    """Raise UnknownModel where there are no rows because nobody ever told of such a model."""
    if not rows and model_catalogue.find(tables.resolve_model(name)) is None and not tables.knows("model", name):
        raise UnknownModel(name, model_catalogue.nearest(name), field="model")


def _require_hardware(tables: Tables, name: str, rows: Sequence[Any]) -> None:
    known = rows or tables.resolve_hardware(name) in hardware_catalogue.catalogue()
    if not known and not tables.knows("hardware", name):
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
    metric: Ranking = RANKED_BY[0],
) -> Response[bytes]:
    """Return the best measurement of each configuration of a model, by `metric`: fastest an item first.

    Energy and power have a verdict of their own (`energy_verdict`); where it is invalid they are null. `hardware_stated`:
    an endpoint was measured, and its hardware is what the operator said. `best` marks the first of each hardware × platform × precision under each load; `same` and `differs` say in which parts of their
    configurations the rows agree.
    """

    _check_metric(metric)

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        name = tables.resolve_model(model)
        rows = _best(
            tables, model=name, mode=mode, hardware=hardware, platform=platform, precision=precision,
            batch_size=batch_size,
        )  # fmt: skip
        require_model(tables, model, rows)
        return _marked(rows, ("hardware", "platform", "precision"), metric), {"model": name, **_differences(rows)}

    return await told(request, at, answer, key="rows")


@get("/v1/comparisons/models", summary="Different models on one hardware")
async def of_models(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    hardware: Name,
    mode: Text = None,
    platform: Text = None,
    precision: Text = None,
    batch_size: Batch = None,
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
            tables, hardware=name, mode=mode, platform=_several(platform), precision=_several(precision),
            batch_size=batch_size,
        )  # fmt: skip
        _require_hardware(tables, hardware, rows)
        ordered = _marked(rows, ("model", "platform", "precision"), metric)
        kept = ordered if limit is None else sorted(ordered, key=lambda row: not row["best"])[:limit]
        return kept, {"hardware": name, "total": len(rows), **_differences(kept)}

    return await told(request, at, answer, key="rows")


@get("/v1/comparisons/modes", summary="Inference beside training")
async def of_modes(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Name,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
) -> Response[bytes]:
    """Return the rows of both modes, and `pairs` of an inference and a training row that are alike in all else.

    `ratio` is training latency by inference latency; a side that was not measured is null. `stages` are the means of what
    a step of training is made of, in ms.
    """

    def answer(tables: Tables) -> tuple[list[Row], dict[str, Any]]:
        name = tables.resolve_model(model)
        filters = {"model": name, "hardware": hardware, "platform": platform, "precision": precision}
        found = tables.view("best_measurements", filters, columns=(*_COLUMNS, *_STAGES)).to_pylist()
        rows = [{**compared_row(row), "stages": {stage: row[stage] for stage in _STAGES}} for row in found]
        require_model(tables, model, rows)
        return _marked(rows, ("hardware", "platform", "precision", "mode")), {
            "model": name,
            "pairs": _pairs(rows),
            **_differences(rows),
        }

    return await told(request, at, answer, key="rows")


def _check_metric(metric: str) -> None:
    if metric not in RANKED_BY:
        raise UsageError(f"{metric!r} orders no comparison.", field="metric", remedy=f"One of {', '.join(RANKED_BY)}.")


def _several(text: str | None) -> list[str] | None:
    """Return words between commas; None, which does not filter, where there is none."""
    return list(dict.fromkeys(filter(None, (text or "").split(",")))) or None


def _best(tables: Tables, **filters: Any) -> list[Row]:
    found = tables.view("best_measurements", filters, columns=_COLUMNS)
    return [compared_row(row) for row in found.to_pylist()]


def _pairs(rows: Sequence[Row]) -> list[Row]:
    alike = (
        "hardware", "hardware_count", "platform", "precision", "batch_size", "sequence_length", "image_size", "runtime",
        "compiled", *_LOAD,
    )  # fmt: skip
    cells: dict[tuple[Any, ...], dict[str, Row]] = {}
    for row in rows:
        sides = cells.setdefault(tuple(row[part] for part in alike), {})
        known = sides.get(row["mode"])
        if known is None or (row["latency_ms"] or float("inf")) < (known["latency_ms"] or float("inf")):
            sides[row["mode"]] = row
    pairs: list[Row] = []
    for name, sides in sorted(cells.items(), key=lambda item: repr(item[0])):
        one, other = sides.get("inference"), sides.get("training")
        ratio = None
        if one and other and one["latency_ms"] and other["latency_ms"]:
            ratio = other["latency_ms"] / one["latency_ms"]
        pairs.append({**dict(zip(alike, name, strict=True)), "inference": one, "training": other, "ratio": ratio})
    return pairs


router = Router("/", route_handlers=[on_hardware, of_models, of_modes], dependencies=DEPENDENCIES, tags=["comparisons"])
