"""How far off is the predicted gain of a change (precision, compilation, batch, runtime) on the same device?

    python -m research.change_errors --measurements data/*.ndjson.gz

Answer: less than either prediction is. Two configurations of one model on one device err alike, so that most of the error
cancels in their ratio. Chips are left out whole, as are families of models; for each pair of rows that differ in one thing
alone the table has the spread of single predictions, that of the ratio (both as the log error that holds 80 %, in units of
the normal distribution, every chip or family counting once), and of the changes that are predicted to gain 5 % or more
the share that really was faster. `predictor.answering.faster` takes the larger of the two spreads of ratios.
"""

from __future__ import annotations

import argparse
import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from predictor.artifact.artifact import load_shipped
from predictor.features.dataset import Row
from predictor.features.table import Array
from predictor.general.building import left_out
from predictor.general.inputs import inputs_of, runtime_of
from predictor.general.method import GENERAL_LEARNERS, spread
from predictor.shipped.general import general_table

__all__ = ["main"]

LEVELS = ("hardware", "family", "software")
MOST = 200
"""Pairs of one model on one device that count, at the most, of each change."""
GAIN = 1.05
_REACH = NormalDist().inv_cdf(0.9)


def changes(rows: Sequence[Row]) -> Iterator[tuple[str, int, int]]:
    """Yield the kind of change and the indexes of two rows that differ in it alone; of batches only the throughput counts."""
    alike: dict[tuple[Any, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        alike[row.model, row.hardware, row.mode, row.platform, row.sizes].append(index)
    generator = random.Random(0)
    for members in alike.values():
        kinds: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for first, second in itertools.combinations(members, 2):
            kind = _kind(rows[first], rows[second])
            if kind is not None:
                kinds[kind].append((first, second))
        for kind, pairs in kinds.items():
            for pair in generator.sample(pairs, min(len(pairs), MOST)):
                yield kind, *pair


def _kind(row: Row, other: Row) -> str | None:
    differing = [
        name
        for name, value, its in (
            ("precision", row.precision, other.precision),
            ("batch", row.batch_size, other.batch_size),
            ("compiled", row.compiled, other.compiled),
            ("runtime", (row.runtime or "").lower(), (other.runtime or "").lower()),
        )
        if value != its
    ]
    if differing == ["compiled"] and runtime_of(row) == runtime_of(other):
        return None
    return differing[0] if len(differing) == 1 else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table, a line for each kind of change and level."""
    parser = argparse.ArgumentParser(prog="python -m research.change_errors", description=__doc__.split("\n")[0])
    parser.add_argument("--measurements", type=Path, nargs="*", default=[])
    parser.add_argument("--levels", nargs="*", default=LEVELS, choices=LEVELS)
    options = parser.parse_args(arguments)
    kernels = load_shipped().card.kernels
    if kernels is None:
        parser.error("the shipped predictor has no kernels; run python -m predictor.kernels first")
    table = general_table(options.measurements)
    table = table.take(spread(table))
    inputs = inputs_of(table, kernels.parameters)
    pairs: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for kind, first, second in changes(table.rows):
        pairs[kind].append((first, second))
    print("| change | left out | pairs | groups | single | ratio | gains that were |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for level in options.levels:
        groups, errors = left_out(table, inputs, level, GENERAL_LEARNERS)
        for kind, members in sorted(pairs.items()):
            first, second = (np.array(side) for side in zip(*members, strict=True))
            here = np.isfinite(errors[first]) & np.isfinite(errors[second])
            first, second = first[here], second[here]
            batch = np.array([row.batch_size or 1 for row in table.rows], dtype=np.float64)
            measured = np.log(table.measured / batch)
            ratio = errors[first] - errors[second]
            truth = measured[first] - measured[second]
            predicted = truth - ratio
            gains = np.abs(predicted) >= np.log(GAIN)
            right = np.sign(predicted[gains]) == np.sign(truth[gains])
            single = _spread(np.concatenate([errors[first], errors[second]]), np.concatenate([groups[first]] * 2))
            print(
                f"| {kind} | {level} | {len(first):,} | {len(set(groups[first].tolist()))} | {single:.2f} "
                f"| {_spread(ratio, groups[first]):.2f} | {right.mean():.0%} |",
                flush=True,
            )


def _spread(errors: Array, groups: np.ndarray) -> float:
    """Return the log error that holds 80 % of rows, every group counting once, as a standard deviation."""
    _, inverse, counts = np.unique(groups, return_inverse=True, return_counts=True)
    weights = 1.0 / counts[inverse]
    order = np.argsort(np.abs(errors))
    share = np.cumsum(weights[order]) / weights.sum()
    return float(np.abs(errors)[order][np.searchsorted(share, 0.8)]) / _REACH


if __name__ == "__main__":
    main()
