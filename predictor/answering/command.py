"""The command that measures a configuration, to be typed on the machine that has the device."""

from __future__ import annotations

from predictor.answering.context import AnswerContext
from predictor.answering.option import BENCH_FLAGS, Option
from predictor.answering.question import Question

__all__ = ["command_of", "first_command"]


def command_of(context: AnswerContext, option: Option, mode: str = "inference") -> str:
    """Return how `assay bench` measures an option."""
    return _command(context, option.platform, option.precision, option.batch_size, option.compiled, mode)


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
    context: AnswerContext, platform: str, precision: str, batch_size: int | None, compiled: bool, mode: str
) -> str:
    words = ["assay bench", context.model, "--platform", platform, "--precision", precision]
    if batch_size is not None:
        words += ["--batch-sizes", str(batch_size)]
    if compiled:
        words.append("--compiled")
    if mode != "inference":
        words += ["--mode", mode]
    for name, value in context.call.run_sizes.stated().items():
        words += [BENCH_FLAGS[name], str(value)]
    return " ".join(words)
