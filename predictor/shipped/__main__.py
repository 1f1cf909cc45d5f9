"""Make the shipped predictor again from raw files, with one command.

    python -m predictor.shipped --data DATA --commit COMMIT --out predictor/shipped
    python -m predictor.shipped --data DATA --commit COMMIT --check      # only compare with the predictor that ships
    python -m predictor.shipped --data DATA --only serving general --out predictor/shipped

DATA holds the folders timm, aiconfigurator, argonne and kernels with the files that docs/importers.md names. `timm` is the
folder `results/` of a clone of https://github.com/huggingface/pytorch-image-models (Apache-2.0) at COMMIT. The shipped
predictor was made at 90cae8c5ab83d2d7e23b1fb2bab1559bfdcbc7e9, with older runs of the same files beside the newest as
NAME@DATE-COMMIT.csv (`git show COMMIT:results/NAME.csv`), and without the files of the RTX PRO 6000 Max-Q. Our own
measurements are those of `data/`. The published rows and the operator traces come from the package; `research.pack_evidence`
and `research.pack_traces` make these two from raw files. The work of timm's models can be traced anew instead, which needs
torch and timm: `python research/trace_timm.py RESULTS TRACES.ndjson.gz`, then `--traces TRACES.ndjson.gz`.

Parts are made in this order, each on top of those before it: base (timm's trees), first-party (few-shot rows, tails, outcomes,
memory), serving, kernels, general. With --only the other parts stay as they ship. On one core it takes about ten minutes for
the base, one for serving, ten for kernels and twenty for the general route. The same files give the same digest on the same
kind of processor; another one may round the last digit of a sum otherwise, and --check says how far numbers are apart.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from predictor.artifact.artifact import load_shipped, write_folder
from predictor.shipped.building import PARTS, Parts, Sources, differences, rebuild

__all__ = ["main"]

MEASUREMENTS = Path(__file__).parents[2] / "data"


def main(arguments: Sequence[str] | None = None, say: Callable[[str], None] = print) -> int:
    """Build and write the predictor, or compare it with the one that ships; return 1 where they differ."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of published measurements")
    parser.add_argument("--traces", type=Path, help="operator traces of timm's models; those that ship by default")
    parser.add_argument(
        "--measurements", type=Path, nargs="*", help="events of our runner; data/*.ndjson.gz by default"
    )
    parser.add_argument("--commit", help="commit of the clone that timm's results come from")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="part", help="parts to make anew")
    parser.add_argument("--out", type=Path, help="folder to write to")
    parser.add_argument("--check", action="store_true", help="write nothing, compare with the predictor that ships")
    options = parser.parse_args(arguments)
    if options.check == (options.out is not None):
        parser.error("name a folder with --out, or compare with --check")
    own = sorted(MEASUREMENTS.glob("*.ndjson.gz")) if options.measurements is None else sorted(options.measurements)
    sources = Sources.in_folder(options.data, measurements=tuple(own), traces=options.traces, commit=options.commit)
    if missing := sources.missing(options.only):
        parser.error(f"not there: {', '.join(map(str, missing))}; docs/importers.md says where the files come from")
    shipped = load_shipped()
    made = rebuild(sources, shipped, options.only, say)
    if options.check:
        changed = differences(made, Parts.of(shipped))
        say(f"{made.digest} {'differs from' if changed else 'is'} {shipped.digest}")
        for name, apart in changed.items():
            say(f"  {name}: {f'numbers within {apart:.1g}' if math.isfinite(apart) else 'differs'}")
        return int(bool(changed))
    say(write_folder(options.out, made.card, made.base, made.others))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
