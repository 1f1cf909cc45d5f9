"""Fit the kernels of the shipped predictor, and say how far off they are on devices that were left out.

    python -m predictor.kernels KERNELS… --out predictor/shipped

KERNELS are published kernel tables, as `assay import` reads them (docs/importers.md): aiconfigurator's, NeuSight's. Parameters
and trees go into the shipped predictor. A device is left out with its siblings. The same files give the same bits.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from domain.catalogues import hardware
from domain.events import KERNEL_MEASURED
from ingest.importers import Refused, import_paths
from predictor.artifact.artifact import load_shipped, write_folder
from predictor.kernels.fitting import FittedClass, fit_class
from predictor.kernels.kept import TREES, Kernels, chip_of
from predictor.kernels.rows import KernelRows, kernel_rows
from predictor.learning.training import Trees

FORMATS = ("aiconfigurator-kernels", "neusight-operators")


def events_of(paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Yield the data of the kernel events of published tables."""
    for path in paths:
        for item in import_paths("auto", [path]):
            if not isinstance(item, Refused) and item["type"] == KERNEL_MEASURED:
                yield item["data"]


def left_out(name: str, rows: KernelRows) -> dict[str, dict[str, float]]:
    """Return by device how far off its kernels are when it did not train, nor its siblings did: MAPE, median and bias."""
    chips = np.array([chip_of(device) for device in rows.hardware.tolist()])
    scores: dict[str, dict[str, float]] = {}
    for chip in np.unique(chips):
        out = chips == chip
        fitted = fit_class(name, rows.columns.take(~out), rows.seconds[~out])
        part = rows.take(out)
        errors = np.log(part.seconds / fitted.seconds(part.columns))
        for device in np.unique(part.hardware):
            here = errors[part.hardware == device]
            relative = np.abs(np.expm1(-here))
            scores[str(device)] = {
                "kernels": len(here),
                "mape": round(float(relative.mean()), 4),
                "median_ape": round(float(np.median(relative)), 4),
                "bias": round(float(np.median(here)), 4),
            }
    return scores


def fit_kernels(files: Sequence[Path], say: Callable[[str], None]) -> tuple[Kernels, dict[str, Trees]]:
    """Return what the card keeps of the kernels in published tables, and their trees by name."""
    rows = kernel_rows(events_of(files), hardware.find)
    fitted: dict[str, FittedClass] = {}
    scores: dict[str, Any] = {}
    for name, part in sorted(rows.items()):
        scores[name] = left_out(name, part)
        fitted[name] = fit_class(name, part.columns, part.seconds)
        say(f"{name}: {len(part):,} kernels, {fitted[name].parameters}")
        for device, score in scores[name].items():
            say(f"  {device:40} {score}")
    kernels = Kernels(
        parameters={name: item.parameters for name, item in fitted.items()},
        places=sorted(
            {(str(d), str(s)) for part in rows.values() for d, s in zip(part.hardware, part.software, strict=True)}
        ),
        scores=scores,
        rows={name: len(part) for name, part in rows.items()},
    )
    trees = {f"{TREES}{name}.{key}": trees for name, item in fitted.items() for key, trees in item.trees.items()}
    return kernels, trees


def main(arguments: Sequence[str] | None = None) -> None:
    """Fit, measure and write."""
    parser = argparse.ArgumentParser(
        prog=f"python -m {__package__}", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    kernels, trees = fit_kernels(options.files, print)
    shipped = load_shipped()
    card = msgspec.structs.replace(shipped.card, kernels=kernels)
    others = {name: item for name, item in shipped.others.items() if not name.startswith(TREES)}
    print(write_folder(options.out, card, shipped.base, {**others, **trees}))


if __name__ == "__main__":
    main()
