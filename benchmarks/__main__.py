"""Runs the benchmarks: one line a comparison on stdout, all samples in benchmarks/results, progress on stderr."""

from __future__ import annotations

import argparse
import signal
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import psutil

from benchmarks.before_after import kept_results, table
from benchmarks.bench import Bench, Plan
from benchmarks.lines import HEADER, Line
from benchmarks.machine import machine
from benchmarks.page import write_page
from benchmarks.peers import pinned
from benchmarks.rows import ROWS, Row

RESULTS = Path(__file__).parent / "results"
VERSION = 1
"""Of the shape of a result file."""


def main() -> int:
    """Run what was asked for; return 1 where a bar is missed or a benchmark fails."""
    arguments = _arguments()
    if arguments.list:
        for name, row in ROWS.items():
            print(f"{name:20} {((row.__module__ and sys.modules[row.__module__].__doc__) or '').splitlines()[0]}")
        return 0
    if arguments.page:
        write_page(RESULTS)
        return 0
    if arguments.before:
        return _compare(arguments.before, arguments.after, arguments.out)
    unknown = set(arguments.names) - set(ROWS)
    if unknown:
        print(f"no benchmark {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}.", file=sys.stderr)
        return 2
    plan = Plan(
        quick=arguments.quick,
        repeats=arguments.repeats or (3 if arguments.quick else 5),
        events=arguments.events or (1_000_000 if arguments.quick else 10_000_000),
    )
    print(HEADER, flush=True)
    good = True
    if arguments.folder is not None:
        arguments.folder.mkdir(parents=True, exist_ok=True)
    # Whatever stops it, servers that it started end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with Bench(plan, arguments.folder) as bench:
        for name in arguments.names or ROWS:
            good &= _run(name, ROWS[name], bench)
    return 0 if good else 1


def _compare(before: Path, after: Path, out: Path | None) -> int:
    """Print two sets of results side by side, and return 1 where a line fell."""
    text, fell = table(kept_results(before), kept_results(after))
    print(text, end="")
    if out is not None:
        out.write_text(text, encoding="utf-8")
    return 1 if fell else 0


def _run(name: str, row: Row, bench: Bench) -> bool:
    """Run one benchmark, print its lines as they come, and keep them; a failure is told and the rest goes on."""
    lines: list[Line] = []
    error = None
    begin = time.monotonic()
    load = round(psutil.getloadavg()[0], 2)
    bench.say(f"{name} …")
    try:
        for line in row(bench):
            lines.append(line)
            print(line.text(), flush=True)
    except Exception as failure:
        error = f"{type(failure).__name__}: {failure}"
        print(f"{name} | failed: {error.splitlines()[0]}", flush=True)
        traceback.print_exc()
    _keep(name, lines, bench, error is not None, {"took_s": round(time.monotonic() - begin, 1), "load_before": load})
    bench.say(f"{name}: {time.monotonic() - begin:.0f} s")
    return error is None and all(line.passed is not False for line in lines)


def _keep(name: str, lines: list[Line], bench: Bench, failed: bool, about: dict[str, float]) -> None:
    document = {
        "version": VERSION, "benchmark": name, "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {**machine(), "postgres": bench.postgres_version(), "peers": pinned()},
        "plan": msgspec.to_builtins(bench.plan), **about, "failed": failed,
        "lines": [{**msgspec.to_builtins(line), "passed": line.passed} for line in lines],
    }  # fmt: skip
    folder = RESULTS / "quick" if bench.plan.quick else RESULTS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", help="which; all without any")
    parser.add_argument("--list", action="store_true", help="say which there are")
    parser.add_argument("--page", action="store_true", help="only write the kept results into docs/benchmarks.md")
    parser.add_argument(
        "--before", type=Path, help="only compare: a result file or a folder of them, from before a change"
    )
    parser.add_argument("--after", type=Path, default=RESULTS, help="with --before: those from after it (%(default)s)")
    parser.add_argument("--out", type=Path, help="with --before: a file for the table as well")
    parser.add_argument("--quick", action="store_true", help="small sizes and three repeats: to try out")
    parser.add_argument("--events", type=int, help="size of the large log (10,000,000; quick: 1,000,000)")
    parser.add_argument("--repeats", type=int, help="samples of each side (5; quick: 3)")
    parser.add_argument("--folder", type=Path, help="where the databases go: 40 GB for ten million events")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
