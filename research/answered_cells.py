"""On what do answers about five well-known models on five makers' devices rest in a fresh installation?

    python -m research.answered_cells --server URL

Answer: docs/coverage.md has the table. The question is the one a newcomer types: model and device, nothing else. A cell is
answered where the first option rests on more than specifications: measured, imported, reference, calibrated or predicted.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from assay.client import Client
from domain.answers import Recommendation
from domain.errors import AssayError

__all__ = ["DEVICES", "MODELS", "Cell", "cells", "main"]

MODELS = (
    "google-bert/bert-base-uncased",
    "openai/whisper-small",
    "openai/clip-vit-base-patch32",
    "google/vit-base-patch16-224",
    "meta-llama/Llama-3.1-8B",
)
DEVICES = ("nvidia-l4", "amd-instinct-mi300x", "apple-m2-ultra-gpu", "intel-arc-pro-b60", "qualcomm-snapdragon-x-elite")


class Cell(NamedTuple):
    """What is answered first for a model on a device; `basis` is empty where nothing is."""

    model: str
    device: str
    basis: str
    covered: bool
    shown: str


def cells(client: Client) -> list[Cell]:
    """Ask every cell."""
    return [_asked(client, model, device) for model in MODELS for device in DEVICES]


def _asked(client: Client, model: str, device: str) -> Cell:
    try:
        document = client.recommend(model, hardware=[device], top=1)
    except AssayError as error:
        return Cell(model, device, "", False, error.detail)
    answer = msgspec.convert(document, Recommendation)
    if not answer.ranked:
        return Cell(model, device, "", False, answer.abstained or "nothing")
    first = answer.ranked[0]
    low, high = first.latency_ms_low, first.latency_ms_high
    reach = "" if low is None or high is None else f" ({low:.3g} to {high:.3g})"
    batch = "" if first.batch_size is None else f", batch {first.batch_size}"
    text = f"{first.latency_ms:.3g} ms{reach}, {first.platform} {first.precision}{batch}"
    return Cell(model, device, first.basis, first.interval_covered is True, text)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table and how many cells rest on more than specifications."""
    parser = argparse.ArgumentParser(prog="python -m research.answered_cells", description=__doc__.split("\n")[0])
    parser.add_argument("--server", required=True)
    options = parser.parse_args(arguments)
    with Client(options.server) as client:
        answered = cells(client)
    for cell in answered:
        covered = "" if cell.covered or cell.basis in ("imported", "measured") else "~"
        print(f"{cell.model:32} {cell.device:28} {cell.basis + covered:12} {cell.shown}")
    better = sum(cell.basis not in ("", "roofline") for cell in answered)
    print(f"{better} of {len(answered)} rest on more than specifications")


if __name__ == "__main__":
    main()
