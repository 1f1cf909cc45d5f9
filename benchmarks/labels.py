"""How often does a verdict blame a good measurement? Small workloads again and again, in moments that were quiet.

    python -m benchmarks.labels [--runs 100] [--budget 1] [--threads N]

Each run is a child as a benchmark starts it, between two noise scores of one second. Runs between two that pass count:
what is labelled there is labelled wrongly, for all that can be known. The bar is 2 %. Runs beside a noisy moment are
counted apart. Prints each label with how often it came. Exit 1 above the bar, 3 where no moment was quiet.
"""

from __future__ import annotations

import argparse
import itertools
import re
import sys
from collections import Counter

from domain.configuration import Workload
from domain.verdicts import judge
from runner.campaign.event_payloads import observed_of
from runner.machine.processor import threads_allowed
from runner.measure.measuring import circumstances_of
from runner.measure.noise import noise
from runner.measure.stopping import Method
from runner.protocol.parent import run_task
from runner.protocol.tasks import Case, Measure

BAR = 0.02
MODEL = "prajjwal1/bert-tiny"
SIZES = ((1, 32), (1, 128), (4, 128), (8, 256))
METRICS = ("latency_ms", "throughput_per_s", "load_ms", "first_run_ms", "peak_memory_bytes")


def main() -> int:
    arguments = _arguments()
    counted: Counter[bool] = Counter()
    suspect: Counter[bool] = Counter()
    labels: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
    before = noise(1.0)
    for _, (batch, length) in zip(range(arguments.runs), itertools.cycle(SIZES)):
        reasons = _reasons(batch, length, arguments)
        after = noise(1.0)
        quiet = before.verdict == after.verdict == "pass"
        counted[quiet] += 1
        suspect[quiet] += bool(reasons)
        labels[quiet].update(reasons)
        before = after
    for quiet, moment in ((True, "quiet"), (False, "noisy")):
        if not counted[quiet]:
            print(f"labelled in {moment} moments | no run | | |")
            continue
        share = suspect[quiet] / counted[quiet]
        bar = f"≤ {BAR:.0%}" if quiet else ""
        print(f"labelled in {moment} moments | {suspect[quiet]} of {counted[quiet]} runs | | {share:.1%} | {bar}")
        for label, times in labels[quiet].most_common():
            print(f"  {times:4} × {label}")
    if not counted[True]:
        return 3
    return 1 if suspect[True] / counted[True] > BAR else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--budget", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=threads_allowed())
    return parser.parse_args()


def _reasons(batch: int, length: int, arguments: argparse.Namespace) -> set[str]:
    """Return the labels of one run, their numbers left out so that they can be counted."""
    workload = Workload(mode="inference", batch_size=batch, sequence_length=length)
    case = Case(
        model=MODEL, platform="cpu", precision="fp32", workload=workload, weights="random", threads=arguments.threads
    )
    ended = run_task(Measure(case=case, method=Method(budget_s=arguments.budget)), timeout_s=300)
    if ended.failure:
        raise SystemExit(f"a run failed: {ended.failure.message}")
    series, observed = ended.result["series"], observed_of(case, ended.result["observed"])
    found = judge(series["samples_ms"], METRICS, circumstances_of(series, observed))
    return {re.sub(r"[-+±]?\d[\d.,]*", "…", reason) for reason in found.reasons}


if __name__ == "__main__":
    sys.exit(main())
