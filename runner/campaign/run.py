"""One invocation of the runner as a series of events, with its progress and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

import msgspec

from domain import spans
from domain.conditions import Noise
from domain.configuration import Hardware, Model
from domain.events import HARDWARE_DESCRIBED, MODEL_DESCRIBED, MODEL_TRACED, RUN_FINISHED, RUN_STARTED, uuid7
from domain.payloads import ModelDescribed, RunContext, RunFinished, RunStarted
from runner.campaign.campaign import Campaign, Prepared
from runner.campaign.event_payloads import provenance, runner_source, stamped
from runner.protocol.parent import Ended
from runner.protocol.tasks import Case, Failed

__all__ = ["OnEvent", "OnProgress", "Progress", "Row", "Run", "RunReport"]

_INTERRUPTED = Failed(
    stage="run",
    outcome="error",
    error="Interrupted",
    message="the run was interrupted and the child was ended.",
    remedy="Run it again with --resume: what is done is not repeated.",
)
OnEvent = Callable[[dict[str, Any]], None]


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a plan stands: `done` of `total` cases, the case with its stage or outcome, seconds left at this pace.

    `fact` is the data of the event that the case ended with.
    """

    done: int
    total: int
    case: Case | None = None
    stage: str | None = None
    outcome: str | None = None
    fact: Any = None
    left_s: float | None = None


OnProgress = Callable[[Progress], None]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one case: (type, data, id) of each, one word for progress, and why it is no success."""

    events: Sequence[tuple[str, Any, str | None]]
    word: str
    failed: Failed | None = None


Act = Callable[[Case, Ended, dict[str, Any]], Row]
"""Makes a row of how a case's child ended and of its model as rows carry it."""


class RunReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a plan. `done` counts cases that succeeded; `notes` say what is missing though nothing failed."""

    run_id: str
    done: int = 0
    failed: int = 0
    skipped: int = 0
    failures: list[tuple[Case, Failed]] = []
    notes: list[str] = []

    @property
    def exit_code(self) -> int:
        """0 where every case succeeded, 1 where some did not."""
        return 1 if self.failed else 0


def _silent(_: Progress) -> None:
    """Show nothing."""


class Run:
    """One run of a campaign. `kind` is bench or verify; `context` is the state of the code that is measured."""

    def __init__(
        self,
        campaign: Campaign,
        on_event: OnEvent,
        on_progress: OnProgress | None,
        *,
        kind: str,
        context: RunContext | None = None,
    ) -> None:
        self.campaign = campaign
        self._context = context
        self.run_id = uuid7()
        self.kind = kind
        self._on_event = on_event
        self._on_progress = on_progress or _silent
        self._source = runner_source(campaign.machine.environment)
        self._described: set[str] = set()
        self._began = monotonic()
        self._done = self._failed = self._skipped = 0
        self._failures: list[tuple[Case, Failed]] = []
        self._notes: list[str] = []
        self._broken = False

    def tell(self, type_: str, data: Any, *, subject: str | None = None, id_: str | None = None) -> None:
        """Hand one event on."""
        event = stamped(type_, data, self._source, subject, id_)
        try:
            self._on_event(event)
        except BaseException:
            self._broken = True
            raise

    def start(self, noise: Noise | None = None) -> None:
        """Tell the run and the machine, and how quiet it is."""
        machine = self.campaign.machine
        self.tell(
            RUN_STARTED,
            RunStarted(
                run_id=self.run_id,
                kind=self.kind,
                hardware=[msgspec.convert(item["hardware"], Hardware) for item in machine.hardware],
                environment=msgspec.structs.replace(machine.reference(), noise=noise),
                plan={
                    "method": msgspec.to_builtins(self.campaign.plan.method),
                    **({"low_memory": True} if self.campaign.plan.low_memory else {}),
                },
                planned=len(self.campaign.cases),
                provenance=provenance(),
                context=self._context,
            ),
            subject=self.run_id,
        )
        for item in machine.hardware:
            self.tell(HARDWARE_DESCRIBED, item, subject=item["hardware"]["id"])

    @contextmanager
    def under_way(self, noise: Noise | None = None) -> Iterator[None]:
        """Tell the start of the run before the block and its end after it, interrupted where the block raises."""
        with spans.span("run", assay_run=self.run_id, assay_kind=self.kind), self.campaign.loading_ahead():
            self.start(noise)
            outcome = "interrupted"
            try:
                yield
                outcome = "completed"
            finally:
                self.finish(outcome)

    def skip(self, case: Case) -> None:
        """Pass a case that was done before."""
        self._skipped += 1
        self._show(case, outcome="skipped")

    def refuse(self, case: Case, why: Failed, act: Act) -> None:
        """Tell of a case that is not run."""
        model = self._describe(self.campaign.prepared[case.model])
        self._tell_row(case, act(case, Ended(failure=why), model), model)

    def perform(self, case: Case, act: Act, *, verify: bool = False) -> str | None:
        """Run one case, tell what came of it, and return the outcome that it failed with; None where it did not."""
        with spans.span(
            "case",
            assay_run=self.run_id,
            assay_model=spans.public_name(case.model),
            assay_platform=case.platform,
            assay_precision=case.precision,
            assay_batch__size=case.workload.batch_size,
        ) as span:
            model = self._describe(self.campaign.prepared[case.model])
            try:
                ended = self.campaign.run(case, verify=verify, on_stage=lambda stage: self._show(case, stage=stage))
            except KeyboardInterrupt:
                self._tell_row(case, act(case, Ended(failure=_INTERRUPTED), model), model)
                raise
            row = act(case, ended, model)
            self._tell_row(case, row, model)
            span.set(assay_outcome=row.word, failed=row.failed is not None)
        return row.failed.outcome if row.failed else None

    def _tell_row(self, case: Case, row: Row, model: dict[str, Any]) -> None:
        for type_, data, id_ in row.events:
            self.tell(type_, data, subject=model["id"], id_=id_)
        if row.failed:
            self._failed += 1
            self._failures.append((case, row.failed))
        else:
            self._done += 1
        self._show(case, outcome=row.word, fact=row.events[0][1] if row.events else None)

    def _describe(self, prepared: Prepared) -> dict[str, Any]:
        """Tell a model and its traces, once, and return it as rows carry it."""
        identity = prepared.model["id"]
        architecture = prepared.traces[0]["model"].get("architecture") if prepared.traces else None
        model = {**prepared.model, "architecture": architecture, "weights": None}
        if identity in self._described:
            return model
        self._described.add(identity)
        if prepared.untraced:
            self._notes.append(f"{identity} has no operator trace: {prepared.untraced}")
        if prepared.config is not None:
            described = ModelDescribed(model=msgspec.convert(model, Model), config=prepared.config)
            self.tell(MODEL_DESCRIBED, described, subject=identity)
        for trace in prepared.traces:
            self.tell(MODEL_TRACED, trace, subject=identity)
        return model

    def _show(self, case: Case, *, stage: str | None = None, outcome: str | None = None, fact: Any = None) -> None:
        done = self._done + self._failed + self._skipped
        total = len(self.campaign.cases)
        ran = self._done + self._failed
        # The pace is that of the cases that really ran.
        left_s = (monotonic() - self._began) / ran * (total - done) if ran else None
        self._on_progress(
            Progress(done=done, total=total, case=case, stage=stage, outcome=outcome, fact=fact, left_s=left_s)
        )

    def finish(self, outcome: str) -> None:
        """Post the end of the run, unless the receiver has already failed."""
        if self._broken:
            return
        tests = self._done + self._failed if self.kind == "verify" else 0
        measured = 0 if self.kind == "verify" else self._done
        data = RunFinished(run_id=self.run_id, outcome=outcome, measured=measured, failed=self._failed, tests=tests)
        self.tell(RUN_FINISHED, data, subject=self.run_id)

    def report(self) -> RunReport:
        """Return what came of it."""
        return RunReport(
            run_id=self.run_id,
            done=self._done,
            failed=self._failed,
            skipped=self._skipped,
            failures=self._failures,
            notes=[*self.campaign.plan.notes, *self._notes],
        )
