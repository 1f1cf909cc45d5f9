"""Is the measurer right? Our medians against torch's own timer and OpenVINO's benchmark_app, in interleaved pairs.

    python -m benchmarks.reference_timers [--pairs 10] [--budget 2] [--only BERT] [--platform cpu,openvino,cuda] [--threads N]

On `cuda` the time by the device's own events stands beside `triton.testing.do_bench`, the time of a call to torch's timer;
they have never been run on hardware. BERT-base, ViT-base, a decode step of GPT-2 and Whisper's encoder at full size with random weights. Ours and the
reference take turns at going first, so that what else the machine does falls on both. Prints for each line the medians
over the pairs, the ratio (ours over the reference) with the 95 % interval of its median (least and greatest below six
pairs), and whether it is within 0.97 to 1.03; then the spread of both over the repeats, and what our parent process
costs while a child measures. Exit 1 where a line is outside.
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import statistics
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import torch
from torch.utils.benchmark import Timer

from benchmarks.subjects import SUBJECTS, Subject
from domain.configuration import Workload
from domain.statistics import median_interval
from runner.machine.processor import threads_allowed
from runner.measure.measuring import measure
from runner.measure.noise import noise
from runner.measure.stopping import Method
from runner.measure.workloads import Forward
from runner.platforms.base import Converted, Platform, Recipe, Settings
from runner.platforms.openvino import OpenVino
from runner.platforms.torch_cuda import Cuda
from runner.platforms.torch_eager import Cpu
from runner.protocol.parent import run_task
from runner.protocol.tasks import Case, Measure

BAR = (0.97, 1.03)
IDLE_BAR = 0.01
HINTS = {"fp32": "f32", "bf16": "bf16"}


class Pairs(NamedTuple):
    """Medians in ms over the repeats of one line."""

    what: str
    reference: str
    ours_ms: list[float]
    theirs_ms: list[float]

    def said(self) -> tuple[str, bool]:
        """The line, and whether it is outside of the bar."""
        ratios = [ours / theirs for ours, theirs in zip(self.ours_ms, self.theirs_ms, strict=True)]
        middle = statistics.median(ratios)
        low, high = median_interval(sorted(ratios)) or (min(ratios), max(ratios))
        outside = high < BAR[0] or low > BAR[1]
        inside = BAR[0] <= low and high <= BAR[1]
        word = "outside" if outside else "within" if inside else "inconclusive: the interval reaches past"
        ours, theirs = statistics.median(self.ours_ms), statistics.median(self.theirs_ms)
        line = (
            f"{self.what} | {ours:.3f} ms | {self.reference} {theirs:.3f} ms | {middle:.3f} [{low:.3f}, {high:.3f}] "
            f"| {word} {BAR[0]}–{BAR[1]}"
        )
        return line, outside

    def spread(self) -> str:
        """The run-to-run spread of the reported medians: middle half over the median."""
        ours, theirs = (_spread(values) for values in (self.ours_ms, self.theirs_ms))
        return f"{self.what}: spread | {ours:.2%} | {theirs:.2%} | {len(self.ours_ms)} repeats | no larger"


def main() -> int:
    arguments = _arguments()
    quiet = noise(3.0)
    print(f"machine | {quiet.verdict} | {'; '.join(quiet.reasons) or 'quiet'} | {arguments.threads} threads |")
    print("what | ours | reference | ratio [95 %] | bar")
    done, failed = [], False
    for pairs in _lines(arguments):
        line, outside = pairs.said()
        print(line, flush=True)
        done.append(pairs)
        failed |= outside
    for pairs in done:
        print(pairs.spread())
    return 1 if _parent_is_busy(arguments) or failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--budget", type=float, default=2.0, help="seconds that either side may take for one median")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--platform", default="cpu,openvino", type=lambda text: text.split(","))
    parser.add_argument("--threads", type=int, default=threads_allowed())
    return parser.parse_args()


def _lines(arguments: argparse.Namespace) -> Iterator[Pairs]:
    for name, make in SUBJECTS.items():
        if arguments.only.lower() not in name.lower():
            continue
        torch.set_num_threads(arguments.threads)
        torch.manual_seed(0)
        subject = make()
        if "cpu" in arguments.platform:
            yield _torch_line(name, subject, arguments)
        if "openvino" in arguments.platform:
            with tempfile.TemporaryDirectory() as folder:
                OpenVino().convert(subject.module, subject.inputs, Path(folder), Recipe())
                for precision in HINTS:
                    yield _openvino_line(name, subject, Path(folder), precision, arguments)
        if "cuda" in arguments.platform:
            yield from _cuda_lines(name, subject, arguments)


def _torch_line(name: str, subject: Subject, arguments: argparse.Namespace) -> Pairs:
    platform = Cpu()
    platform.load(subject.module, Settings(precision="fp32", threads=arguments.threads))
    platform.compile()
    placed = platform.place(subject.inputs)
    timer = Timer("run(placed)", globals={"run": platform.run, "placed": placed}, num_threads=arguments.threads)

    def theirs() -> float:
        return float(timer.blocked_autorange(min_run_time=arguments.budget / 2).median * 1e3)

    return Pairs(
        f"{name}, torch fp32", "Timer", *_alternate(_ours(platform, placed, arguments), theirs, arguments.pairs)
    )


def _openvino_line(name: str, subject: Subject, folder: Path, precision: str, arguments: argparse.Namespace) -> Pairs:
    platform = OpenVino()
    platform.load(Converted(folder=folder), Settings(precision=precision, threads=arguments.threads))
    platform.compile()
    placed = platform.place({key: tensor.numpy() for key, tensor in subject.inputs.items()})

    def theirs() -> float:
        return _benchmark_app(folder / "model.xml", precision, arguments)

    measured = _alternate(_ours(platform, placed, arguments), theirs, arguments.pairs)
    platform.close()
    return Pairs(f"{name}, OpenVINO {precision}", "benchmark_app", *measured)


def _cuda_lines(name: str, subject: Subject, arguments: argparse.Namespace) -> Iterator[Pairs]:
    platform = Cuda()
    probe = platform.probe()
    if not probe.available:
        raise SystemExit(f"cuda: {probe.reason} {probe.remedy or ''}")
    # The CUDA builds of torch bring it, no other does.
    from triton.testing import do_bench

    platform.load(subject.module, Settings(precision="fp32", threads=arguments.threads))
    platform.compile()
    placed = platform.place(subject.inputs)
    timer = Timer("run(placed)", globals={"run": platform.run, "placed": placed})

    def by_events() -> float:
        """Each call is in its own interval of the device's clock, with the calls before it finished: `device_time_ms`."""
        work = Forward(platform, placed)
        calls = len(measure(work, platform.synchronize, Method(budget_s=arguments.budget)).samples_ms)
        return statistics.median(call[0] for call in work.parts(calls)["device_time_ms"])

    def do_benchs() -> float:
        half = arguments.budget * 1e3 / 2
        return float(do_bench(lambda: platform.run(placed), warmup=half / 4, rep=half, return_mode="median"))

    def timers() -> float:
        return float(timer.blocked_autorange(min_run_time=arguments.budget / 2).median * 1e3)

    yield Pairs(f"{name}, CUDA fp32, events", "do_bench", *_alternate(by_events, do_benchs, arguments.pairs))
    yield Pairs(f"{name}, CUDA fp32", "Timer", *_alternate(_ours(platform, placed, arguments), timers, arguments.pairs))


def _ours(platform: Platform, placed: object, arguments: argparse.Namespace) -> Callable[[], float]:
    method = Method(budget_s=arguments.budget)
    platform.run(placed)
    return lambda: statistics.median(measure(lambda: platform.run(placed), platform.synchronize, method).samples_ms)


def _alternate(ours: Callable[[], float], theirs: Callable[[], float], pairs: int) -> tuple[list[float], list[float]]:
    ours_ms, theirs_ms = [], []
    for pair in range(pairs):
        sides = [(ours, ours_ms), (theirs, theirs_ms)]
        for side, into in reversed(sides) if pair % 2 else sides:
            into.append(side())
    return ours_ms, theirs_ms


def _benchmark_app(model: Path, precision: str, arguments: argparse.Namespace) -> float:
    """Return the median latency that OpenVINO's own benchmark reports, in ms."""
    # Beside a hint the program takes threads only from a file.
    settings = model.parent / "benchmark_app.json"
    settings.write_text(json.dumps({"CPU": {"INFERENCE_NUM_THREADS": arguments.threads}}))
    command = [
        sys.executable, "-c", "from openvino.tools.benchmark.main import main; main()", "-m", str(model), "-d", "CPU", "-hint", "latency",
        "-infer_precision", HINTS[precision], "-t", str(max(1, round(arguments.budget))), "-load_config", str(settings),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Median:\s+([\d.]+) ms", done.stdout)
    if done.returncode or not found:
        raise SystemExit(f"benchmark_app failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return float(found.group(1))


def _spread(values: list[float]) -> float:
    if len(values) < 3:
        return max(values) / min(values) - 1
    quarters = statistics.quantiles(values, n=4, method="inclusive")
    return (quarters[2] - quarters[0]) / statistics.median(values)


def _parent_is_busy(arguments: argparse.Namespace) -> bool:
    """Measure one model in a child, as a benchmark does, and say what this process used of a core meanwhile."""
    workload = Workload(mode="inference", batch_size=1, sequence_length=128)
    case = Case(
        model="google-bert/bert-base-uncased", platform="cpu", precision="fp32", workload=workload, weights="random",
        threads=arguments.threads,
    )  # fmt: skip
    wall, own = perf_counter(), process_time()
    ended = run_task(Measure(case=case, method=Method(budget_s=arguments.budget)), timeout_s=600)
    wall, own = perf_counter() - wall, process_time() - own
    if ended.failure:
        raise SystemExit(f"the child failed: {ended.failure.message}")
    print(
        f"CPU of our parent, BERT-base in a child for {wall:.1f} s | {own / wall:.2%} of a core | | | ≤ {IDLE_BAR:.0%}"
    )
    return own / wall > IDLE_BAR


if __name__ == "__main__":
    # What torch and transformers warn of while they trace is not about the times.
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    sys.exit(main())
