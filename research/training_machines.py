"""Are trees that several machines fit together as good as those of one?

    python -m research.training_machines TABLES.duckdb [--machines 2]

TABLES.duckdb is the file of tables in an ASSAY_HOME, after `assay import timm results/`. One of five groups of architectures is
left out; the others train, once in one process, then in several over LightGBM's sockets on this machine. Printed are the
mean error of throughput on what was left out, of the whole method and of the trees alone, and what each process spent.

Answer: yes. Of timm's 21,562 rows that trained, the mean error on the others was 5.621 % with one and 5.605 % with two
(trees alone 9.306 and 9.261 %), and both processes had the same trees.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np

from domain.errors import AssayError
from ingest.projection import Tables
from predictor.features.coordinates import WIDE
from predictor.features.operators_route import tabulate
from predictor.features.table import Array, Table
from predictor.learning.blend import BlendMethod, wide
from predictor.learning.machines import MachineList, Machines, joined
from predictor.service import Answerer

FIRST_PORT = 29_400


def main() -> int:
    """Print a row for one machine and one for several, or be one of the several."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--machines", type=int, default=2)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    table = _table(options.tables)
    if options.rank is not None:
        own = MachineList(
            machines=[f"127.0.0.1:{FIRST_PORT + rank}" for rank in range(options.machines)],
            rank=options.rank,
            wait_s=300,
        )
        with joined(own, "research", 0, _lost) as machines:
            row = _row(str(options.machines), table, machines)
        print(row)
        return 0
    print(
        "| machines | rows | method | trees alone | s | s of processor | digest of the trees |\n" + "| --- " * 7 + "|"
    )
    print(_row("1", table, None), flush=True)
    command = [
        sys.executable,
        "-m",
        "research.training_machines",
        str(options.tables),
        "--machines",
        str(options.machines),
    ]
    several = [subprocess.Popen([*command, "--rank", str(rank)]) for rank in range(options.machines)]
    return max(process.wait() for process in several)


def _lost(error: AssayError) -> None:
    print(error, file=sys.stderr)
    os._exit(3)


def _table(path: Path) -> Table:
    with duckdb.connect(str(path), read_only=True) as connection:
        rows, book, devices = Answerer._training_data(Tables(connection), mode="inference")
        return tabulate(rows, book, devices.spec)


def _row(name: str, table: Table, machines: Machines | None) -> str:
    """Train on four of five architectures and return what the fifth says of it."""
    folds = [int(hashlib.sha256(str(item).encode()).hexdigest(), 16) % 5 for item in table.architecture]
    left = np.array(folds) == 0
    train, test = table.take(np.flatnonzero(~left)), table.take(np.flatnonzero(left))
    begun, before = time.monotonic(), time.process_time()
    fitted = BlendMethod(machines=machines).fit(train)
    took, spent = time.monotonic() - begun, time.process_time() - before
    method = _error(fitted.predict(test).residual, test)
    trees = _error(fitted.trees.predict(wide(test) * (np.array(WIDE) != "log_batch")), test)
    digest = hashlib.sha256("".join(fitted.trees.texts.values()).encode()).hexdigest()[:12]
    return f"| {name} | {len(train):,} | {method:.3%} | {trees:.3%} | {took:.0f} | {spent:.0f} | {digest} |"


def _error(residual: Array, test: Table) -> float:
    return float(np.mean(np.abs(np.expm1(test.residual - residual))))


if __name__ == "__main__":
    raise SystemExit(main())
