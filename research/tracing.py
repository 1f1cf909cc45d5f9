"""How long the operators of each model of the catalogue take to trace: `python -m research.tracing [name…]`.

Answer: under a second of one core each, 1.3 s at most (docs/models.md).

Seconds of one core, torch loaded and its first trace done: what a question waits for that needs a trace. The five slowest
are named, with the seconds that building the model's class took of them.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Sequence

import torch

from domain.catalogues.models import catalogue
from domain.errors import AssayError
from runner.models.build import build_meta
from runner.models.sources import resolve
from runner.tracing.trace import trace

__all__ = ["main", "seconds"]

PATIENCE_S = 1.0
SLOWEST = 5


def seconds(name: str) -> tuple[float, float]:
    """Return the processor time of a model's trace at its usual sizes, and of building its class, in seconds."""
    source = resolve(name, "random")
    began = time.process_time()
    build_meta(source)
    built = time.process_time()
    trace(source)
    return time.process_time() - built, built - began


def main(names: Sequence[str], say: Callable[[str], None] = print) -> int:
    """Trace the models that are named, all by default; return 1 where one cannot be traced."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seconds("prajjwal1/bert-tiny")
    took: dict[str, tuple[float, float]] = {}
    failed = 0
    for name in names or [model.id for model in catalogue()]:
        try:
            took[name] = seconds(name)
        except AssayError as error:
            failed += 1
            say(f"{name}: {error}")
    under = sum(whole < PATIENCE_S for whole, _ in took.values())
    say(f"{under} of {len(took)} traces took under {PATIENCE_S:g} s of one core")
    for name, (whole, built) in sorted(took.items(), key=lambda pair: -pair[1][0])[:SLOWEST]:
        say(f"{whole:6.2f} s, {built:5.2f} s to build  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
