"""One machine that fits trees on the small world with others: `… RANK HOST:PORT,HOST:PORT WAIT_S [die|other|long]`."""

from __future__ import annotations

import hashlib
import os
import sys

import numpy as np

from domain.errors import AssayError
from predictor.features.table import Table
from predictor.learning.machines import Machines, joined, machine_list
from predictor.learning.training import Learner, Trees, fit_trees
from tests.integration.predictor.conftest import World

LEARNERS = (
    Learner(objective="l1", trees=60, learning_rate=0.15, leaves=15, rows_per_leaf=5, feature_share=0.6),
    Learner(objective="l2", trees=60, learning_rate=0.15, leaves=15, rows_per_leaf=5, feature_share=0.6),
)


def trees_of(table: Table, machines: Machines | None) -> Trees:
    """Return trees on three of four models of the world."""
    part = table.take([index for index, name in enumerate(table.architecture) if name[0] > "3"])
    return fit_trees(part.values, part.residual, learners=LEARNERS, machines=machines, rows=part.rows)


def error_of_trees(trees: Trees) -> float:
    """Return the mean absolute log error on the other models."""
    table = World().table()
    part = table.take([index for index, name in enumerate(table.architecture) if name[0] <= "3"])
    return float(np.mean(np.abs(trees.predict(part.values) - part.residual)))


def main(rank: str, machines: str, wait_s: str, how: str = "") -> None:
    """Print the position, the digest of the trees and their error, or what went wrong; exit 3 for that."""

    def lost(error: AssayError) -> None:
        print(f"lost: {error}", flush=True)
        os._exit(3)

    table = World().table()
    if how == "other":
        table = table.take(range(len(table) - 6))
    try:
        with joined(machine_list(machines, int(rank), float(wait_s)), "test", 100 + int(rank), lost) as together:
            if how == "die":
                os._exit(9)
            for _ in range(1000 if how == "long" else 1):
                trees = trees_of(table, together)
                print("fitted", flush=True)
    except AssayError as error:
        print(f"error: {error}", flush=True)
        sys.exit(3)
    digest = hashlib.sha256("".join(trees.texts.values()).encode()).hexdigest()
    print(together.position, digest, f"{error_of_trees(trees):.6f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
