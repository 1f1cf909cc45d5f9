"""Put what Assay's own measurements teach into the shipped predictor, beside the trees that are there.

    python -m predictor.shipped.first_party data/*.ndjson.gz --out predictor/prior

Few rows that predict other software than the trees know, tails, outcomes and memory. The same files give the same digest.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from domain.catalogues import hardware
from domain.catalogues.hardware import HardwareSpec
from domain.events import HARDWARE_DESCRIBED, MEASUREMENT_FAILED, MEASUREMENT_RECORDED, MODEL_TRACED, TEST_REPORTED
from predictor.artifact.artifact import Card, load_shipped, write_folder
from predictor.artifact.tails import fit_tails
from predictor.failure_rates import cases
from predictor.failure_rates.shares import Shares
from predictor.features.dataset import row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.traces import TraceBook, trace_from_data
from predictor.learning.building import few_rows
from predictor.memory.facts import tabulate as memory_table
from predictor.memory.kept import memory_of

__all__ = ["with_measurements"]


def events_of(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the events of compressed NDJSON files."""
    for path in paths:
        with gzip.open(path, "rt") as lines:
            yield from (json.loads(line) for line in lines)


def with_measurements(card: Card, paths: Sequence[Path]) -> Card:
    """Return the card with what the events in the files teach."""
    rows, tried, traces, specs = [], [], [], dict[str, HardwareSpec]()
    for event in events_of(paths):
        kind = event["type"]
        if kind == MEASUREMENT_RECORDED:
            rows.append(row_from_event(event))
        elif kind == MODEL_TRACED:
            traces.append(trace_from_data(event["data"]))
        elif kind == HARDWARE_DESCRIBED:
            spec = hardware.spec_from_event(event["data"])
            existing = hardware.find(spec.id)
            specs[spec.id] = spec if existing is None else hardware.fill(spec, existing)
        if kind in (MEASUREMENT_RECORDED, MEASUREMENT_FAILED, TEST_REPORTED):
            tried.append(cases.row_from_event(event))
    book = TraceBook(traces)
    taken = training_rows(rows, mode=None)
    return msgspec.structs.replace(
        card,
        few=few_rows(tabulate(taken, book, specs.get), card, None),
        tails=fit_tails(taken),
        shares=Shares.fitted(cases.cases_of(tried)),
        memory=memory_of(memory_table(training_rows(rows, "memory", None), book)),
    )


def main() -> int:
    """Write the predictor; print its digest."""
    parser = argparse.ArgumentParser(
        prog="python -m predictor.shipped.first_party",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("files", type=Path, nargs="+", help="compressed events of our runner")
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    options = parser.parse_args()
    shipped = load_shipped()
    card = with_measurements(shipped.card, sorted(options.files))
    print(write_folder(options.out, card, shipped.base, shipped.others))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
