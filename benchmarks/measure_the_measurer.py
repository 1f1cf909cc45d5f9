"""Is the measurer right? Our median against torch's own timer and a bare OpenVINO loop, interleaved in one process.

    python -m benchmarks.measure_the_measurer [--model sentence-transformers/all-MiniLM-L6-v2] [--pairs 10] [--budget 2] [--batch-size 1]

Prints, for each platform, the ratio of medians (ours over the reference) over the pairs with its interval. The bar is
0.97 to 1.03. Both sides run the same module with the same inputs and threads, and take turns at going first, so that
what else the machine does falls on both.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch.utils.benchmark import Timer

from domain.configuration import Workload
from domain.statistics import median_interval
from runner.build import build
from runner.inputs import make_inputs
from runner.measuring import measure
from runner.platforms.base import Converted, Platform, Settings
from runner.platforms.openvino import OpenVino
from runner.platforms.torch_eager import Cpu
from runner.processor import threads_allowed
from runner.sources import resolve
from runner.stopping import Method


def main() -> int:
    arguments = _arguments()
    threads = threads_allowed()
    built = build(resolve(arguments.model, "random"))
    inputs = make_inputs(built, Workload(mode="inference", batch_size=arguments.batch_size))
    failed = False
    for platform in (OpenVino(), Cpu()):
        placed = _ready(platform, built.module, inputs, threads)
        reference = _torch_timer if isinstance(platform, Cpu) else _bare_loop
        ratios = _ratios(platform, placed, reference, arguments, threads)
        middle = statistics.median(ratios)
        low, high = median_interval(sorted(ratios)) or (min(ratios), max(ratios))
        outside = high < 0.97 or low > 1.03
        failed |= outside
        wide = low < 0.97 or high > 1.03
        word = "outside" if outside else "inconclusive on this machine: its interval reaches past" if wide else "within"
        print(
            f"{platform.name:9} {arguments.model} batch {arguments.batch_size}: ratio {middle:.3f} "
            f"[{low:.3f}, {high:.3f}] over {len(ratios)} pairs: {word} 0.97–1.03"
        )
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="sentence-transformers/all-MiniLM-L6-v2")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--budget", type=float, default=2.0)
    parser.add_argument("--batch-size", type=int, default=1)
    return parser.parse_args()


def _ready(platform: Platform, module: Any, inputs: dict[str, Any], threads: int) -> Any:
    settings = Settings(precision="fp32", threads=threads)
    if platform.converts:
        folder = Path(tempfile.mkdtemp())
        platform.convert(module, inputs, folder)
        platform.load(Converted(folder=folder), settings)
    else:
        platform.load(module, settings)
    platform.compile()
    placed = platform.place(inputs)
    platform.run(placed)
    return placed


def _ratios(
    platform: Platform,
    placed: Any,
    reference: Callable[[Platform, Any, float, int], float],
    arguments: argparse.Namespace,
    threads: int,
) -> list[float]:
    def ours() -> float:
        series = measure(lambda: platform.run(placed), platform.synchronize, Method(budget_s=arguments.budget))
        return statistics.median(series.samples_ms)

    ratios = []
    for pair in range(arguments.pairs):
        if pair % 2:
            theirs_ms, ours_ms = reference(platform, placed, arguments.budget, threads), ours()
        else:
            ours_ms, theirs_ms = ours(), reference(platform, placed, arguments.budget, threads)
        ratios.append(ours_ms / theirs_ms)
    return ratios


def _torch_timer(platform: Platform, placed: Any, budget_s: float, threads: int) -> float:
    timer = Timer("run(placed)", globals={"run": platform.run, "placed": placed}, num_threads=threads)
    found = timer.blocked_autorange(min_run_time=budget_s / 2)
    torch.set_num_threads(threads)
    return found.median * 1e3


def _bare_loop(_platform: Platform, placed: Any, budget_s: float, _threads: int) -> float:
    """A request run again and again with nothing between: what OpenVINO's own benchmark does in Python."""
    times = []
    end = perf_counter() + budget_s / 2
    while perf_counter() < end:
        started = perf_counter()
        placed.infer()
        times.append((perf_counter() - started) * 1e3)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(main())
