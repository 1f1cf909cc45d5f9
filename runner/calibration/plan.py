"""What a calibration measures: platforms that are here, the precisions that the device computes in, kernels in its sizes."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from domain.catalogues.hardware import HardwareSpec
from domain.configuration import Hardware
from domain.errors import PlatformUnavailable, UsageError
from domain.vocabulary import IN_BROWSERS, PRECISIONS, precision_named
from runner.calibration.kernels import Kernel, chosen, kernels_for, quantizable, scale_of
from runner.campaign.campaign import refusal
from runner.campaign.event_payloads import Machine
from runner.measure.stopping import Method
from runner.platforms.registry import create, names, word
from runner.protocol.tasks import Failed, KernelJob

__all__ = [
    "CALIBRATED",
    "DEFAULT_BUDGET_S",
    "CalibrationPlan",
    "Refused",
    "Target",
    "make_calibration",
    "method_for",
    "platforms_of",
    "targets_of",
]

DEFAULT_BUDGET_S = 60.0
"""Seconds of measuring on one platform, all precisions together."""
_OF_A_MODEL = frozenset({"amp-bf16", "amp-fp16", "int4"})
"""Precisions that are no arithmetic of their own: a kernel of theirs is one of another precision."""
CALIBRATED = tuple(name for name in PRECISIONS if name not in _OF_A_MODEL)
"""Precisions that kernels are measured in."""
_BUDGET_S = (0.02, 1.0)
"""The least and the most seconds of steady measuring that one kernel gets."""
_OVERHEAD_S = 0.15
"""What a kernel takes beside warming up and measuring."""


class CalibrationPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for: None means every platform that is here, and every precision that its device computes in.

    `kernels` are names of kernels or operators, none means all; `budget_s` is of one platform.
    """

    platforms: tuple[str, ...] | None = None
    precisions: tuple[str, ...] | None = None
    kernels: tuple[str, ...] = ()
    device: str | None = None
    threads: int | None = None
    budget_s: float = DEFAULT_BUDGET_S


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """One platform with the device that it calls so, and its jobs in order: precision by precision, group by group."""

    platform: str
    hardware: Hardware
    spec: HardwareSpec | None
    jobs: list[KernelJob]


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """What is not measured and why: a whole platform, a precision of it, or one kernel."""

    platform: str
    precision: str | None = None
    kernel: str | None = None
    why: Failed


def make_calibration(
    platforms: Sequence[str] | None = None,
    precisions: Sequence[str] | None = None,
    kernels: Sequence[str] = (),
    *,
    device: str | None = None,
    threads: int | None = None,
    budget_s: float = DEFAULT_BUDGET_S,
) -> CalibrationPlan:
    """Return the plan, or raise UnknownPlatform or UsageError, naming the field."""
    for name in platforms or ():
        create(name)
    named = None if precisions is None else tuple(dict.fromkeys(map(precision_named, precisions)))
    for precision in named or ():
        if precision not in CALIBRATED:
            raise UsageError(
                f"kernels have no precision {precision!r}.",
                field="precision",
                remedy=f"One of {', '.join(CALIBRATED)}.",
            )
    existing = kernels_for(scale_of("cpu"))
    words = list(dict.fromkeys([*(kernel.operator for kernel in existing), *(kernel.name for kernel in existing)]))
    for name in kernels:
        if name not in words:
            raise UsageError(
                f"no kernel and no operator is called {name!r}.", field="kernels", remedy=f"Known: {', '.join(words)}."
            )
    if not budget_s > 0:
        raise UsageError(f"a budget of {budget_s:g} s.", field="budget", remedy="Give more than 0 s.")
    return CalibrationPlan(
        platforms=None if platforms is None else tuple(dict.fromkeys(platforms)),
        precisions=named,
        kernels=tuple(kernels),
        device=device,
        threads=threads,
        budget_s=budget_s,
    )


def platforms_of(plan: CalibrationPlan) -> tuple[str, ...]:
    """Return the platforms that the machine is asked for; none of them runs in a browser: kernels are timed in this process.

    Raises UsageError for one that does.
    """
    for name in plan.platforms or ():
        if name in IN_BROWSERS:
            raise UsageError(
                f"kernels are not measured in a browser, which {name} runs in.",
                field="platform",
                remedy=f"Measure whole models there: assay bench bert-tiny --platform {name}.",
            )
    return plan.platforms or tuple(name for name in names() if name not in IN_BROWSERS)


def targets_of(plan: CalibrationPlan, machine: Machine) -> tuple[list[Target], list[Refused]]:
    """Return what is measured and what is not; raises PlatformUnavailable where no platform that was named is here."""
    targets: list[Target] = []
    refused: list[Refused] = []
    # Of two runtimes that rows call one platform (torch and ONNX Runtime on cpu) that of its own name is the newest.
    for name in sorted(platforms_of(plan), key=lambda name: word(name) == name):
        if not machine.available(name):
            if plan.platforms is not None:
                why = refusal(machine, name, "fp32")
                assert why is not None
                refused.append(Refused(platform=name, why=why))
            continue
        target, left_out = _target(plan, machine, name)
        refused.extend(left_out)
        if target.jobs:
            targets.append(target)
    if not targets:
        reasons = " ".join(f"{each.platform}: {each.why.message}" for each in refused)
        raise PlatformUnavailable(
            f"nothing can be calibrated here. {reasons}".strip(),
            field="platform" if plan.precisions is None else "precision",
            remedy="Name what `assay detect` lists as available.",
        )
    return targets, refused


def _target(plan: CalibrationPlan, machine: Machine, name: str) -> tuple[Target, list[Refused]]:
    hardware = machine.hardware_for(word(name), plan.device)
    spec = machine.spec_of(hardware)
    kernels = chosen(_kernels(hardware, spec), plan.kernels)
    jobs: list[KernelJob] = []
    refused: list[Refused] = []
    for precision in plan.precisions or _native(machine.platforms[name]["precisions"], spec):
        why = refusal(machine, name, precision)
        if why is not None:
            refused.append(Refused(platform=name, precision=precision, why=why))
            continue
        jobs += [
            KernelJob(kernel=kernel, precision=precision)
            for kernel in kernels
            if precision not in ("int8", "fp8") or quantizable(kernel, name)
        ]
    return Target(platform=name, hardware=hardware, spec=spec, jobs=jobs), refused


def _kernels(hardware: Hardware, spec: HardwareSpec | None) -> list[Kernel]:
    if spec is None:
        return kernels_for(scale_of(hardware.kind))
    # What a probe reached is of one moment, and sizes stay the same from run to run: only the device's own figures count.
    figures = {
        "peak_flops": spec.peak_flops.get("fp32"),
        "bandwidth_bytes_per_s": spec.memory_bandwidth_bytes_per_s,
        "cache_bytes": spec.cache_bytes,
        "memory_bytes": spec.memory_bytes,
    }
    known = {name: figure.value for name, figure in figures.items() if figure is not None}
    return kernels_for(scale_of(hardware.kind, **known))


def _native(precisions: Sequence[str], spec: HardwareSpec | None) -> list[str]:
    """Return fp32 and what the device has units for: a precision that is widened tells nothing new of it.

    Where the figures of the device are not known, all of the platform's own arithmetic is measured.
    """
    peaks = {} if spec is None else spec.peak_flops
    plain = [name for name in precisions if name not in _OF_A_MODEL]
    return [name for name in plain if name == "fp32" or not peaks or name in peaks]


def method_for(plan: CalibrationPlan, jobs: int) -> Method:
    """Return how long each kernel of a platform is measured, so that all of them take about the budget.

    Warming up may take half as long as measuring.
    """
    share = plan.budget_s / max(jobs, 1)
    return Method(budget_s=min(max((share - _OVERHEAD_S) / 1.5, _BUDGET_S[0]), _BUDGET_S[1]))
