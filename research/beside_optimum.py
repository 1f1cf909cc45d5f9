"""Side by side with optimum-benchmark: the same checkpoints, threads and seconds, each with the command its users type.

Answer: our latencies are 0.60 of its own, our whole run took 20 s against 17 s for BERT-base and 25 s against 32 s for
generation, and our parent process takes next to nothing while its own takes 70 % of a core (docs/method.md).

    python -m research.beside_optimum [--pairs 5] [--seconds 5] [--threads N] [--only BERT]

Both start from nothing, load the same weights from a folder, warm up and measure; they take turns at going first. Prints for
each model the medians over the pairs, the median ratio of the latencies, the seconds of the whole run on either side, and what
share of a core their parent process uses while its child works (ours: `benchmarks.reference_timers`). Exit 1 where our whole
run takes longer than theirs. It tells and has no bar for the latencies: which of two timers is right is what
`benchmarks.reference_timers` asks. Needs a package index once, for .bench-venv/optimum.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, PreTrainedModel, ViTConfig
from transformers import ViTForImageClassification as ViT

from benchmarks.peers import environment
from benchmarks.serving import ROOT
from runner.machine.processor import threads_allowed

TOKENS, NEW_TOKENS = 128, 32
_FRESH = {"batch_size": 1, "sequence_length": TOKENS}


class Beside(NamedTuple):
    """A model, how the peer is asked for it, which sizes our command takes, and which of our figures answers."""

    make: Callable[[], PreTrainedModel]
    asked: dict[str, Any]
    sizes: tuple[str, ...] = ()
    metric: str = "latency_ms"


MODELS = {
    "BERT-base, 128 tokens": Beside(
        lambda: BertModel(BertConfig()),
        {"task": "feature-extraction", "model_type": "bert", "shapes": _FRESH},
        ("--sequence-lengths", str(TOKENS)),
    ),
    "ViT-base, 224 × 224": Beside(
        lambda: ViT(ViTConfig()), {"task": "image-classification", "model_type": "vit", "shapes": {"batch_size": 1}}
    ),
    f"GPT-2, a token of {NEW_TOKENS} after {TOKENS}": Beside(
        lambda: GPT2LMHeadModel(GPT2Config()),
        {"task": "text-generation", "model_type": "gpt2", "shapes": _FRESH, "new_tokens": NEW_TOKENS},
        ("--input-tokens", str(TOKENS), "--output-tokens", str(NEW_TOKENS)),
        "tpot_ms",
    ),
}


def main() -> int:
    arguments = _arguments()
    python = environment("optimum")
    slower = False
    print("what | ours | optimum-benchmark | ratio | whole run: ours | its own | its parent")
    with tempfile.TemporaryDirectory() as folder:
        for name, model in MODELS.items():
            if arguments.only.lower() not in name.lower():
                continue
            checkpoint = Path(folder) / model.asked["model_type"]
            model.make().save_pretrained(checkpoint)
            ours, theirs = _pairs(python, checkpoint, model, arguments)
            ratio = statistics.median(one["ms"] / other["ms"] for one, other in zip(ours, theirs, strict=True))
            mine, other, wall, its_wall, parent = (
                statistics.median(one[key] for one in side)
                for side, key in (
                    (ours, "ms"),
                    (theirs, "ms"),
                    (ours, "wall_s"),
                    (theirs, "wall_s"),
                    (theirs, "parent"),
                )
            )
            slower |= wall > its_wall
            print(
                f"{name} | {mine:.2f} ms | {other:.2f} ms | {ratio:.3f} | {wall:.1f} s | {its_wall:.1f} s | {parent:.1%}"
            )
    return int(slower)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5, help="of steady measuring, on either side")
    parser.add_argument("--threads", type=int, default=threads_allowed())
    parser.add_argument("--only", default="", help="models whose name contains this")
    return parser.parse_args()


def _pairs(python: Path, checkpoint: Path, model: Beside, arguments: argparse.Namespace) -> tuple[list[Any], list[Any]]:
    ours: list[Any] = []
    theirs: list[Any] = []
    for pair in range(arguments.pairs):
        for side in (1, 0) if pair % 2 else (0, 1):
            if side:
                theirs.append(_theirs(python, checkpoint, model, arguments))
            else:
                ours.append(_ours(checkpoint, model, arguments))
    return ours, theirs


def _ours(checkpoint: Path, model: Beside, arguments: argparse.Namespace) -> dict[str, float]:
    events = checkpoint / "events.ndjson"
    events.unlink(missing_ok=True)
    command = [
        sys.executable, "-m", "assay.cli", "bench", str(checkpoint), "--platform", "cpu", "--precision", "fp32",
        "--threads", str(arguments.threads), "--budget", str(arguments.seconds), "--out", str(events), *model.sizes,
    ]  # fmt: skip
    begin = perf_counter()
    _run(command)
    wall = perf_counter() - begin
    for event in map(json.loads, events.read_text().splitlines()):
        if event["type"] == "assay.measurement.recorded.v1":
            found = event["data"]["metrics"][model.metric]
            return {"ms": found["p50"] if isinstance(found, dict) else found, "wall_s": wall}
    raise SystemExit(f"nothing was measured: {events.read_text()[-2000:]}")


def _theirs(python: Path, checkpoint: Path, model: Beside, arguments: argparse.Namespace) -> dict[str, float]:
    asked = {**model.asked, "model": str(checkpoint), "threads": arguments.threads, "seconds": arguments.seconds}
    begin = perf_counter()
    told = _run([str(python), str(ROOT / "benchmarks" / "programs" / "optimum_peer.py"), json.dumps(asked)])
    found: dict[str, float] = json.loads(told.splitlines()[-1])
    return {**found, "wall_s": perf_counter() - begin}


def _run(command: list[str]) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[1:4]} failed:\n{done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
