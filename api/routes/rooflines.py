"""The roofline of one hardware: its roofs, and where what was measured on it lies under them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Annotated, Any, NamedTuple

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from api.http.paging import DEPENDENCIES, At, Row, Text, rows_response
from api.reads.device import row_of
from domain.catalogues.hardware import Figure, HardwareSpec
from domain.performance.achieved_roofline import Point, grid, point_of, work_of
from domain.performance.roofline import Limits, limits_of
from ingest.projection import Tables
from predictor.answering.facts import Devices
from predictor.features.traces import Trace, TraceBook, trace_from_data

__all__ = ["router"]

Name = Annotated[str, PathParameter(min_length=1, max_length=500)]
Limit = Annotated[
    int, QueryParameter(ge=1, le=1000, description="Points at the most; each says for how many it stands.")
]
Members = Annotated[
    list[str] | None,
    QueryParameter(
        max_items=50, description="Only these members of each point; repeatable. Unknown ones are left out."
    ),
]
LISTED_ABOVE = 50
_SIZES = ("sequence_length", "image_size", "images", "audio_seconds", "frames", "input_tokens")
_SHOWN = (
    "mode",
    "batch_size",
    "sequence_length",
    "image_size",
    "compiled",
    "threads",
    "verdict",
    "origin",
    "run_id",
    "event_id",
    "configuration",
    "time",
)
_COLUMNS = tuple(
    dict.fromkeys(
        (
            *_SHOWN,
            *_SIZES,
            "model_id",
            "platform",
            "precision",
            "scenario",
            "output_tokens",
            "hardware_count",
            "concurrency",
            "fallback_share",
            "latency_p50_ms",
            "latency_mean_ms",
            "latency_n",
            "throughput_per_s",
            "runtime_name",
            "gradient_checkpointing",
            "family",
            "position",
        )
    )
)
_TRACED = ("model_id", "mode", "phase", "workload", "image_size", "sequence_length", "totals")


class MeasuredPoint(NamedTuple):
    """A measured row with its point."""

    row: Row
    latency_ms: float
    point: Point


@get("/v1/hardware/{hardware_id:str}/roofline", summary="The roofline of one hardware, with measured points")
async def of_hardware(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    hardware_id: Name,
    model: Text = None,
    platform: Text = None,
    precision: Text = None,
    mode: Text = None,
    limit: Limit = 300,
    members: Members = None,
) -> Response[bytes]:
    """Return the roofs by precision, the bandwidth, and the best measured point of each model × platform × precision × mode.

    Points that would lie on each other are one (`stands_for`). `above` are those over a roof, the peak's first. What could
    not be placed is counted in `left_out` by its reason.
    """

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        device = row_of(tables, hardware_id)
        spec = Devices(tables).spec(device["id"])
        filters = {"hardware": device["id"], "model": model, "platform": platform, "precision": precision, "mode": mode}
        rows = tables.view("best_measurements", filters, columns=_COLUMNS).to_pylist()
        placed, left_out = _placed(rows, spec, _book(tables, {row["model_id"] for row in rows}))
        best = _best(placed)
        over = sorted((item for item in best if item.point.over), key=lambda item: item.point.over != "peak")
        groups = grid([(item.point.intensity, item.point.flops_per_s, item.row["platform"]) for item in best], limit)
        points = [_cut({**_told(best[group[0]]), "stands_for": len(group)}, members) for group in groups]
        return points, {
            "hardware": {name: device[name] for name in ("id", "name", "kind", "vendor")},
            **_roofs(spec, {item.row["precision"] for item in placed}),
            "considered": len(rows),
            "placed": len(placed),
            "best": len(best),
            "left_out": dict(left_out.most_common()),
            "above": [_cut(_told(item), members) for item in over[:LISTED_ABOVE]],
            "above_count": len(over),
            "above_by": dict(Counter(item.point.over for item in over)),
        }

    return await rows_response(request, at, answer, key="points")


def _book(tables: Tables, names: Iterable[str]) -> TraceBook:
    """Return the traces of some models with their totals alone: the operators are most of what there is to read."""
    rows = tables.traces(model=sorted(names), columns=_TRACED).to_pylist()
    return TraceBook(map(_trace, rows))


def _trace(row: Mapping[str, Any]) -> Trace:
    workload = msgspec.json.decode(row["workload"] or "{}")
    sizes = {name: row[name] for name in ("mode", "phase", "image_size", "sequence_length")}
    model = {"id": row["model_id"]}
    totals = msgspec.json.decode(row["totals"] or "{}")
    return trace_from_data({"model": model, "workload": {**workload, **sizes}, "operators": [], "totals": totals})


def _placed(
    rows: Iterable[Row], spec: HardwareSpec | None, book: TraceBook
) -> tuple[list[MeasuredPoint], Counter[str]]:
    """Return the rows that have a place under the roof, and how many have none for which reason."""
    limits: dict[tuple[str, str], Limits | None] = {}
    placed: list[MeasuredPoint] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        latency_ms = _latency_ms(row)
        why = _unfit(row, latency_ms)
        if why is None:
            key = (row["precision"], row["platform"])
            if key not in limits:
                limits[key] = None if spec is None else limits_of(spec, *key)
            place = _place(row, float(latency_ms or 0.0), limits[key], book)
            if isinstance(place, MeasuredPoint):
                placed.append(place)
                continue
            why = place
        left_out[why] += 1
    return placed, left_out


def _latency_ms(row: Row) -> float | None:
    latency = row["latency_p50_ms"] or row["latency_mean_ms"]
    if latency is None and row["throughput_per_s"] and row["batch_size"]:
        latency = row["batch_size"] * 1000.0 / row["throughput_per_s"]
    return None if latency is None else float(latency)


def _unfit(row: Row, latency_ms: float | None) -> str | None:
    """Say why a row tells of no single call on one whole device; None where it does."""
    if row["hardware_count"] != 1:
        return "on several devices at once"
    if row["concurrency"] is not None or row["scenario"] in ("server", "serving") or row["output_tokens"]:
        return "served or generated, not one call"
    if not latency_ms:
        return "no time of a call"
    if row["batch_size"] is None or row["precision"] is None:
        return "batch or precision not said"
    if row["verdict"] == "invalid" or row["fallback_share"]:
        return "invalid, or partly on another device"
    return None


def _place(row: Row, latency_ms: float, limits: Limits | None, book: TraceBook) -> MeasuredPoint | str:
    if limits is None:
        return "peak or bandwidth not known at this precision"
    sizes = {name: row[name] for name in _SIZES}
    trace = book.work(row["model_id"], row["mode"], {**sizes, "gradient_checkpointing": row["gradient_checkpointing"]})
    if trace is None or any(row[name] is None for name in trace.sizes if name in _SIZES):
        return "not traced at that size"
    stands_in = row["mode"] == "training" and trace.mode != "training"
    work = work_of(trace.totals, limits, batch_size=row["batch_size"], forward_for_training=stands_in)
    return (
        "not traced at that size"
        if work is None
        else MeasuredPoint(row, latency_ms, point_of(work, limits, latency_ms))
    )


def _best(placed: Iterable[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return the point nearest to its roof of each model, platform, precision and mode, the nearest first."""
    best: dict[tuple[Any, ...], MeasuredPoint] = {}
    for item in sorted(placed, key=lambda entry: (-entry.point.share, entry.row["position"])):
        best.setdefault(tuple(item.row[name] for name in ("model_id", "platform", "precision", "mode")), item)
    return list(best.values())


def _told(item: MeasuredPoint) -> Row:
    row = item.row
    return {
        "model": row["model_id"],
        "platform": row["platform"],
        "precision": row["precision"],
        **{name: row[name] for name in _SHOWN},
        "runtime": row["runtime_name"],
        "basis": "measured" if row["origin"] == "measured" else "imported",
        "latency_ms": item.latency_ms,
        "latency_is_mean": row["latency_p50_ms"] is None,
        "n": row["latency_n"],
        "flop_per_byte": item.point.intensity,
        "flops_per_s": item.point.flops_per_s,
        "roof_flops_per_s": item.point.roof_flops_per_s,
        "share": item.point.share,
        "over": item.point.over,
    }


def _cut(point: Row, members: Collection[str] | None) -> Row:
    return point if members is None else {name: point[name] for name in point if name in members}


def _roofs(spec: HardwareSpec | None, used: set[str]) -> Row:
    """Peaks by precision, highest first, and the bandwidth, as the specification knows them; of integers those in use."""
    if spec is None:
        return {"roofs": [], "bandwidth_bytes_per_s": None, "reached": [], "reached_bandwidth_bytes_per_s": None}
    return {
        "roofs": _rates(spec.peak_flops, used),
        "bandwidth_bytes_per_s": msgspec.to_builtins(spec.memory_bandwidth_bytes_per_s),
        "reached": _rates(spec.sustained_flops, used),
        "reached_bandwidth_bytes_per_s": msgspec.to_builtins(spec.sustained_bandwidth_bytes_per_s),
    }


def _rates(figures: Mapping[str, Figure], used: set[str]) -> list[Row]:
    rows = [
        {"precision": precision, **msgspec.to_builtins(figure)}
        for precision, figure in figures.items()
        if precision in used or not precision.startswith("int")
    ]
    return sorted(rows, key=lambda row: (-row["value"], row["precision"]))


router = Router("/", route_handlers=[of_hardware], dependencies=DEPENDENCIES, tags=["tables"])
