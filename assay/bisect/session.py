"""A search over versions that measures, keeps every figure on disk at once, and goes on where it was interrupted."""

from __future__ import annotations

import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec

from assay.bisect.measuring import Measure, Unmeasurable, measured
from assay.bisect.versions import Unbuildable, Version, Versions
from assay.staging import Staged
from domain.errors import ServiceUnavailable, UsageError
from domain.history.bisection import Bisection, BisectionLimits, Outcome, Side, VersionLevel
from domain.operating_system import lock, unlock

__all__ = ["BisectionReport", "BisectionSession", "MeasuredVersion", "Progress", "Question", "Record"]

FORMAT = 1
_OWN = frozenset({"lock", "logs", "state.json", "environments", "worktrees"})
"""What a search keeps in its folder."""


class Question(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is searched for: a state of another question is not gone on with."""

    command: str
    good: str
    bad: str
    measure: Measure
    limits: BisectionLimits
    package: str | None = None
    build: str | None = None
    requirements: list[str] = []
    pip_arguments: str = ""
    overlay: bool = False
    first_parent: bool = True


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One run: the version's place in the sequence, its figure or why there is none, and how long all of it took."""

    index: int
    value: float | None = None
    reason: str | None = None
    seconds: float = 0.0


class _State(msgspec.Struct, kw_only=True):
    assay_bisect: int
    question: Question
    versions: list[str]
    records: list[Record] = []


class MeasuredVersion(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of one version: its side, its runs, their median with its 95 % interval, or why it was skipped."""

    name: str
    side: Side
    values: list[float]
    title: str | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


class BisectionReport(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a search.

    `change` is the first bad version over the one before it less one, `low` to `high` its 95 % interval; a difference
    where it is not `relative`. `whole` is that of the bad end over the good one. `measure` is a column of the events, or what else was taken of each run. `suspects` has several versions where those between could not be measured.
    `records` are all runs in their order, by the place of their version among the `candidates`.
    """

    outcome: Outcome
    good: str
    bad: str
    first_bad: str | None
    title: str | None
    before: str | None
    merge: bool
    suspects: list[str]
    change: float | None
    low: float | None
    high: float | None
    whole: float | None
    relative: bool
    measure: str
    unit: str
    better: str
    versions: list[MeasuredVersion]
    candidates: int
    measured: int
    skipped: int
    runs: int
    seconds: float
    records: list[Record]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What is going on: the version that runs, how many are left in the range, and about how many runs are left."""

    version: Version
    low: Version
    high: Version
    candidates: int
    runs: int
    left: int
    settled: VersionLevel | None = None
    reason: str | None = None


class BisectionSession:
    """One search, whose state and logs are in `folder`. Two searches in one folder are refused."""

    def __init__(
        self,
        question: Question,
        versions: Versions,
        folder: Path,
        *,
        timeout_s: float | None = None,
        restart: bool = False,
    ) -> None:
        self.question = question
        self.versions = versions
        self.folder = folder
        self._timeout_s = timeout_s
        self._restart = restart
        self._last = len(versions.versions) - 1
        self._bisection = Bisection(len(versions.versions), better=question.measure.better, limits=question.limits)
        self._state = self._new_state()
        self.resumed = 0

    @property
    def state_file(self) -> Path:
        """Where every figure is kept."""
        return self.folder / "state.json"

    @property
    def logs(self) -> Path:
        """Where the output of every run is kept."""
        return self.folder / "logs"

    def run(self, on_progress: Callable[[Progress], None], on_start: Callable[[int], None]) -> BisectionReport:
        """Search until there is an answer; interrupted, it goes on from the same place the next time."""
        self._require_own_folder()
        with self._alone(), _ended_by_signals():
            self.versions.remove_stale()
            self._load()
            on_start(self.resumed)
            self.logs.mkdir(exist_ok=True)
            try:
                while (index := self._bisection.next()) is not None:
                    self._measure(index, on_progress)
            finally:
                self.versions.close()
            self.versions.retain(set())
        return self.report()

    def _require_own_folder(self) -> None:
        """Make the folder; UsageError where it holds files of somebody else, which a search might replace."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise UsageError(f"{self.folder} is no folder.", field="state", remedy="Name another.") from error
        names = {entry.name for entry in self.folder.iterdir()}
        if names and ("lock" not in names or names - _OWN):
            raise UsageError(
                f"{self.folder} holds files that no search made.",
                field="state",
                remedy="Name an empty or a new folder.",
            )

    def report(self) -> BisectionReport:
        """Return what is known."""
        bisection, names = self._bisection, self.versions.versions
        outcome = bisection.outcome
        assert outcome is not None
        located = outcome in ("found", "range", "unconfirmed")
        low, high = bisection.bounds
        first = names[high] if located and high - low == 1 else None
        change, change_low, change_high = bisection.step or (None, None, None)
        reasons = {record.index: record.reason for record in self._state.records if record.reason}
        levels = [
            _measured_version(names[level.index], level, reasons.get(level.index)) for level in bisection.levels()
        ]
        measure = self.question.measure
        return BisectionReport(
            outcome=outcome,
            good=names[0].name,
            bad=names[-1].name,
            first_bad=first.name if first else None,
            title=first.title if first else None,
            before=names[low].name if located else None,
            merge=first.merge if first else False,
            suspects=[names[index].name for index in bisection.suspects] if located else [],
            change=change,
            low=change_low,
            high=change_high,
            whole=bisection.whole,
            relative=bisection.relative,
            measure=measure.column or measure.kind,
            unit=measure.unit,
            better=measure.better,
            versions=levels,
            candidates=len(names),
            measured=sum(level.side != "skipped" for level in levels),
            skipped=sum(level.side == "skipped" for level in levels),
            runs=bisection.runs,
            seconds=round(sum(record.seconds for record in self._state.records), 3),
            records=self._state.records,
        )

    def _measure(self, index: int, on_progress: Callable[[Progress], None]) -> None:
        """Run one version once and keep what came of it before anything else happens."""
        version = self.versions.versions[index]
        log = self.logs / f"{len(self._state.records) + 1:04d}-{version.short}"
        for suffix in ("build", "out", "err", "ndjson"):
            # A run that was interrupted may have left a part of its output.
            log.with_name(f"{log.name}.{suffix}").unlink(missing_ok=True)
        on_progress(self._progress(version))
        self.versions.retain({0, self._last, index, *self._bisection.bounds})
        started = time.perf_counter()
        value, reason = None, None
        try:
            prepared = self.versions.prepare(index, log.with_name(f"{log.name}.build"))
            value = measured(self.question.command, self.question.measure, prepared, log, timeout_s=self._timeout_s)
        except (Unbuildable, Unmeasurable) as error:
            reason = str(error)
            if index in (0, self._last):
                raise self._unmeasurable_end(index, reason) from error
        seconds = round(time.perf_counter() - started, 3)
        before = self._sides()
        self._bisection.record(index, value)
        self._state.records.append(Record(index=index, value=value, reason=reason, seconds=seconds))
        self._save()
        changed = next((level for level in self._bisection.levels() if before.get(level.index) != level.side), None)
        if changed is not None and changed.side != "undecided" and changed.index not in (0, self._last):
            on_progress(self._progress(self.versions.versions[changed.index], changed, reason))

    def _sides(self) -> dict[int, Side]:
        return {level.index: level.side for level in self._bisection.levels()}

    def _unmeasurable_end(self, index: int, reason: str) -> UsageError:
        field = "good" if index == 0 else "bad"
        end = "\n" if "\n" in reason else "."
        return UsageError(
            f"{self.versions.versions[index].short} cannot be measured: {reason}{end}",
            field=field,
            remedy=f"Mend the command or name another version; all output is in {self.logs}.",
        )

    def _progress(self, version: Version, settled: VersionLevel | None = None, reason: str | None = None) -> Progress:
        low, high = self._bisection.bounds
        names = self.versions.versions
        return Progress(
            version=version,
            low=names[low],
            high=names[high],
            candidates=high - low,
            runs=self._bisection.runs,
            left=self._bisection.left(),
            settled=settled,
            reason=reason,
        )

    def _new_state(self) -> _State:
        names = [version.name for version in self.versions.versions]
        return _State(assay_bisect=FORMAT, question=self.question, versions=names)

    def _load(self) -> None:
        """Take up the state on disk; UsageError where it is of another question."""
        if self._restart or not self.state_file.exists():
            self._start_anew()
            return
        again = "Add --restart to forget it, or name another folder with --state."
        try:
            state = msgspec.json.decode(self.state_file.read_bytes(), type=_State)
        except msgspec.DecodeError as error:
            raise UsageError(f"{self.state_file} cannot be read: {error}.", field="state", remedy=again) from error
        differences = _differences(state.question, self.question)
        if state.versions != self._state.versions and not differences:
            differences = ["the versions between"]
        if differences or state.assay_bisect != FORMAT:
            raise UsageError(
                f"{self.folder} has the state of another search; it differs in {', '.join(differences) or 'its format'}.",
                field="state",
                remedy=again,
            )
        for record in state.records:
            if self._bisection.next() != record.index:
                raise UsageError(
                    f"{self.state_file} was written by a version of Assay that searches otherwise.",
                    field="state",
                    remedy=again,
                )
            self._bisection.record(record.index, record.value)
        self._state = state
        self.resumed = len(state.records)

    def _start_anew(self) -> None:
        shutil.rmtree(self.logs, ignore_errors=True)
        self.state_file.unlink(missing_ok=True)

    def _save(self) -> None:
        with Staged(force=True) as staged:
            staged.file(self.state_file).write_bytes(msgspec.json.format(msgspec.json.encode(self._state), indent=1))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with (self.folder / "lock").open("ab") as holder:
            if not lock(holder.fileno()):
                raise ServiceUnavailable(
                    f"another search runs in {self.folder}.",
                    field="state",
                    remedy="Wait for it, or name another folder with --state.",
                )
            try:
                yield
            finally:
                unlock(holder.fileno())


def _measured_version(version: Version, level: VersionLevel, reason: str | None) -> MeasuredVersion:
    return MeasuredVersion(
        name=version.name,
        title=version.title,
        side=level.side,
        values=level.values,
        value=level.value,
        low=level.low,
        high=level.high,
        reason=reason,
    )


def _differences(before: Question, now: Question) -> list[str]:
    """Return the names of the members that differ, as the options are called."""
    old, new = (_flat(msgspec.to_builtins(each)) for each in (before, now))
    return sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))


def _flat(question: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a question with those of its parts, under the names of the options."""
    flat: dict[str, Any] = {}
    for name, value in question.items():
        flat |= value if isinstance(value, dict) else {name: value}
    names = {
        "command": "--run",
        "column": "--metric",
        "kind": "what is measured",
        "most": "--most-runs",
        "exact": "--check",
        "requirements": "--with",
    }
    return {names.get(name, f"--{name.replace('_', '-')}"): value for name, value in flat.items()}


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Turn SIGTERM, and the end of the terminal, into an interruption, so that a command that runs is ended and worktrees are removed."""
    if threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - what a handler is called with
        raise KeyboardInterrupt

    # What `nohup` lets a process ignore stays ignored.
    heard = [number for number in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            with suppress(TypeError):
                signal.signal(number, handler)
