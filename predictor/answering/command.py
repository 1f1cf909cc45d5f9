"""The commands that measure, predict and verify a configuration; measuring is typed on the machine that has the device."""

from __future__ import annotations

from domain.vocabulary import BENCH_FLAGS
from predictor.answering.candidates import RUNTIMES
from predictor.answering.context import AnswerContext
from predictor.answering.option import Option
from predictor.answering.question import Question

__all__ = ["command_of", "first_command", "predict_command", "verify_command"]

_ASKED = {("cpu", "onnxruntime"): "onnxruntime", ("cuda", "onnxruntime"): "onnxruntime-cuda"}
"""Under which name `assay bench` has the second runtime of a platform."""


def command_of(context: AnswerContext, option: Option, mode: str = "inference") -> str:
    """Return how `assay bench` measures an option."""
    platform = _ASKED.get((option.platform, option.runtime or ""), option.platform)
    model = option.variant.model if option.variant else context.model
    return _command(context, platform, option.precision, option.batch_size, option.compiled, mode, model)


def verify_command(context: AnswerContext, option: Option, mode: str = "inference") -> str:
    """Return how `assay verify` compares the outputs of an option with those of fp32 on the CPU."""
    platform = _ASKED.get((option.platform, option.runtime or ""), option.platform)
    words = [
        "assay verify",
        option.variant.model if option.variant else context.model,
        "--platform",
        platform,
        "--precision",
        option.precision,
    ]
    return " ".join(words + (["--mode", mode] if mode != "inference" else []))


def predict_command(context: AnswerContext, question: Question, option: Option) -> str:
    """Return how `assay predict` asks about an option, with the sizes of a question."""
    words = [
        "assay predict",
        option.variant.model if option.variant else context.model,
        "--hardware",
        option.hardware,
        "--platform",
        option.platform,
    ]
    words += ["--precision", option.precision]
    if option.concurrency is not None and question.concurrency is not None:
        words += ["--concurrency", str(question.concurrency)]
    elif option.batch_size not in (None, 1):
        words += ["--batch-size", str(option.batch_size)]
    if option.runtime is not None and option.runtime not in ("torch", RUNTIMES.get(option.platform)):
        words += ["--runtime", option.runtime]
    elif option.runtime == "torch" and option.concurrency is None:
        words.append("--compiled" if option.compiled else "--eager")
    for name in ("mode", "call"):
        value = getattr(question, name)
        words += [f"--{name}", value] if value not in ("inference", "usual") else []
    for name, value in question.sizes.stated().items():
        words += [f"--{name.replace('_', '-')}", str(value)]
    return " ".join(words)


def first_command(context: AnswerContext, question: Question) -> str:
    """Return how to measure the first configuration that is asked for, where nothing is known of any."""
    return _command(
        context,
        question.platform[0] if question.platform else "cpu",
        question.precision[0] if question.precision else "fp32",
        question.batch_sizes[0] if question.batch_sizes else 1,
        False,
        question.mode,
    )


def _command(
    context: AnswerContext,
    platform: str,
    precision: str,
    batch_size: int | None,
    compiled: bool,
    mode: str,
    model: str | None = None,
) -> str:
    words = ["assay bench", model or context.model, "--platform", platform, "--precision", precision]
    if batch_size is not None:
        words += ["--batch-sizes", str(batch_size)]
    if compiled:
        words.append("--compiled")
    if mode != "inference":
        words += ["--mode", mode]
    for name, value in context.call.run_sizes.stated().items():
        words += [BENCH_FLAGS[name], str(value)]
    return " ".join(words)
