"""A calibration under way: one child for each platform, an event for each group of kernels as soon as it is complete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import msgspec

from domain.canonical import digest
from domain.configuration import Hardware
from domain.events import HARDWARE_DESCRIBED, KERNEL_MEASURED, RUN_FINISHED, RUN_STARTED, uuid7
from domain.payloads import KernelMeasured, RunFinished, RunStarted
from domain.vocabulary import asked_name
from runner.calibration.plan import CalibrationPlan, Refused, Target, method_for, platforms_of, targets_of
from runner.calibration.timings import Measured, kernel_data
from runner.campaign.campaign import survey_machine
from runner.campaign.event_payloads import Machine, provenance, runner_source, stamped
from runner.campaign.run import OnEvent
from runner.measure.noise import noise
from runner.protocol.parent import run_task
from runner.protocol.tasks import Calibrate, Failed, KernelJob, KernelReport
from runner.spool.event_file import read_lines

__all__ = ["CalibrationProgress", "CalibrationReport", "GroupKey", "groups_in", "plan_data", "run_calibration"]

NOISE_S = 1.0
_START_S = 180.0
"""What a child may take beside measuring: importing, converting, first calls."""
_TIMES_THE_BUDGET = 6.0
_MOST_CHILDREN = 6
"""A platform whose child dies so often is given up."""
GroupKey = str


class CalibrationProgress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a calibration stands: kernels done of all, the last of them with its time or why it has none, and s left."""

    done: int
    total: int
    platform: str | None = None
    precision: str | None = None
    kernel: str | None = None
    latency_ms: float | None = None
    failure: Failed | None = None
    left_s: float | None = None


class CalibrationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a calibration. `skipped` counts kernels that were measured before; `refused` names the others."""

    run_id: str
    measured: int = 0
    skipped: int = 0
    refused: list[Refused] = []

    @property
    def exit_code(self) -> int:
        """0 where each kernel was measured, or cannot be here; 1 where one failed."""
        return 1 if any(each.why.outcome not in ("unsupported", "skipped") for each in self.refused) else 0


def plan_data(plan: CalibrationPlan) -> dict[str, Any]:
    """Return what was asked for as the event of the run has it, and as it is read from JSON."""
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(plan))
    return {name: value for name, value in plain.items() if value not in (None, [])}


def group_key(platform: str, precision: str, group: Sequence[str | None], device: str | None) -> GroupKey:
    """Return the name of a group of kernels by what was asked for."""
    return digest([platform, precision, list(group), device])


def groups_in(path: Path) -> set[GroupKey]:
    """Return the groups of kernels that a file of events holds."""
    keys: set[GroupKey] = set()
    for line in read_lines(path, whole_only=True):
        event = msgspec.json.decode(line)
        requested = ((event["data"].get("observed") or {}).get("requested") or {}) if _of_ours(event) else None
        if requested is None:
            continue
        data = event["data"]
        runtime = (data["execution"].get("runtime") or {}).get("name") or ""
        group = (data["operator"], data.get("name"), data.get("phase"))
        platform = asked_name(requested["platform"], runtime)
        keys.add(group_key(platform, requested["precision"], group, requested.get("device")))
    return keys


def _of_ours(event: dict[str, Any]) -> bool:
    return event["type"] == KERNEL_MEASURED and bool(event["data"]["provenance"]["origin"] == "measured")


def run_calibration(
    plan: CalibrationPlan,
    on_event: OnEvent,
    on_progress: Callable[[CalibrationProgress], None] | None = None,
    *,
    done: Collection[GroupKey] = (),
) -> CalibrationReport:
    """Measure the plan's kernels and tell each event, in order, through `on_event`.

    Groups whose key is in `done` are skipped. Before any event it raises PlatformUnavailable where nothing of the plan can
    be measured here. An interrupt ends the child, leaves out the group that was not complete, records the run as
    interrupted, and is raised again.
    """
    machine, _ = survey_machine(platforms_of(plan))
    targets, refused = targets_of(plan, machine)
    return _Calibration(plan, machine, targets, refused, on_event, on_progress or (lambda _: None)).run(done)


class _Calibration:
    def __init__(
        self,
        plan: CalibrationPlan,
        machine: Machine,
        targets: list[Target],
        refused: list[Refused],
        on_event: OnEvent,
        on_progress: Callable[[CalibrationProgress], None],
    ) -> None:
        self._plan, self._machine, self._targets, self._refused = plan, machine, targets, refused
        self._on_event, self._on_progress = on_event, on_progress
        self._run_id, self._source = uuid7(), runner_source(machine.environment)
        self._total = sum(len(target.jobs) for target in targets)
        self._measured = self._failed = self._skipped = 0
        self._began = monotonic()
        self._broken = False

    def run(self, done: Collection[GroupKey]) -> CalibrationReport:
        self._start()
        outcome = "interrupted"
        try:
            for target in self._targets:
                self._calibrate(target, done)
            outcome = "completed"
        finally:
            if not self._broken:
                ended = RunFinished(run_id=self._run_id, outcome=outcome, failed=self._failed)
                self._tell(RUN_FINISHED, ended, self._run_id)
        return CalibrationReport(
            run_id=self._run_id, measured=self._measured, skipped=self._skipped, refused=self._refused
        )

    def _start(self) -> None:
        machine = self._machine
        started = RunStarted(
            run_id=self._run_id,
            kind="calibrate",
            hardware=[msgspec.convert(item["hardware"], Hardware) for item in machine.hardware],
            environment=msgspec.structs.replace(machine.reference(), noise=noise(NOISE_S)),
            plan=plan_data(self._plan),
            planned=self._total,
            provenance=provenance(),
        )
        self._tell(RUN_STARTED, started, self._run_id)
        for item in machine.hardware:
            self._tell(HARDWARE_DESCRIBED, item, item["hardware"]["id"])

    def _tell(self, type_: str, data: Any, subject: str) -> None:
        try:
            self._on_event(stamped(type_, data, self._source, subject))
        except BaseException:
            self._broken = True
            raise

    def _calibrate(self, target: Target, done: Collection[GroupKey]) -> None:
        """Measure a platform; where a kernel ends the child, another child goes on behind it."""
        jobs = [job for job in target.jobs if self._key(target, job) not in done]
        self._skipped += len(target.jobs) - len(jobs)
        method = method_for(self._plan, len(target.jobs))
        timeout_s = _START_S + _TIMES_THE_BUDGET * self._plan.budget_s
        memory = target.spec.memory_bytes if target.spec is not None and target.hardware.kind != "cpu" else None
        group = _Group(target, self)
        for child in range(_MOST_CHILDREN):
            if not jobs:
                break
            deadline = monotonic() + timeout_s
            task = Calibrate(
                platform=target.platform,
                jobs=jobs,
                method=method,
                device=self._plan.device,
                threads=self._plan.threads,
                kind=target.hardware.kind,
                memory_bytes=None if memory is None else memory.value,
            )
            left = list(jobs)
            ended = run_task(
                task,
                timeout_s=timeout_s,
                on_partial=lambda report, left=left: group.take(left.pop(0), report),  # type: ignore[misc]
            )
            jobs = left
            if ended.failure is None:
                break
            if "run" not in ended.stages:
                # A child that did not reach its first kernel will not reach it the next time.
                self._give_up(target, len(jobs), ended.failure)
                break
            count = len(jobs) if monotonic() >= deadline or child == _MOST_CHILDREN - 1 else 1
            for job in jobs[:count]:
                group.take(job, KernelReport(failure=ended.failure))
            jobs = jobs[count:]
        group.end()

    def _give_up(self, target: Target, jobs: int, why: Failed) -> None:
        """Count all kernels of a platform that cannot be used after all."""
        self._failed += jobs
        self._refused.append(Refused(platform=target.platform, why=why))
        self._show(target, None, None, why)

    def _key(self, target: Target, job: KernelJob) -> GroupKey:
        return group_key(target.platform, job.precision, job.kernel.group, self._plan.device)

    def record(self, target: Target, measured: Sequence[Measured]) -> None:
        """Tell a group that is complete: one event for each precision that did the work."""
        observed: dict[str, list[Measured]] = {}
        for job, report in measured:
            observed.setdefault((report.observed or {})["precision"], []).append((job, report))
        for part in observed.values():
            data: KernelMeasured = kernel_data(part, target, self._plan, self._machine, self._run_id)
            self._tell(KERNEL_MEASURED, data, data.hardware.id)

    def count(self, target: Target, job: KernelJob, report: KernelReport) -> None:
        """Count a kernel and show it."""
        latency = None
        if report.failure is not None:
            self._failed += 1
            self._refused.append(
                Refused(platform=target.platform, precision=job.precision, kernel=job.kernel.name, why=report.failure)
            )
        else:
            self._measured += 1
            samples = sorted((report.series or {})["samples_ms"])
            latency = samples[len(samples) // 2]
        self._show(target, job, latency, report.failure)

    def _show(self, target: Target, job: KernelJob | None, latency_ms: float | None, failure: Failed | None) -> None:
        ran = self._measured + self._failed
        done = ran + self._skipped
        self._on_progress(
            CalibrationProgress(
                done=done,
                total=self._total,
                platform=target.platform,
                precision=None if job is None else job.precision,
                kernel=None if job is None else job.kernel.name,
                latency_ms=latency_ms,
                failure=failure,
                left_s=(monotonic() - self._began) / ran * (self._total - done),
            )
        )


class _Group:
    """Collects the kernels of one group in one precision until a kernel of another comes."""

    def __init__(self, target: Target, calibration: _Calibration) -> None:
        self._target, self._calibration = target, calibration
        self._key: Any = None
        self._measured: list[Measured] = []

    def take(self, job: KernelJob, report: KernelReport) -> None:
        key = (job.precision, job.kernel.group)
        if key != self._key:
            self.end()
        self._key = key
        if report.failure is None:
            self._measured.append((job, report))
        self._calibration.count(self._target, job, report)

    def end(self) -> None:
        measured, self._measured = self._measured, []
        if measured:
            self._calibration.record(self._target, measured)
