"""One test case as a test runner reports it, as a draft of a test event: what JUnit XML and pytest's reports have in common.

Which model, hardware, platform and precision a case is about is said, in this order, by its properties (`record_property("model",
…)`, names below), by the properties of its suite, and by the parameters in its name: of `test_forward[bert-base-uncased-cuda-fp16]`
the words that name a model of the catalogue, a platform, a precision or a device of the catalogue. Where no model is said it is
`test/<class>`; where no platform is said it is `other`, and hardware that is not said is unknown.

The test's name is that of its function with the parameters that named nothing of these. An assertion that failed is a test at
stage `verify`: the model ran, and not right. Other failures are at stage `run`, those of a fixture at `load`, those of a file that
could not be collected at `resolve`. Messages that tell of memory or time give the outcomes `out_of_memory` and `timeout`.
Tests that were expected to fail are `skipped` where they failed and `passed` where they did not. Times of test cases hold the
set-up too and are no latencies: they are kept as `time (s)`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from domain.catalogues import hardware, models
from domain.vocabulary import PLATFORMS, PRECISION_BITS
from ingest.importers.draft import Draft
from ingest.importers.identity import hardware_of, model_of, precision_of
from ingest.importers.members import UNKNOWN, UNKNOWN_CPU, UNKNOWN_GPU
from ingest.importers.reading import number, text, whole
from ingest.importers.refusals import BadRow

__all__ = ["PROPERTIES", "ReportedTest", "draft_of", "seconds_of"]

PROPERTIES: dict[str, tuple[str, ...]] = {
    "model": ("model", "model_name", "model_id"),
    "hardware": ("hardware", "hardware_id", "gpu", "gpu_name", "device_name"),
    "platform": ("platform", "device", "backend"),
    "precision": ("precision", "dtype", "torch_dtype"),
    "mode": ("mode",),
    "batch_size": ("batch_size",),
    "sequence_length": ("sequence_length", "seq_length", "seq_len"),
    "image_size": ("image_size",),
}
"""What we take of a case's properties, by the names under which it is looked for, whatever their case."""
_MESSAGE = 4000
_WORD = 64
_ERROR = re.compile(r"\s*(?:[\w.]+\.)?([A-Z]\w*(?:Error|Exception|Warning|Exit|Interrupt|Timeout|Failed|Failure))\b")
_MEMORY = re.compile(r"out of memory|OutOfMemory|MemoryError|CUDA_ERROR_OUT_OF_MEMORY|bad_alloc", re.IGNORECASE)
_TIMEOUT = re.compile(r"\bTimeout(?:Error|Expired)?\b|timed out|DeadlineExceeded", re.IGNORECASE)
_ASSERTION = re.compile(r"\s*(?:assert\b|AssertionError|\w*Assertion\w*|comparison failed)", re.IGNORECASE)
_PARAMETERS = re.compile(r"(?P<name>[^\[]*)\[(?P<parameters>.*)\]\s*", re.DOTALL)
_PRECISION = re.compile(r"(?:torch\.)?(?:fp|bf|tf|u?int|b?float|amp)[\w.-]*", re.IGNORECASE)
_LIKE_CPU = frozenset(("cpu", "openvino", "wasm"))


class ReportedTest(NamedTuple):
    """A test case. `outcome` is passed, failed, error or skipped; `during` setup, call, teardown or collect.

    `kind` is what the runner says the error was, `message` its words; `seconds` how long it took; `row` counts cases from 1.
    """

    name: str
    classname: str
    outcome: str
    row: int
    properties: Mapping[str, Any] = {}
    during: str = "call"
    kind: str | None = None
    message: str | None = None
    seconds: float | None = None
    time: str | None = None
    suite: str | None = None
    environment: dict[str, Any] | None = None


class _About(NamedTuple):
    model: str | None
    hardware: str | None
    platform: str | None
    precision: str | None
    rest: tuple[str, ...]


def draft_of(case: ReportedTest) -> Draft:
    """Return the draft; BadRow where the case has no name, or a property cannot be used."""
    name = case.name.strip()
    if not name:
        raise BadRow("name", "is missing")
    said = {wanted: result for wanted in PROPERTIES if (result := _property(case.properties, wanted)) is not None}
    function, about = _about(name)
    model = said.get("model") or about.model or f"test/{case.classname or function}"
    platform = _platform(said.get("platform")) or about.platform
    device = said.get("hardware") or about.hardware
    sizes = {size: whole(said, size) for size in ("batch_size", "sequence_length", "image_size")}
    outcome, stage = _outcome(case)
    draft = Draft(
        kind="test",
        model=model_of(model),
        workload={"mode": "training" if said.get("mode", "").lower().startswith("train") else "inference", **sizes},
        execution={
            "platform": platform or "other",
            "precision": precision_of(said.get("precision")) or about.precision,
        },
        hardware=_hardware(device, platform),
        outcome=outcome,
        stage=stage,
        test=_test_name("-".join((function, *about.rest))),
        time=case.time,
        environment=case.environment,
        row=case.row,
        original={"name": name[:500], "classname": case.classname[:500]},
        key=[case.suite, case.classname, name, case.seconds],
    )
    if case.seconds is not None:
        draft.original["time (s)"] = case.seconds
    if outcome != "passed":
        draft.error = _error(case, outcome)
        draft.message = (case.message or "").strip()[:_MESSAGE] or "the report gives no reason"
    return draft


def _property(properties: Mapping[str, Any], wanted: str) -> str | None:
    values = {str(name).strip().lower(): value for name, value in properties.items()}
    return next((said for name in PROPERTIES[wanted] if (said := text(values, name)) is not None), None)


def _platform(said: str | None) -> str | None:
    """Return the platform that a property names: `cuda:0` is cuda; a word that we do not know is none."""
    word = (said or "").strip().lower().partition(":")[0]
    word = {"gpu": "cuda", "hip": "rocm"}.get(word, word)
    return word if word in PLATFORMS else None


def _hardware(device: str | None, platform: str | None) -> dict[str, Any]:
    if device is not None:
        return hardware_of(device)
    if platform in _LIKE_CPU:
        return UNKNOWN_CPU
    return UNKNOWN_GPU if platform in ("cuda", "rocm", "mps") else UNKNOWN


def _about(name: str) -> tuple[str, _About]:
    """Return the function of a case, and what its parameters name; `rest` are those that name nothing we know."""
    match = _PARAMETERS.fullmatch(name)
    if match is None:
        return name, _About(None, None, None, None, ())
    words = match["parameters"].split("-")[:40]
    taken: dict[str, str] = {}
    rest: list[str] = []
    at = 0
    while at < len(words):
        for end in range(min(len(words), at + 12), at, -1):
            span = "-".join(words[at:end])
            what, value = _named(span)
            if what is not None and what not in taken:
                taken[what] = value
                at = end
                break
        else:
            rest.append(words[at])
            at += 1
    about = _About(
        taken.get("model"), taken.get("hardware"), taken.get("platform"), taken.get("precision"), tuple(rest)
    )
    return match["name"], about


def _named(span: str) -> tuple[str | None, str]:
    """Return what a word is the name of, and its name; numbers name nothing, because they mostly are sizes."""
    if not any(letter.isalpha() for letter in span):
        return None, span
    if (model := models.find(span)) is not None:
        return "model", model.id
    if span.lower().partition(":")[0] in PLATFORMS[:-1]:
        return "platform", span.lower().partition(":")[0]
    if _PRECISION.fullmatch(span) and (precision := precision_of(span)) in PRECISION_BITS:
        return "precision", precision or span
    if len(span) > 2 and (device := hardware.find(span)) is not None:
        return "hardware", device.id
    return None, span


def _outcome(case: ReportedTest) -> tuple[str, str]:
    if case.outcome in ("passed", "skipped"):
        return case.outcome, "verify" if case.outcome == "passed" else "resolve"
    text = f"{case.kind or ''} {case.message or ''}"
    stage = {"setup": "load", "teardown": "verify", "collect": "resolve"}.get(case.during)
    if stage is None:
        asserted = any(_ASSERTION.match(item) for item in (case.kind, case.message) if item)
        stage = "verify" if case.outcome == "failed" and asserted else "run"
    if _MEMORY.search(text):
        return "out_of_memory", stage
    if _TIMEOUT.search(text[:_MESSAGE]) and not _ASSERTION.match(case.message or ""):
        return "timeout", stage
    return case.outcome, stage


def _error(case: ReportedTest, outcome: str) -> str:
    if outcome == "skipped":
        return "Skipped"
    for document in (case.kind, case.message):
        if document and (match := _ERROR.match(document)):
            return match[1][:_WORD]
    return "AssertionError" if _ASSERTION.match(case.message or "") else outcome.capitalize()


def _test_name(name: str) -> str:
    """Return the name as a word of 64 characters at most; of a longer one the beginning and a digest."""
    word = re.sub(r"[^A-Za-z0-9._+-]+", "-", name).strip("-._+") or "test"
    if len(word) <= _WORD:
        return word
    return f"{word[: _WORD - 9]}-{hashlib.sha256(name.encode(errors='replace')).hexdigest()[:8]}"


def seconds_of(row: Mapping[str, Any], field: str) -> float | None:
    """Return a time in seconds, None where it is missing or no time."""
    try:
        return number(row, field, zero=True)
    except BadRow:
        return None
