"""The operators of one model: what each does, and the least that its calls take on a device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, Router, get
from litestar.di import NamedDependency
from litestar.params import QueryParameter

from api.http.paging import DEPENDENCIES, At, Row, Text, rows_response
from api.reads.catalogue import model_rows
from api.reads.device import row_of
from api.routes.registry import named
from domain.catalogues import models
from domain.errors import TraceNeeded, UsageError
from domain.performance.roofline import TRAINING_PASSES, Limits, limits_of
from domain.performance.time_breakdown import breakdown
from domain.vocabulary import MODES
from ingest.projection import Tables
from predictor.features.devices import Devices
from predictor.features.shipped_traces import traces_of

__all__ = ["router"]

Name = Annotated[str, QueryParameter(min_length=1, max_length=500)]
Whole = Annotated[int, QueryParameter(ge=1, le=2**31 - 1)]
Size = Annotated[int | None, QueryParameter(ge=1, le=2**31 - 1)]
Most = Annotated[
    int, QueryParameter(ge=1, le=200, description="Operators by name; the others are one last part, `rest`.")
]
_SIZES = ("sequence_length", "image_size")
_COLUMNS = ("model_id", "mode", "phase", "workload", "sequence_length", "image_size", "event_id", "tracer", "position")


@get("/v1/operators", summary="What the time of a model's call goes into, operator by operator")
async def operators(
    request: Request[Any, Any, Any],
    at: NamedDependency[At],
    model: Name,
    hardware: Text = None,
    platform: Text = None,
    precision: Text = None,
    mode: Text = None,
    batch_size: Whole = 1,
    sequence_length: Size = None,
    image_size: Size = None,
    most: Most = 10,
) -> Response[bytes]:
    """Return the operators of one call by name with calls, FLOPs and bytes, the longest first.

    With `hardware` each has its floor there (`ms`, `share`, `bound`) and `basis` is `roofline`: no measurement covers it.
    Without one, or where the device's figures are not known (`why_not`), `basis` is `traced`: shares of FLOPs and bytes alone.
    """
    if mode not in (None, *MODES):
        raise UsageError(f"{mode!r} is no mode.", field="mode", remedy=f"One of {', '.join(MODES)}.")

    def answer(tables: Tables) -> tuple[list[Row], Row]:
        row = named(tables, model_rows(tables), model)
        traced = traces_of(tables, [row["id"]], columns=_COLUMNS)
        question = {"sequence_length": sequence_length, "image_size": image_size}
        trace = _chosen(traced, mode or MODES[0], question, row)
        device, limits, why_not = _limits(tables, hardware, platform, precision)
        # A training step that was not traced as such counts as three forward passes.
        passes = TRAINING_PASSES if mode == "training" and trace["mode"] != "training" else 1.0
        rows = msgspec.json.decode(_operators(tables, trace))
        parts = breakdown(rows, limits, batch_size=batch_size, passes=passes, most=most)
        return [msgspec.to_builtins(part) for part in parts], {
            "model": row["id"],
            "hardware": device,
            "platform": platform,
            "precision": precision,
            "mode": mode or MODES[0],
            "batch_size": batch_size,
            **{size: trace[size] for size in _SIZES},
            "phase": trace["phase"],
            "basis": "roofline" if limits else "traced",
            "why_not": why_not,
            "latency_ms": sum(part.ms or 0.0 for part in parts) if limits else None,
            "traced": [{name: item[name] for name in ("mode", "phase", *_SIZES, "event_id")} for item in traced],
            "evidence": trace["event_id"],
        }

    return await rows_response(request, at, answer, key="operators")


def _chosen(traced: Sequence[Row], mode: str, request: Row, row: Row) -> Row:
    """Return the trace of the mode at the sizes asked for, or of those the one at the category's usual size. TraceNeeded."""
    phases = ("training", "forward") if mode == "training" else ("forward", "prefill")
    usual = models.default_workload(row["category"] or "")
    fitting = [
        item
        for item in traced
        if item["phase"] in phases and all(value is None or item[size] == value for size, value in request.items())
    ]
    if not fitting:
        at = {size: value for size, value in request.items() if value is not None}
        told_sizes = "".join(f" --{size.replace('_', '-')}s {value}" for size, value in at.items())
        raise TraceNeeded(
            f"{row['id']} has no operator trace{' at these sizes' if at and traced else ''}.",
            field="model",
            remedy=f"Trace and measure it where torch is installed: assay bench {row['id']}{told_sizes}",
        )
    return min(
        fitting,
        key=lambda item: (
            phases.index(item["phase"]),
            sum(item[size] != getattr(usual, size) for size in _SIZES),
            item["position"],
        ),
    )


def _operators(tables: Tables, trace: Row) -> str:
    columns = ("event_id", "workload", "operators")
    rows = traces_of(tables, [trace["model_id"]], phase=trace["phase"], columns=columns)
    key = (trace["event_id"], trace["workload"])
    return str(next(item["operators"] for item in rows if (item["event_id"], item["workload"]) == key))


def _limits(
    tables: Tables, hardware: str | None, platform: str | None, precision: str | None
) -> tuple[str | None, Limits | None, str | None]:
    """Return the device's id and limits, or why there are none."""
    if hardware is None:
        return None, None, "no hardware was named"
    device: str = row_of(tables, hardware)["id"]
    spec = Devices(tables).spec(device)
    if spec is None:
        return device, None, "nothing is known of this hardware's peak and bandwidth"
    limits = limits_of(spec, precision or "fp32", platform or next(iter(spec.platforms), ""))
    return (
        device,
        limits,
        None if limits else "its peak or its bandwidth is not known at this precision on this platform",
    )


router = Router("/", route_handlers=[operators], dependencies=DEPENDENCIES, tags=["tables"])
