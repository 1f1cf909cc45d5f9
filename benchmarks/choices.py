"""How good decisions are: on models that took no part, beside rules of thumb and the bars they were built for.

    python -m benchmarks.choices --data DATA [--traces TRACES.ndjson.gz] [--only served devices memory] [--page]

DATA holds the folders aiconfigurator, argonne, mlperf and timm with the files that docs/importers.md names; TRACES are the
operator traces of timm's models (`python research/trace_timm.py`), which the question of memory needs. What is found goes
to benchmarks/results/choices.json, without a row of other people's data, to what the API and the dashboard show of it, and to
docs/choices.md with its picture. `--page` writes the last three again from what was found before.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.choices_devices import devices
from benchmarks.choices_memory import fits
from benchmarks.choices_page import page, picture
from benchmarks.choices_served import choices, folds, reliability
from predictor.choosing import decisions

__all__ = ["main"]

RESULT = Path(__file__).parent / "results" / "choices.json"
SHIPPED = Path(decisions.__file__).parent / decisions.FILE
DOCS = Path(__file__).parents[1] / "docs"
MEASUREMENTS = Path(__file__).parents[1] / "data"
PARTS = ("served", "devices", "memory")


def measure(parts: Sequence[str], data: Path, traces: Path | None) -> dict[str, Any]:
    """Return the scores of the parts asked for, with the seconds each took."""
    found: dict[str, Any] = {}
    began = time.monotonic()
    left_out = list(folds(data)) if {"served", "devices"} & set(parts) else []
    if "served" in parts:
        found["served"] = choices(left_out) | {"reliability": reliability(left_out)}
    if "devices" in parts:
        found["devices"] = devices(data, left_out)
    if "memory" in parts:
        found["memory"] = fits(data, traces, sorted(MEASUREMENTS.glob("*.ndjson.gz")))
    return found | {"seconds": round(time.monotonic() - began, 1)}


def main(arguments: Sequence[str] | None = None, say: Callable[[str], object] = print) -> int:
    """Measure, write the result and the page, and say what is on it."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.choices", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args(arguments)
    known = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    if not options.page:
        if options.data is None:
            parser.error("--data is needed")
        known |= measure(options.only, options.data, options.traces)
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(known, sort_keys=True, indent=1) + "\n")
    SHIPPED.write_text(json.dumps(decisions.summary(known), sort_keys=True, indent=1) + "\n")
    (DOCS / "choices").mkdir(parents=True, exist_ok=True)
    (DOCS / "choices" / "served.svg").write_bytes(picture(known["served"]["lines"]))
    text = page(known)
    (DOCS / "choices.md").write_text(text, encoding="utf-8")
    say(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
