"""What does the stopping rule save, and does looking again and again bias it? Replays of series that were recorded.

    python -m benchmarks.stopping [--seconds 20] [--trials 300] [--series FILE.json]

Records the times of small torch models on this machine, as many calls as fit in `--seconds` each (kept in `--series`,
and read from it when it is there). The rule is replayed from random places in each series; the error is that of its
median against the median of the whole series. Beside it the fixed count of samples whose error, from the same places, is
as small at its ninth decile as the rule's. Then the same on drawn noise whose true median is known, as literature
describes it: normal, log-normal, with a tail, and with a memory from call to call.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import torch

from domain.statistics import dependence, quantile
from runner.measure.measuring import measure, timed_ms
from runner.measure.noise import noise
from runner.measure.stopping import MAXIMUM_SAMPLES, Method, next_look, stop_reason

TARGET = Method().interval_target
COUNTS = (10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000)


class Replayed(NamedTuple):
    """What the rule did from one place: samples taken, relative error of their median, and why it ended."""

    count: int
    error: float
    reason: str | None


def main() -> int:
    arguments = _arguments()
    random.seed(0)
    series = _series(arguments)
    print(
        "series | median, dependence | rule: samples, error p50 / p90, within ±1 % | fixed count as good | of its samples"
    )
    used, needed = [], []
    for name, times in series.items():
        replays, starts = _replays(times, arguments.trials)
        counts, errors = [each.count for each in replays], sorted(each.error for each in replays)
        limit = quantile(errors, 0.9)
        fixed = _fixed_count(times, starts, limit)
        used.append(statistics.mean(counts))
        needed.append(fixed)
        print(
            f"{name} | {statistics.median(times):.3f} ms, {dependence(times):.1f} | {statistics.median(counts):.0f} "
            f"({min(counts)}–{max(counts)}), {quantile(errors, 0.5):.2%} / {limit:.2%}, {_within(replays)} "
            f"| {fixed or f'> {COUNTS[-1]}'} | {f'{used[-1] / fixed:.2f}' if fixed else '–'}"
        )
    known = [count for count in needed if count]
    if known:
        print(
            f"one fixed count for all of them | | {statistics.mean(used):.0f} on average | {max(known)} "
            f"| {statistics.mean(used) / max(known):.2f}"
        )
    for name, draw in _LAWS.items():
        print(f"drawn: {name} | | {_drawn(draw, arguments.trials)} | |")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--series", type=Path)
    return parser.parse_args()


def _series(arguments: argparse.Namespace) -> dict[str, list[float]]:
    if arguments.series and arguments.series.exists():
        return dict(json.loads(arguments.series.read_bytes()))
    score = noise(2.0)
    print(f"machine | {score.verdict} | {'; '.join(score.reasons) or 'quiet'} | |")
    recorded = {name: _record(make, arguments.seconds) for name, make in _MODELS.items()}
    if arguments.series:
        arguments.series.write_text(json.dumps(recorded))
    return recorded


def _record(make: Callable[[], Callable[[], object]], seconds: float) -> list[float]:
    call = make()
    with torch.inference_mode():
        measure(call, _nothing, Method(budget_s=2.0, iterations=10))
        times, ends = [], perf_counter() + seconds
        while perf_counter() < ends:
            times.append(timed_ms(call, _nothing))
    return times


def _nothing() -> None:
    """The processor has finished when it returns."""


def _small(module: torch.nn.Module, *shape: int) -> Callable[[], object]:
    module.eval()
    inputs = torch.rand(*shape)
    return lambda: module(inputs)


_MODELS: dict[str, Callable[[], Callable[[], object]]] = {
    "linear 2048, batch 1": lambda: _small(torch.nn.Linear(2048, 2048), 1, 2048),
    "three layers 1024, batch 8": lambda: _small(
        torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(3))), 8, 1024
    ),
    "convolution 64, 56 × 56": lambda: _small(torch.nn.Conv2d(64, 64, 3, padding=1), 1, 64, 56, 56),
    "attention layer 256, 64 tokens": lambda: _small(
        torch.nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True), 1, 64, 256
    ),
    "four attention layers 512, 128 tokens": lambda: _small(
        torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True), 4), 1, 128, 512
    ),
}


def _replay(times: list[float], start: int, truth: float, method: Method) -> Replayed:
    """Apply the rule to the samples from one place on; the wall time of a call is its own time."""
    taken: list[float] = []
    elapsed_s, look = 0.0, 1
    for value in times[start:]:
        taken.append(value)
        elapsed_s += value / 1e3
        if len(taken) < look and elapsed_s < method.budget_s:
            continue
        reason = stop_reason(taken, elapsed_s, method)
        if reason:
            return Replayed(len(taken), abs(statistics.median(taken) / truth - 1), reason)
        look = min(next_look(len(taken)), MAXIMUM_SAMPLES)
    return Replayed(len(taken), abs(statistics.median(taken) / truth - 1), None)


def _replays(times: list[float], trials: int) -> tuple[list[Replayed], list[int]]:
    method, truth = Method(), statistics.median(times)
    starts = [random.randrange(max(1, len(times) // 2)) for _ in range(trials)]
    return [_replay(times, start, truth, method) for start in starts], starts


def _fixed_count(times: list[float], starts: list[int], limit: float) -> int | None:
    """Return the least of COUNTS whose error has a ninth decile of no more than `limit`."""
    truth = statistics.median(times)
    for count in COUNTS:
        taken = [times[start : start + count] for start in starts if start + count <= len(times)]
        if len(taken) >= len(starts) // 2:
            errors = sorted(abs(statistics.median(each) / truth - 1) for each in taken)
            if quantile(errors, 0.9) <= limit:
                return count
    return None


def _within(replays: list[Replayed]) -> str:
    """How often the median was within the target, of the series that the interval ended."""
    ended = [each for each in replays if each.reason == "interval"]
    good = sum(each.error <= TARGET for each in ended)
    return f"{good / len(ended):.1%} of {len(ended)}" if ended else "none ended by its interval"


def _memory(share: float, spread: float) -> Callable[[random.Random], Callable[[], float]]:
    def law(generator: random.Random) -> Callable[[], float]:
        state = generator.gauss(0, spread)

        def draw() -> float:
            nonlocal state
            state = share * state + math.sqrt(1 - share**2) * generator.gauss(0, spread)
            return math.exp(state)

        return draw

    return law


def _tailed(generator: random.Random) -> Callable[[], float]:
    """Normal noise of 2 %; one call in ten is up to many times longer. Its median is 1.0026, by 10⁶ draws."""

    def draw() -> float:
        tail = generator.expovariate(1 / 0.3) if generator.random() < 0.1 else 0.0
        return math.exp(generator.gauss(0, 0.02) + tail) / 1.0026

    return draw


_LAWS: dict[str, Callable[[random.Random], Callable[[], float]]] = {
    "normal, 2 %": _memory(0.0, 0.02),
    "log-normal, 5 %": _memory(0.0, 0.05),
    "log-normal, 10 %": _memory(0.0, 0.10),
    "2 % and a tail of one in ten": _tailed,
    "5 %, correlation 0.5 from call to call": _memory(0.5, 0.05),
    "3 %, correlation 0.9 from call to call": _memory(0.9, 0.03),
}


def _drawn(law: Callable[[random.Random], Callable[[], float]], trials: int) -> str:
    """Replay the rule on calls of about 5 ms whose median is known."""
    replays = []
    for trial in range(trials):
        draw = law(random.Random(trial))
        replays.append(_replay([5 * draw() for _ in range(1200)], 0, 5.0, Method()))
    counts = [each.count for each in replays]
    return f"{statistics.median(counts):.0f} ({min(counts)}–{max(counts)}), {_within(replays)}"


if __name__ == "__main__":
    sys.exit(main())
