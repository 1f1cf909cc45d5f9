"""A plan under way: the machine surveyed, the models prepared, and each case run in children of its own."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from assay.home import data_folder
from domain.canonical import digest
from domain.configuration import Workload
from domain.errors import (
    AssayError,
    PartMissing,
    PlatformUnavailable,
    UnsupportedPrecision,
    UnsupportedWorkload,
    UsageError,
)
from domain.operating_system import lock, unlock
from domain.vocabulary import IN_BROWSERS
from runner.campaign.event_payloads import Machine
from runner.campaign.execution import conversion_of
from runner.campaign.loading_ahead import LoadingAhead
from runner.campaign.plan import Plan
from runner.compression.folder import form_taken, quantized_already, read_variant, variant_at
from runner.machine.devices.nvidia_facts import DEVICE_LOST
from runner.measure.workloads import purpose_of
from runner.models.sources import resolve
from runner.protocol.parent import Ended, run_task
from runner.protocol.tasks import (
    Case,
    Convert,
    Evaluate,
    Failed,
    Follow,
    Measure,
    Prepare,
    Survey,
    Task,
    Verify,
    Wanted,
)

__all__ = ["DEFAULT_LIMIT_BYTES", "ArtifactStore", "Campaign", "Prepared", "default_cache", "refusal", "survey_machine"]


def refusal(machine: Machine, platform: str, precision: str, *, low_memory: bool = False) -> Failed | None:
    """Return why this platform cannot compute in this precision here, with what to do, or None where it can.

    `low_memory` asks for weights that are never in fp32, which a platform that converts models has not.
    """
    existing = machine.platforms[platform]
    probe = existing["probe"]
    if not probe["available"]:
        return _refused(
            "PlatformUnavailable",
            f"{platform} is not available here: {probe['reason'] or 'its probe said no'}",
            probe["remedy"] or "Name a platform that `assay detect` lists as available.",
        )
    if precision not in existing["precisions"]:
        return _refused(
            "UnsupportedPrecision",
            f"{platform} cannot compute in {precision} here.",
            existing["refusals"].get(precision) or f"It can in {', '.join(existing['precisions'])}.",
        )
    if low_memory and existing["converts"]:
        return _refused(
            "UnsupportedWorkload",
            f"{platform} converts models from weights in fp32, which low-memory mode never makes.",
            "Leave out --low-memory there, or take the cpu platform.",
        )
    return None


def _refused(error: str, message: str, remedy: str) -> Failed:
    return Failed(stage="resolve", outcome="unsupported", error=error, message=message, remedy=remedy)


DEFAULT_LIMIT_BYTES = 10_000_000_000


class ArtifactStore:
    """A folder of entries that together take at most `limit_bytes`; the newest stays even if it alone takes more."""

    def __init__(self, root: Path, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.root = root
        self.limit_bytes = limit_bytes

    def obtain(self, what: dict[str, Any], make: Callable[[Path], bool]) -> Path | None:
        """Return the folder for `what`, made by `make(folder)` where it is not there yet; None where that says no."""
        entry = self._entry(what)
        self.root.mkdir(parents=True, exist_ok=True)
        with self._locked(entry.name):
            if entry.is_dir():
                os.utime(entry)
                return entry
            with tempfile.TemporaryDirectory(dir=self.root, prefix="new-") as building:
                folder = Path(building) / "entry"
                folder.mkdir()
                if not make(folder):
                    return None
                folder.rename(entry)
        self._prune(keep=entry)
        return entry

    def holds(self, what: dict[str, Any]) -> bool:
        """Whether the folder for `what` is there."""
        return self._entry(what).is_dir()

    def _entry(self, what: dict[str, Any]) -> Path:
        return self.root / digest(what).removeprefix("sha256:")[:32]

    @contextmanager
    def _locked(self, key: str) -> Iterator[None]:
        with (self.root / f"{key}.lock").open("wb") as handle:
            lock(handle.fileno(), wait=True)
            try:
                yield
            finally:
                unlock(handle.fileno())

    def _prune(self, keep: Path) -> None:
        """Remove the least recently used entries; one in use stays readable to whoever has it open.

        Windows renames no folder with open files: such an entry stays, whole, until it is in use no more.
        """
        entries = [path for path in self.root.iterdir() if path.is_dir() and not path.name.startswith("new-")]
        sizes = {path: sum(file.stat().st_size for file in path.iterdir()) for path in entries}
        held = sum(sizes.values())
        for path in sorted(entries, key=lambda each: each.stat().st_mtime):
            if held <= self.limit_bytes:
                return
            if path != keep:
                with suppress(PermissionError), tempfile.TemporaryDirectory(dir=self.root, prefix="new-") as leaving:
                    path.rename(Path(leaving) / "entry")
                    held -= sizes[path]


_SURVEY_TIMEOUT_S = 180.0
_PREPARE_TIMEOUT_S = 900.0
_CONVERSION_VERSION = 3
"""Raised whenever the same model would be converted to something else."""


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A model as it was described: `error` says why it cannot be measured, `untraced` why it has no trace."""

    model: dict[str, Any]
    config: dict[str, Any] | None
    traces: list[dict[str, Any]]
    error: Failed | None = None
    untraced: str | None = None


def default_cache() -> Path:
    """Return the folder for converted models: `cache` under ASSAY_HOME or under the platform's own data folder."""
    home = os.environ.get("ASSAY_HOME")
    return (Path(home).expanduser() if home else data_folder()) / "cache"


_SURVEYED: dict[str, Any] = {"platforms": {}}
"""What this process has found out: a machine does not change under it, and looking takes seconds."""


def survey_machine(platforms: tuple[str, ...], prepare: Prepare | None = None) -> tuple[Machine, Ended | None]:
    """Return this machine and what these platforms are on it, looked at once a process; PartMissing where it fails.

    What is to be prepared is done in the same child where one is needed, and comes second; None where none was, or where
    the two together failed: alone each says better why.
    """
    missing = [name for name in platforms if name not in _SURVEYED["platforms"]]
    prepared: Ended | None = None
    if missing or "hardware" not in _SURVEYED:
        task = Survey(platforms=missing, describe="hardware" not in _SURVEYED, prepare=prepare)
        ended = run_task(task, timeout_s=_SURVEY_TIMEOUT_S + (_PREPARE_TIMEOUT_S if prepare else 0))
        if prepare and ended.failure:
            ended = run_task(msgspec.structs.replace(task, prepare=None), timeout_s=_SURVEY_TIMEOUT_S)
        if ended.failure:
            raise PartMissing(
                f"this machine could not be surveyed: {ended.failure.message}",
                remedy=ended.failure.remedy or "Run assay doctor.",
            )
        if "prepared" in ended.result:
            prepared = Ended(result=ended.result.pop("prepared"))
        _SURVEYED["platforms"].update(ended.result.pop("platforms"))
        _SURVEYED.update(ended.result)
    return msgspec.convert(_SURVEYED, Machine), prepared


class Campaign:
    """A plan with all that is known before its first case runs.

    Making one surveys the machine and prepares every model, and raises what makes the whole plan wrong: a workload
    that a model cannot take, no platform that is there, a precision that none of them has. Without `describe` models are
    resolved here and not built in a child first, which finds fewer mistakes and takes no time.
    """

    def __init__(
        self,
        plan: Plan,
        *,
        trace: bool,
        cache: Path | None = None,
        tolerate_absent: bool = False,
        describe: bool = True,
    ) -> None:
        self.plan = plan
        task = _preparation(plan.cases, trace)
        self.machine, described = survey_machine(plan.platforms, task if describe else None)
        self._store = ArtifactStore(cache or default_cache())
        self._ahead: LoadingAhead | None = None
        self._variants = {name: read_variant(folder) for name in plan.models if (folder := variant_at(name))}
        self._refuse_impossible(tolerate_absent)
        if describe:
            self.prepared, filled = _described(task, described or run_task(task, timeout_s=_PREPARE_TIMEOUT_S))
        else:
            self.prepared, filled = _resolved(plan.cases)
        kept = [case for case in plan.cases if plan.platforms_named or self._wanted(case)]
        complete = [msgspec.structs.replace(case, workload=filled[case.model, case.workload]) for case in kept]
        self.cases = tuple(dict.fromkeys(complete))

    def _refuse_impossible(self, tolerate_absent: bool) -> None:
        present = [name for name in self.plan.platforms if self.machine.available(name)]
        if not present:
            if tolerate_absent:
                return
            reasons = "; ".join(
                f"{name}: {self.machine.platforms[name]['probe']['reason']}" for name in self.plan.platforms
            )
            raise PlatformUnavailable(
                f"none of the platforms asked for is available here. {reasons}",
                field="platform",
                remedy="Name one that `assay detect` lists as available" + self._installing(reasons),
            )
        for precision in dict.fromkeys(case.precision for case in self.plan.cases):
            cases = [case for case in self.plan.cases if case.precision == precision and case.platform in present]
            # Of a variant, what one platform cannot take is an outcome of its case.
            if any(case.model in self._variants for case in cases):
                continue
            refused = {case.platform: self._refusal(case) for case in cases}
            if all(refused.values()):
                first = next(why for why in refused.values() if why)
                ways = "; ".join(f"{name}: {why.remedy}" for name, why in refused.items() if why)
                kind = UnsupportedPrecision if first.error == "UnsupportedPrecision" else UsageError
                raise kind(
                    f"no platform asked for can do this here: {first.message}",
                    field="precision" if kind is UnsupportedPrecision else "low_memory",
                    remedy=f"What is possible: {ways}",
                )

    def _installing(self, reasons: str) -> str:
        """Return what brings the platforms that are missing: what a browser's probe says, the extra of the others."""
        probes = (self.machine.platforms[name]["probe"] for name in self.plan.platforms if name in IN_BROWSERS)
        browser = next((probe["remedy"] for probe in probes if probe["remedy"]), None)
        if browser:
            return f", or: {browser.rstrip('.')}."
        return ", or pip install 'assay-bench[runner]'." if "not installed" in reasons else "."

    def _wanted(self, case: Case) -> bool:
        """Return whether a platform that nobody named takes part: it is here, has the mode and takes the variant."""
        here = self.machine.platforms[case.platform]
        variant = self._variants.get(case.model)
        if variant and not any(variant.form_for(kind) for kind in here["forms"]):
            return False
        return self.machine.available(case.platform) and not (self.plan.low_memory and here["converts"])

    def _refusal(self, case: Case) -> Failed | None:
        """Return why a case cannot run on its platform; a graph that is quantized needs nothing there that quantizes."""
        variant, precision = self._variants.get(case.model), case.precision
        if variant and self.machine.available(case.platform):
            kinds = tuple(self.machine.platforms[case.platform]["forms"])
            how = {"platform": case.platform, "precision": precision, "purpose": purpose_of(case.workload)}
            try:
                form = form_taken(variant, kinds, **how)
            except (UnsupportedWorkload, UnsupportedPrecision) as error:
                return _refused(type(error).__name__, error.detail, error.remedy or "")
            precision = "fp32" if quantized_already(form) else precision
        return refusal(self.machine, case.platform, precision, low_memory=self.plan.low_memory)

    def run(self, case: Case, *, verify: bool = False, on_stage: Callable[[str], None] | None = None) -> Ended:
        """Run one case: convert where its platform wants that and it was not done before, then measure or verify."""
        prepared = self._ready(case, on_stage)
        if isinstance(prepared, Failed):
            return Ended(failure=prepared)
        return _still_there(case, self._child(self._task(case, prepared, verify), on_stage))

    def evaluate(
        self,
        case: Case,
        examples: str,
        scores: str,
        metric: str,
        on_progress: Callable[[str, float | None], None] | None = None,
    ) -> Ended:
        """Score one case, converted as it is to be measured, on examples in a file; the scores are written to the other."""
        prepared = self._ready(case, None)
        if isinstance(prepared, Failed):
            return Ended(failure=prepared)
        task = Evaluate(case=case, examples=examples, scores=scores, metric=metric, folder=prepared)
        return _still_there(case, self._child(task, None, on_progress))

    def _ready(self, case: Case, on_stage: Callable[[str], None] | None) -> str | Failed | None:
        """Return the folder of the converted model, None where nothing is converted, or why the case cannot run."""
        prepared = self.prepared[case.model]
        if prepared.error:
            return prepared.error
        refused = self._refusal(case)
        if refused:
            return refused
        converted = self.converted(case, on_stage)
        return str(converted) if isinstance(converted, Path) else converted

    def converted(self, case: Case, on_stage: Callable[[str], None] | None = None) -> Path | Failed | None:
        """Return the folder of a case's converted model, or why it cannot be made; None where its platform converts nothing."""
        return self._converted(case, on_stage) if self.machine.platforms[case.platform]["converts"] else None

    def _task(self, case: Case, folder: str | None, verify: bool) -> Task:
        if case.nodes and case.nodes.rank:
            return Follow(case=case)
        return (
            Verify(case=case, folder=folder) if verify else Measure(case=case, method=self.plan.method, folder=folder)
        )

    @contextmanager
    def loading_ahead(self) -> Iterator[None]:
        """Have children of cases load their code two at a time while the block runs."""
        self._ahead = LoadingAhead(self.plan.timeout_s)
        try:
            yield
        finally:
            self._ahead.close()
            self._ahead = None

    def _child(
        self,
        task: Task,
        on_stage: Callable[[str], None] | None,
        on_progress: Callable[[str, float | None], None] | None = None,
    ) -> Ended:
        run = partial(
            run_task,
            task,
            timeout_s=self.plan.timeout_s,
            memory_limit_bytes=self.plan.memory_limit_bytes,
            on_stage=on_stage,
            on_progress=on_progress,
        )
        if self._ahead is None:
            return run()
        return self._ahead.run(task, self._built_after(task), lambda child: run(child=child))

    def _built_after(self, task: Task) -> Iterator[Case]:
        """Yield the cases after the task's own whose children build their models, and do not read a converted one."""
        case = getattr(task, "case", None)
        if case not in self.cases:
            return
        made = self._conversion(case)
        for each in self.cases[self.cases.index(case) + 1 :]:
            if self.prepared[each.model].error is None and self._refusal(each) is None:
                wanted = self._conversion(each)
                if wanted is None or not (wanted == made or self._store.holds(wanted)):
                    yield each

    def _conversion(self, case: Case) -> dict[str, Any] | None:
        return self._identity(case) if self.machine.platforms[case.platform]["converts"] else None

    def _converted(self, case: Case, on_stage: Callable[[str], None] | None) -> Path | Failed:
        failure: list[Failed] = []

        def make(folder: Path) -> bool:
            ended = self._child(Convert(case=case, folder=str(folder)), on_stage)
            if ended.failure:
                failure.append(ended.failure)
            return ended.failure is None

        return self._store.obtain(self._identity(case), make) or failure[0]

    def _identity(self, case: Case) -> dict[str, Any]:
        """All that determines a converted model and its reference: any change makes another entry."""
        location = Path(case.model)
        files = sorted(location.iterdir()) if location.is_dir() else []
        stamps = [[file.name, file.stat().st_size, str(file.stat().st_mtime_ns)] for file in files]
        variant = self._variants.get(case.model)
        return {
            "model": str(location.resolve()) if files else case.model,
            "variant": variant and [variant.digest, variant.examples and variant.examples.digest],
            "files": stamps,
            "config": self.prepared[case.model].config,
            **conversion_of(case),
            "platform": case.platform,
            "version": _CONVERSION_VERSION,
            "runtime": self.machine.platforms[case.platform]["runtime"],
            "libraries": self.machine.environment.get("libraries"),
        }


def _still_there(case: Case, ended: Ended) -> Ended:
    """Return how a case ended; a platform that was there at the survey and is gone now is no word on what it can do.

    The survey takes any browser: of one that a case names it says nothing.
    """
    named = any(word.startswith("browser=") for word in case.options)
    if ended.failure is None or ended.failure.error != "PlatformUnavailable" or named:
        return ended
    lost = msgspec.structs.replace(
        ended.failure,
        outcome="error",
        error="DeviceLost",
        message=f"{case.platform} was there when the run began and is gone. {ended.failure.message}",
        remedy=DEVICE_LOST,
    )
    return Ended(failure=lost, stages=ended.stages)


def _preparation(cases: Sequence[Case], trace: bool) -> Prepare:
    """Return the task that describes and traces the models of these cases, each at each of its workloads once."""
    wanted: dict[str, dict[Workload, None]] = {}
    for case in cases:
        wanted.setdefault(case.model, {})[case.workload] = None
    return Prepare(
        wanted=[Wanted(model=model, workloads=list(workloads)) for model, workloads in wanted.items()],
        weights=cases[0].weights,
        trace=trace,
        trust_remote_code=cases[0].trust_remote_code,
        allow_pickle=cases[0].allow_pickle,
    )


def _resolved(cases: Sequence[Case]) -> tuple[dict[str, Prepared], dict[tuple[str, Workload], Workload]]:
    """Return the models of cases as their configs name them, and each workload with its sizes filled in."""
    prepared: dict[str, Prepared] = {}
    filled: dict[tuple[str, Workload], Workload] = {}
    for case in cases:
        how = {"trust_remote_code": case.trust_remote_code, "allow_pickle": case.allow_pickle}
        source = resolve(case.model, case.weights, **how)
        model = {"id": source.id, "category": source.category, "family": source.family, "task": source.task}
        prepared[case.model] = Prepared(model=model, config=source.config, traces=[])
        sizes = msgspec.structs.asdict(source.defaults)
        workload = case.workload
        if any(value is not None and getattr(workload, size, value) is None for size, value in sizes.items()):
            # It imports torch, which a workload with all its sizes does not need here.
            from runner.models.inputs import workload_defaults

            workload = workload_defaults(source, workload)
        filled[case.model, case.workload] = workload
    return prepared, filled


def _described(task: Prepare, ended: Ended) -> tuple[dict[str, Prepared], dict[tuple[str, Workload], Workload]]:
    """Return the models as they were described, and every workload that was asked of one with its sizes filled in."""
    if ended.failure:
        raise PartMissing(
            f"the models could not be described: {ended.failure.message}",
            field="model",
            remedy=ended.failure.remedy or "Install the runner extra: pip install 'assay-bench[runner]'.",
        )
    prepared: dict[str, Prepared] = {}
    filled: dict[tuple[str, Workload], Workload] = {}
    for wanted, result in zip(task.wanted, ended.result, strict=True):
        prepared[wanted.model] = _prepared(wanted.model, result)
        for workload, whole in zip(wanted.workloads, result["workloads"] or wanted.workloads, strict=True):
            filled[wanted.model, workload] = msgspec.convert(whole, Workload, from_attributes=True)
    return prepared, filled


def _prepared(name: str, row: dict[str, Any]) -> Prepared:
    """Return a described model; raise where what was asked of it can never be."""
    error = row["error"]
    model = row["model"] or {"id": name.rstrip("/").rsplit("/", 1)[-1] if name.startswith(("/", ".", "~")) else name}
    if error is None:
        return Prepared(model=model, config=row["config"], traces=row["traces"])
    if not error["fatal"]:
        return Prepared(model=model, config=row["config"], traces=[], untraced=error["detail"])
    if error["usage"]:
        raise _usage(error)
    failed = Failed(
        stage="resolve",
        outcome="unsupported" if error["type"] in ("PartMissing", "UnsupportedWorkload") else "error",
        error=error["type"],
        message=error["detail"],
        remedy=error["remedy"],
    )
    return Prepared(model=model, config=row["config"], traces=[], error=failed)


def _usage(error: dict[str, Any]) -> AssayError:
    return UsageError(error["detail"], field=error["field"], remedy=error["remedy"])
