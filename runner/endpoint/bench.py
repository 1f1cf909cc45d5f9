"""A run against an endpoint: each load in turn, each row posted as an event as soon as it is known.

Nothing of the machine that serves is seen. Hardware, platform, precision and runtime are what the operator states, rows
say so (`observed.device` is `stated`), and have no environment: that of the client would be taken for the server's.
"""

from __future__ import annotations

import asyncio
import statistics
from collections import Counter as Counts
from collections.abc import Collection, Iterable, Sequence
from itertools import repeat
from pathlib import Path
from time import monotonic
from typing import Any, Literal

import msgspec

from domain import spans
from domain.canonical import digest
from domain.catalogues.language_models import find as find_language
from domain.catalogues.models import find as find_model
from domain.conditions import Conditions
from domain.configuration import Execution, Hardware, Model, Parallelism, Workload
from domain.events import MEASUREMENT_FAILED, MEASUREMENT_RECORDED, RUN_FINISHED, RUN_STARTED, SAMPLES_RECORDED, uuid7
from domain.measured import STATED, Failure, Metrics, Observed, Requested, SamplesReference, Validity, Verdict
from domain.payloads import MeasurementFailed, MeasurementRecorded, RunContext, RunFinished, RunStarted, SamplesRecorded
from domain.statistics import median
from domain.verdicts import Circumstances, combine, judge
from runner.campaign.event_payloads import provenance, runner_source, stamped
from runner.campaign.run import OnEvent, OnProgress, Progress, RunReport
from runner.endpoint.driver import Driver, fetch
from runner.endpoint.exchange import Exchange
from runner.endpoint.faults import EndpointFault
from runner.endpoint.figures import gaps_ms, metrics_of, percentiles
from runner.endpoint.link import StampedLoop
from runner.endpoint.load import Course, closed_loop, open_loop
from runner.endpoint.plan import EndpointPlan, case_of, key_of
from runner.endpoint.prompts import Counter, Prompts, counter_of
from runner.endpoint.protocols import Call, Plain, language_call, tensors
from runner.machine.environment import environment
from runner.measure.arrivals import poisson
from runner.measure.scenarios import result_of
from runner.measure.stopping import MAXIMUM_SAMPLES
from runner.protocol.tasks import Case, Failed
from runner.spool.event_file import read_lines

__all__ = ["cases_done", "judged", "run_endpoint", "token_doubts"]

TOKENS_OFF = 0.02
RETOKENIZED_OFF = 0.10
AT_ONCE = 0.01
LATE_MS = 1.0
LATE_SHARE = 0.05
BUSY = 0.90
_FEW_TOKENS = 8
_OF_TOKENS = ("tokens_per_s", "tpot_ms")


def judged(
    course: Course,
    metrics: Sequence[str],
    asked_tokens: int | None,
    count: Counter | None,
    *,
    due: Literal["arrival", "start"] | None,
) -> Validity:
    """Return the verdict on each of the named metrics and on the row.

    `due` says from when requests are timed, see `domain.conditions`.
    """
    samples = [each.latency_ms for each in course.exchanges]
    own = judge(samples, metrics, Circumstances(stopped_by=course.stopped_by, due=due))
    all_ = combine(*_suspicions([*_failures(course), *_client(course)]))
    tokens = combine(*_suspicions(token_doubts(course.exchanges, asked_tokens, count)))
    stream = combine(*_suspicions(_at_once(course.exchanges)))
    each = {
        name: combine(
            own.metrics[name],
            all_,
            *([tokens] if name in _OF_TOKENS else []),
            *([stream] if name in ("ttft_ms", "tpot_ms") else []),
        )
        for name in metrics
    }
    whole = combine(*each.values())
    return Validity(verdict=whole.verdict, reasons=whole.reasons, metrics=each)


def _failures(course: Course) -> Iterable[str]:
    total = len(course.faults) + len(course.exchanges)
    for (error, message), times in Counts((fault.error, fault.message) for fault in course.faults).items():
        yield f"{times} of {total} requests failed ({error}): {message}"


def _client(course: Course) -> Iterable[str]:
    """Say where the client may have been what was measured.

    Where the kernel stamps what comes, a client that looks late changes no time of a token; it is late with the next request.
    """
    finest = [each.latency_ms if course.stamped else each.tpot_ms or each.latency_ms for each in course.exchanges]
    between = statistics.median(finest)
    for what, late in (("looked", course.late_ms), ("sent", course.dispatch_late_ms)):
        if late is not None and late > max(LATE_MS, LATE_SHARE * between):
            yield f"this client {what} {late:.1f} ms late at the 99th percentile: it was busy, or others on this machine were"
    if course.cpu_share > BUSY:
        yield f"this client used {course.cpu_share:.0%} of a core: it may have been the limit"


def _at_once(done: Sequence[Exchange]) -> Iterable[str]:
    shares = [
        (each.tokens[-1] - each.tokens[0]) / max(each.ended - each.arrived, 1)
        for each in done
        if len(each.tokens) >= _FEW_TOKENS
    ]
    if shares and median(shares) < AT_ONCE:
        yield "all tokens of an answer come at once: something on the way collects the stream, and times of tokens are its own"


def token_doubts(done: Sequence[Exchange], wanted_value: int | None, count: Counter | None) -> Iterable[str]:
    """Say where the server's count of output tokens cannot be true, or is not what was seen to come.

    A tokenizer decides where one was given and the texts were kept: servers may put several tokens into one event.
    """
    matching_done = [each for each in done if each.output_tokens is not None and each.tokens]
    if not matching_done:
        if any(each.tokens for each in done):
            yield "the server does not say how many tokens it made: each event of the stream was counted as one"
        return
    said = statistics.fmean(each.output_tokens or 0 for each in matching_done)
    if wanted_value is not None and any((each.output_tokens or 0) > wanted_value for each in matching_done):
        yield f"the server says it made more tokens than the {wanted_value} that it was allowed"
    if count is not None and all(each.text is not None for each in matching_done):
        fmean = statistics.fmean(count("".join(each.text or [])) for each in matching_done)
        if abs(fmean - said) > RETOKENIZED_OFF * max(said, 1):
            yield f"the server says {said:.4g} tokens an answer, and by the tokenizer its text has {fmean:.4g}"
        return
    seen = statistics.fmean(len(each.tokens) for each in matching_done)
    if abs(seen - said) > TOKENS_OFF * max(said, 1):
        yield f"the server says {said:.4g} tokens an answer, and {seen:.4g} events with text came"


def _suspicions(reasons: Iterable[str]) -> list[Verdict]:
    return [Verdict(verdict="suspect", reasons=[reason]) for reason in reasons]


_MOST_PARTS = 6_000
_INTERRUPTED = Failed(
    stage="run",
    outcome="error",
    error="Interrupted",
    message="the run was interrupted and its connections were closed.",
    remedy="Run it again with --resume: what is done is not repeated.",
)


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one load: the course, and what was found out before it."""

    course: Course
    extras: tuple[str, ...]
    exact: bool


def run_endpoint(
    plan: EndpointPlan,
    on_event: OnEvent,
    on_progress: OnProgress | None = None,
    *,
    done: Collection[str] = (),
    context: RunContext | None = None,
) -> RunReport:
    """Measure every load and tell each event, in order, through `on_event`; an error that it raises ends the run.

    Loads whose `key_of` is in `done` are skipped. Raises UsageError where the plan can never work. An interrupt
    closes the connections, records the load as failed and the run as interrupted, and is raised again.
    """
    run = _Run(plan, on_event, on_progress, context)
    with spans.span("run", assay_run=run.run_id, assay_kind="bench"):
        run.start()
        outcome = "interrupted"
        try:
            for workload in plan.workloads:
                with spans.span("case", assay_run=run.run_id, assay_hardware=plan.stated.hardware):
                    run.load(workload, skip=key_of(plan, workload) in done)
            outcome = "completed"
        finally:
            run.finish(outcome)
    return run.report()


class _Run:
    """One run and its events."""

    def __init__(
        self, plan: EndpointPlan, on_event: OnEvent, on_progress: OnProgress | None, context: RunContext | None
    ) -> None:
        self.plan = plan
        self._context = context
        self.run_id = uuid7()
        self._on_event = on_event
        self._on_progress = on_progress or (lambda _: None)
        self._client = environment()
        self._source = runner_source(self._client)
        self._count = counter_of(plan.tokenizer) if plan.tokenizer else None
        self._model = _model_of(plan)
        self._hardware = Hardware(id=plan.stated.hardware, kind=plan.stated.kind, count=plan.stated.count)
        self._began = monotonic()
        self._done = self._skipped = 0
        self._failures: list[tuple[Case, Failed]] = []
        self._broken = False

    def tell(self, type_: str, data: Any, *, subject: str, id_: str | None = None) -> None:
        event = stamped(type_, data, self._source, subject, id_)
        try:
            self._on_event(event)
        except BaseException:
            self._broken = True
            raise

    def start(self) -> None:
        document = {
            "endpoint": {"api": self.plan.target.api, "loopback": self.plan.target.local, "tls": self.plan.target.tls},
            "client": {name: self._client[name] for name in ("fingerprint", "cpu", "os") if name in self._client},
            "method": msgspec.to_builtins(self.plan.stop.method),
            "seed": self.plan.seed,
        }
        data = RunStarted(
            run_id=self.run_id,
            kind="bench",
            hardware=[self._hardware],
            plan=document,
            planned=len(self.plan.workloads),
            provenance=provenance(),
            context=self._context,
        )
        self.tell(RUN_STARTED, data, subject=self.run_id)

    def load(self, workload: Workload, *, skip: bool) -> None:
        """Measure one load and tell its row."""
        case = case_of(self.plan, workload)
        if skip:
            self._skipped += 1
            self._show(case, outcome="skipped")
            return
        self._show(case, stage="resolve")
        stage = ["resolve"]
        try:
            with asyncio.Runner(loop_factory=StampedLoop) as runner:
                result = runner.run(self._perform(case, workload, stage))
        except EndpointFault as fault:
            self._failed(case, workload, fault.failed(stage[0]))
        except KeyboardInterrupt:
            self._failed(case, workload, _INTERRUPTED)
            raise
        else:
            self._measured(case, workload, result)

    async def _perform(self, case: Case, workload: Workload, stage: list[str]) -> _Found:
        plan = self.plan
        prompts = Prompts(workload.input_tokens or 1, plan.seed, self._count if workload.input_tokens else None)
        call = await _call_of(plan, workload)
        async with Driver(plan.target, call, prompts, plan.patience_s, keep_text=self._count is not None) as driver:
            try:
                async with asyncio.timeout(plan.stop.timeout_s):
                    await driver.probe()
            except TimeoutError:
                stage[0] = "first_run"
                raise _nothing(plan) from None
            except EndpointFault as fault:
                stage[0] = driver.stage_of(fault)
                raise
            stage[0] = "run"
            self._show(case, stage="run")
            course = await _course(plan, driver, workload)
        if not course.exchanges:
            raise course.faults[0] if course.faults else _nothing(plan)
        return _Found(course=course, extras=driver.extras, exact=prompts.exact)

    def _measured(self, case: Case, workload: Workload, result: _Found) -> None:
        course = result.course
        actual = _actual(workload, course)
        due = _due(workload)
        streams = None if due else workload.concurrency
        metrics = metrics_of(course, streams, workload.batch_size or 1, self.plan.objective)
        named = [name for name in Metrics.__struct_fields__ if getattr(metrics, name) is not None]
        samples = [round(each.latency_ms, 6) for each in course.exchanges][-MAXIMUM_SAMPLES:]
        identity, reference = uuid7(), digest(samples)
        details = self._details(workload, result)
        measured = MeasurementRecorded(
            run_id=self.run_id,
            model=self._model,
            workload=actual,
            execution=self._execution(),
            hardware=self._hardware,
            metrics=metrics,
            provenance=provenance(),
            observed=self._observed(details),
            samples=SamplesReference(digest=reference, n=len(samples)),
            validity=judged(course, named, workload.output_tokens, self._count, due=due),
            conditions=Conditions(stopped_by=course.stopped_by, due=due),
        )
        self.tell(MEASUREMENT_RECORDED, measured, subject=self._model.id, id_=identity)
        warmup = [round(each, 6) for each in course.warmup_ms]
        recorded = SamplesRecorded(
            run_id=self.run_id,
            digest=reference,
            n=len(samples),
            values=samples,
            warmup=warmup,
            parts=_parts(course.exchanges),
            measurement_id=identity,
        )
        self.tell(SAMPLES_RECORDED, recorded, subject=self._model.id)
        self._done += 1
        self._show(case, outcome=measured.validity.verdict if measured.validity else "measured")

    def _details(self, workload: Workload, result: _Found) -> dict[str, Any]:
        """Return what the row says beside its metrics: what was stated, asked and seen, and the scenario's result."""
        course, plan = result.course, self.plan
        said = [each.output_tokens for each in course.exchanges if each.output_tokens is not None]
        document: dict[str, Any] = {
            "hardware": "stated by the operator, not seen",
            "api": plan.target.api,
            "loopback": plan.target.local,
            "case": key_of(plan, workload),
            "asked": msgspec.to_builtins(workload),
            "requests": len(course.exchanges),
            "failed_requests": len(course.faults),
            "percentiles": percentiles(course.exchanges),
            "client": {
                "stamps": "kernel" if course.stamped else "client",
                "late_ms": round(course.late_ms, 3),
                "dispatch_late_ms": course.dispatch_late_ms,
                "cpu_share": round(course.cpu_share, 4),
            },
        }
        if workload.output_tokens:
            document["prompts"] = (
                "exact" if result.exact else "as the server counts them" if _counts(course) else "approximate"
            )
            document["tokens_counted_by"] = "server" if said else "events"
            document["ignores_end"] = "ignore_eos" in result.extras
        if plan.objective:
            document["objective"] = plan.objective.document()
        if plan.rule:
            document["scenario"] = result_of(
                plan.rule, [each.latency_ms for each in course.exchanges], course.elapsed_s
            )
        return document

    def _failed(self, case: Case, workload: Workload, failed: Failed) -> None:
        details = {"case": key_of(self.plan, workload), "api": self.plan.target.api}
        data = MeasurementFailed(
            run_id=self.run_id,
            model=self._model,
            workload=workload,
            execution=self._execution(),
            hardware=self._hardware,
            outcome=failed.outcome,  # type: ignore[arg-type]
            stage=failed.stage,  # type: ignore[arg-type]
            failure=Failure(error=failed.error, message=failed.message),
            provenance=provenance(),
            observed=self._observed(details),
            remedy=failed.remedy,
        )
        self._failures.append((case, failed))
        self.tell(MEASUREMENT_FAILED, data, subject=self._model.id)
        self._show(case, outcome=failed.outcome)

    def _observed(self, details: dict[str, Any]) -> Observed:
        stated = self.plan.stated
        requested = Requested(device=STATED, platform=stated.platform, precision=stated.precision)
        return Observed(device=STATED, details=details, requested=requested)

    def _execution(self) -> Execution:
        stated = self.plan.stated
        tensor = stated.tensor_parallel
        return Execution(
            platform=stated.platform,
            runtime=stated.runtime,
            precision=stated.precision,
            parallelism=Parallelism(tensor=tensor) if tensor else None,
        )

    def _show(self, case: Case, *, stage: str | None = None, outcome: str | None = None) -> None:
        ran = self._done + len(self._failures)
        done, total = ran + self._skipped, len(self.plan.workloads)
        left_s = (monotonic() - self._began) / ran * (total - done) if ran else None
        self._on_progress(Progress(done=done, total=total, case=case, stage=stage, outcome=outcome, left_s=left_s))

    def finish(self, outcome: str) -> None:
        """Post the end of the run, unless the receiver has already failed."""
        if not self._broken:
            failed = len(self._failures)
            data = RunFinished(run_id=self.run_id, outcome=outcome, measured=self._done, failed=failed)
            self.tell(RUN_FINISHED, data, subject=self.run_id)

    def report(self) -> RunReport:
        """Return what came of it."""
        return RunReport(
            run_id=self.run_id,
            done=self._done,
            failed=len(self._failures),
            skipped=self._skipped,
            failures=self._failures,
        )


def _model_of(plan: EndpointPlan) -> Model:
    """Return the model by its canonical id, with what the catalogues know."""
    name = plan.stated.model
    model, language = find_model(name), find_language(name)
    if model is not None:
        return Model(id=model.id, category=model.category, family=model.family)
    category = "text_generation" if plan.speaks else None
    if language is not None:
        return Model(id=language.id, category=category, family=language.family)
    return Model(id=name, category=category)


async def _call_of(plan: EndpointPlan, workload: Workload) -> Call:
    if plan.body is not None:
        return Plain(plan.target.path, plan.body, plan.content_type)
    if plan.target.api == "ovms" and not workload.output_tokens:
        return await _inference(plan, workload)
    return language_call(plan.target, workload.output_tokens, streams=plan.streams)


async def _inference(plan: EndpointPlan, workload: Workload) -> Plain:
    """Return an inference over KServe's protocol, for the inputs that the server describes."""
    base = plan.target.path or f"/v2/models/{plan.target.served_as}"
    metadata = await fetch(plan.target, base, plan.patience_s)
    body = tensors(metadata, workload.batch_size or 1, workload.sequence_length)
    return Plain(f"{base}/infer", body, "application/json")


async def _course(plan: EndpointPlan, driver: Driver, workload: Workload) -> Course:
    if workload.arrival_rate_per_s is not None:
        return await open_loop(driver, poisson(workload.arrival_rate_per_s, plan.seed), plan.stop)
    streams = workload.concurrency or 1
    if workload.scenario == "offline":
        count = plan.stop.method.iterations or 1
        return await open_loop(driver, iter(repeat(0.0, count)), plan.stop, at_once=streams)
    return await closed_loop(driver, streams, plan.stop)


def _due(workload: Workload) -> Literal["arrival", "start"] | None:
    """Return from when requests are timed, where not from when each was sent."""
    if workload.scenario == "offline":
        return "start"
    return "arrival" if workload.arrival_rate_per_s is not None else None


def _nothing(plan: EndpointPlan) -> EndpointFault:
    return EndpointFault(
        "Timeout",
        f"no request was through within {plan.stop.timeout_s:g} s.",
        "Give it more time with --timeout, or ask for less.",
        outcome="timeout",
    )


def _counts(course: Course) -> bool:
    return any(each.input_tokens for each in course.exchanges)


def _actual(workload: Workload, course: Course) -> Workload:
    """Return the workload as it was: tokens are means over the requests, as counted; concurrency stays with its load."""
    if not workload.output_tokens:
        return workload
    input_tokens = [each.input_tokens for each in course.exchanges if each.input_tokens]
    made = statistics.fmean(each.counted for each in course.exchanges)
    return msgspec.structs.replace(
        workload,
        input_tokens=round(statistics.fmean(input_tokens)) if input_tokens else workload.input_tokens,
        output_tokens=max(1, round(made)) if made else workload.output_tokens,
    )


def _parts(done: list[Exchange]) -> dict[str, list[float]]:
    """Return times to the first token and between tokens, the last ones where they are more than an event holds."""
    firsts = [round(each.ttft_ms, 6) for each in done if each.ttft_ms is not None][-_MOST_PARTS:]
    gaps = [round(gap, 6) for each in done for gap in gaps_ms(each)][-_MOST_PARTS:]
    return {name: values for name, values in (("ttft_ms", firsts), ("token_ms", gaps)) if values}


def cases_done(path: Path) -> set[str]:
    """Return the loads that a file of events holds a row of (`key_of`), failures included unless they were interruptions."""
    names: set[str] = set()
    for line in read_lines(path, whole_only=True):
        event = msgspec.json.decode(line)
        data = event["data"]
        if event["type"] not in (MEASUREMENT_RECORDED, MEASUREMENT_FAILED):
            continue
        if (data.get("failure") or {}).get("error") != _INTERRUPTED.error:
            names.add((data["observed"].get("details") or {}).get("case", ""))
    return names
