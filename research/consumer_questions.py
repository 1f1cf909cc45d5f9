"""How many of 500 questions about language models on consumer devices are answered, and why the others are not.

    python -m research.consumer_questions --server URL

Each is "model M in quantisation Q on device D", from names as people write them. Answered is an estimate with its basis,
or that it does not fit; the rest are names that nobody knows, and devices or precisions without figures.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from assay.client import Client
from domain.errors import AssayError

__all__ = ["main", "questions"]

MODELS = (
    "llama3.1:8b", "Meta-Llama-3-8B-Instruct", "Llama-3.2-3B-Instruct-GGUF", "llama-3.2-1b", "Llama-3.3-70B-Instruct",
    "Qwen2.5-7B-Instruct", "qwen2.5-14b", "Qwen2.5-Coder-32B-Instruct", "qwen3-8b", "Qwen3-30B-A3B", "Qwen3-4B",
    "gemma-2-9b-it", "gemma-3-12b-it", "gemma-3-27b-it", "Mistral-7B-Instruct-v0.3", "Mixtral-8x7B-Instruct-v0.1",
    "mistral-nemo", "phi-4", "Phi-3.5-mini-instruct", "DeepSeek-R1-Distill-Qwen-14B", "DeepSeek-R1-Distill-Llama-8B",
    "gpt-oss-20b", "TinyLlama-1.1B-Chat-v1.0", "TheBloke/Llama-2-13B-chat-GGUF", "SmolLM2-1.7B-Instruct",
)  # fmt: skip
QUANTISATIONS = ("q4_k_m", "q5_k_m", "q8_0", "fp16")
DEVICES = (
    "RTX 3060", "RTX 3070", "RTX 3080", "RTX 3090", "RTX 4060 Ti", "RTX 4070", "RTX 4080", "RTX 4090", "RTX 5070",
    "RTX 5080", "RTX 5090", "GTX 1080 Ti", "RX 6800 XT", "RX 7600", "RX 7900 XTX", "RX 9070 XT", "Arc A770", "Arc B580",
    "Apple M1", "Apple M1 Max", "Apple M2", "Apple M2 Max", "Apple M2 Ultra", "Apple M3 Max", "Apple M4", "Apple M4 Pro",
    "Apple M4 Max", "Apple M3 Ultra", "Ryzen AI Max+ 395", "Radeon 780M", "Snapdragon X Elite", "Core Ultra 7 258V",
    "Jetson Orin Nano", "Raspberry Pi 5", "RTX 2080 Ti", "RTX 4090 Laptop",
)  # fmt: skip
ASKED = 500


def questions() -> list[tuple[str, str, str]]:
    """Return the questions: a fixed sample of all combinations."""
    every = list(itertools.product(MODELS, QUANTISATIONS, DEVICES))
    return random.Random(21).sample(every, ASKED)


def outcome(answer: Mapping[str, Any]) -> str:
    """Return on what an answer rests, that it does not fit, or why there is none."""
    if answer["ranked"]:
        return str(answer["ranked"][0]["basis"])
    rules = sorted({item["rule"] for item in answer["excluded"]})
    return rules[0] if rules else "nothing"


def main(arguments: Sequence[str] | None = None) -> None:
    """Ask them all, and print how many have which outcome."""
    parser = argparse.ArgumentParser(prog="python -m research.consumer_questions", description=__doc__.split("\n")[0])
    parser.add_argument("--server", required=True)
    args = parser.parse_args(arguments)
    found: Counter[str] = Counter()
    examples: dict[str, str] = {}
    with Client(args.server) as client:
        for model, quantisation, device in questions():
            try:
                said = outcome(client.recommend(model, precision=[quantisation], hardware=[device], top=1))
            except AssayError as error:
                said = f"refused: {error.field or type(error).__name__}"
                examples.setdefault(f"{said} {model if 'model' in said else device}", error.detail)
            found[said] += 1
            if said.startswith(("nothing", "no ")):
                examples.setdefault(f"{said} {device}", f"{model} {quantisation}")
    for said, count in found.most_common():
        print(f"{count:4}  {said}")
    for said, detail in sorted(examples.items()):
        print(f"      {said}: {detail}")


if __name__ == "__main__":
    main()
