"""What do kernels, launches and sustained peaks add to the general route, on families, devices and software left out?

    python -m research.general_parts --measurements data/*.ndjson.gz
    python -m research.general_parts --measurements data/*.ndjson.gz --kernels neusight_ops.parquet gemm.parquet

Answer: docs/prediction.md has the table. The shipped rows train, as in `python -m predictor.shipped.general`; each line takes one
part away and learns anew. Without kernels both trees start from the roofline; without launches nothing is said of the host;
without sustained peaks every device is taken to run at the peak of its data sheet, whatever power it is rated for.

With `--kernels`: is a chip that was left out predicted better with the profile that its kernels give it, and does the profile help
where its models trained? Up to 60 kernels of each operator, software and precision make the profile of a chip and its siblings;
the parameters of kernels are those that ship.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from domain.catalogues import hardware
from domain.vocabulary import arithmetic_precision
from predictor.artifact.artifact import load_shipped
from predictor.features.table import Table
from predictor.general.building import left_out
from predictor.general.inputs import GENERAL_FEATURES, HOST_LAUNCH_S, KERNEL_FEATURES, inputs_of
from predictor.general.method import GENERAL_LEARNERS, FittedGeneral, GeneralMethod, spread
from predictor.kernels.__main__ import events_of
from predictor.kernels.kept import Kernels, chip_of
from predictor.kernels.profile import profiles_of
from predictor.kernels.rows import kernel_rows
from predictor.shipped.general import general_table

__all__ = ["main"]

FEWEST_ROWS, EACH = 50, 60
"""Chips with fewer rows of models are left out; so many kernels of an operator make a profile, as in the service."""
LEVELS = ("family", "hardware", "hardware_family", "software")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the errors of every level with everything and with one part less, as rows of a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m research.general_parts", description=__doc__.split("\n")[0])
    parser.add_argument("--measurements", type=Path, nargs="*", default=[])
    parser.add_argument(
        "--kernels", type=Path, nargs="*", default=[], help="published kernel tables: what profiles are worth"
    )
    options = parser.parse_args(arguments)
    kernels = load_shipped().card.kernels
    if kernels is None:
        parser.error("the shipped predictor has no kernels; run python -m predictor.kernels first")
    table = general_table(options.measurements)
    if options.kernels:
        profiles(table, kernels, options.kernels)
        return
    table = table.take(spread(table))
    full = inputs_of(table, kernels.parameters)
    at_peak = {
        name: msgspec.structs.replace(
            item, values={**item.values, **({"power": 1e-9} if "power" in item.values else {})}
        )
        for name, item in kernels.parameters.items()
    }
    blind = full.values.copy()
    blind[:, [GENERAL_FEATURES.index(name) for name in KERNEL_FEATURES]] = np.nan
    variants = {
        "everything": full,
        "without kernels": msgspec.structs.replace(full, values=blind, seconds=table.prior),
        "without launches": inputs_of(table, kernels.parameters, launch_s=dict.fromkeys(HOST_LAUNCH_S, 1e-12)),
        "without sustained peaks": inputs_of(table, at_peak),
    }
    print(f"| left out: mean, median | {' | '.join(level.replace('_', ' and ') for level in LEVELS)} |")
    print(f"| --- |{' --- |' * len(LEVELS)}")
    for name, inputs in variants.items():
        cells = []
        for level in LEVELS:
            errors = left_out(table, inputs, level, GENERAL_LEARNERS)[1]
            relative = np.abs(np.expm1(-errors[np.isfinite(errors)]))
            cells.append(f"{relative.mean():.1%}, {np.median(relative):.1%}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def profiles(table: Table, kernels: Kernels, files: Sequence[Path]) -> None:
    """Print the mean errors of each chip with and without its profile, left out and in training, as rows of a table."""
    events: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for data in events_of(files):
        precision = (data.get("types") or {}).get("arithmetic") or data["execution"]["precision"] or "fp32"
        parts = events.setdefault(chip_of(data["hardware"]["id"]), {})
        parts.setdefault(arithmetic_precision(precision), []).append(data)
    chips = np.array([chip_of(row.hardware) for row in table.rows], dtype=str)
    teaches = np.zeros(len(table), dtype=bool)
    teaches[spread(table)] = True
    method = GeneralMethod(kernels.parameters)
    everything = method.fit(table)
    print("| chip | rows | left out | with its profile | in training | with its profile |")
    print("| --- | --- | --- | --- | --- | --- |")
    for chip, parts in sorted(events.items()):
        part = table.take((chips == chip) & teaches)
        if len(part) < FEWEST_ROWS:
            continue
        rows = {name: kernel_rows(members, hardware.find, EACH) for name, members in parts.items()}
        made = profiles_of(rows, kernels.parameters)
        places = {(row.hardware, row.platform) for row in part.rows}
        of_chip = {(*place, name): profile for place in places for name, profile in made.items()}
        left = method.fit(table.take((chips != chip) & teaches))
        cells = []
        for fitted in (left, everything):
            for used in ({}, of_chip):
                residual = FittedGeneral(fitted.trees, kernels.parameters, used).predict(part).residual
                cells.append(f"{np.abs(np.expm1(residual - part.residual)).mean():.1%}")
        print(f"| {chip} | {len(part)} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
