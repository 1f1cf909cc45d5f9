"""Question: do the 80 % intervals of kernel estimates hold on a chip that nobody timed, and on one with 29 timed kernels?

    python -m research.kernel_intervals KERNELS…

KERNELS are published kernel tables, as `assay import` reads them. Each chip is left out with its siblings in turn, and what
the others teach is held against its kernels: without any of its own, with the width that the other chips' errors give; and
with 29 of its own, drawn at random three times, with the spreads of the correction as they are and as widened.

Answer, for NeuSight's tables (`neusight_ops.parquet`, about four minutes), each device counted once: without own kernels 86 %
of products and 87 % of what moves memory are held; with 29, 64 and 76 % by the spreads as they are, 79 and 85 % as widened.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from domain.catalogues import hardware
from domain.performance.roofline import limits_of
from predictor.kernels.__main__ import events_of
from predictor.kernels.estimates import INTERVAL, corrected_by, left_out_width, on_limits
from predictor.kernels.fitting import FittedClass, fit_class
from predictor.kernels.kept import chip_of
from predictor.kernels.profile import profiles_of
from predictor.kernels.rows import KernelRows, kernel_rows

SHOTS, ASKED, SEEDS = 29, 1000, 3
NORMAL = 1.2816
"""Standard deviations to either side that hold 80 % of a normal distribution."""


class Held(NamedTuple):
    """Of one device: its scores without shots, and with shots the error and the shares held, plain and widened."""

    device: str
    scores: dict[str, float]
    errors: np.ndarray
    shot_error: float
    plain: float
    widened: float


def devices_of(name: str, rows: KernelRows) -> Iterator[Held]:
    """Yield what holds on each device that was left out with its siblings."""
    chips = np.array([chip_of(device) for device in rows.hardware.tolist()])
    for chip in np.unique(chips):
        out = chips == chip
        fitted = fit_class(name, rows.columns.take(~out), rows.seconds[~out])
        for device in np.unique(rows.hardware[out]):
            yield _held(fitted, str(device), rows.take(rows.hardware == device))


def _held(fitted: FittedClass, device: str, own: KernelRows) -> Held:
    errors = np.log(own.seconds / fitted.seconds(own.columns))
    relative = np.abs(np.expm1(-errors))
    scores = {"mape": relative.mean(), "median_ape": np.median(relative), "bias": np.median(errors)}
    with_shots = np.mean([_shots(fitted, device, own, seed) for seed in range(SEEDS)], axis=0)
    return Held(device, {key: float(value) for key, value in scores.items()}, errors, *with_shots.tolist())


def _shots(fitted: FittedClass, device: str, own: KernelRows, seed: int) -> tuple[float, float, float]:
    spec = hardware.require(device)
    limits = limits_of(spec, "fp32", "rocm" if spec.vendor == "amd" else "cuda")
    order = np.random.default_rng(seed).permutation(len(own))
    shots, asked = own.take(order[:SHOTS]), own.take(order[SHOTS : SHOTS + ASKED])
    profile = profiles_of({"fp32": {fitted.name: shots}}, {fitted.name: fitted.parameters}).get("fp32")
    if limits is None or profile is None:
        return math.nan, math.nan, math.nan
    corrected, taken = corrected_by(fitted, shots, limits, profile)
    columns = on_limits(asked.columns, taken)
    off = np.abs(np.log(asked.seconds / corrected.seconds(columns)))
    width = NORMAL * corrected.spread(columns)
    widened = corrected.half_width(columns, INTERVAL)
    return float(np.expm1(off).mean()), float((off <= width).mean()), float((off <= widened).mean())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for each class."""
    parser = argparse.ArgumentParser(prog="python -m research.kernel_intervals", description=__doc__)
    parser.add_argument("files", type=Path, nargs="+")
    options = parser.parse_args(arguments)
    for name, rows in kernel_rows(events_of(options.files), hardware.find).items():
        held = list(devices_of(name, rows))
        sys.stdout.write(f"{name}\ndevice                        none: held  29: error  as it is  widened\n")
        shares: list[float] = []
        for item in held:
            chips: dict[str, list[dict[str, float]]] = {}
            for other in held:
                if chip_of(other.device) != chip_of(item.device):
                    chips.setdefault(chip_of(other.device), []).append(other.scores)
            shares.append(float((np.abs(item.errors) <= left_out_width(chips.values())).mean()))
            sys.stdout.write(
                f"{item.device:28s}  {shares[-1]:10.1%}  {item.shot_error:9.1%}  {item.plain:8.1%}  {item.widened:7.1%}\n"
            )
        means = [np.mean([getattr(item, key) for item in held]) for key in ("shot_error", "plain", "widened")]
        sys.stdout.write(
            f"{'each device once':28s}  {np.mean(shares):10.1%}  {means[0]:9.1%}  {means[1]:8.1%}  {means[2]:7.1%}\n\n"
        )


if __name__ == "__main__":
    main()
