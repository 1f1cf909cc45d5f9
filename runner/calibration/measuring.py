"""Kernels measured one by one in a child process, through the contract that models run through."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import torch

from domain.configuration import Workload
from domain.errors import UnsupportedWorkload
from domain.statistics import median
from runner.calibration.disturbance import disturbed
from runner.calibration.kernels import Kernel
from runner.calibration.modules import module_of
from runner.campaign.discovery import Announcer
from runner.machine.devices.watching import Watching
from runner.machine.headroom import NotEnoughMemory, available_bytes
from runner.machine.processor import threads_allowed
from runner.measure.measuring import Series, measure, timed_ms
from runner.measure.power.meter import Unread
from runner.measure.prepared_case import alone, available
from runner.measure.workloads import Forward
from runner.platforms.base import Converted, Platform, Recipe, Settings
from runner.platforms.registry import create
from runner.protocol.tasks import Calibrate, Case, Failed, KernelJob, KernelReport, Partial

__all__ = ["TooSlow", "calibrate", "launches"]

COPIES = 4.0
"""Of a kernel's tensors there are so many at a time: torch's, the converted file's, the runtime's, and outputs."""
DEVICE_SHARE = 0.5
"""No kernel takes a greater share of a device's memory."""
CALLS = 9
"""Warming up and measuring take so many calls at the least."""
LONGEST_S, LONGEST_BUDGETS = 8.0, 20.0
"""A kernel whose calls take longer than this, and so many times the budget of one, is left out."""
_GRAPHS = ("cuda-graphs",)
_QUANTIZED = frozenset({"int8", "int4", "fp8"})
Failing = Callable[[Exception, str], Failed]


class TooSlow(UnsupportedWorkload):
    """One call takes so long that the kernel would use up the time of the others."""


def calibrate(task: Calibrate, speaker: Announcer, failing: Failing) -> None:
    """Measure each job in order and say what came of it; `failing` tells what an exception means."""
    speaker.reach("resolve")
    first = task.jobs[0]
    case = Case(
        model="kernel",
        platform=task.platform,
        precision=first.precision,
        workload=Workload(mode="inference"),
        device=task.device,
    )
    lock = alone(available(case), task.device)
    torch.set_num_threads(task.threads or threads_allowed())
    with tempfile.TemporaryDirectory(prefix="assay-kernels-") as folder:
        store = _Converter(Path(folder))
        speaker.reach("run")
        for job in task.jobs:
            try:
                report = _measured(job, task, store)
            except Exception as error:
                report = KernelReport(failure=failing(error, "run"))
            speaker.say(Partial(result=report))
    del lock


class _Converter:
    """Converts kernels into a folder; precisions that run the same graph share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def converted(self, platform: Platform, job: KernelJob, module: Any, inputs: dict[str, Any]) -> Converted:
        """Return a kernel in the platform's own form."""
        stored = job.precision if job.precision in _QUANTIZED else "fp32"
        folder = self._folder / f"{job.kernel.name}-{stored}"
        if not folder.exists():
            building = folder.with_suffix(".part")
            building.mkdir(exist_ok=True)
            platform.convert(module, inputs, building, Recipe(precision=stored))
            building.rename(folder)
        return Converted(folder=folder)


def launches(platform: type[Platform], precision: str) -> list[tuple[str, ...]]:
    """Return the options of each way in which a platform launches a kernel, the one to try first at the beginning.

    A captured graph leaves the host's launch out of the time; what cannot be captured is launched call by call, as
    everything is where the platform has no graphs.
    """
    graphs = _GRAPHS[0] in platform.known_options and precision not in _QUANTIZED
    return [_GRAPHS, ()] if graphs else [()]


def _measured(job: KernelJob, task: Calibrate, store: _Converter) -> KernelReport:
    """Measure one kernel in the first way that the platform can launch it."""
    _require_memory(job.kernel, task)
    *others, last = launches(type(create(task.platform)), job.precision)
    for options in others:
        try:
            return _launched(job, task, store, options)
        except TooSlow:
            raise
        except UnsupportedWorkload:
            continue
    return _launched(job, task, store, last)


def _launched(job: KernelJob, task: Calibrate, store: _Converter, options: tuple[str, ...]) -> KernelReport:
    platform = create(task.platform)
    platform.check("inference", job.precision)
    module, inputs = module_of(job.kernel)
    model = store.converted(platform, job, module, inputs) if platform.converts else module
    settings = Settings(
        precision=job.precision,
        threads=task.threads or threads_allowed(),
        device=task.device,
        options=options,
        narrow_edges=platform.converts,
    )
    watching = _watching(platform, task)
    try:
        platform.load(model, settings)
        platform.compile()
        placed = platform.place(inputs)
        work = Forward(platform, placed)
        timed_ms(work, platform.synchronize)
        _require_quick(job.kernel, timed_ms(work, platform.synchronize), task)
        series = _series(work, platform, task, watching)
        if disturbed(series.samples_ms, series.conditions, task.kind):
            # What disturbs a machine comes and goes: the quieter of two series counts.
            again = _series(work, platform, task, _watching(platform, task))
            series = min(series, again, key=lambda each: median(each.samples_ms))
        observation = platform.observe(placed)
        return KernelReport(
            series=msgspec.to_builtins(series),
            observed=msgspec.to_builtins(observation),
            options=platform.options(),
            launch="graph" if options else "eager",
        )
    finally:
        platform.close()


def _watching(platform: Platform, task: Calibrate) -> Watching:
    """Return a look at the device, which is as it is now before anything is measured."""
    watcher = platform.watcher(task.device)
    if watcher is None or isinstance(watcher, Unread):
        return Watching(watcher)
    return Watching(watcher, before=watcher.state())


def _series(work: Forward, platform: Platform, task: Calibrate, watching: Watching) -> Series:
    """Measure the calls, with what the device's own clock says of them where the device was watched and has a clock."""
    series = measure(work, platform.synchronize, task.method, watching=watching)
    device, times = series.conditions.device, work.parts(len(series.samples_ms)).get("device_time_ms")
    if device is None or not times:
        return series
    ratio = median([call[0] for call in times]) / median(series.samples_ms)
    conditions = msgspec.structs.replace(series.conditions, device=msgspec.structs.replace(device, time_ratio=ratio))
    return msgspec.structs.replace(series, conditions=conditions)


def _require_memory(kernel: Kernel, task: Calibrate) -> None:
    """Raise NotEnoughMemory for a kernel that the machine or its device has no room for."""
    tensors = kernel.work().bytes
    free = available_bytes()
    if COPIES * tensors > free:
        raise NotEnoughMemory(
            f"the kernel {kernel.name} takes {COPIES * tensors / 1e9:.2g} GB on the way and {free / 1e9:.2g} GB are free.",
            field="kernels",
            remedy="End other programs, or leave it out with --kernels.",
        )
    if task.memory_bytes is not None and tensors > DEVICE_SHARE * task.memory_bytes:
        raise NotEnoughMemory(
            f"the kernel {kernel.name} takes {tensors / 1e9:.2g} GB of the device's {task.memory_bytes / 1e9:.2g} GB.",
            field="kernels",
            remedy="Leave it out with --kernels.",
        )


def _require_quick(kernel: Kernel, call_ms: float, task: Calibrate) -> None:
    """Raise TooSlow for a kernel that would take many times its share of the budget."""
    limit_s = max(LONGEST_S, LONGEST_BUDGETS * task.method.budget_s)
    if CALLS * call_ms / 1e3 > limit_s:
        raise TooSlow(
            f"one call of the kernel {kernel.name} takes {call_ms / 1e3:.2g} s; {CALLS} are the fewest, in {limit_s:.2g} s.",
            field="budget",
            remedy="Give a larger --budget, or free the machine of other work.",
        )
