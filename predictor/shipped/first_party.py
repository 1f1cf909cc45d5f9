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
from predictor.features.dataset import Row, row_from_event, training_rows
from predictor.features.operators_route import tabulate
from predictor.features.traces import Trace, TraceBook, trace_from_data
from predictor.learning.building import few_rows
from predictor.memory.facts import tabulate as memory_table
from predictor.memory.kept import memory_of

__all__ = ["Measured", "events_of", "measured_in", "with_measurements"]


def events_of(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the events of compressed NDJSON files."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            yield from (json.loads(line) for line in lines)


class Measured(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What files of our runner hold: rows, what was tried, traces of the models, and devices by id."""

    rows: list[Row | None]
    tried: list[Any]
    traces: list[Trace]
    specs: dict[str, HardwareSpec]


def measured_in(paths: Sequence[Path]) -> Measured:
    """Return what compressed NDJSON files hold."""
    content = Measured(rows=[], tried=[], traces=[], specs={})
    for event in events_of(paths):
        kind = event["type"]
        if kind == MEASUREMENT_RECORDED:
            content.rows.append(row_from_event(event))
        elif kind == MODEL_TRACED:
            content.traces.append(trace_from_data(event["data"]))
        elif kind == HARDWARE_DESCRIBED:
            spec = hardware.spec_from_event(event["data"])
            existing = hardware.find(spec.id)
            content.specs[spec.id] = spec if existing is None else hardware.fill(spec, existing)
        if kind in (MEASUREMENT_RECORDED, MEASUREMENT_FAILED, TEST_REPORTED):
            content.tried.append(cases.row_from_event(event))
    return content


def with_measurements(card: Card, paths: Sequence[Path]) -> Card:
    """Return the card with what the events in the files teach."""
    measured = measured_in(paths)
    book = TraceBook(measured.traces)
    taken = training_rows(measured.rows, mode=None)
    return msgspec.structs.replace(
        card,
        few=few_rows(tabulate(taken, book, measured.specs.get), card, None),
        tails=fit_tails(taken),
        shares=Shares.fitted(cases.cases_of(measured.tried)),
        memory=memory_of(memory_table(training_rows(measured.rows, "memory", None), book)),
    )


def main() -> int:
    """Write the predictor; print its digest."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}.first_party",
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
