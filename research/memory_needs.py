"""How well peak memory is predicted for models that took no part, beside what it replaces.

Answer: a median error of 4 % for a family that was left out, of our own rows (README.md).

    python -m research.memory_needs data/*.ndjson.gz [--import ai-hub PATH…] [--split family]

Reads events (measurements and traces) of first-party files, and other tools' files with `--import`, whose models'
traces are those that ship. Beside the method stand the floor of weights and activations, the floor and a median constant by runtime, and the nearest model by its facts on the same
runtime and device. The last lines are chances of fitting given to left-out models, and how often it did fit.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from domain.events import MEASUREMENT_RECORDED, MODEL_TRACED
from ingest.importers import Refused, import_paths
from predictor.answering.facts import trace_from_row
from predictor.features.dataset import row_from_event, training_rows
from predictor.features.shipped_traces import shipped_rows
from predictor.features.table import Array, Table
from predictor.features.traces import TraceBook, trace_from_data
from predictor.memory.facts import tabulate
from predictor.memory.lines import parts_of
from predictor.memory.method import SIZES, MemoryFitted, MemoryMethod

FOLDS = 5
ROOMS = (0.7, 0.85, 1.0, 1.15, 1.4, 2.0)
"""Room asked about, as a multiple of what the floor and the usual constant would need."""


def events(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Yield the events of compressed files."""
    for path in paths:
        with gzip.open(path, "rt") as lines:
            yield from map(json.loads, lines)


def read(options: argparse.Namespace) -> Table:
    """Return the table of what was asked for; every unit of an imported device counts."""
    own = list(events(options.paths))
    traces = [event["data"] for event in own if event["type"] == MODEL_TRACED]
    found = [row_from_event(event) for event in own if event["type"] == MEASUREMENT_RECORDED]
    name, *paths = options.imported or ["auto"]
    for item in import_paths(name, [Path(path) for path in paths]) if paths else ():
        if not isinstance(item, Refused) and item["type"] == MEASUREMENT_RECORDED:
            row = row_from_event(item)
            found.append(None if row is None else msgspec.structs.replace(row, fallback_share=None))
    shipped = map(trace_from_row, shipped_rows(sorted({row.model for row in found if row is not None})))
    book = TraceBook([*shipped, *map(trace_from_data, traces)])
    return tabulate(training_rows(found, "memory", None), book)


def constant(train: Table, asked: Table) -> Array:
    """Baseline: the floor and the median of what the runtime needed beside it."""
    beside: dict[tuple[str, str], list[float]] = {}
    for row, need, floor in zip(train.rows, train.measured.tolist(), train.prior.tolist(), strict=True):
        beside.setdefault((row.platform, row.runtime), []).append(need - floor)
    extra = [np.median(beside.get((row.platform, row.runtime), [0.0])) for row in asked.rows]
    return np.log(np.maximum(asked.prior + np.array(extra), asked.prior))


def nearest(train: Table, asked: Table) -> Array:
    """Baseline: the need of the model nearest in sizes, on the narrowest part that has one."""
    centre, spread = train.values.mean(axis=0), train.values.std(axis=0) + 1e-9
    sizes, wanted = ((table.values - centre)[:, :SIZES] / spread[:SIZES] for table in (train, asked))
    members: dict[tuple[object, ...], list[int]] = {}
    for index, row in enumerate(train.rows):
        for part in parts_of(row):
            members.setdefault(part, []).append(index)
    found = np.zeros(len(asked))
    for index, row in enumerate(asked.rows):
        known = np.array(members[next(part for part in reversed(parts_of(row)) if part in members)])
        found[index] = np.log(train.measured[known[np.square(sizes[known] - wanted[index]).sum(axis=1).argmin()]])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m research.memory_needs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--import", nargs="+", dest="imported", metavar=("FORMAT", "PATH"))
    parser.add_argument("--split", choices=("architecture", "family"), default="family")
    parser.add_argument("--draws", type=int, default=2)
    options = parser.parse_args()
    table = read(options)
    groups = table.family if options.split == "family" else table.architecture
    print(f"{len(table)} rows, {len(set(groups.tolist()))} groups ({options.split}); left out: {table.dropped}")
    errors: dict[str, list[Array]] = {}
    names: list[Array] = []
    chances: list[tuple[Array, Array]] = []
    for seed in range(options.draws):
        known, inverse = np.unique(groups, return_inverse=True)
        folds = (np.random.default_rng(seed).permutation(len(known)) % FOLDS)[inverse]
        for fold in range(FOLDS):
            train, asked = table.take(folds != fold), table.take(folds == fold)
            fitted = MemoryMethod().fit(train)
            usual, log = constant(train, asked), np.log(asked.measured)
            told = {
                "floor": np.log(asked.prior), "floor and constant": usual, "nearest model": nearest(train, asked),
                "memory": fitted.predict(asked).residual + np.log(asked.prior),
            }  # fmt: skip
            for name, values in told.items():
                errors.setdefault(name, []).append(log - values)
            names.append(groups[folds == fold])
            chances.extend(asked_chances(fitted, asked, np.exp(usual)))
    print("method              mape   median   within 20 %   mean |log|   macro mape")
    for name, parts in errors.items():
        print(f"{name:18} {told_of(np.concatenate(parts), np.concatenate(names))}")
    given, fits = (np.concatenate(one) for one in zip(*chances, strict=True))
    print("chance given   times   it did fit")
    for low in np.arange(0, 1, 0.2):
        here = (given >= low) & (given < low + 0.2 + (low > 0.7))
        print(f"{low:4.0%} to {low + 0.2:4.0%} {here.sum():7} {fits[here].mean() if here.any() else np.nan:10.1%}")
    print(f"Brier score {np.mean((given - fits) ** 2):.3f}; of the base rate {np.mean((fits.mean() - fits) ** 2):.3f}")
    return 0


def asked_chances(fitted: MemoryFitted, asked: Table, usual: Array) -> Iterator[tuple[Array, Array]]:
    """Yield the chances given for each room, and whether it did fit."""
    for factor in ROOMS:
        yield fitted.chance(asked, usual * factor), asked.measured <= usual * factor


def told_of(errors: Array, groups: Array) -> str:
    """Return the scores of log(measured / predicted) as text."""
    off = np.abs(np.expm1(-errors))
    macro = np.mean([off[groups == name].mean() for name in np.unique(groups)])
    return f"{off.mean():7.1%} {np.median(off):7.1%} {np.mean(off <= 0.2):10.1%} {np.abs(errors).mean():13.3f} {macro:12.1%}"


if __name__ == "__main__":
    raise SystemExit(main())
