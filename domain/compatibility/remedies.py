"""What to try where a model did not run: one table of rules by stage and error class, the first that fits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from domain.compatibility.states import place, works

__all__ = ["RULES", "Remedy", "advice", "failures"]

Row = Mapping[str, Any]


class Remedy(NamedTuple):
    """A rule: the outcomes, stages and error class (a pattern, whole name) that it is for; None is any."""

    outcomes: frozenset[str] | None
    stages: frozenset[str] | None
    error: str | None
    cause: str
    advice: str

    def fits(self, outcome: str | None, stage: str | None, error: str | None) -> bool:
        """Whether the rule is for such a case."""
        return (
            (self.outcomes is None or outcome in self.outcomes)
            and (self.stages is None or stage in self.stages)
            and (self.error is None or re.fullmatch(self.error, error or "") is not None)
        )


def _rule(cause: str, advice: str, *, error: str | None = None, outcomes: str = "", stages: str = "") -> Remedy:
    return Remedy(
        frozenset(outcomes.split()) if outcomes else None,
        frozenset(stages.split()) if stages else None,
        error,
        cause,
        advice,
    )


RULES = (
    _rule(
        "the platform is not on that machine",
        "Run it on a machine that `assay detect` shows to have the platform.",
        error="PlatformUnavailable",
    ),
    _rule(
        "a package is missing",
        "Install the package that the message names, then `assay verify` again.",
        error="PartMissing|ModuleNotFoundError|ImportError",
    ),
    _rule(
        "the device does not compute in this precision",
        "Take a precision that `assay detect` lists for the platform: fp32 always, then bf16 or fp16.",
        error="UnsupportedPrecision",
    ),
    _rule(
        "the model cannot do this kind of work",
        "Ask for inference where training was asked, leave output tokens out, or "
        "take a model with the head that the work needs.",
        error="UnsupportedWorkload",
    ),
    _rule(
        "the browser has not what the model needs",
        "Take another backend (`wasm` runs almost every operator) or another browser; `assay browser check` says what each has.",
        error="PageRefused",
    ),
    _rule(
        "the browser or its page ended",
        "Run it once more; if it ends again take a smaller model, a lower precision, or another browser with `--browser`.",
        error="PageGone",
    ),
    _rule(
        "a page could not do a step",
        "The message has the browser's own error and the operator: try `wasm` first, then another browser or precision.",
        error="PageFailed",
    ),
    _rule(
        "the weights are damaged, gated or not there",
        "`--weights random` measures speed and memory without them; for right "
        "outputs fetch the checkpoint again or accept its licence.",
        error=".*Checkpoint.*|CorruptArtifact|GatedRepoError|.*NotFound.*|OSError",
        stages="resolve load",
    ),
    _rule(
        "memory was too small before anything ran",
        "Take a smaller model of the family, `--low-memory` (weights in bf16), int8, or a machine with more memory.",
        error="NotEnoughMemory|LargerThanMemory",
    ),
    _rule(
        "memory ran out",
        "Halve the batch or the sequence, take bf16 or int8, or a machine with more memory; "
        "`--memory-limit-mb` raises the limit.",
        outcomes="out_of_memory",
    ),
    _rule(
        "memory ran out",
        "Halve the batch or the sequence, take bf16 or int8, or a machine with more memory.",
        error="MemoryLimit|KilledForMemory|MemoryError|.*OutOfMemory.*",
    ),
    _rule(
        "converting or compiling took longer than allowed",
        "Raise `--timeout`; conversions are kept, so the next run begins after them.",
        outcomes="timeout",
        stages="resolve load convert compile",
    ),
    _rule(
        "the work took longer than allowed",
        "Raise `--timeout`, or take fewer iterations, a smaller batch or a smaller model.",
        outcomes="timeout",
    ),
    _rule(
        "another device or precision did the work",
        "Name a precision that the device computes in itself; the test says which operators fell back.",
        error="Fallback",
    ),
    _rule(
        "outputs are not finite",
        "Use bf16 in place of fp16: its range is that of fp32. Where fp32 does it too, verify the checkpoint itself.",
        error="NotFinite",
    ),
    _rule(
        "outputs differ from the reference by more than rounding explains",
        "Compare in fp32 first. Right there: the "
        "precision is too narrow for this model; keep its sensitive layers wider. Wrong there too: the runtime's conversion "
        "is at fault; try another version.",
        error="Mismatch",
    ),
    _rule(
        "an output is missing or has another shape",
        "The conversion lost it: try another version of the runtime, and report it with the event.",
        error="ShapeMismatch|MissingOutput",
    ),
    _rule(
        "the runtime has no rule for an operator",
        "Try a newer runtime, eager attention, or another platform; `cpu` runs every operator of torch.",
        error="NotImplementedError|.*OpConversion.*|.*Unsupported.*|.*Conversion.*",
        stages="convert compile first_run run",
    ),
    _rule(
        "the model could not be converted",
        "Update the runtime; if it stays, export to ONNX and try that file.",
        stages="convert",
    ),
    _rule("the model could not be compiled", "Run it without compilation, or with fixed sizes.", stages="compile"),
    _rule(
        "the process died",
        "Run it once more; if it dies again the runtime cannot run this configuration: another version, "
        "precision or platform.",
        error="SIG.*|ChildExit",
    ),
    _rule("somebody ended the run", "Run it again with `--resume`.", error="Interrupted"),
    _rule(
        "the platform refused",
        "Read the message of the event; another precision or platform is the quickest way round.",
        outcomes="unsupported",
    ),
    _rule(
        "the model could not be loaded",
        "Check the id with `assay model show`, and the version of transformers that its config names.",
        stages="resolve load",
    ),
    _rule(
        "it failed while running",
        "Try batch 1 and fp32; if that runs, grow one of them at a time.",
        stages="first_run run",
    ),
    _rule("not known", "Read the events that are named as evidence."),
)
"""The rules in the order in which they are tried; the last one fits everything."""


def advice(outcome: str | None, stage: str | None, error: str | None) -> Remedy:
    """Return the first rule that fits."""
    return next(rule for rule in RULES if rule.fits(outcome, stage, error))


def failures(cells: Iterable[Row]) -> list[dict[str, Any]]:
    """Return one row a platform, stage and error that stopped judged cells, that which stopped most models first.

    A cell counts where it does not work now. `remedy` is what the runner said of the newest, `advice` that of the rules.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for cell in cells:
        if works(cell["state"]) is False:
            error = "Fallback" if cell["state"] == "fell back" else cell["stopped_error"]
            key = (cell["platform"], cell["stopped_outcome"], cell["stopped_stage"], error)
            groups.setdefault(key, []).append(cell)
    result = []
    for (platform, outcome, stage, error), members in groups.items():
        rule = advice(outcome, stage, error)
        newest = max(members, key=lambda cell: cell["position"])
        result.append(
            {
                "platform": platform,
                "outcome": outcome,
                "stage": stage,
                "error": error,
                "models": len({cell["model_id"] for cell in members}),
                "cells": len(members),
                "cause": rule.cause,
                "advice": rule.advice,
                "message": newest["stopped_message"],
                "remedy": newest["stopped_remedy"],
                "of": sorted({str(cell["model_id"]) for cell in members}),
                "evidence_ids": [item for cell in members for item in (cell["evidence_ids"] or ())],
                "position": newest["position"],
            }
        )
    return sorted(result, key=lambda row: (-row["models"], -row["cells"], place(row["platform"]), str(row["error"])))
