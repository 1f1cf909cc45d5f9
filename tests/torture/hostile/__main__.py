"""`python -m tests.torture.hostile [--table] [--sample N]`: every hostile input against a service of its own."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import httpx

from tests.torture.hostile.attack import Attack, cases, sample, table
from tests.torture.processes import Served, postgres


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sample", type=int, help="only about so many")
    parser.add_argument("--family", help="only this one")
    parser.add_argument("--table", action="store_true", help="print the table of docs/faults.md")
    parser.add_argument("--each", action="store_true", help="print what each input got")
    asked = parser.parse_args()
    with postgres() as server, tempfile.TemporaryDirectory() as folder:
        served = Served(Path(folder) / "home", url=server.url, ASSAY_BODY_DEADLINE_S="2").start()
        try:
            served.until_ready()
            chosen = cases(httpx.get(f"{served.url}/schema/openapi.json", trust_env=False).json())
            chosen = [case for case in chosen if asked.family in (None, case.family)]
            chosen = sample(chosen, asked.sample) if asked.sample else chosen
            begun = time.monotonic()
            attack = Attack.on(served, chosen)
            took_s = time.monotonic() - begun
        finally:
            served.stop()
            said = served.said()
    if asked.each:
        for case, outcome in attack.played:
            print(f"{outcome.status}\t{outcome.took_s:.2f} s\t{case.family}: {case.name!a}")
    if asked.table:
        print(table(attack))
    print(
        f"{len(chosen):,} inputs in {took_s:.0f} s; {attack.kept:,} events kept; "
        f"peak memory {attack.peak_bytes / 1e6:,.0f} MB; {len(attack.wrong)} wrong",
        file=sys.stderr,
    )
    for line in attack.wrong:
        print(ascii(line), file=sys.stderr)
    if attack.wrong:
        print(said, file=sys.stderr)
    return 1 if attack.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
