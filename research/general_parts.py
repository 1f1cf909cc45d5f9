"""What do kernels, launches and sustained peaks add to the general route, on families, devices and software left out?

    python -m research.general_parts --measurements data/*.ndjson.gz

Answer: docs/prediction.md has the table. The shipped rows train, as in `python -m predictor.shipped.general`; each line takes one
part away and learns anew. Without kernels both trees start from the roofline; without launches nothing is said of the host;
without sustained peaks every device is taken to run at the peak of its data sheet, whatever power it is rated for.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from predictor.artifact.artifact import load_shipped
from predictor.general.building import left_out
from predictor.general.inputs import GENERAL_FEATURES, HOST_LAUNCH_S, KERNEL_FEATURES, inputs_of
from predictor.general.method import GENERAL_LEARNERS, spread
from predictor.shipped.general import general_table

__all__ = ["main"]

LEVELS = ("family", "hardware", "hardware_family", "software")


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the errors of every level with everything and with one part less, as rows of a Markdown table."""
    parser = argparse.ArgumentParser(prog="python -m research.general_parts", description=__doc__.split("\n")[0])
    parser.add_argument("--measurements", type=Path, nargs="*", default=[])
    options = parser.parse_args(arguments)
    kernels = load_shipped().card.kernels
    if kernels is None:
        parser.error("the shipped predictor has no kernels; run python -m predictor.kernels first")
    table = general_table(options.measurements)
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


if __name__ == "__main__":
    main()
