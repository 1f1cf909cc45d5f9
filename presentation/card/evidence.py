"""What was measured on a machine, read from events or asked of a service: calls of models, kernels, points under the roof."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from assay.client import Client
from assay.client.row_types import Measurement
from domain.answers import Sizes
from domain.catalogues.hardware import HardwareSpec, fill, find, spec_from_event
from domain.errors import AssayError, Unavailable
from domain.events import KERNEL_MEASURED, MEASUREMENT_RECORDED, MODEL_TRACED
from domain.payloads import KernelMeasured, MeasurementRecorded, ModelTraced
from domain.performance.achieved_roofline import point_of, work_of
from domain.performance.kernel_figures import KernelFigure, kernel_figures
from domain.performance.roofline import limits_of
from presentation.card.content import CardFigure

__all__ = [
    "Evidence",
    "Machine",
    "MeasuredCall",
    "MeasuredKernels",
    "events_evidence",
    "machine_of",
    "service_evidence",
]

Event = Mapping[str, Any]
_SIZES = Sizes.__struct_fields__


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """One device of a machine that a card is about, with the machine's processor and software."""

    id: str
    name: str
    kind: str
    count: int
    spec: HardwareSpec
    memory_bytes: float | None = None
    environment: dict[str, Any] = {}
    host: str | None = None


class MeasuredCall(msgspec.Struct, frozen=True, kw_only=True):
    """One measured configuration of a model: its sizes, its figure, and its place under the roof where that is known."""

    model: str
    sizes: Sizes
    figure: CardFigure
    point: tuple[float, float] | None = None


class MeasuredKernels(msgspec.Struct, frozen=True, kw_only=True):
    """The kernels of one platform in one precision."""

    platform: str
    precision: str
    kernels: list[KernelFigure]


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was measured on a device, from one source."""

    calls: list[MeasuredCall] = []
    kernels: list[MeasuredKernels] = []

    def beside(self, other: Evidence) -> Evidence:
        """Return both together; what both hold, an event that is in the log and in a file, counts once."""
        known = {call.figure.event_id for call in self.calls}
        calls = [*self.calls, *(call for call in other.calls if call.figure.event_id not in known)]
        places = {(part.platform, part.precision) for part in self.kernels}
        more = [part for part in other.kernels if (part.platform, part.precision) not in places]
        return Evidence(calls=calls, kernels=[*self.kernels, *more])


def machine_of(described: Sequence[Event], hardware: str | None = None) -> Machine | None:
    """Return the device to draw of the described ones (`assay.hardware.described.v1` data): the named one, else the first
    accelerator, else the processor; None where there is none.
    """
    by_id = {item["hardware"]["id"]: item for item in described}
    accelerators = [id_ for id_, item in by_id.items() if item["hardware"].get("kind") != "cpu" and _usable(item)]
    chosen = hardware or next(iter([*accelerators, *by_id]), None)
    data = by_id.get(chosen or "")
    if data is None:
        return None
    spec = spec_from_event(data)
    catalogued = find(spec.id)
    spec = spec if catalogued is None else fill(spec, catalogued)
    environment = dict(data.get("environment") or {})
    kind = spec.kind or "other"
    processor = next((item.get("name") for item in described if item["hardware"].get("kind") == "cpu"), None)
    system = environment.get("memory_bytes") if kind == "cpu" else None
    own = spec.memory_bytes.value if spec.memory_bytes is not None else None
    return Machine(
        id=spec.id,
        name=catalogued.name if catalogued is not None and kind != "cpu" else _spoken(spec.name),
        kind=kind,
        count=int(data["hardware"].get("count") or 1),
        spec=spec,
        memory_bytes=system or own,
        environment=environment,
        host=None
        if kind == "cpu" or not (processor or environment.get("cpu"))
        else _spoken(processor or environment["cpu"]),
    )


def _spoken(name: str) -> str:
    """Return a processor's name as people say it: `Intel Xeon` of `Intel(R) Xeon(R) Processor @ 2.10GHz`."""
    plain = re.sub(r"\((?:R|TM|C)\)", "", name)
    plain = re.sub(r"\s+(?:@|w/|with\b).*$|\b(?:CPU|Processor|\d+-Core)\b", "", plain)
    return " ".join(plain.split()) or name


def _usable(described: Event) -> bool:
    return any(probe.get("available") for probe in described.get("platforms") or ())


# From events


def events_evidence(events: Iterable[Event], machine: Machine) -> Evidence:
    """Return what events say of a device: measured inference at batch 1, and kernels."""
    calls: list[MeasuredCall] = []
    kernels: dict[tuple[str, str], dict[str, list[KernelFigure]]] = {}
    traces: dict[tuple[str, Sizes], Mapping[str, Any]] = {}
    for event in events:
        data = event["data"]
        if event["type"] == MODEL_TRACED:
            traced = msgspec.convert(data, ModelTraced)
            traces[traced.model.id, _sizes(traced.workload)] = traced.totals
        elif event["type"] == MEASUREMENT_RECORDED and data["hardware"]["id"] == machine.id:
            call = _recorded(event)
            calls += [] if call is None else [call]
        elif event["type"] == KERNEL_MEASURED and data["hardware"]["id"] == machine.id:
            timed = msgspec.convert(data, KernelMeasured)
            place = (timed.execution.platform, timed.execution.precision or "fp32")
            limits = limits_of(machine.spec, place[1], place[0])
            peak, feed = (None, None) if limits is None else (limits.peak_flops, limits.bandwidth_bytes_per_s)
            runs = kernels.setdefault(place, {})
            runs.setdefault(timed.run_id, []).extend(kernel_figures(timed, peak, feed))
    return Evidence(
        calls=[_placed(call, traces, machine.spec) for call in calls],
        kernels=[
            # The newest calibration of each platform and precision counts.
            MeasuredKernels(platform=platform, precision=precision, kernels=list(runs.values())[-1])
            for (platform, precision), runs in kernels.items()
        ],
    )


def _recorded(event: Event) -> MeasuredCall | None:
    data = msgspec.convert(event["data"], MeasurementRecorded)
    latency, workload, execution = data.metrics.latency_ms, data.workload, data.execution
    single = workload.mode == "inference" and workload.batch_size in (None, 1) and not (workload.concurrency or 0) > 1
    value = None if latency is None else latency.p50 or latency.mean
    if latency is None or value is None or not single or data.provenance.origin in ("page", "simulated"):
        return None
    low, high = (latency.ci95 or {}).get("p50") or (None, None)
    runtime, validity = execution.runtime, data.validity
    figure = CardFigure(
        basis=data.provenance.origin,
        latency_ms=value,
        latency_ms_low=low,
        latency_ms_high=high,
        latency_is_mean=latency.p50 is None,
        platform=execution.platform,
        runtime=None if runtime is None else runtime.name,
        runtime_version=None if runtime is None else runtime.version,
        precision=execution.precision,
        compiled=bool(execution.compiled),
        origin=data.provenance.origin,
        verdict=None if validity is None else validity.verdict,
        reasons=[] if validity is None else list(validity.reasons),
        n=latency.n,
        weights=data.model.weights,
        time=event.get("time"),
        event_id=event["id"],
    )
    figure = msgspec.convert(msgspec.to_builtins(figure), CardFigure)
    return MeasuredCall(model=data.model.id, sizes=_sizes(msgspec.to_builtins(workload)), figure=figure)


def _sizes(workload: Mapping[str, Any]) -> Sizes:
    return Sizes(**{name: workload[name] for name in _SIZES if workload.get(name) is not None})


def _placed(
    call: MeasuredCall, traces: Mapping[tuple[str, Sizes], Mapping[str, Any]], spec: HardwareSpec
) -> MeasuredCall:
    figure, totals = call.figure, traces.get((call.model, call.sizes))
    limits = limits_of(spec, figure.precision or "fp32", figure.platform or "")
    work = None if totals is None or limits is None else work_of(totals, limits, batch_size=1)
    if work is None or limits is None:
        return call
    point = point_of(work, limits, figure.latency_ms)
    return msgspec.structs.replace(call, point=(point.intensity, point.flops_per_s))


# From a service


def service_evidence(client: Client, machine: Machine, models: Iterable[str]) -> Evidence:
    """Return what a service has of a device: measured inference of these models at batch 1, and kernels."""
    calls = [call for model in models for call in _rows(client, machine.id, model)]
    return Evidence(calls=calls, kernels=_kernels(client, machine))


def _rows(client: Client, hardware: str, model: str) -> list[MeasuredCall]:
    try:
        rows = list(client.rows(Measurement, hardware=hardware, model=model, mode="inference", batch_size=1))
        points = client.roofline(hardware, model=model)["points"] if rows else []
    except Unavailable:
        raise
    except AssayError:
        return []
    places = {point["event_id"]: (point["flop_per_byte"], point["flops_per_s"]) for point in points}
    usable = [
        row for row in rows if row.origin not in ("page", "simulated") and (row.latency_p50_ms or row.latency_mean_ms)
    ]
    return [
        MeasuredCall(
            model=row.model_id,
            sizes=Sizes(**{name: getattr(row, name) for name in _SIZES}),
            figure=_row_figure(row),
            point=places.get(row.event_id),
        )
        for row in usable
        if not (row.concurrency or 0) > 1
    ]


def _row_figure(row: Measurement) -> CardFigure:
    return CardFigure(
        basis="measured" if row.origin == "measured" else "imported",
        latency_ms=row.latency_p50_ms or row.latency_mean_ms or 0.0,
        latency_ms_low=row.latency_p50_ci95_low_ms,
        latency_ms_high=row.latency_p50_ci95_high_ms,
        latency_is_mean=row.latency_p50_ms is None,
        platform=row.platform,
        runtime=row.runtime_name,
        runtime_version=row.runtime_version,
        precision=row.precision,
        compiled=bool(row.compiled),
        origin=row.origin,
        verdict=row.verdict,
        reasons=list(row.verdict_reasons or ()),
        n=row.latency_n,
        weights=row.weights,
        time=row.time or row.recorded_at,
        event_id=row.event_id,
    )


def _kernels(client: Client, machine: Machine) -> list[MeasuredKernels]:
    try:
        events = list(client.events(types=[KERNEL_MEASURED], subject=machine.id))
    except Unavailable:
        raise
    except AssayError:
        return []
    return events_evidence(events, machine).kernels
