"""Whether what a page measured can be believed, and the events that it becomes."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from api.background.audit import written
from api.routes.links.store import ClaimRecord, TaskRecord
from api.routes.sharing.bundles import retraction
from domain.answers.links import Array, Facts, LinkedModel, PageFailure, PageResult
from domain.canonical import digest
from domain.catalogues.hardware import find
from domain.compatibility.pages import is_software_renderer, outcome_of, web_options
from domain.configuration import Execution, Hardware, Runtime
from domain.errors import InvalidInput, ResultRefused
from domain.events import (
    MEASUREMENT_FAILED,
    MEASUREMENT_RECORDED,
    RUN_FINISHED,
    RUN_STARTED,
    SAMPLES_RECORDED,
    TEST_REPORTED,
    Decoded,
    encode_event,
    new_event,
)
from domain.measured import STATED, Failure, Outcome
from domain.payloads import (
    Environment,
    MeasurementFailed,
    MeasurementRecorded,
    Metrics,
    Observed,
    Provenance,
    Requested,
    RunFinished,
    RunStarted,
    SamplesRecorded,
    SamplesReference,
    TestReported,
    Validity,
)
from domain.permissions import PAGE_SOURCE
from domain.scrub import scrub
from domain.sharing.bundles import derived_uuid
from domain.statistics import latency_summary
from domain.verdicts import Circumstances, combine, judge

__all__ = [
    "ACCEPTED",
    "UNSTATED",
    "Acceptance",
    "Pool",
    "accepted_copies",
    "copy_id",
    "event_id",
    "failure_events",
    "page_events",
    "require_outputs",
    "require_times",
]

UNSTATED = Hardware(id="unstated-device", kind="other")
"""The hardware of a row whose person picked none."""
CLOCK_SLACK_S = 0.25
"""What the clock of a page may be ahead of the server's, beside `CLOCK_SLACK`."""
CLOCK_SLACK = 1.02
MOST_EVENT_SAMPLES = 12_000
"""What one samples event can hold."""
ACCEPTED = "accepted: "
"""Begins the reason of the retraction by which an accepted row stands as imported instead of as that of a page."""
_TYPES: dict[str, np.dtype[Any]] = {
    "float32": np.dtype("<f4"),
    "int64": np.dtype("<i8"),
    "int32": np.dtype("<i4"),
    "bool": np.dtype("u1"),
}
_ABSENT = frozenset({"NoAdapter", "NoWebGpu", "NoWebNn"})
"""Errors of the page that say nothing of a model: the browser has not the backend."""
_BROWSERS = (
    ("edge", r"Edg(?:A|iOS)?/([\d.]+)"),
    ("opera", r"OPR/([\d.]+)"),
    ("firefox", r"(?:Firefox|FxiOS)/([\d.]+)"),
)
_ENGINES = (("chromium", r"(?:Chrome|CriOS)/([\d.]+)"), ("safari", r"Version/([\d.]+).*Safari"))


class Pool:
    """Inputs and reference outputs of one model, as `assay browser link` wrote them."""

    def __init__(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as stored:
                self._arrays = {name: stored[name] for name in stored.files}
        except (OSError, ValueError) as error:
            raise InvalidInput(f"no pool of inputs: {error}.", field="pool", remedy="Make the link again.") from error
        self.size = len({name.split("/", 2)[1] for name in self._arrays})

    def inputs(self, at: int) -> list[Array]:
        """Return the inputs of one call."""
        return [_array(name, value) for name, value in self._of("in", at).items()]

    def outputs(self, at: int) -> dict[str, Any]:
        """Return the reference outputs of one call by name."""
        return self._of("out", at)

    def _of(self, kind: str, at: int) -> dict[str, Any]:
        front = f"{kind}/{at}/"
        return {name.removeprefix(front): value for name, value in self._arrays.items() if name.startswith(front)}


def _array(name: str, value: Any) -> Array:
    types = {"f": "float32", "b": "bool"}
    word = types.get(value.dtype.kind) or ("int32" if value.dtype.itemsize == 4 else "int64")
    content = np.ascontiguousarray(value).astype(_TYPES[word]).tobytes()
    return Array(name=name, type=word, dims=list(value.shape), data=content)  # type: ignore[arg-type]


def require_times(result: PageResult, task: TaskRecord, now: datetime) -> None:
    """Raise ResultRefused where the samples sum to more than the time since the page was given its inputs."""
    spent_s = (math.fsum(result.samples) + math.fsum(result.warm_up)) / 1e3
    wall_s = (now - task.begun_at).total_seconds()
    if spent_s > wall_s * CLOCK_SLACK + CLOCK_SLACK_S:
        raise ResultRefused(
            f"the samples sum to {spent_s:.1f} s, and the page was given its inputs {wall_s:.1f} s ago.",
            field="samples",
            remedy="Measure again: times of other calls, or of another clock, are not taken.",
        )


def require_outputs(result: PageResult, task: TaskRecord, model: LinkedModel, pool: Pool) -> list[dict[str, Any]]:
    """Return how near each output is to its reference; ResultRefused where one is outside the tolerance of its precision."""
    if len(result.outputs) != len(task.drawn):
        raise ResultRefused(
            f"{len(result.outputs)} outputs of the {len(task.drawn)} inputs that were given.",
            field="outputs",
            remedy="Send the outputs of every input, in their order.",
        )
    compared: dict[str, dict[str, Any]] = {}
    for number, (at, sent) in enumerate(zip(task.drawn, result.outputs, strict=True)):
        by_name = {array.name: array for array in sent}
        for name, reference in pool.outputs(at).items():
            if name not in by_name:
                raise _wrong(number, name, "it is missing")
            cosine, relative = _distances(number, by_name[name], reference)
            if not (cosine >= model.tolerance.cosine and relative <= model.tolerance.relative):
                raise _wrong(
                    number,
                    name,
                    f"cosine {cosine:.6f} (at least {model.tolerance.cosine:g}), "
                    f"largest relative error {relative:.3g} (at most {model.tolerance.relative:g})",
                )
            worst = compared.setdefault(name, {"name": name, "passed": True, "cosine": 1.0, "max_relative": 0.0})
            worst["cosine"] = min(worst["cosine"], cosine)
            worst["max_relative"] = max(worst["max_relative"], relative)
    return list(compared.values())


def _distances(number: int, sent: Array, reference: Any) -> tuple[float, float]:
    if sent.dims != list(reference.shape):
        raise _wrong(number, sent.name, f"its shape is {sent.dims}, not {list(reference.shape)}")
    if sent.type != "float32" or len(sent.data) != 4 * reference.size:
        raise _wrong(number, sent.name, f"{len(sent.data)} bytes of {sent.type} are not {reference.size} of float32")
    output = np.frombuffer(sent.data, "<f4").astype(np.float64)
    other = reference.astype(np.float64).ravel()
    finite = np.isfinite(other)
    if not np.array_equal(np.isfinite(output), finite):
        raise _wrong(number, sent.name, "it has NaN or infinite values where the reference has none")
    output, other = output[finite], other[finite]
    norms = math.sqrt(float((output * output).sum()) * float((other * other).sum()))
    absolute, scale = float(np.abs(output - other).max(initial=0)), float(np.abs(other).max(initial=0))
    cosine = float((output * other).sum()) / norms if norms else float(absolute == 0)
    return min(1.0, cosine), absolute / scale if scale else (0.0 if absolute == 0 else math.inf)


def _wrong(number: int, name: str, why: str) -> ResultRefused:
    return ResultRefused(
        f"output {name[:60]!r} of input {number + 1} is not that of the model: {why}.",
        field=f"outputs[{number}]",
        remedy="The device or its browser computes this model wrong, or these are outputs of other inputs.",
    )


def event_id(claim: ClaimRecord, model: LinkedModel, role: str) -> str:
    """Return the id of an event of a result: one device has one result of a model, however often it is sent."""
    return derived_uuid(hashlib.sha256(f"{claim.id}\n{model.file.digest}\n{role}".encode()).digest())


def page_events(
    claim: ClaimRecord, model: LinkedModel, result: PageResult, compared: Sequence[Mapping[str, Any]]
) -> list[Decoded]:
    """Return the events of a result: the run, its measurement with the samples, and the test of its outputs."""
    run = f"page:{event_id(claim, model, 'run')}"
    shared = _subject(claim, model, result, run)
    latency = latency_summary(result.samples)
    batch = model.workload.batch_size or 1
    metrics = Metrics(
        latency_ms=latency,
        throughput_per_s=batch / latency.p50 * 1e3 if latency.p50 else None,
        load_ms=result.load_ms,
        compile_ms=result.compile_ms,
        first_run_ms=result.first_run_ms,
    )
    circumstances = Circumstances(
        steady=result.facts.steady,
        timer_resolution_ms=result.facts.clock_step_ms,
        speed_ratio=_speed_ratio(result.facts),
    )
    names = [name for name in Metrics.__struct_fields__ if getattr(metrics, name) is not None]
    values = result.samples[-MOST_EVENT_SAMPLES:]
    measurement = MeasurementRecorded(
        **shared,
        metrics=metrics,
        samples=SamplesReference(digest=digest(values), n=len(values)),
        validity=_judged(result, names, circumstances),
    )
    measured = event_id(claim, model, "measurement")
    samples = SamplesRecorded(
        run_id=run,
        digest=digest(values),
        n=len(values),
        values=values,
        warmup=result.warm_up[-MOST_EVENT_SAMPLES:],
        measurement_id=measured,
    )
    test = TestReported(**shared, outcome="passed", stage="verify", checks={"outputs": list(compared)})
    finished = RunFinished(run_id=run, outcome="completed", measured=1)
    parts = (
        (RUN_STARTED, _run_started(shared), "run-started"),
        (MEASUREMENT_RECORDED, measurement, "measurement"),
        (SAMPLES_RECORDED, samples, "samples"),
        (TEST_REPORTED, test, "test"),
        (RUN_FINISHED, finished, "run-finished"),
    )
    source = PAGE_SOURCE + claim.device
    return [_event(type_, data, source, claim.now, event_id(claim, model, role)) for type_, data, role in parts]


def failure_events(claim: ClaimRecord, model: LinkedModel, failure: PageFailure) -> list[Decoded]:
    """Return the events of a backend on which a model did not run: the run, and the failure with its stage."""

    def named(role: str) -> str:
        return event_id(claim, model, f"{failure.backend} {role}")

    run = f"page:{named('failed-run')}"
    shared = _subject(claim, model, failure, run)
    said = f"{_plain(failure.message)} (operator {_plain(failure.operator)})" if failure.operator else failure.message
    outcome, remedy = _outcome(failure)
    failed = MeasurementFailed(
        **shared,
        outcome=outcome,
        stage=failure.stage,
        failure=_failure(failure, _plain(scrub(said))),
        remedy=remedy,
    )
    finished = RunFinished(run_id=run, outcome="completed", failed=1)
    parts = (
        (RUN_STARTED, _run_started(shared), "failed-run-started"),
        (MEASUREMENT_FAILED, failed, "failure"),
        (RUN_FINISHED, finished, "failed-run-finished"),
    )
    source = PAGE_SOURCE + claim.device
    return [_event(type_, data, source, claim.now, named(role)) for type_, data, role in parts]


def _failure(failure: PageFailure, message: str) -> Failure:
    """Return the browser's own error; where the backend itself is not there, the error of every platform that is not."""
    name = re.sub(r"[^A-Za-z0-9]", "", failure.error)[:64] or "Error"
    if name in _ABSENT:
        return Failure(error="PlatformUnavailable", message=f"{name}: {message}")
    return Failure(error=name, message=message)


def _outcome(failure: PageFailure) -> tuple[Outcome, str]:
    """Return what a failure is by the rules for the pages that we drive, and what to try."""
    other = "Take another backend, browser or precision."
    if failure.error == "TimeoutError":
        return "timeout", other
    outcome = outcome_of(failure.error, f"{failure.error}: {failure.message}")
    if outcome == "out_of_memory":
        return outcome, "Take a smaller model or precision, or a device with more memory."
    return outcome, other


def _subject(claim: ClaimRecord, model: LinkedModel, sent: PageResult | PageFailure, run: str) -> dict[str, Any]:
    """Return the members that the events of a run share."""
    return {
        "run_id": run,
        "model": model.model,
        "workload": model.workload,
        "execution": _execution(claim, model, sent),
        "hardware": _hardware(sent.stated),
        "provenance": Provenance(origin="page", source=f"page of {claim.device}", reference=f"link claim {claim.id}"),
        "environment": _environment(claim, sent.facts),
        "observed": _observed(model, sent),
    }


def _run_started(shared: Mapping[str, Any]) -> RunStarted:
    return RunStarted(
        run_id=shared["run_id"],
        kind="bench",
        hardware=[shared["hardware"]],
        environment=shared["environment"],
        planned=1,
        provenance=shared["provenance"],
    )


def _event(type_: str, data: Any, source: str, time: datetime, name: str) -> Decoded:
    return written(encode_event(new_event(type_, data, source=source, time=time, id=name)))


def _hardware(stated: str | None) -> Hardware:
    if not stated:
        return UNSTATED
    spec = find(stated)
    if spec is None:
        raise InvalidInput(
            f"the catalogue has no {_plain(stated)[:100]!r}.",
            field="stated",
            remedy="Pick a device of the list, or say that yours is not there.",
        )
    return Hardware(id=spec.id, kind=spec.kind or "other")


def _execution(claim: ClaimRecord, model: LinkedModel, result: PageResult | PageFailure) -> Execution:
    name, _ = _browser(result.facts)
    return Execution(
        platform=result.backend,
        runtime=Runtime(name="onnxruntime-web", version=claim.offer.runtime_version),
        precision=_precision(model, result.backend),
        compiled=True,
        threads=result.facts.threads if result.backend == "wasm" else None,
        options={"browser": name} | web_options(result.backend, model.precision),
    )


def _precision(model: LinkedModel, backend: str) -> str:
    """Return the precision of the arithmetic: WebAssembly has none in 16 bits, and onnxruntime casts around each operator."""
    return "fp32" if backend == "wasm" and model.precision == "fp16" else model.precision


def _observed(model: LinkedModel, result: PageResult | PageFailure) -> Observed:
    facts = msgspec.to_builtins(result.facts)
    details = {name: _plain(value) if isinstance(value, str) else value for name, value in facts.items()}
    details["brands"] = [_plain(brand) for brand in result.facts.brands]
    return Observed(
        device=STATED,
        platform=result.backend,
        precision=_precision(model, result.backend),
        details={name: value for name, value in details.items() if value not in (None, [], "")},
        requested=Requested(platform=result.backend, precision=model.precision),
    )


def _judged(result: PageResult, names: Sequence[str], circumstances: Circumstances) -> Validity:
    """Return the verdict on a series, with what only a page can suffer."""
    whole = judge(result.samples, names, circumstances)
    facts, doubts = result.facts, []
    if facts.hidden:
        doubts.append(f"the page was hidden {facts.hidden} time{'s' if facts.hidden > 1 else ''} meanwhile")
    if facts.threads_asked > facts.threads:
        doubts.append(f"{facts.threads} of {facts.threads_asked} threads: the page is not isolated")
    if facts.fallback_adapter or (facts.adapter and is_software_renderer(facts.adapter)):
        doubts.append("a software adapter did the work of a GPU")
    if not doubts:
        return whole
    verdict = type(whole.metrics["latency_ms"])(verdict="suspect", reasons=doubts)
    both = combine(whole, verdict)
    each = {name: combine(item, verdict) for name, item in whole.metrics.items()}
    return Validity(verdict=both.verdict, reasons=both.reasons, metrics=each)


def _speed_ratio(facts: Facts) -> float | None:
    return facts.loop_before_ms / facts.loop_after_ms if facts.loop_before_ms and facts.loop_after_ms else None


def _environment(claim: ClaimRecord, facts: Facts) -> Environment:
    name, version = _browser(facts)
    libraries = {"onnxruntime-web": claim.offer.runtime_version, name: version or "?"}
    fingerprint = hashlib.sha256(f"{claim.device}\n{sorted(libraries.items())}".encode()).hexdigest()[:32]
    return Environment(fingerprint=fingerprint, os=_system(facts.user_agent), libraries=libraries)


def _browser(facts: Facts) -> tuple[str, str | None]:
    """Return which browser a page says that it is in, and the version."""
    for name, pattern in (*_BROWSERS, *_ENGINES):
        match = re.search(pattern, facts.user_agent)
        if match:
            return name, match[1][:40]
    return "browser", None


def _system(user_agent: str) -> str | None:
    words = ("Android", "iPhone", "iPad", "Windows", "CrOS", "Mac OS X", "Linux")
    return next((word for word in words if word in user_agent), None)


def _plain(text: str) -> str:
    """Return a text of a page without control characters and without what could be taken for markup."""
    return "".join(letter for letter in text if letter.isprintable() and letter not in "<>&`\"'\\")


def copy_id(event: Decoded) -> str:
    """Return the id of the imported copy of an event of a page."""
    return derived_uuid(hashlib.sha256(f"accepted\n{event.id}".encode()).digest())


class Acceptance(msgspec.Struct, frozen=True, kw_only=True):
    """Who accepted a device, since when, and which hardware it is; None leaves what the person at the page stated."""

    by: str
    since: datetime | None = None
    hardware: str | None = None


def accepted_copies(events: Sequence[Decoded], device: str, accepted: Acceptance) -> list[Decoded]:
    """Return page events of an accepted device as imported ones, and the retractions of the rows that they stand for.

    An operator who accepts a device imports what it sent; its rows then answer and train as imported rows do. Those of
    which nobody has said on which hardware they ran stay as they are: rows of many devices would be one configuration.
    """
    copies: list[Decoded] = []
    for event in events:
        data: dict[str, Any] = msgspec.to_builtins(event.data)
        if event.type not in (RUN_STARTED, MEASUREMENT_RECORDED, MEASUREMENT_FAILED, TEST_REPORTED):
            continue
        if accepted.hardware and "hardware" in data:
            named = msgspec.to_builtins(_hardware(accepted.hardware))
            data["hardware"] = [named] if event.type == RUN_STARTED else named
        if "hardware" in data and event.type != RUN_STARTED and data["hardware"]["id"] == UNSTATED.id:
            continue
        data["run_id"] = f"accepted:{data['run_id']}"
        if "provenance" in data:
            source = f"page of {device}, accepted by {accepted.by}"
            data["provenance"] = {"origin": "imported", "source": source, "reference": event.id}
        if "observed" in data:
            data["observed"].pop("device", None)
        data.pop("samples", None)
        name = copy_id(event)
        copies.append(_event(event.type, data, event.source, event.time, name))  # type: ignore[arg-type]
        if event.type != RUN_STARTED:
            copies.append(retraction(f"{ACCEPTED}it counts as {name}", event_id=event.id))
    return copies
