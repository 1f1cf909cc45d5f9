"""The scores that a change of the predictor must keep, on the measurements that come with Assay (`data/`).

python -m benchmarks.kept_scores            compare with data/scores.json; exit code 1 where one is worse by more than 5 %
python -m benchmarks.kept_scores --write    record what is measured now, after looking at it
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from benchmarks.first_party import read
from predictor.learning.evaluation import evaluate
from predictor.learning.parametric import ParametricMethod

__all__ = ["KEPT", "RECORD", "TOLERANCE", "measured", "worse"]

DATA = Path(__file__).parent.parent / "data"
RECORD = DATA / "scores.json"
SPLITS = ("configuration", "architecture", "family")
KEPT = ("mape", "median_ape")
"""Errors; smaller is better."""
TOLERANCE = 0.05

Scores = dict[str, dict[str, float]]


def measured(folder: Path = DATA) -> Scores:
    """Return the errors of each split over the valid rows of a folder's files: the same files give the same figures."""
    table = read(sorted(folder.glob("*.ndjson.gz")))
    scores: Scores = {}
    for split in SPLITS:
        told = evaluate(table, ParametricMethod(), split, "latency")
        scores[split] = {"rows": told["rows"], **{name: told["overall"][name] for name in KEPT}}
    return scores


def worse(recorded: Scores, now: Scores) -> list[str]:
    """Return a sentence for each error that is more than 5 % above the recorded one, and for each that is missing."""
    told: list[str] = []
    for split, scores in recorded.items():
        for name in KEPT:
            found = now.get(split, {}).get(name)
            if found is None:
                told.append(f"{split}: {name} is no longer measured; it was {scores[name]:.4f}")
            elif found > scores[name] * (1 + TOLERANCE):
                told.append(f"{split}: {name} is {found:.4f}; it was {scores[name]:.4f}, and 5 % more is allowed")
    return told


def main() -> int:
    """Compare or record."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.kept_scores",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="record what is measured now")
    options = parser.parse_args()
    now = measured()
    if options.write:
        RECORD.write_text(json.dumps(now, indent=1, sort_keys=True) + "\n")
    print(json.dumps(now, indent=1, sort_keys=True))
    told = worse(json.loads(RECORD.read_text()), now)
    for sentence in told:
        print(sentence, file=sys.stderr)
    return 1 if told else 0


if __name__ == "__main__":
    raise SystemExit(main())
