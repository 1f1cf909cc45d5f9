"""What was tried on one hardware: coverage by family, the best of each category, and how it stands to its siblings."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Annotated, Any

from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import PathParameter

from api.http.paging import DEPENDENCIES, Cursor, Page, Row, Text, rows_response
from api.reads.catalogue import model_rows
from api.reads.device import row_of, siblings
from domain.catalogues import hardware, registry
from domain.catalogues.hardware import HardwareSpec
from domain.vocabulary import CATEGORIES
from ingest.projection import Tables
from predictor.answering.facts import Devices

__all__ = ["router"]

Name = Annotated[str, PathParameter(min_length=1, max_length=500)]
_WORK = (
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
    "concurrency",
    "hardware_count",
)
"""What of two rows must be the same for their times to be compared across devices."""
_TIMES = ("latency_p50_ms", "latency_mean_ms")
_SPEEDS = (("throughput_per_s", "items/s"), ("tokens_per_s", "tokens/s"))
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

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        name = row_of(tables, hardware_id)["id"]
        matching_model_rows = [row for row in model_rows(tables) if category in (None, row["category"])]
        ran = tables.compatibility(by_hardware=True, hardware=name, platform=platform).to_pylist()
        families = registry.coverage(matching_model_rows, ran, [platform] if platform else [])
        tried = sorted((row for row in families if row["tried"]), key=lambda row: (-row["tried"], row["family"] or ""))
        kept = tried[page.offset : page.offset + page.limit]
        more = len(tried) > page.offset + page.limit
        measured = tables.measurements(hardware=name, platform=platform, best=True, columns=_BEST).to_pylist()
        return kept, {
            "hardware": name,
            "families": len({row["family"] for row in families}),
            "families_tried": len({row["family"] for row in tried}),
            "best": _best(measured, {row["id"]: row["category"] for row in matching_model_rows}),
            "siblings": _kin(tables, name, measured),
            "next_cursor": Cursor(tables.position, page.offset + page.limit, tables.history).text() if more else None,
        }

    return await rows_response(request, page.at, answer)


def _best(rows: Iterable[Row], categories: Mapping[str, str | None]) -> list[Row]:
    """Return of each category and unit the configuration with the highest rate, and how much stands beside it."""
    by_category: dict[tuple[str, str], list[tuple[float, Row]]] = defaultdict(list)
    for row in rows:
        category = categories.get(row["model_id"])
        for column, unit in _SPEEDS:
            if category is not None and row[column] and row["verdict"] != "invalid":
                by_category[category, unit].append((row[column], row))
                break
    order = {name: place for place, name in enumerate(CATEGORIES)}
    return [
        _told(category, unit, by_category[category, unit])
        for category, unit in sorted(by_category, key=lambda key: (order.get(key[0], len(order)), key))
    ]


def _told(category: str, unit: str, measured: Sequence[tuple[float, Row]]) -> Row:
    speed, row = max(measured, key=lambda item: (item[0], -item[1]["position"]))
    return {
        "category": category,
        "models": len({value["model_id"] for _, value in measured}),
        "configurations": len(measured),
        "model": row["model_id"],
        **{name: row[name] for name in ("platform", "precision", "mode", "scenario", "batch_size", "hardware_count")},
        "throughput": speed,
        "unit": unit,
        "latency_ms": _time(row),
        "latency_is_mean": row["latency_p50_ms"] is None,
        "n": row["latency_n"],
        "origin": row["origin"],
        "basis": "measured" if row["origin"] == "measured" else "imported",
        "verdict": row["verdict"],
        "run_id": row["run_id"],
        "event_id": row["event_id"],
    }


def _time(row: Row) -> float | None:
    latency_p50_ms = row["latency_p50_ms"] or row["latency_mean_ms"]
    return None if latency_p50_ms is None else float(latency_p50_ms)


def _kin(tables: Tables, name: str, own: Sequence[Row]) -> list[Row]:
    """Return the siblings with what their figures and their speeds are to this one's; above 1 the sibling is the larger."""
    spec, models, mine = Devices(tables).spec(name), {row["model_id"] for row in own}, _times(own)
    near = siblings(spec)
    near += _sharing(tables, models, {name, *(item["id"] for item in near)})
    ids = [item["id"] for item in near]
    rows = (
        tables.measurements(hardware=ids, best=True, columns=("hardware_id", *_WORK, *_TIMES)).to_pylist()
        if ids
        else []
    )
    theirs: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        theirs[row["hardware_id"]].append(row)
    return [{**item, **_beside(spec, item["id"], mine, models, theirs[item["id"]])} for item in near]


def _sharing(tables: Tables, models: set[str], besides: set[str]) -> list[Row]:
    """Return the devices with measurements of the most of these models, whatever they are like."""
    if not models:
        return []
    measurements = tables.measurements(model=sorted(models), best=True, columns=("hardware_id", "model_id"))
    counts = (
        measurements.group_by(["hardware_id", "model_id"])
        .aggregate([])
        .group_by("hardware_id")
        .aggregate([([], "count_all")])
    )
    ranked = sorted((-row["count_all"], row["hardware_id"]) for row in counts.to_pylist())
    others = [name for _, name in ranked if name not in besides][:_SHARING]
    return [
        {"id": name, "name": spec.name if (spec := hardware.find(name)) else None, "alike": "models"} for name in others
    ]


def _beside(
    spec: HardwareSpec | None, other: str, mine: Mapping[tuple[Any, ...], float], models: set[str], rows: Sequence[Row]
) -> Row:
    times = _times(rows)
    ratios = [mine[work] / times[work] for work in mine.keys() & times.keys()]
    its = hardware.find(other)
    return {
        **_ratios(spec, its),
        "measured_models": len({row["model_id"] for row in rows}),
        "shared_models": len(models & {row["model_id"] for row in rows}),
        "shared_configurations": len(ratios),
        "speed_ratio": median(ratios) if ratios else None,
    }


def _times(rows: Iterable[Row]) -> dict[tuple[Any, ...], float]:
    """Return the shortest time of each piece of work, in ms."""
    matches: dict[tuple[Any, ...], float] = {}
    for row in rows:
        time = _time(row)
        if time:
            work = tuple(row[part] for part in _WORK)
            matches[work] = min(time, matches.get(work, time))
    return matches


def _ratios(spec: HardwareSpec | None, other: HardwareSpec | None) -> Row:
    told_: Row = {"peak_ratio": None, "peak_precision": None, "bandwidth_ratio": None}
    if spec is None or other is None:
        return told_
    shared = next((item for item in _COMPARED if item in spec.peak_flops and item in other.peak_flops), None)
    if shared is not None:
        told_ |= {
            "peak_ratio": other.peak_flops[shared].value / spec.peak_flops[shared].value,
            "peak_precision": shared,
        }
    mine, its = spec.memory_bandwidth_bytes_per_s, other.memory_bandwidth_bytes_per_s
    if mine is not None and its is not None:
        told_["bandwidth_ratio"] = its.value / mine.value
    return told_


router = Router("/", route_handlers=[coverage], dependencies=DEPENDENCIES, tags=["tables"])
