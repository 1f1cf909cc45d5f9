"""What bounds each line of the accuracy benchmark: the noise of its source, the number of groups, or something else?

    python -m research.bounds --data DATA [--traces TRACES.ndjson.gz] [names…] [--repeats]

Answer: docs/accuracy.md, "What bounds each line". DATA and TRACES are those of `python -m benchmarks.accuracy`, whose lines are
studied; the result goes to benchmarks/results/bounds/, one file a line. Of every line: how far off a predictor would be that
knew the median of each repeated configuration. Equal figures count once there, because sources carry rows over from older
files. Of lines with many groups: the error on the same rows with a quarter and half of the groups in training. Of lines that
hold rows of one table out: the error without the few rows that are off by a factor of two, and with the level of each new
model or software known. `--repeats` measures the repeats alone and keeps the rest.
"""

from __future__ import annotations

import argparse
import functools
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from assay.accuracy.bounds import Bound, Curve, Floor, Reference, Step, bounds_in
from benchmarks import accuracy, published
from domain.catalogues.models import timm_base_name
from domain.kernels import LATENCY, expanded
from domain.payloads import KernelMeasured
from ingest.importers import Refused, import_paths
from predictor.features.dataset import row_from_event, taught
from predictor.features.table import Array, Names, Table
from predictor.kernels.__main__ import events_of
from predictor.learning.evaluation import HeldOut, hold_out, split_groups
from predictor.learning.method import Fitted, Method
from predictor.learning.routes import chosen
from research.repeatability import kernel_times

__all__ = ["floor_of", "interpolation_error", "main", "references"]

RESULTS = accuracy.RESULTS.parent / "bounds"
SHARES = (0.25, 0.5)
"""Shares of the groups that train for the first steps of a learning curve."""
GROUPS_NEEDED = 20
"""Lines that hold out fewer groups have no learning curve: half of three devices says little of four."""
FAR = float(np.log(2.0))
OWN = "its own rows"
_HISTORY = "models/ai_hub_history.parquet"
_KERNELS = {
    "apple-operators-10": "models/mlx_ops.csv",
    "neusight-known": "kernels/neusight_ops.parquet",
    "neusight-left-out": "kernels/neusight_ops.parquet",
}
"""Kernel lines, and the tables whose repeated timings say how noisy their kernels are."""
_OF = {"family": "families", "architecture": "models", "hardware": "devices", "configuration": "configurations"}


class Thinned:
    """A method that learns from a share of the groups of what it is given; `groups` has how many, fit by fit."""

    def __init__(self, method: Method, split: str, share: float) -> None:
        """Take the method, the split whose groups are thinned, and the share of them that is kept."""
        self._method, self._split, self._share = method, split, share
        self.groups: list[int] = []

    @property
    def name(self) -> str:
        """Return the name of the method within."""
        return self._method.name

    def fit(self, table: Table) -> Fitted:
        """Return what the rows of some groups teach, chosen at random but always alike."""
        groups = split_groups(table, self._split)
        names = np.unique(groups)
        order = np.random.default_rng(0).permutation(len(names))
        kept = names[order[: max(1, round(self._share * len(names)))]]
        self.groups.append(len(kept))
        return self._method.fit(table.take(np.flatnonzero(np.isin(groups, kept))))


def floor_of(source: str, figures: Iterable[tuple[Hashable, float]], *, inverse: bool = False) -> Floor | None:
    """Return the error of knowing the median of each configuration that has several figures; None where none has.

    `figures` are pairs of a configuration and a time. With `inverse` errors are shares of the rate, as for throughput.
    """
    groups: dict[Hashable, set[float]] = defaultdict(set)
    for key, figure in figures:
        groups[key].add(figure)
    repeated = [values for values in groups.values() if len(values) > 1]
    if not repeated:
        return None
    logs = [np.log(np.array(sorted(values)) / statistics.median(values)) for values in repeated]
    errors = _relative(np.concatenate(logs), inverse=inverse)
    return Floor(
        source=source,
        rows=len(errors),
        configurations=len(repeated),
        mape=_rounded(np.mean(errors)),
        median_ape=_rounded(np.median(errors)),
        ninety=_rounded(np.quantile(errors, 0.9)),
    )


def _relative(log_errors: Array, *, inverse: bool) -> Array:
    return np.asarray(np.abs(np.expm1(log_errors if inverse else -log_errors)), dtype=np.float64)


def _rounded(value: Any) -> float:
    return round(float(value), 6)


def _floor(name: str, data: Path, traces: Path | None) -> Floor | None:
    """Return the noise of a line's source, None where nothing in it is repeated."""
    if name in _KERNELS:
        return floor_of(Path(_KERNELS[name]).name, _kernels(data / _KERNELS[name]))
    if name in published.LINES:
        line = published.LINES[name]
        if line.source == "AI Hub":
            return _history(data)
        table = published.rows_of(line)
    elif name in accuracy.LINES:
        if accuracy.LINES[name].data == "ai_hub":
            return _history(data)
        table = accuracy.table_of(accuracy.LINES[name], data, traces)[0]
    else:
        return None
    target = accuracy.shaped(name).target
    pairs = ((row.same, time) for row, time in zip(table.rows, table.measured.tolist(), strict=True))
    return floor_of(OWN, pairs, inverse=target == "throughput")


def _history(data: Path) -> Floor | None:
    """Return the noise of AI Hub: later releases of the same model, software and device, as the lines hold one of each."""
    figures: list[tuple[Hashable, float]] = []
    for item in import_paths("ai-hub", [data / _HISTORY]):
        row = None if isinstance(item, Refused) or "metrics" not in item["data"] else row_from_event(item)
        time = None if row is None else taught(row)
        if row is not None and time is not None:
            figures.append((row.same, time))
    return floor_of(Path(_HISTORY).name, figures)


def _kernels(path: Path) -> Iterable[tuple[Hashable, float]]:
    """Yield the kernels of a table with their times; variants of a chip, which differ in their units, are apart."""
    for data in events_of([path]):
        for sizes, times in kernel_times(data):
            for time in times:
                yield (data.get("device_name"), *sizes), time


def references(table: Table, held: HeldOut, line: accuracy.Line) -> list[Reference]:
    """Return what a line's errors would be without its freaks, and with the level of what was held out known.

    Of a line whose bars are of single devices, of each of them.
    """
    rows = [table.rows[index] for index in held.index]
    hardware = np.array([row.hardware for row in rows], dtype=str)
    by_software = line.split.startswith("hardware")
    levels: Names = np.array([repr(row.software) if by_software else row.model for row in rows], dtype=str)
    answers: list[Reference] = []
    for of in line.bars:
        here = np.ones(len(rows), dtype=bool) if of == "all" else hardware == of
        if here.any():
            name = "" if of == "all" else f"{of} "
            answers += _of_part(held.errors[here], levels[here], name, by_software=by_software, line=line)
    return answers


def _of_part(errors: Array, levels: Names, name: str, *, by_software: bool, line: accuracy.Line) -> Iterator[Reference]:
    inverse = line.target == "throughput"
    kind = np.median if line.figure == "median_ape" else np.mean
    near = np.abs(errors) <= FAR
    if not near.all():
        far = f"{int((~near).sum()):,} of {len(near):,} rows"
        error = _rounded(kind(_relative(errors[near], inverse=inverse)))
        yield Reference(what=f"{name}without the {far} that are off by more than a factor of two", error=error)
    left = errors.copy()
    for level in np.unique(levels):
        left[levels == level] -= np.median(errors[levels == level])
    of = "software configuration of the device" if by_software else "model"
    error = _rounded(kind(_relative(left, inverse=inverse)))
    yield Reference(what=f"{name}with the median error of each {of} known and taken off", error=error)


def finer(table: Table) -> Table:
    """Return a table whose families are the base names of models: `seresnet` apart from `resnet`, `swinv2` from `swin`."""
    return msgspec.structs.replace(table, family=np.array([timm_base_name(row.model) for row in table.rows], dtype=str))


def _of_table(name: str, data: Path, traces: Path | None) -> Bound:
    """Return the learning curve and the references of a line that holds rows of one table out."""
    line = accuracy.LINES[name]
    table, method = accuracy.table_of(line, data, traces)
    whole = Thinned(method, _grouped(line), 1.0)
    held = hold_out(table, whole, line.split, shots=line.shots)
    answers = references(table, held, line)
    if line.split == "family":
        apart = finer(table)
        by_name = hold_out(apart, method, line.split)
        names = len(set(apart.family.tolist()))
        what = f"with each of {names} base names a family of its own (resnext and seresnext, swin and swinv2)"
        answers.append(Reference(what=what, error=_error(by_name, line)))
    curve = None
    groups = len(set(split_groups(table, _grouped(line)).tolist()))
    # A model without a sibling device has no start in the route of reference: half of the devices leave it freaks.
    if groups >= GROUPS_NEEDED and chosen(line.route, line.target) != "reference":
        steps = [_step(table, Thinned(method, _grouped(line), share), line) for share in SHARES]
        steps.append(Step(groups=round(statistics.fmean(whole.groups)), error=_error(held, line)))
        curve = Curve(of=_OF[_grouped(line)], steps=steps)
    return Bound(figure=line.figure, curve=curve, references=answers)


def _grouped(line: accuracy.Line) -> str:
    return "hardware" if line.split.startswith("hardware") else line.split if line.split in _OF else "architecture"


def _step(table: Table, method: Thinned, line: accuracy.Line) -> Step:
    error = _error(hold_out(table, method, line.split, shots=line.shots), line)
    return Step(groups=round(statistics.fmean(method.groups)), error=error)


def _error(held: HeldOut, line: accuracy.Line) -> float:
    kind: Callable[[Array], Any] = np.median if line.figure == "median_ape" else np.mean
    return _rounded(kind(_relative(held.errors, inverse=line.target == "throughput")))


def interpolation_error(sizes: Sequence[Array], varied: Array, times: Array) -> Array:
    """Return how far off each inner point is when its time is interpolated between its neighbours in one size.

    `sizes` are equal among neighbours, `varied` is the size between which log times are interpolated.
    """
    order = np.lexsort((varied, *sizes))
    keys = np.stack([size[order] for size in sizes])
    size, time = np.log(varied[order]), np.log(times[order])
    inner = (
        np.flatnonzero((keys[:, :-2] == keys[:, 2:]).all(axis=0) & (size[:-2] < size[1:-1]) & (size[1:-1] < size[2:]))
        + 1
    )
    share = (size[inner] - size[inner - 1]) / (size[inner + 1] - size[inner - 1])
    return _relative(time[inner] - time[inner - 1] * (1 - share) - time[inner + 1] * share, inverse=False)


@functools.cache
def _products(data: Path) -> list[Reference]:
    """How far off a look-up in the device's own table is: bf16 products between the next smaller and larger m."""
    errors: list[Array] = []
    for event in events_of([data / "kernels" / "gemm.parquet"]):
        payload = msgspec.convert(event, KernelMeasured)
        if payload.types is None or payload.types.published != "bfloat16":
            continue
        columns = {key: np.array(expanded(payload.columns[key]), dtype=float) for key in ("m", "n", "k", LATENCY)}
        errors.append(interpolation_error([columns["n"], columns["k"]], columns["m"], columns[LATENCY]))
    joined = np.concatenate(errors)
    what = (
        f"interpolated between the next smaller and larger m of the device's own table ({len(joined):,} products), mean"
    )
    median = "the same, median"
    return [
        Reference(what=what, error=_rounded(np.mean(joined))),
        Reference(what=median, error=_rounded(np.median(joined))),
    ]


def bound_of(name: str, data: Path, traces: Path | None) -> Bound:
    """Return everything that is measured about a line's bound but its repeats."""
    if name in accuracy.LINES:
        return _of_table(name, data, traces)
    return Bound(figure=accuracy.shaped(name).figure, references=_products(data) if name.startswith("gemm-") else [])


def main(arguments: Sequence[str] | None = None) -> int:
    """Study the lines that are named, all by default, and write what bounds them."""
    parser = argparse.ArgumentParser(
        prog="python -m research.bounds", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = (*accuracy.LINES, *accuracy.OTHERS)
    parser.add_argument("names", nargs="*", metavar="name", help="lines of benchmarks.accuracy; all by default")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--traces", type=Path, help="traces of timm's models; those that ship by default")
    parser.add_argument("--repeats", action="store_true", help="measure repeats alone, and keep the rest")
    options = parser.parse_args(arguments)
    unknown = set(options.names) - set(every)
    if unknown:
        parser.error(f"no line {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    RESULTS.mkdir(parents=True, exist_ok=True)
    earlier = bounds_in(RESULTS)
    for name in options.names or every:
        bound = (
            earlier.get(name, Bound(figure=accuracy.shaped(name).figure))
            if options.repeats
            else bound_of(name, options.data, options.traces)
        )
        bound = msgspec.structs.replace(bound, floor=_floor(name, options.data, options.traces))
        content = msgspec.json.format(msgspec.json.encode(bound, order="sorted"), indent=1)
        (RESULTS / f"{name}.json").write_bytes(content + b"\n")
        print(name, bound, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
