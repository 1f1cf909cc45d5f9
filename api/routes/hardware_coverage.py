"""What was tried on one hardware: coverage by family, the best of each category, and how it stands to its siblings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Annotated, Any, Final, NamedTuple, TypedDict, cast

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from api.http.paging import DEPENDENCIES, Cursor, Page, Text, rows_response
from api.reads.catalogue import model_rows
from api.reads.device import row_of, siblings
from domain.answers.device import BestOfCategory, ComparedSibling, CoverageSummary, FamilyCoverage, Sibling
from domain.catalogues import hardware, registry
from domain.catalogues.hardware import HardwareSpec
from domain.vocabulary import CATEGORIES
from ingest.projection import Tables
from predictor.features.devices import Devices

__all__ = ["router"]

Name = Annotated[str, PathParameter(min_length=1, max_length=500)]
Work = tuple[str | int | float | None, ...]
"""The values of `_WORK` in a row."""
_WORK: Final = (
    "model_id",
    "mode",
    "scenario",
    "precision",
    "batch_size",
    "sequence_length",
    "image_size",
    "images",
    "audio_seconds",
    "frames",
    "input_tokens",
    "output_tokens",
    "steps",
    "concurrency",
    "hardware_count",
)
"""What of two rows must be the same for their times to be compared across devices."""
_TIMES = ("latency_p50_ms", "latency_mean_ms")
_BEST = (
    *_WORK,
    *_TIMES,
    "throughput_per_s",
    "tokens_per_s",
    "latency_n",
    "platform",
    "origin",
    "verdict",
    "event_id",
    "run_id",
    "position",
)
_SHARING = 3
_COMPARED = ("fp16", "bf16", "fp32")
"""Precisions by which two peaks are compared: the first that both have."""


class MeasuredWork(TypedDict):
    """A best measurement: the work, its time and rates, and where it stands in the log."""

    hardware_id: str
    model_id: str
    mode: str
    scenario: str | None
    precision: str | None
    batch_size: int | None
    sequence_length: int | None
    image_size: int | None
    images: int | None
    audio_seconds: float | None
    frames: int | None
    input_tokens: int | None
    output_tokens: int | None
    steps: int | None
    concurrency: int | None
    hardware_count: int | None
    latency_p50_ms: float | None
    latency_mean_ms: float | None
    throughput_per_s: float | None
    tokens_per_s: float | None
    latency_n: int | None
    platform: str
    origin: str
    verdict: str | None
    event_id: str
    run_id: str | None
    position: int


class Ratios(NamedTuple):
    """A device's figures over those of another; None where one of them is not known."""

    peak: float | None = None
    precision: str | None = None
    bandwidth: float | None = None


@get("/v1/hardware/{hardware_id:str}/coverage", summary="What was tried on one hardware")
async def coverage(
    request: Request[Any, Any, Any],
    page: NamedDependency[Page],
    hardware_id: Name,
    category: Text = None,
    platform: Text = None,
) -> Response[bytes]:
    """Return one row a family and platform that any model was tried of, with how many of its models were.

    Beside them `best`, the fastest configuration of each category, and `siblings` (and the three devices that most of its
    models were measured on too) with the ratios of their figures to this one's, the models measured on both, and the median
    ratio of speeds over the configurations measured on both.
    """

    def answer(tables: Tables) -> tuple[list[FamilyCoverage], CoverageSummary]:
        name = row_of(tables, hardware_id)["id"]
        matching_model_rows = [row for row in model_rows(tables) if category in (None, row["category"])]
        ran = tables.compatibility(by_hardware=True, hardware=name, platform=platform).to_pylist()
        rows = registry.coverage(matching_model_rows, ran, [platform] if platform else [])
        families = msgspec.convert(rows, list[FamilyCoverage])
        tried = sorted((row for row in families if row.tried), key=lambda row: (-row.tried, row.family or ""))
        kept = tried[page.offset : page.offset + page.limit]
        more = len(tried) > page.offset + page.limit
        measured = cast("list[MeasuredWork]", tables.best({"hardware": name, "platform": platform}, _BEST))
        return kept, CoverageSummary(
            hardware=name,
            families=len({row.family for row in families}),
            families_tried=len({row.family for row in tried}),
            best=_best(measured, {row["id"]: row["category"] for row in matching_model_rows}),
            siblings=_kin(tables, name, measured),
            next_cursor=Cursor(tables.position, page.offset + page.limit, tables.history).text() if more else None,
        )

    return await rows_response(request, page.at, answer)


def _best(rows: Iterable[MeasuredWork], categories: Mapping[str, str | None]) -> tuple[BestOfCategory, ...]:
    """Return of each category and unit the configuration with the highest rate, and how much stands beside it."""
    by_category: dict[tuple[str, str], list[tuple[float, MeasuredWork]]] = defaultdict(list)
    for row in rows:
        category = categories.get(row["model_id"])
        for speed, unit in ((row["throughput_per_s"], "items/s"), (row["tokens_per_s"], "tokens/s")):
            if category is not None and speed and row["verdict"] != "invalid":
                by_category[category, unit].append((speed, row))
                break
    order = {name: place for place, name in enumerate(CATEGORIES)}
    return tuple(
        _fastest(category, unit, by_category[category, unit])
        for category, unit in sorted(by_category, key=lambda key: (order.get(key[0], len(order)), key))
    )


def _fastest(category: str, unit: str, measured: Sequence[tuple[float, MeasuredWork]]) -> BestOfCategory:
    speed, row = max(measured, key=lambda item: (item[0], -item[1]["position"]))
    return BestOfCategory(
        category=category,
        models=len({value["model_id"] for _, value in measured}),
        configurations=len(measured),
        model=row["model_id"],
        platform=row["platform"],
        precision=row["precision"],
        mode=row["mode"],
        scenario=row["scenario"],
        batch_size=row["batch_size"],
        hardware_count=row["hardware_count"],
        throughput=speed,
        unit=unit,
        latency_ms=_time(row),
        latency_is_mean=row["latency_p50_ms"] is None,
        n=row["latency_n"],
        origin=row["origin"],
        basis="measured" if row["origin"] == "measured" else "imported",
        verdict=row["verdict"],
        run_id=row["run_id"],
        event_id=row["event_id"],
    )


def _time(row: MeasuredWork) -> float | None:
    latency_p50_ms = row["latency_p50_ms"] or row["latency_mean_ms"]
    return None if latency_p50_ms is None else float(latency_p50_ms)


def _kin(tables: Tables, name: str, own: Sequence[MeasuredWork]) -> tuple[ComparedSibling, ...]:
    """Return the siblings with what their figures and their speeds are to this one's; above 1 the sibling is the larger."""
    spec, models, mine = Devices(tables).spec(name), {row["model_id"] for row in own}, _times(own)
    near = siblings(spec)
    near += _sharing(tables, models, {name, *(item.id for item in near)})
    ids = [item.id for item in near]
    rows = cast("list[MeasuredWork]", tables.best({"hardware": ids}, ("hardware_id", *_WORK, *_TIMES)) if ids else [])
    theirs: dict[str, list[MeasuredWork]] = defaultdict(list)
    for row in rows:
        theirs[row["hardware_id"]].append(row)
    return tuple(_beside(spec, item, mine, models, theirs[item.id]) for item in near)


def _sharing(tables: Tables, models: set[str], besides: set[str]) -> list[Sibling]:
    """Return the devices with measurements of the most of these models, whatever they are like."""
    if not models:
        return []
    rows = tables.best({"model": sorted(models)}, ("hardware_id", "model_id"))
    counts = Counter(hardware for hardware, _ in {(row["hardware_id"], row["model_id"]) for row in rows})
    ranked = sorted(counts, key=lambda name: (-counts[name], name))
    others = [name for name in ranked if name not in besides][:_SHARING]
    return [
        Sibling(id=name, name=spec.name if (spec := hardware.find(name)) else None, alike="models") for name in others
    ]


def _beside(
    spec: HardwareSpec | None,
    sibling: Sibling,
    mine: Mapping[Work, float],
    models: set[str],
    rows: Sequence[MeasuredWork],
) -> ComparedSibling:
    times = _times(rows)
    speeds = [mine[work] / times[work] for work in mine.keys() & times.keys()]
    ratios = _ratios(spec, hardware.find(sibling.id))
    return ComparedSibling(
        id=sibling.id,
        name=sibling.name,
        alike=sibling.alike,
        peak_ratio=ratios.peak,
        peak_precision=ratios.precision,
        bandwidth_ratio=ratios.bandwidth,
        measured_models=len({row["model_id"] for row in rows}),
        shared_models=len(models & {row["model_id"] for row in rows}),
        shared_configurations=len(speeds),
        speed_ratio=median(speeds) if speeds else None,
    )


def _times(rows: Iterable[MeasuredWork]) -> dict[Work, float]:
    """Return the shortest time of each piece of work, in ms."""
    matches: dict[Work, float] = {}
    for row in rows:
        time = _time(row)
        if time:
            work = tuple(row[part] for part in _WORK)
            matches[work] = min(time, matches.get(work, time))
    return matches


def _ratios(spec: HardwareSpec | None, other: HardwareSpec | None) -> Ratios:
    if spec is None or other is None:
        return Ratios()
    shared = next((item for item in _COMPARED if item in spec.peak_flops and item in other.peak_flops), None)
    peak = other.peak_flops[shared].value / spec.peak_flops[shared].value if shared else None
    mine, its = spec.memory_bandwidth_bytes_per_s, other.memory_bandwidth_bytes_per_s
    bandwidth = its.value / mine.value if mine is not None and its is not None else None
    return Ratios(peak=peak, precision=shared, bandwidth=bandwidth)


router = Router("/", route_handlers=[coverage], dependencies=DEPENDENCIES, tags=["tables"])
