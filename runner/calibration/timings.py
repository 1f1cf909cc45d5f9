"""From what a child measured to the data of an event: medians, verdicts, and marks of what physics does not allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from domain.catalogues.hardware import HardwareSpec
from domain.conditions import Conditions
from domain.configuration import Execution, Runtime
from domain.kernels import LATENCY
from domain.payloads import (
    KernelMark,
    KernelMeasured,
    KernelMethod,
    KernelTypes,
    Observed,
    Requested,
    Validity,
)
from domain.performance.kernel_limits import Allowed, impossible
from domain.statistics import median
from domain.verdicts import judge
from runner.calibration.disturbance import REASON, disturbed
from runner.calibration.plan import CalibrationPlan, Target
from runner.campaign.event_payloads import Machine, provenance, used_hardware
from runner.machine.processor import threads_allowed
from runner.measure.measuring import circumstances_of
from runner.platforms.registry import word
from runner.protocol.tasks import KernelJob, KernelReport

__all__ = ["Measured", "kernel_data", "types_of"]

Measured = tuple[KernelJob, KernelReport]
"""A job and its report, which has a series."""


def kernel_data(
    measured: Sequence[Measured], target: Target, plan: CalibrationPlan, machine: Machine, run_id: str
) -> KernelMeasured:
    """Return the data of the event of one group in one precision: every kernel of it that was measured."""
    job, report = _heaviest(measured)
    observed = _observed(job, report, target, plan)
    precision = observed.precision or job.precision
    types = types_of(job.precision, precision)
    kernels = [each.kernel for each, _ in measured]
    series = [report.series or {} for _, report in measured]
    times = [float(f"{median(each['samples_ms']):.7g}") for each in series]
    marks = [_mark(*each, time, types, target, observed) for each, time in zip(measured, times, strict=True)]
    columns: dict[str, Any] = {name: [kernel.sizes[name] for kernel in kernels] for name in kernels[0].sizes}
    columns |= {
        "kernel": [kernel.name for kernel in kernels],
        "samples_n": [len(each["samples_ms"]) for each in series],
        "latency_min_ms": [float(f"{min(each['samples_ms']):.7g}") for each in series],
        LATENCY: times,
    }
    reasons = list(dict.fromkeys(mark for mark in marks if mark))
    names = {mark: mark[0] if mark[0] != "doubt" else f"doubt-{at}" for at, mark in enumerate(reasons, 1)}
    if reasons:
        columns["mark"] = [names[mark] if mark else None for mark in marks]
    options = {name: value for name, value in report.options.items() if name != "cuda_graphs"}
    return KernelMeasured(
        run_id=run_id,
        hardware=used_hardware(
            machine.hardware_for(observed.platform or word(target.platform), observed.device), observed
        ),
        execution=Execution(
            platform=observed.platform or word(target.platform),
            runtime=msgspec.convert(machine.platforms[target.platform]["runtime"], Runtime),
            precision=precision,
            compiled=False,
            threads=plan.threads or threads_allowed(),
            options=options or None,
        ),
        operator=kernels[0].operator,  # type: ignore[arg-type]
        timings=len(kernels),
        columns=columns,
        provenance=provenance(),
        name=kernels[0].function,
        phase=kernels[0].phase,
        types=types,
        method=KernelMethod(
            statistic="median",
            launch="graph" if all(report.launch == "graph" for _, report in measured) else "eager",
            buffers="warm",
            includes=["quantize"] if "quantization" in options else [],
            note="warmed up until steady, then measured until the median is within ±1 % or the budget is spent",
        ),
        marks={
            name: KernelMark(verdict=mark[1], reason=mark[2], timings=marks.count(mark))  # type: ignore[arg-type]
            for mark, name in names.items()
        },
        environment=machine.reference(),
        observed=observed,
        # Of timings without a mark; those with one have its verdict.
        validity=Validity(verdict="valid"),
    )


def types_of(requested: str, observed: str) -> KernelTypes:
    """Return the number types of a kernel that computed in `observed`: quantized kernels take and give wider values."""
    if observed in ("int8", "fp8"):
        wider = "fp32" if observed == "int8" else "bf16"
        return KernelTypes(published=requested, weights=observed, activations=wider, arithmetic=observed)
    stored = "fp32" if observed == "tf32" else observed
    return KernelTypes(published=requested, weights=stored, activations=stored, arithmetic=observed)


def _heaviest(measured: Sequence[Measured]) -> Measured:
    """Return the kernel that says most of what did the work: the one with the greatest share done elsewhere, or the largest."""
    return max(measured, key=lambda each: ((each[1].observed or {})["fallback_share"], each[0].kernel.work().bytes))


def _observed(job: KernelJob, report: KernelReport, target: Target, plan: CalibrationPlan) -> Observed:
    observed = report.observed or {}
    requested = Requested(device=plan.device, platform=word(target.platform), precision=job.precision)
    return Observed(
        device=observed["device"],
        platform=observed["platform"],
        precision=observed["precision"],
        fallback_share=observed["fallback_share"],
        precision_share=observed.get("precision_share"),
        requested=requested,
    )


_Mark = tuple[str, str, str]
"""Name, verdict and reason."""


def _mark(
    job: KernelJob, report: KernelReport, time_ms: float, types: KernelTypes, target: Target, observed: Observed
) -> _Mark | None:
    """Return the mark of one timing: what physics does not allow, then what its series or the machine makes doubtful."""
    series = report.series or {}
    own = msgspec.structs.replace(
        observed,
        fallback_share=(report.observed or {})["fallback_share"],
        precision=(report.observed or {})["precision"],
    )
    judged = judge(series["samples_ms"], ["latency_ms"], circumstances_of(series, own))
    found = impossible(job.kernel.work(types), time_ms / 1e3, _allowed(target.spec, types, target))
    physics: list[_Mark] = [(name, verdict, reason) for name, (verdict, reason, mask) in found.items() if bool(mask)]
    conditions = msgspec.convert(series["conditions"], Conditions)
    if disturbed(series["samples_ms"], conditions, target.hardware.kind):
        physics.append(("disturbed", "invalid", REASON))
    doubts: list[_Mark] = []
    if judged.verdict != "valid":
        doubts = [("doubt", judged.verdict, "; ".join(judged.reasons)[:4000])]
    return max([*physics, *doubts], key=lambda mark: mark[1] == "invalid", default=None)


def _allowed(spec: HardwareSpec | None, types: KernelTypes, target: Target) -> Allowed:
    if spec is None:
        return Allowed(target.hardware.id, target.hardware.kind, None, None, None)
    peak = spec.peak(types.arithmetic or "fp32", word(target.platform))
    rate, cache = spec.memory_bandwidth_bytes_per_s, spec.cache_bytes
    return Allowed(
        spec.id,
        target.hardware.kind,
        None if peak is None else peak.value,
        None if rate is None else rate.value,
        None if cache is None else cache.value,
    )
