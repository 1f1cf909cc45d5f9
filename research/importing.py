"""How fast are other tools' files read, and does the memory stay flat? `assay import … --dry-run`, as a user types it.

Answer: 69,000 rows a second of timm's files, 23,000 of a mapped table, at the same memory for ten times the rows
(docs/importers.md).

    python -m research.importing [--rows 200000] [--repeats 3] [--formats timm,table] [--memory]

Files are made first. A rate is the rows over the time that they take beyond an import of one row, which is what Python
and the catalogues cost to start; everything that a dry run does is in it: reading, cleaning, ids, checking, counting.
Beside other work the second line, by the processor's time, is the one to look at. The peer is the bare reading of the
same file by Python's csv module into a dictionary a row, its numbers made floats, written as JSON. `--memory` compares
the kernel's maximum resident set size of 50,000 and of 500,000 rows. The bars are 100,000 rows/s, and 1.15 times the
memory for ten times the rows.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from benchmarks.lines import HEADER, Limit, Line, growth, plain, rates

RATE = Limit(bar=100_000)
GROWTH = Limit(bar=1.15, most=True)
TIMM = "benchmark-infer-amp-nhwc-pt240-cu124-rtx4090.csv"
MAPPING = """\
columns:
  model: {column: network}
  mode: {value: inference}
  hardware: {value: NVIDIA L4}
  platform: {value: cuda}
  precision: {column: dtype}
  batch_size: {column: batch}
  latency_ms.mean: {column: time, unit: s}
  throughput_per_s: {column: rate}
"""


class Ran(NamedTuple):
    """What an import took: wall seconds, seconds of a processor, and bytes of memory at their highest."""

    seconds: float
    cpu_s: float
    peak_bytes: int


def main() -> int:
    arguments = _arguments()
    print(HEADER, flush=True)
    good = True
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.formats:
            lines = _memory(name, Path(folder)) if arguments.memory else _rate(name, Path(folder), arguments)
            for line in lines:
                print(line.text(), flush=True)
                good &= line.passed is not False
    return 0 if good else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--formats", type=lambda text: text.split(","), default=list(MADE))
    parser.add_argument("--memory", action="store_true")
    return parser.parse_args()


def _rate(name: str, folder: Path, arguments: argparse.Namespace) -> list[Line]:
    one, many = MADE[name](folder / "one", 1), MADE[name](folder / "many", arguments.rows)
    ours, cpu, peer = [], [], []
    for _ in range(arguments.repeats):
        start, whole = _import(name, one), _import(name, many)
        ours.append(arguments.rows / (whole.seconds - start.seconds))
        cpu.append(arguments.rows / (whole.cpu_s - start.cpu_s))
        peer.append(arguments.rows / _bare(many))
    what = f"import of {arguments.rows:,} rows of {name}, dry run"
    return [
        plain(what, "rows/s", ours, RATE),
        rates(f"{what}, a second of the processor", "rows/s", cpu, peer, "csv module, floats, JSON out"),
    ]


def _memory(name: str, folder: Path) -> list[Line]:
    small, large = (_import(name, MADE[name](folder / str(rows), rows)).peak_bytes for rows in (50_000, 500_000))
    what = f"peak memory of an import of 500,000 rows of {name}"
    return [growth(what, "bytes", [large], [small], "50,000 rows", GROWTH)]


def _import(name: str, path: Path) -> Ran:
    begin = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "assay.cli", "import", name, str(path), "--dry-run", "--json"], stdout=subprocess.PIPE
    )
    assert child.stdout is not None
    told = json.loads(child.stdout.read())
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode or told["refused"]:
        raise SystemExit(f"{name}: {told['reasons'][:1]}")
    return Ran(time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def _bare(path: Path) -> float:
    """Return the processor's seconds of reading a table, and of writing its rows as JSON, without what makes events."""
    begin = time.process_time()
    with path.open(newline="") as text, Path(os.devnull).open("w") as out:
        for row in csv.DictReader(text):
            json.dump({name: _number(value) for name, value in row.items()}, out)
    return time.process_time() - begin


def _number(value: str) -> float | str:
    try:
        return float(value)
    except ValueError:
        return value


def _timm(folder: Path, rows: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / TIMM
    with path.open("w") as out:
        out.write(
            "model,infer_img_size,infer_samples_per_sec,infer_step_time,infer_batch_size,param_count,infer_gmacs\n"
        )
        for n in range(rows):
            ms = 5 + (n * 7919 % 100_003) / 1000
            out.write(
                f"resnet{n % 1500}d.a1_in1k,{224 + 32 * (n % 5)},{256e3 / ms:.2f},{ms:.3f},256,{n % 300 + 0.57:.2f},4.1\n"
            )
    return path


def _table(folder: Path, rows: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / "times.csv"
    Path(f"{path}.mapping.yaml").write_text(MAPPING)
    with path.open("w") as out:
        out.write("network,dtype,batch,time,rate\n")
        for n in range(rows):
            batch = 1 << n % 8
            seconds = batch * (1 + n % 500 / 100) * (2e-3 + (n * 7919 % 100_003) / 1e9)
            out.write(f"bert-base-{n % 500},float16,{batch},{seconds:.6f},{batch / seconds:.3f}\n")
    return path


MADE: dict[str, Callable[[Path, int], Path]] = {"timm": _timm, "table": _table}
"""Format → what makes a file of so many rows in a folder."""


if __name__ == "__main__":
    sys.exit(main())
