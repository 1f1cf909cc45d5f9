"""Is our peak memory that of GNU time? Children that measure models of known weights, run under `time -v`.

    python -m benchmarks.memory [--models google-bert/bert-base-uncased,…] [--platform cpu] [--repeats 3]

GNU time prints the kernel's maximum resident set size of the whole life of a process. Where it is not installed the
same figure is taken from `wait4` (`ru_maxrss`), and the line says so. The bar is 3 %.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from domain.configuration import Workload
from runner.measure.stopping import Method
from runner.protocol.parent import send_task
from runner.protocol.tasks import Case, Failed, Finished, Measure, Message

BAR = 0.03
MODELS = "prajjwal1/bert-tiny,google-bert/bert-base-uncased,google/vit-base-patch16-224"


class Peak(NamedTuple):
    """Bytes: what our row says, what the reference says, and the weights at the precision asked for."""

    ours: int
    reference: int
    weights: int


def main() -> int:
    arguments = _arguments()
    program = shutil.which("time")
    reference = "GNU time" if program else "ru_maxrss of wait4 (GNU time is not installed)"
    print("what | ours | reference | ratio | bar")
    failed = False
    for model in arguments.models:
        peaks = [_peak(model, arguments.platform, program) for _ in range(arguments.repeats)]
        ratio = statistics.median(peak.ours / peak.reference for peak in peaks)
        outside = abs(ratio - 1) > BAR
        failed |= outside
        ours, theirs = (statistics.median(values) / 1e6 for values in list(zip(*peaks, strict=True))[:2])
        print(
            f"peak memory of {model}, {arguments.platform}, {peaks[0].weights / 1e6:.0f} MB of weights | {ours:.0f} MB "
            f"| {reference} {theirs:.0f} MB | {ratio:.4f} | {'outside' if outside else 'within'} ±{BAR:.0%}",
            flush=True,
        )
    return 1 if failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=MODELS.split(","), type=lambda text: text.split(","))
    parser.add_argument("--platform", default="cpu", choices=["cpu"], help="conversion would add a process of its own")
    parser.add_argument("--repeats", type=int, default=3)
    return parser.parse_args()


def _peak(model: str, platform: str, program: str | None) -> Peak:
    case = Case(
        model=model, platform=platform, precision="fp32", workload=Workload(mode="inference", batch_size=1),
        weights="random", threads=1,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "time"
        under = [program, "-v", "-o", str(report)] if program else []
        child = subprocess.Popen(
            [*under, sys.executable, "-m", "runner.protocol.child"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert child.stdin is not None
        assert child.stdout is not None
        send_task(child, Measure(case=case, method=Method(iterations=5, budget_s=1.0)))
        with child.stdin, child.stdout as messages:
            last = [msgspec.json.decode(line, type=Message) for line in messages][-1]
        _, _, usage = os.wait4(child.pid, 0)
        child.returncode = 0
        if isinstance(last, Failed) or not isinstance(last, Finished):
            raise SystemExit(f"{model}: {getattr(last, 'message', 'the child died')}")
        found = re.search(r"Maximum resident set size \(kbytes\): (\d+)", report.read_text()) if program else None
        kilobytes = int(found.group(1)) if found else usage.ru_maxrss
    weights = 4 * (last.result["model"].get("parameters") or 0)
    return Peak(ours=last.result["peak_memory_bytes"], reference=kilobytes * 1024, weights=weights)


if __name__ == "__main__":
    sys.exit(main())
