"""How well a device is predicted from its siblings: each device held out in turn, with a few of its own rows as shots.

    python -m research.reference_route ai-hub ../shared/data/ai_hub [--target memory] [--draws 5] [--every-unit]

Reads any files that `assay import` reads. Shots are drawn at random, ten of each software configuration or ten of the
device in all, several times; beside the route stand an offset alone and the nearest sibling by the shots. Errors are
relative to what was measured. Rows with work that fell back to another unit stay out, as they do in training, unless
`--every-unit` is given. Ten seconds a draw on AI Hub's 6,700 rows.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import numpy as np

from domain.catalogues import hardware
from domain.events import MEASUREMENT_RECORDED
from ingest.importers import Refused, import_paths
from predictor.artifact.conformal import width
from predictor.device_transfer.method import ReferenceMethod
from predictor.device_transfer.pieces import piece_of, tabulate
from predictor.features.dataset import Row, by_software, row_from_event, training_rows
from predictor.features.table import Array, Table
from predictor.learning.method import Fitted, Method, Prediction

SHOTS = 10


class Offset:
    """Baseline: the median of the siblings, moved by the median of the shots of the same software configuration."""

    name = "offset alone"

    def __init__(self, rows: Sequence[Row] = (), figures: Array | None = None, shots: Table | None = None) -> None:
        self.rows, self.shots = list(rows), shots
        self.figures = np.zeros(0) if figures is None else figures
        self.by_piece: dict[object, dict[str, float]] = {}
        for row, figure in zip(self.rows, self.figures.tolist(), strict=True):
            self.by_piece.setdefault(piece_of(row), {})[row.hardware] = figure

    def fit(self, table: Table) -> Fitted:
        """See Method."""
        return type(self)(table.rows, np.log(table.measured))

    def adapted(self, shots: Table) -> Fitted:
        """See Fitted."""
        return type(self)(self.rows, self.figures, shots)

    def predict(self, table: Table) -> Prediction:
        """See Fitted."""
        found = np.zeros(len(table))
        for members in by_software(table.rows).values():
            found[members] = self.of_software(table.take(members))
        return Prediction.plain(found - np.log(table.prior))

    def of_software(self, asked: Table) -> Array:
        """Return the logs of the asked rows' figures; all are of one software configuration."""
        return self.moved(asked, lambda known: float(np.median(list(known.values()))))[1]

    def moved(self, asked: Table, level: Callable[[dict[str, float]], float]) -> tuple[float, Array]:
        """Return how far the shots scatter about the level, and the levels of the asked rows with the shots' offset."""
        levels = np.array([level(self.by_piece.get(piece_of(row), {"": 0.0})) for row in asked.rows])
        if self.shots is None or not len(self.shots):
            return np.inf, levels
        same = [row.software == asked.rows[0].software for row in self.shots.rows]
        shots = self.shots.take(np.array(same)) if sum(same) > 1 else self.shots
        at = np.array([level(self.by_piece.get(piece_of(row), {"": np.nan})) for row in shots.rows])
        off = np.log(shots.measured) - at
        known = np.isfinite(off)
        if known.sum() < 2:
            return np.inf, levels
        offset = float(np.median(off[known]))
        return float(np.median(np.abs(off[known] - offset))) / (known.sum() / len(off)), levels + offset


class Nearest(Offset):
    """Baseline: of all siblings the one that goes most as the shots do, moved by their median."""

    name = "nearest sibling"

    def of_software(self, asked: Table) -> Array:
        """Return what the siblings say, the one that goes best with the shots last and so first."""
        found = super().of_software(asked)
        siblings = sorted({row.hardware for row in self.rows})
        tried = [self.moved(asked, lambda known, name=name: known.get(name, np.nan)) for name in siblings]  # type: ignore[misc]
        for _, values in sorted((one for one in tried if np.isfinite(one[0])), key=lambda one: -one[0]):
            found = np.where(np.isfinite(values), values, found)
        return found


def read(name: str, paths: Sequence[Path], target: str, *, every_unit: bool) -> Table:
    """Return the table of a target from files."""
    rows = [
        row_from_event(item)
        for item in import_paths(name, list(paths))
        if not isinstance(item, Refused) and item["type"] == MEASUREMENT_RECORDED
    ]
    if every_unit:
        rows = [None if row is None else msgspec.structs.replace(row, fallback_share=None) for row in rows]
    return tabulate(training_rows(rows, target, None, served=True), hardware.find, target)


def parts(table: Table, each: bool, seed: int) -> Iterator[tuple[str, Table, Table, Table]]:
    """Yield each device with what trains, what corrects and what is asked."""
    random = np.random.default_rng(seed)
    names = np.array([row.hardware for row in table.rows], dtype=str)
    for name in np.unique(names):
        out = np.flatnonzero(names == name)
        sets = (
            [out[members] for members in by_software([table.rows[index] for index in out]).values()] if each else [out]
        )
        drawn = [random.permutation(members) for members in sets if len(members) > SHOTS]
        if drawn:
            shots = np.concatenate([members[:SHOTS] for members in drawn])
            asked = np.concatenate([members[SHOTS:] for members in drawn])
            yield str(name), table.take(names != name), table.take(shots), table.take(asked)


def measured(table: Table, method: Method, *, each: bool, draws: range) -> dict[str, tuple[Array, Array]]:
    """Return log(measured / predicted) and the difficulties by device, over all draws."""
    found: dict[str, list[tuple[Array, Array]]] = {}
    for seed in draws:
        for name, train, shots, asked in parts(table, each, seed):
            told = method.fit(train).adapted(shots).predict(asked)
            found.setdefault(name, []).append((asked.residual - told.residual, told.difficulty))
    return {
        name: (np.concatenate([e for e, _ in of]), np.concatenate([d for _, d in of])) for name, of in found.items()
    }


def covered(errors: dict[str, tuple[Array, Array]], nominal: float) -> tuple[float, float]:
    """Return the share within widths that the other devices' errors give: of all rows, and of the worst device."""
    shares: dict[str, tuple[int, float]] = {}
    for name, (mine, difficulty) in errors.items():
        others = [other for other in errors if other != name]
        scaled = np.concatenate([np.abs(errors[other][0]) / errors[other][1] for other in others])
        reach = width(scaled, nominal, np.repeat(others, [len(errors[other][0]) for other in others]).tolist())
        shares[name] = (len(mine), float(np.mean(np.abs(mine) <= reach * difficulty)))
    rows = sum(count for count, _ in shares.values())
    return sum(count * share for count, share in shares.values()) / rows, min(share for _, share in shares.values())


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m research.reference_route",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("format", help="an importer's name, or auto")
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--target", default="latency")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw")
    parser.add_argument("--every-unit", action="store_true")
    options = parser.parse_args()
    table = read(options.format, options.paths, options.target, every_unit=options.every_unit)
    print(f"{len(table)} rows of {len({row.hardware for row in table.rows})} devices; left out: {table.dropped}")
    draws = range(options.seed, options.seed + options.draws)
    print("shots            method            macro   pooled  median  within 20 %   covered 80 / 90 (worst device)")
    for each in (True, False):
        for method in (Offset(), Nearest(), ReferenceMethod()):
            errors = measured(table, method, each=each, draws=draws)
            apes = {name: np.abs(np.expm1(-one)) for name, (one, _) in errors.items()}
            pooled = np.concatenate(list(apes.values()))
            told = (
                ""
                if isinstance(method, Offset)
                else "   ".join(
                    f"{share:.1%} ({worst:.0%})"
                    for share, worst in (covered(errors, nominal) for nominal in (0.8, 0.9))
                )
            )
            print(
                f"{'10 a software' if each else '10 a device':16} {method.name:16} {np.mean([a.mean() for a in apes.values()]):7.1%} "
                f"{pooled.mean():7.1%} {np.median(pooled):7.1%} {np.mean(pooled <= 0.2):9.1%}       {told}"
            )
            if isinstance(method, ReferenceMethod):
                for name, ape in sorted(apes.items(), key=lambda item: -item[1].mean()):
                    print(
                        f"    {name:40} {len(ape) // options.draws:5} rows {ape.mean():7.1%} median {np.median(ape):6.1%}"
                    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
