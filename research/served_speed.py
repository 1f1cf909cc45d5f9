"""How long predictions of served language models take, in this process: one, a thousand, and with rows to correct them.

Answer: 40 ms for a thousand, 113 ms with 400 own rows beside them (docs/recommendation.md).

    python -m research.served_speed [--prior FOLDER]

Wall-clock medians of many on one thread, with the processor's seconds beside them: only these tell where others use the
machine as well. FOLDER has a predictor that was made elsewhere; else it is the shipped one.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.answers import Sizes
from domain.catalogues import hardware, language_models
from domain.catalogues.hardware import HardwareSpec
from predictor.answering.context import AnswerContext
from predictor.answering.option import Option
from predictor.answering.question import Question
from predictor.answering.serving_context import Served
from predictor.answering.serving_options import served_options
from predictor.artifact.artifact import Predictor, load_shipped, read_folder
from predictor.features.dataset import Row
from predictor.llm_serving.table import taught

MODELS = {"a model that trained": "meta-llama/Llama-3.1-8B", "a model that did not": "Qwen/Qwen3-32B"}
REPEATS = 25
NEAR = 400
"""Rows of an installation that correct a question."""


def known(predictor: Predictor, model: str, specs: Sequence[HardwareSpec], near: Sequence[Row] = ()) -> AnswerContext:
    """Return what an answer knows, with these rows in the tables."""
    card, facts = predictor.card.serving, language_models.find(model)
    if card is None or facts is None:
        raise SystemExit("this predictor knows no serving, or the model has no facts")
    fitted = {target: card.restored(target, predictor.others) for target in ("ttft", "tpot")}
    if near:
        fitted = {target: one.adapted(taught(near, hardware.find, target)) for target, one in fitted.items()}
    served = Served(model=facts, concurrency=16, card=card, fitted=fitted, events={}, engines={})
    empty: dict[str, Any] = {"rows": (), "unspecified": (), "failures": {}, "prices": {}, "own": ()}
    sizes = Sizes(input_tokens=1024, output_tokens=256)
    return AnswerContext(
        model=model, position=0, time=None, trace=None, sizes=sizes, specs=specs, restricted=False,
        predictor=predictor, served=served, **empty,
    )  # fmt: skip


def asked(about: AnswerContext, question: Question, count: int) -> list[Option]:
    """Return the options of a question, asked of as many devices as give that many."""
    served = about.served
    assert served is not None
    return served_options(question, about, served, ())[0][:count]


def rows() -> list[Row]:
    """Return rows as an installation has them, of several models, devices and loads."""
    row = Row(
        model="", hardware="", platform="cuda", precision="bf16", batch_size=None, scenario="serving", input_tokens=1024,
        output_tokens=256, runtime="vllm", runtime_version="0.18.0",
    )  # fmt: skip
    return [
        msgspec.structs.replace(row, model=model, hardware=device, concurrency=load, ttft_ms=50.0 + load, tpot_ms=8.0 + load / 5)
        for model in ("meta-llama/Llama-3.1-8B", "Qwen/Qwen2-7B", "mistralai/Mistral-7B-v0.1", "Qwen/Qwen3-32B")
        for device in ("nvidia-h100-sxm", "nvidia-l4", "nvidia-a100-sxm-80gb", "nvidia-l40s")
        for load in range(1, 1 + NEAR // 16)
    ]  # fmt: skip


def told(what: str, work: Callable[[], Any]) -> None:
    """Print the medians of a piece of work."""
    work()
    wall, cpu = [], []
    for _ in range(REPEATS):
        began, spent = time.perf_counter(), time.process_time()
        work()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
    print(f"{what}: {statistics.median(wall) * 1e3:.1f} ms, of the processor {statistics.median(cpu) * 1e3:.1f} ms")


def main() -> int:
    """Print a line each."""
    parser = argparse.ArgumentParser(
        prog="python -m research.served_speed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--prior", type=Path, help="folder of a predictor")
    options = parser.parse_args()
    predictor = load_shipped() if options.prior is None else read_folder(options.prior)
    everywhere = [hardware.require(name) for name in hardware.catalogue()]
    one = [hardware.require("nvidia-h100-sxm")]
    wide = Question(model="-", precision=["bf16", "fp16", "fp8", "int8", "int4", "fp32", "fp4"]).checked()
    narrow = msgspec.structs.replace(wide, precision=["bf16"])
    near = rows()
    for what, model in MODELS.items():
        alone, all_of_them = known(predictor, model, one), known(predictor, model, everywhere)
        count = len(asked(all_of_them, wide, 1000))
        told(f"{what}: one prediction", lambda alone=alone: asked(alone, narrow, 1))  # type: ignore[misc]
        told(f"{what}: {count} predictions", lambda every=all_of_them: asked(every, wide, 1000))  # type: ignore[misc]
        told(f"{what}: taking in {NEAR} rows", lambda model=model: known(predictor, model, one, near))  # type: ignore[misc]
        corrected = known(predictor, model, everywhere, near)
        told(f"{what}: {count} predictions with them", lambda every=corrected: asked(every, wide, 1000))  # type: ignore[misc]
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
