"""How far apart measurements of the same served configuration lie: no prediction from its description can be nearer.

Answer: see docs/prediction.md, "Served language models". With the version alike, a time to the first token lies 9 % from
its repeats in the mean (median 3 %), under another version or on another day 18 %: queues form or not.

    python -m research.serving_floor --data DATA

DATA holds `aiconfigurator/silicon_sample.csv`. Each row is predicted by the median of the others of its group.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from domain.catalogues import hardware
from ingest.importers import Refused, import_paths
from predictor.features.dataset import row_from_event, training_rows
from predictor.features.table import Array, Table
from predictor.llm_serving.neighbours import labels_of
from predictor.llm_serving.table import tabulate


def apart(table: Table, groups: Sequence[Any], *, other_software: bool) -> Array:
    """Return the relative error of each row from the median of its group's other rows, or of those of other software."""
    members: dict[Any, list[int]] = defaultdict(list)
    for index, group in enumerate(groups):
        members[group].append(index)
    software = [(row.runtime_version, row.time) for row in table.rows]
    errors: list[float] = []
    for rows in members.values():
        for index in rows:
            rest = [other for other in rows if other != index]
            if other_software:
                rest = [other for other in rest if software[other] != software[index]]
            if rest:
                errors.append(float(np.exp(np.median(np.log(table.measured[rest]))) / table.measured[index] - 1))
    return np.abs(np.array(errors))


def main() -> None:
    """Print the figures by target."""
    parser = argparse.ArgumentParser(prog="python -m research.serving_floor", description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    events = import_paths("auto", [parser.parse_args().data / "aiconfigurator/silicon_sample.csv"])
    kept = [item for item in events if not isinstance(item, Refused) and "measurement" in item["type"]]
    rows = [row_from_event(event) for event in kept]
    for target in ("ttft", "tpot"):
        table = tabulate(training_rows(rows, target, "inference", served=True), hardware.find, target)
        deployments = labels_of(table)["deployment"].tolist()
        load = [(row.input_tokens, row.output_tokens, row.concurrency) for row in table.rows]
        same = [repr(row.same) for row in table.rows]
        for title, groups, other in (
            ("same configuration", same, False),
            ("same deployment and load, other version or day", list(zip(deployments, load, strict=True)), True),
        ):
            errors = apart(table, groups, other_software=other)
            print(
                f"{target} {title}: {len(errors)} rows, mean {errors.mean():.1%}, median {np.median(errors):.1%}, "
                f"one in ten above {np.quantile(errors, 0.9):.1%}"
            )


if __name__ == "__main__":
    main()
