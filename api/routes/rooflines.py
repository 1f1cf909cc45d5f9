"""The roofline of one hardware: its roofs, what was measured under them, models and kernels, and estimates of kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypedDict, cast

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter, QueryParameter

from api.http.paging import DEPENDENCIES, At, Row, Text, rows_response
from api.reads.device import row_of
from domain.answers.device import Rate
from domain.answers.kernels import KernelPoint
from domain.catalogues.hardware import Figure, HardwareSpec
from domain.errors import UsageError
from domain.kernels import SIZES
from domain.performance.achieved_roofline import Point, grid, point_of, work_of
from domain.performance.roofline import Limits, limits_of
from ingest.projection import Tables
from predictor.features.devices import Devices
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import Trace, TraceBook, trace_from_data
from predictor.kernels.device_kernels import KernelQuestion

if TYPE_CHECKING:
    from api.container import Container

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


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """A trace without its operators; `workload` and `totals` are JSON text."""

    model_id: str
    mode: str
    phase: str
    workload: str | None
    image_size: int | None
    sequence_length: int | None
    totals: str | None


class MeasuredRow(msgspec.Struct, frozen=True, kw_only=True):
    """A best measurement: its configuration, its time, and where it stands in the log."""

    mode: str
    batch_size: int | None
    sequence_length: int | None
    image_size: int | None
    compiled: bool | None
    threads: int | None
    verdict: str | None
    origin: str
    run_id: str | None
    event_id: str
    configuration: str
    time: datetime | None
    images: int | None
    audio_seconds: float | None
    frames: int | None
    input_tokens: int | None
    model_id: str
    platform: str
    precision: str | None
    scenario: str | None
    output_tokens: int | None
    steps: int | None
    hardware_count: int | None
    concurrency: int | None
    fallback_share: float | None
    latency_p50_ms: float | None
    latency_mean_ms: float | None
    latency_n: int | None
    throughput_per_s: float | None
    runtime_name: str | None
    gradient_checkpointing: bool | None
    family: str | None
    position: int


class PointRow(TypedDict, total=False):
    """A measured point as it is sent, or those members of it that are asked for."""

    model: str
    platform: str
    precision: str | None
    mode: str
    batch_size: int | None
    sequence_length: int | None
    image_size: int | None
    compiled: bool | None
    threads: int | None
    verdict: str | None
    origin: str
    run_id: str | None
    event_id: str
    configuration: str
    time: datetime | None
    runtime: str | None
    basis: str
    latency_ms: float
    latency_is_mean: bool
    n: int | None
    flop_per_byte: float
    flops_per_s: float
    roof_flops_per_s: float
    share: float
    over: str | None
    stands_for: int


class Device(TypedDict):
    """What the roofline says of the hardware itself."""

    id: str
    name: str | None
    kind: str | None
    vendor: str | None


class Roofs(TypedDict):
    """Rates by precision and the bandwidth, as the specification knows them and as a probe reached them."""

    roofs: list[Rate]
    bandwidth_bytes_per_s: Figure | None
    reached: list[Rate]
    reached_bandwidth_bytes_per_s: Figure | None


class Summary(Roofs):
    """What stands beside the points: the hardware, its roofs, how many rows were placed, and those over a limit."""

    hardware: Device
    considered: int
    placed: int
    best: int
    left_out: dict[str, int]
    above: list[PointRow]
    above_count: int
    above_by: dict[str, int]


class MeasuredPoint(NamedTuple):
    """A measured row with its point."""

    row: MeasuredRow
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

    def answer(tables: Tables) -> tuple[list[PointRow], Summary]:
        device = row_of(tables, hardware_id)
        spec = Devices(tables).spec(device["id"])
        filters = {"hardware": device["id"], "model": model, "platform": platform, "precision": precision, "mode": mode}
        measured = tables.view("best_measurements", filters, columns=MeasuredRow.__struct_fields__)
        rows = msgspec.convert(measured.to_pylist(), list[MeasuredRow])
        placed, left_out = _placed(rows, spec, _book(tables, {row.model_id for row in rows}))
        best = _best(placed)
        over = sorted((item for item in best if item.point.over), key=lambda item: item.point.over != "peak")
        groups = grid([(item.point.intensity, item.point.flops_per_s, item.row.platform) for item in best], limit)
        points = [_cut({**_row(best[group[0]]), "stands_for": len(group)}, members) for group in groups]
        return points, {
            "hardware": {
                "id": device["id"],
                "name": device["name"],
                "kind": device["kind"],
                "vendor": device["vendor"],
            },
            **_roofs(spec, {item.row.precision for item in placed}),
            "considered": len(rows),
            "placed": len(placed),
            "best": len(best),
            "left_out": dict(left_out.most_common()),
            "above": [_cut(_row(item), members) for item in over[:LISTED_ABOVE]],
            "above_count": len(over),
            "above_by": dict(Counter(str(item.point.over) for item in over)),
        }

    return await rows_response(request, at, answer, key="points")


@get("/v1/hardware/{hardware_id:str}/kernels", summary="The kernels of one hardware under its roofs, with estimates")
async def kernels_of_hardware(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    hardware_id: Name,
    platform: Text = None,
    precision: Text = None,
    operator: Text = None,
    limit: Limit = 300,
) -> Response[bytes]:
    """Return the roofs, the measured kernels under them, and what the predictor says of the standard kernels.

    All of it is of one platform and precision, by default the ones with most timings; `choices` lists them. Points that
    would lie on each other are one (`stands_for`). Estimates have 80 % intervals, or a note why they have none.
    """
    container: Container = request.app.state.parts
    if operator not in (None, *SIZES):
        raise UsageError(f"{operator!r} is no operator.", field="operator", remedy=f"One of {', '.join(SIZES)}.")

    def answer(tables: Tables) -> tuple[tuple[KernelPoint, ...], Row]:
        question = KernelQuestion(
            hardware=row_of(tables, hardware_id)["id"],
            platform=platform,
            precision=precision,
            operator=operator,
            limit=limit,
        )
        beside = msgspec.structs.asdict(container.answerer.kernels(tables, question))
        return beside.pop("points"), beside

    return await rows_response(request, at, answer, key="points")


def _book(tables: Tables, names: Iterable[str]) -> TraceBook:
    """Return the traces of some models with their totals alone: the operators are most of what there is to read."""
    traces = traces_of(tables, names, columns=TraceRow.__struct_fields__)
    return TraceBook(map(_trace, msgspec.convert(traces, list[TraceRow])))


def _trace(row: TraceRow) -> Trace:
    sizes = {name: getattr(row, name) for name in ("mode", "phase", "image_size", "sequence_length")}
    workload = {**msgspec.json.decode(row.workload or "{}"), **sizes}
    totals = msgspec.json.decode(row.totals or "{}")
    return trace_from_data({"model": {"id": row.model_id}, "workload": workload, "operators": [], "totals": totals})


def _placed(
    rows: Iterable[MeasuredRow], spec: HardwareSpec | None, book: TraceBook
) -> tuple[list[MeasuredPoint], Counter[str]]:
    """Return the rows that have a place under the roof, and how many have none for which reason."""
    limits: dict[tuple[str, str], Limits | None] = {}
    placed: list[MeasuredPoint] = []
    left_out: Counter[str] = Counter()
    for row in rows:
        latency_ms = _latency_ms(row)
        why = _unfit(row, latency_ms)
        if why is None:
            key = (row.precision or "", row.platform)
            if key not in limits:
                limits[key] = None if spec is None else limits_of(spec, *key)
            place = _place(row, float(latency_ms or 0.0), limits[key], book)
            if isinstance(place, MeasuredPoint):
                placed.append(place)
                continue
            why = place
        left_out[why] += 1
    return placed, left_out


def _latency_ms(row: MeasuredRow) -> float | None:
    latency = row.latency_p50_ms or row.latency_mean_ms
    if latency is None and row.throughput_per_s and row.batch_size:
        latency = row.batch_size * 1000.0 / row.throughput_per_s
    return None if latency is None else float(latency)


def _unfit(row: MeasuredRow, latency_ms: float | None) -> str | None:
    """Say why a row tells of no single call on one whole device; None where it does."""
    if row.hardware_count != 1:
        return "on several devices at once"
    if row.concurrency is not None or row.scenario in ("server", "serving") or row.output_tokens or row.steps:
        return "served or generated, not one call"
    if not latency_ms:
        return "no time of a call"
    if row.batch_size is None or row.precision is None:
        return "batch or precision not said"
    if row.verdict == "invalid" or row.fallback_share:
        return "invalid, or partly on another device"
    return None


def _place(row: MeasuredRow, latency_ms: float, limits: Limits | None, book: TraceBook) -> MeasuredPoint | str:
    if limits is None:
        return "peak or bandwidth not known at this precision"
    sizes = {name: getattr(row, name) for name in _SIZES}
    trace = book.work(row.model_id, row.mode, {**sizes, "gradient_checkpointing": row.gradient_checkpointing})
    if trace is None or any(getattr(row, name) is None for name in trace.sizes if name in _SIZES):
        return "not traced at that size"
    stands_in = row.mode == "training" and trace.mode != "training"
    work = work_of(trace.totals, limits, batch_size=row.batch_size or 0, forward_for_training=stands_in)
    return (
        "not traced at that size"
        if work is None
        else MeasuredPoint(row, latency_ms, point_of(work, limits, latency_ms))
    )


def _best(placed: Iterable[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return the point nearest to its roof of each model, platform, precision and mode, the nearest first."""
    best: dict[tuple[str, str, str | None, str], MeasuredPoint] = {}
    for item in sorted(placed, key=lambda entry: (-entry.point.share, entry.row.position)):
        row = item.row
        best.setdefault((row.model_id, row.platform, row.precision, row.mode), item)
    return list(best.values())


def _row(item: MeasuredPoint) -> PointRow:
    row = item.row
    return {
        "model": row.model_id,
        "platform": row.platform,
        "precision": row.precision,
        "mode": row.mode,
        "batch_size": row.batch_size,
        "sequence_length": row.sequence_length,
        "image_size": row.image_size,
        "compiled": row.compiled,
        "threads": row.threads,
        "verdict": row.verdict,
        "origin": row.origin,
        "run_id": row.run_id,
        "event_id": row.event_id,
        "configuration": row.configuration,
        "time": row.time,
        "runtime": row.runtime_name,
        "basis": "measured" if row.origin == "measured" else "imported",
        "latency_ms": item.latency_ms,
        "latency_is_mean": row.latency_p50_ms is None,
        "n": row.latency_n,
        "flop_per_byte": item.point.intensity,
        "flops_per_s": item.point.flops_per_s,
        "roof_flops_per_s": item.point.roof_flops_per_s,
        "share": item.point.share,
        "over": item.point.over,
    }


def _cut(point: PointRow, members: Collection[str] | None) -> PointRow:
    if members is None:
        return point
    return cast("PointRow", {name: value for name, value in point.items() if name in members})


def _roofs(spec: HardwareSpec | None, used: set[str | None]) -> Roofs:
    """Peaks by precision, highest first, and the bandwidth, as the specification knows them; of integers those in use."""
    if spec is None:
        return {"roofs": [], "bandwidth_bytes_per_s": None, "reached": [], "reached_bandwidth_bytes_per_s": None}
    return {
        "roofs": _rates(spec.peak_flops, used),
        "bandwidth_bytes_per_s": spec.memory_bandwidth_bytes_per_s,
        "reached": _rates(spec.sustained_flops, used),
        "reached_bandwidth_bytes_per_s": spec.sustained_bandwidth_bytes_per_s,
    }


def _rates(figures: Mapping[str, Figure], used: set[str | None]) -> list[Rate]:
    rates = [
        Rate(precision=precision, **msgspec.structs.asdict(figure))
        for precision, figure in figures.items()
        if precision in used or not precision.startswith("int")
    ]
    return sorted(rates, key=lambda rate: (-rate.value, rate.precision))


router = Router("/", route_handlers=[of_hardware, kernels_of_hardware], dependencies=DEPENDENCIES, tags=["tables"])
