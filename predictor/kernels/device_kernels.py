"""The kernels of a device: its roofs, what was measured under them, and what the model thinks of the standard kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

import msgspec
import numpy as np

from domain.answers.kernels import (
    DeviceKernels,
    KernelChoice,
    KernelEstimate,
    KernelPoint,
    KernelRoof,
    MeasuredKernel,
)
from domain.catalogues.hardware import Figure, HardwareSpec
from domain.errors import UsageError
from domain.payloads import KernelTypes
from domain.performance.achieved_roofline import Work, point_of
from domain.performance.kernel_work import direct_work
from domain.performance.roofline import Limits, activation_bytes_per_element, limits_of
from domain.performance.standard_kernels import StandardKernel
from domain.vocabulary import PRECISIONS
from ingest.projection import Tables
from predictor.artifact.artifact import Predictor
from predictor.features.devices import Devices
from predictor.kernels.columns import PRODUCT, device_columns
from predictor.kernels.estimates import ARITHMETIC, Estimates, KernelTime, estimates_of
from predictor.kernels.measured_points import placed, sampled, standard_of, thinned
from predictor.kernels.physics import Parameters, sustained
from predictor.kernels.profile import DeviceProfile

__all__ = ["KernelQuestion", "device_kernels"]

_LIMITED = 0.97
"""A rated power that sustains more of the peak than that does not limit it."""
_USUAL = {"cpu": ("fp32",)}
_USUAL_ELSEWHERE = ("fp16", "bf16", "fp32")
"""Precisions that are shown first of a device without timings, by its kind."""
_CHOICES = """
SELECT platform, precision, sum(timings)::BIGINT AS timings FROM kernel_tables
WHERE hardware_id = ? AND platform IS NOT NULL AND precision IS NOT NULL AND coalesce(hardware_count, 1) = 1
GROUP BY platform, precision ORDER BY timings DESC, platform, precision
"""


class KernelQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A hardware by its canonical id, and what is to be shown of it; unsaid, what was timed most."""

    hardware: str
    platform: str | None = None
    precision: str | None = None
    operator: str | None = None
    limit: int = 300


def device_kernels(tables: Tables, question: KernelQuestion, predictor: Predictor) -> DeviceKernels:
    """Return roofs, measured points and estimates of a device under one platform in one precision.

    Raise UsageError where the question names a precision or a platform that nothing is known of.
    """
    spec = Devices(tables).spec(question.hardware)
    timed = [KernelChoice(**row) for row in tables.select("kernel_tables", _CHOICES, [question.hardware]).to_pylist()]
    choices = [*timed, *_untimed(spec, timed)]
    chosen = _chosen(choices, question)
    if chosen is None:
        return _nothing(question, choices, tables.position, predictor.digest)
    limits = None if spec is None else limits_of(spec, chosen.precision, chosen.platform)
    rows = sampled(tables, question.hardware, chosen.platform, chosen.precision)
    shown = [row for row in rows if question.operator in (None, row["operator"])]
    places = placed(shown, chosen.precision, limits)
    made = _estimates(rows, spec, limits, chosen, predictor)
    wanted = [item for item in made.times if question.operator in (None, item.kernel.operator)] if made else []
    measured = _standard(rows, places.points)
    notes = made.notes if made else ("No estimates: the device's peak or bandwidth is not known at this precision.",)
    return DeviceKernels(
        hardware=question.hardware,
        platform=chosen.platform,
        precision=chosen.precision,
        choices=tuple(choices),
        roofs=_roofs(spec, limits, chosen, predictor, made),
        points=thinned(places.points, question.limit),
        estimates=tuple(_estimate(item, limits, chosen.precision, measured) for item in wanted if limits is not None),
        considered=chosen.timings,
        sampled=len(shown),
        placed=len(places.points),
        left_out=places.left_out,
        above_count=sum(1 for point in places.points if point.over),
        notes=notes,
        position=tables.position,
        predictor=predictor.digest,
    )


def _untimed(spec: HardwareSpec | None, timed: Sequence[KernelChoice]) -> list[KernelChoice]:
    """Return what the device could run besides, its usual precisions first."""
    if spec is None:
        return []
    existing = {(item.platform, item.precision) for item in timed}
    usual = _USUAL.get(spec.kind or "", _USUAL_ELSEWHERE)
    order = [*usual, *(name for name in PRECISIONS if name not in usual)]
    return [
        KernelChoice(platform=platform, precision=precision, timings=0)
        for platform, precisions in spec.platforms.items()
        for precision in order
        if precision in (precisions or spec.peak_flops)
        and not precision.startswith("amp")
        and (platform, precision) not in existing
        and limits_of(spec, precision, platform) is not None
    ]


def _chosen(choices: Sequence[KernelChoice], question: KernelQuestion) -> KernelChoice | None:
    for name in ("platform", "precision"):
        wanted = getattr(question, name)
        offered = list(dict.fromkeys(getattr(item, name) for item in choices))
        if wanted is not None and wanted not in offered:
            raise UsageError(
                f"{question.hardware} has no kernels and no figures under {name} {wanted!r}.",
                field=name,
                remedy=f"One of {', '.join(offered) or 'none'}.",
            )
    fitting = [
        item
        for item in choices
        if question.platform in (None, item.platform) and question.precision in (None, item.precision)
    ]
    if choices and not fitting:
        pairs = ", ".join(f"{item.platform} {item.precision}" for item in choices)
        raise UsageError(
            f"{question.hardware} has no kernels and no figures in {question.precision} under {question.platform}.",
            field="precision",
            remedy=f"One of {pairs}.",
        )
    return fitting[0] if fitting else None


def _nothing(question: KernelQuestion, choices: Sequence[KernelChoice], position: int, digest: str) -> DeviceKernels:
    return DeviceKernels(
        hardware=question.hardware,
        platform=None,
        precision=None,
        choices=tuple(choices),
        roofs=(),
        points=(),
        estimates=(),
        considered=0,
        sampled=0,
        placed=0,
        left_out={},
        above_count=0,
        notes=("No kernels were timed, and the device's figures are not known.",),
        position=position,
        predictor=digest,
    )


def _estimates(
    rows: Sequence[Mapping[str, Any]],
    spec: HardwareSpec | None,
    limits: Limits | None,
    chosen: KernelChoice,
    predictor: Predictor,
) -> Estimates | None:
    kernels = predictor.card.kernels
    if spec is None or limits is None or kernels is None:
        return None
    return estimates_of(rows, spec, limits, chosen.platform, chosen.precision, kernels, predictor.others)


def _roofs(
    spec: HardwareSpec | None,
    limits: Limits | None,
    chosen: KernelChoice,
    predictor: Predictor,
    made: Estimates | None,
) -> tuple[KernelRoof, ...]:
    """Return the roofs that are known: as specified, as sustained, and as the device's own kernels say."""
    if spec is None or limits is None:
        return ()
    peak, bandwidth = spec.peak(chosen.precision, chosen.platform), spec.memory_bandwidth_bytes_per_s
    reached, fed = spec.sustained_flops.get(chosen.precision), spec.sustained_bandwidth_bytes_per_s
    roofs = [*_roof("specified", peak, bandwidth), *_roof("sustained", reached, fed)]
    parameters = None if predictor.card.kernels is None else predictor.card.kernels.parameters.get(PRODUCT)
    share = 1.0 if parameters is None else _sustained_share(limits, chosen.precision, parameters)
    if reached is None and fed is None and share < _LIMITED:
        roofs.append(
            KernelRoof(
                source="sustained",
                flops_per_s=limits.peak_flops * share,
                bandwidth_bytes_per_s=None,
                status="derived",
            )
        )
    if made is not None and made.profile is not None and made.limiting:
        roofs.append(_own_roof(made, made.profile, chosen.precision))
    return tuple(roofs)


def _own_roof(made: Estimates, profile: DeviceProfile, precision: str) -> KernelRoof:
    """Return what the device's own kernels say of the largest product and of the longest traffic."""
    rates: dict[str, float] = {}
    for item in made.limiting:
        work = _work(item.kernel, precision)
        rates[item.kernel.id] = (work.flops if item.kernel.id == ARITHMETIC.id else work.bytes) / item.seconds
    return KernelRoof(
        source="kernels",
        flops_per_s=rates.get(ARITHMETIC.id),
        bandwidth_bytes_per_s=rates.get("traffic"),
        status="measured",
        kernels=profile.kernels,
        floor_us=profile.floor_us,
    )


def _work(kernel: StandardKernel, precision: str) -> Work:
    """Return the work of a standard kernel in numbers of one precision."""
    types = KernelTypes(weights=precision, activations=precision, arithmetic=precision)
    sizes = {name: np.float64(value) for name, value in kernel.sizes.items()}
    work = direct_work(kernel.operator, sizes, types, phase=kernel.phase)
    assert work is not None  # Each standard kernel has a count of its work.
    return Work(float(work.flops), float(work.bytes))


def _roof(source: str, peak: Figure | None, bandwidth: Figure | None) -> list[KernelRoof]:
    known = peak or bandwidth
    if known is None:
        return []
    return [
        KernelRoof(
            source=source,
            flops_per_s=None if peak is None else peak.value,
            bandwidth_bytes_per_s=None if bandwidth is None else bandwidth.value,
            status=known.status,
        )
    ]


def _sustained_share(limits: Limits, precision: str, parameters: Parameters) -> float:
    """Return the share of its peak that the rated power sustains for long, as the physics of products takes it."""
    values, width = parameters.values, activation_bytes_per_element(precision)
    each = values["power"] * (values["vector"] if width > 2 else width / 2)
    return float(sustained(device_columns([limits]), np.array([each]), values["halving"])[0])


def _standard(rows: Sequence[Mapping[str, Any]], points: Sequence[KernelPoint]) -> dict[str, list[KernelPoint]]:
    """Return the points of the standard kernels by their ids, in the order of the log."""
    places = {(point.event_id, point.row): point for point in points}
    by_id: dict[str, list[KernelPoint]] = {}
    for row in rows:
        name, point = standard_of(row), places.get((str(row["event_id"]), row["row"]))
        if name is not None and point is not None:
            by_id.setdefault(name, []).append(point)
    return by_id


def _estimate(
    item: KernelTime, limits: Limits, precision: str, measured: Mapping[str, Sequence[KernelPoint]]
) -> KernelEstimate:
    kernel = item.kernel
    work = _work(kernel, precision)
    flops, moved = work
    point = point_of(work, limits, item.seconds * 1e3)
    if item.basis == "roofline" and point.share > 1:
        item = msgspec.structs.replace(item, seconds=item.seconds * point.share)
        point = point_of(work, limits, item.seconds * 1e3)
    return KernelEstimate(
        id=kernel.id,
        operator=kernel.operator,
        name=kernel.name,
        phase=kernel.phase,
        sizes=kernel.sizes,
        launch=item.launch,
        flops=flops,
        bytes=moved,
        flop_per_byte=point.intensity,
        latency_ms=item.seconds * 1e3,
        latency_ms_low=item.low and item.low * 1e3,
        latency_ms_high=item.high and item.high * 1e3,
        flops_per_s=point.flops_per_s,
        flops_per_s_low=item.high and flops / item.high,
        flops_per_s_high=item.low and flops / item.low,
        roof_flops_per_s=point.roof_flops_per_s,
        share=point.share,
        basis=item.basis,
        measured=_measured(measured.get(kernel.id, ()), item, flops),
    )


def _measured(points: Sequence[KernelPoint], item: KernelTime, flops: float) -> MeasuredKernel | None:
    if not points:
        return None
    seconds = median(point.latency_ms for point in points) / 1e3
    newest = points[-1]
    return MeasuredKernel(
        latency_ms=seconds * 1e3,
        flops_per_s=flops / seconds,
        share=flops / seconds / newest.roof_flops_per_s,
        timings=len(points),
        basis=newest.basis,
        origin=newest.origin,
        event_id=newest.event_id,
        ratio=seconds / item.seconds,
        within=None if item.low is None or item.high is None else item.low <= seconds <= item.high,
    )
