"""The README's summary of how good the shipped predictor is: every figure is the card's or an accuracy result's."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from assay.accuracy.results import Result
from domain.errors import UsageError
from ingest import evidence
from predictor.artifact.artifact import Predictor

__all__ = ["END", "START", "replaced", "summary"]

START = "<!-- Made by python -m assay.accuracy --readme README.md; do not edit. -->"
END = "<!-- End of what is made. -->"
WIDTH = 150
_LEVELS = ("family", "hardware", "hardware_family", "software")
_TEN_SHOTS = {
    "tensorrt-bert-10": "TensorRT BERT",
    "amd-torch-10": "PyTorch on AMD",
    "batch-sweeps-10": "DeepLearningExamples",
}
_KERNELS = ("gemm-0", "gemm-20", "neusight-known", "neusight-left-out")


def summary(predictor: Predictor, benchmarks: Sequence[Result]) -> str:
    """Return the summary as Markdown; a part whose figures are not there is left out."""
    results = {result.name: result for result in benchmarks}
    parts = [_vision(predictor), _general(predictor, results), _kernels(results), _served(predictor)]
    lines = [_wrapped(f"- {part}") for part in parts if part]
    bars = [bar for result in benchmarks for bar in result.bars]
    covered = [bar for bar in bars if bar.coverage]
    if bars:
        met = (
            f"Of {len(bars)} bars on the accuracy page {sum(bar.met for bar in bars)} are met; 80 and 90 % intervals hold what they"
            f" promise within 4 points on {sum(bar.covered for bar in covered)} of {len(covered)} rows. The page says what bounds each line."
        )
        lines += ["", _wrapped(met)]
    rows = sum(source.measurements for source in evidence.sources())
    kept = (
        f"None of the rows is kept in the predictor; {rows:,} published ones ship beside it and answer first where they are of the"
        " very question."
    )
    return "\n".join([*lines, "", _wrapped(kept)]) + "\n"


def replaced(text: str, made: str) -> str:
    """Return a page with what stands between the marks replaced. Raises UsageError where a mark is missing."""
    before, start, rest = text.partition(START + "\n")
    _, end, after = rest.partition(END)
    if not start or not end:
        raise UsageError(
            "the README has no place for the summary of accuracy.",
            field="readme",
            remedy=f"Put these lines where it belongs: {START} and {END}",
        )
    return f"{before}{start}{made}{end}{after}"


def _vision(predictor: Predictor) -> str:
    card = predictor.card
    errors = [
        (name, card.scores[split]["overall"]["mape"])
        for split, name in (
            ("architecture", "for a new architecture"),
            ("family", "for a new family"),
            ("hardware-10", "on a new device after ten measurements of each software"),
            ("hardware-0", "on a new device after none"),
        )
        if split in card.scores
    ]
    if not errors:
        return ""
    figures = ", ".join(f"{error:.1%} {name}" for name, error in errors).replace("%", " %")
    return (
        f"**Vision models in torch with autocast on NVIDIA cards**, from {card.rows:,} rows of"
        f" [timm](https://github.com/huggingface/pytorch-image-models) (Apache-2.0): mean error of throughput {figures}."
    )


def _general(predictor: Predictor, results: Mapping[str, Result]) -> str:
    general = predictor.card.general
    if general is None:
        return ""
    scores = {level: general.scores[level]["overall"] for level in _LEVELS}
    family, chip, both, software = (_share(scores[level]["median_ape"]) for level in _LEVELS)
    held = [score["coverage_80"] for score in scores.values()]
    shots = sorted((_mean(results[name]), label) for name, label in _TEN_SHOTS.items() if name in results)
    after = ", ".join(f"{_share(error)} ({label})" for error, label in shots)
    return (
        "**Anything else that runs a traced model** (text, audio, vision, multimodal; eager and compiled torch, TensorRT, OpenVINO,"
        " ONNX Runtime, Qualcomm's runtimes, whisper.cpp; NVIDIA, AMD, Apple, Intel, Qualcomm), as the sum of its kernels and what"
        f" published rows take beyond it: median error {family} for a new family, {chip} on a new chip, {both} for both, {software}"
        f" for a maker's software that never trained; 80 % intervals hold {min(held) * 100:.0f} to {_share(max(held))}."
        f"{f' Mean error after ten measurements of a new chip: {after}.' if after else ''}"
    )


def _kernels(results: Mapping[str, Result]) -> str:
    if not all(name in results for name in _KERNELS):
        return ""
    none, twenty, known, left_out = (_share(_mean(results[name])) for name in _KERNELS)
    return (
        f"**Single kernels**: bf16 products on a chip left out with its siblings {none}, {twenty} after 20 kernels of each software;"
        f" NeuSight's models in eager FP32 as sums of kernels {known}, {left_out} with the chip left out."
    )


def _served(predictor: Predictor) -> str:
    serving = predictor.card.serving
    if serving is None:
        return ""
    tpot, ttft = (
        [
            _share(serving.scores[target][split]["overall"]["mape"])
            for split in ("configuration", "architecture", "hardware")
        ]
        for target in ("tpot", "ttft")
    )
    overall = serving.scores["tpot"]["configuration"]["overall"]
    devices = len(serving.scores["tpot"]["hardware"]["by_hardware"])
    return (
        f"**Served language models**, from {overall['rows']:,} published rows of {devices} accelerators: time per token {tpot[0]} for an"
        f" unseen configuration, {tpot[1]} for an unseen model, {tpot[2]} for an unseen device; time to the first token {ttft[0]},"
        f" {ttft[1]} and {ttft[2]}; the intervals are as wide as that."
    )


def _mean(result: Result) -> float:
    answer: Any = result.answer
    return float(answer["overall"]["mape"])


def _share(value: float) -> str:
    return f"{value * 100:.0f} %"


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("- ") else ""
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
