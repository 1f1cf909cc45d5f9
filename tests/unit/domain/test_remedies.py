"""What to try: the first rule that fits, for every case an answer; what failed most comes first."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from domain.compatibility.remedies import RULES, advice, failures
from domain.compatibility.rules import Work, why_unsupported
from domain.compatibility.states import judged
from domain.vocabulary import OUTCOMES, STAGES
from tests.unit.domain.test_compatibility import cell, stopped

NOW = datetime(2026, 11, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cause", "outcome", "stage", "error"),
    [
        ("the platform is not on that machine", "unsupported", "resolve", "PlatformUnavailable"),
        ("a package is missing", "unsupported", "load", "PartMissing"),
        ("the device does not compute in this precision", "unsupported", "resolve", "UnsupportedPrecision"),
        ("the browser has not what the model needs", "unsupported", "compile", "PageRefused"),
        ("the browser or its page ended", "error", "run", "PageGone"),
        ("a page could not do a step", "error", "first_run", "PageFailed"),
        ("memory was too small before anything ran", "unsupported", "load", "NotEnoughMemory"),
        ("memory ran out", "out_of_memory", "run", "OutOfMemoryError"),
        ("memory ran out", "error", "run", "MemoryError"),
        ("converting or compiling took longer than allowed", "timeout", "convert", "Timeout"),
        ("the work took longer than allowed", "timeout", "run", "Timeout"),
        ("another device or precision did the work", "failed", "verify", "Fallback"),
        ("outputs are not finite", "failed", "verify", "NotFinite"),
        ("outputs differ from the reference by more than rounding explains", "failed", "verify", "Mismatch"),
        ("the runtime has no rule for an operator", "unsupported", "compile", "NotImplementedError"),
        ("the runtime has no rule for an operator", "error", "convert", "OpConversionFailure"),
        ("the model could not be converted", "error", "convert", "RuntimeError"),
        ("the model could not be compiled", "error", "compile", "RuntimeError"),
        ("the process died", "error", "run", "SIGSEGV"),
        ("the weights are damaged, gated or not there", "error", "load", "OSError"),
        ("the model could not be loaded", "error", "load", "ValueError"),
        ("it failed while running", "error", "first_run", "RuntimeError"),
    ],
)
def test_the_rule_of_a_case(cause, outcome, stage, error):
    assert advice(outcome, stage, error).cause == cause


@pytest.mark.parametrize("platform", ["wasm", "webgpu", "webnn"])
def test_a_browser_never_trains_and_has_no_bf16(platform):
    work = Work(family="bert", operators=(), mode="inference")
    assert why_unsupported(work, platform, "onnxruntime-web", "bf16")
    assert [
        why_unsupported(work, platform, "onnxruntime-web", precision) for precision in ("fp32", "fp16", "int4")
    ] == [None] * 3
    assert why_unsupported(Work(family="bert", operators=(), mode="training"), platform, "onnxruntime-web", "fp32")


def test_every_case_has_an_answer_and_every_rule_a_sentence():
    assert all(
        advice(outcome, stage, error).advice for outcome in OUTCOMES for stage in STAGES for error in (None, "Odd")
    )
    assert advice(None, None, None) is RULES[-1]
    assert all(rule.advice.endswith(".") and rule.cause for rule in RULES)


def test_no_rule_is_hidden_by_one_before_it():
    cases = [(outcome, stage, error) for outcome in OUTCOMES for stage in STAGES for error in _errors()]
    assert {advice(*case) for case in cases} | {RULES[-1]} == set(RULES)


def _errors():
    yield from (None, "RuntimeError", "SIGSEGV", "OSError", "MemoryError", "OpConversionFailure")
    for rule in RULES:
        yield from (part for part in (rule.error or "").split("|") if part.isidentifier())


def test_what_stopped_most_models_comes_first_and_what_works_now_is_left_out():
    cells = [
        stopped("out_of_memory", "run", "OutOfMemoryError", model_id="a", stopped_remedy="Take batch 1."),
        stopped("out_of_memory", "run", "OutOfMemoryError", model_id="b", position=2, stopped_message="too big"),
        stopped("error", "load", model_id="a"), cell(model_id="c", verified=True),
        cell(model_id="d", fallback_share=0.5),
        stopped("unsupported", "resolve", "PlatformUnavailable", model_id="e"),
    ]  # fmt: skip
    first, *others = failures([judged(one, NOW) for one in cells])
    assert (first["models"], first["error"], first["of"]) == (2, "OutOfMemoryError", ["a", "b"])
    assert (first["cause"], first["message"], first["evidence_ids"]) == ("memory ran out", "too big", ["e", "e"])
    assert {row["error"] for row in others} == {"RuntimeError", "Fallback"}
