"""Does a training step on ranks take what it takes in a plain script under torchrun? Interleaved pairs, by DDP and FSDP2.

    python -m benchmarks.torchrun [--pairs 10] [--steps 40] [--ranks 2] [--model bert-tiny] [--batch 8] [--length 64]

The script is the worker below, started by `python -m torch.distributed.run`: the model of the same architecture, a batch of
the same shapes, AdamW, and each step timed on the first rank from the forward pass to the optimizer's end. Ours and the script
take turns at going first. Prints the median over the pairs of ours over the script's, with the 95 % interval of that median
(least and greatest below six pairs); exit 1 where it is outside of 0.98 to 1.02 for certain.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path
from time import perf_counter

from domain.configuration import Workload
from domain.statistics import median_interval
from runner.machine.processor import threads_allowed
from runner.measure.stopping import Method
from runner.protocol.parent import run_task
from runner.protocol.tasks import Case, Measure

BAR = (0.98, 1.02)
WARM_UP = 10
OPTIONS = {"ddp": "data-parallel", "fsdp2": "fsdp"}


def main() -> int:
    """Compare both strategies; return 1 where one is outside of the bar."""
    arguments = _arguments()
    if arguments.worker:
        worker(arguments, arguments.worker)
        return 0
    outside = False
    print("strategy | ours | torchrun | ratio [95 %] | verdict")
    for strategy in OPTIONS:
        ours: list[float] = []
        theirs: list[float] = []
        for pair in range(arguments.pairs):
            turns = ((ours, measured), (theirs, scripted))
            for times, step_ms in turns if pair % 2 else reversed(turns):
                times.append(step_ms(arguments, strategy))
        outside |= told(strategy, ours, theirs)
    return int(outside)


def told(strategy: str, ours: list[float], theirs: list[float]) -> bool:
    """Print one line; return whether the ratio is outside of the bar for certain."""
    ratios = sorted(our / their for our, their in zip(ours, theirs, strict=True))
    low, high = median_interval(ratios) or (ratios[0], ratios[-1])
    outside = high < BAR[0] or low > BAR[1]
    inside = BAR[0] <= low and high <= BAR[1]
    verdict = "outside" if outside else "within" if inside else "inconclusive: the interval reaches past"
    print(
        f"{strategy} | {statistics.median(ours):.3f} ms | {statistics.median(theirs):.3f} ms "
        f"| {statistics.median(ratios):.3f} [{low:.3f}, {high:.3f}] | {verdict} {BAR[0]}–{BAR[1]}",
        flush=True,
    )
    return outside


def measured(arguments: argparse.Namespace, strategy: str) -> float:
    """Return the median of our steps in ms."""
    case = Case(
        model=arguments.model,
        platform="cpu",
        precision="fp32",
        workload=_workload(arguments),
        weights="random",
        options=(f"{OPTIONS[strategy]}={arguments.ranks}",),
    )
    ended = run_task(Measure(case=case, method=Method(iterations=arguments.steps)), timeout_s=600)
    if ended.failure:
        raise SystemExit(ended.failure.message)
    samples: list[float] = ended.result["series"]["samples_ms"]
    return statistics.median(samples)


def scripted(arguments: argparse.Namespace, strategy: str) -> float:
    """Return the median of the script's steps in ms."""
    launch = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(arguments.ranks)]
    how = [
        "--worker",
        strategy,
        *(word for name in ("steps", "model", "batch", "length") for word in _flag(arguments, name)),
    ]
    threads = str(max(1, threads_allowed() // arguments.ranks))
    environment = {**os.environ, "OMP_NUM_THREADS": threads, "GLOO_SOCKET_IFNAME": "lo"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *launch, "-m", "benchmarks.torchrun", *how],
        stdout=subprocess.PIPE, env=environment, text=True, check=True,
    )  # fmt: skip
    return float(done.stdout.split()[-1])


def worker(arguments: argparse.Namespace, strategy: str) -> None:
    """Train as a plain script does, and print the median of its steps in ms on the first rank."""
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    from runner.models.build import build
    from runner.models.inputs import training_inputs
    from runner.models.sources import resolve

    dist.init_process_group("gloo")
    built = build(resolve(arguments.model, "random"), purpose="training")
    module, local = built.module, arguments.batch // dist.get_world_size()
    batch = training_inputs(built, _workload(arguments))
    part = slice(dist.get_rank() * local, (dist.get_rank() + 1) * local)
    inputs = {name: torch.as_tensor(value)[part] for name, value in batch.items()}
    module.train()
    if strategy == "ddp":
        module = DistributedDataParallel(module)
    else:
        for blocks in [each for each in module.modules() if isinstance(each, torch.nn.ModuleList)]:
            for block in blocks:
                fully_shard(block)
        fully_shard(module)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-5)
    times = []
    for _ in range(WARM_UP + arguments.steps):
        began = perf_counter()
        module(**inputs).loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append((perf_counter() - began) * 1e3)
    if dist.get_rank() == 0:
        print(statistics.median(times[WARM_UP:]), flush=True)
    dist.destroy_process_group()


def _workload(arguments: argparse.Namespace) -> Workload:
    return Workload(mode="training", optimizer="adamw", batch_size=arguments.batch, sequence_length=arguments.length)


def _flag(arguments: argparse.Namespace, name: str) -> tuple[str, str]:
    return f"--{name}", str(getattr(arguments, name))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--model", default="bert-tiny")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--worker", choices=tuple(OPTIONS), help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
