"""Accuracy of the general route on published rows of whole models: a chip left out with its siblings, some rows of it given.

Everything else that is published trains, of every source. What the route of reference does with the same rows is a line of
its own. See `benchmarks.accuracy`, which runs these lines.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import Limits
from predictor.artifact.artifact import load_shipped
from predictor.artifact.conformal import rescaled, width_between
from predictor.features.dataset import Row
from predictor.features.table import Table
from predictor.general.calibration import GeneralBase
from predictor.general.method import FittedGeneral, GeneralMethod, spread
from predictor.general.own_rows import Learned, OwnRows, software_key
from predictor.kernels.kept import chip_of
from predictor.learning.evaluation import NOMINALS, HeldOut, summarise
from predictor.learning.few_shot import Few, few_of
from predictor.learning.method import Prediction
from predictor.shipped.general import general_table

__all__ = ["LINES", "PublishedLine", "rows_of", "run"]

MODEL_FOLDS = 4
FIRST_PARTY = Path(__file__).parents[1] / "data"


class PublishedLine(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluation: rows of a `source` (the beginning of what the event says) on chips whose maker is among `makers`.

    `unseen_model` leaves out the model as well as the chip: shots are of other models.
    """

    title: str
    source: str
    shots: int
    bar: float
    reach: float
    makers: tuple[str, ...] = ()
    mode: str | None = None
    largest_batch: int | None = None
    precisions: tuple[str, ...] = ()
    unseen_model: bool = False


@functools.cache
def table() -> Table:
    """Return everything that is published and traced, and our own measurements."""
    return general_table(sorted(FIRST_PARTY.glob("*.ndjson.gz")))


def run(line: PublishedLine, seed: int = 0) -> dict[str, Any]:
    """Return the evaluation of a line, in the shape of `evaluate`."""
    everything = table()
    pairs = zip(everything.rows, everything.limits, strict=True)
    asked = np.array([_asked(line, row, limits) for row, limits in pairs], dtype=bool)
    chips = np.array([chip_of(row.hardware) for row in everything.rows], dtype=str)
    teaches = np.zeros(len(everything), dtype=bool)
    teaches[spread(everything)] = True
    kernels = load_shipped().card.kernels
    if kernels is None:
        raise SystemExit("the shipped predictor has no kernels; run python -m predictor.kernels first")
    method = GeneralMethod(kernels.parameters)
    parts: list[tuple[NDArray[np.intp], NDArray[Any], NDArray[Any], dict[float, NDArray[Any]] | None]] = []
    folds = _folds(everything.architecture) if line.unseen_model else np.zeros(len(everything), dtype=np.intp)
    for chip in np.unique(chips[asked]):
        for fold in range(int(folds.max()) + 1):
            out = folds == fold if line.unseen_model else np.ones(len(everything), dtype=bool)
            kept = ~out if line.unseen_model else out
            fitted: _Route | None = None
            for test, shots in _shots(line, everything, np.flatnonzero(asked & (chips == chip)), seed):
                test, shots = test[out[test]], shots[kept[shots]]
                if not len(test) or (line.shots and not len(shots)):
                    continue
                if fitted is None:
                    trained = everything.take((chips != chip) & kept & (teaches | asked))
                    fitted = _Route(fitted=method.fit(trained), trained=trained)
                parts.append(_errors(everything, fitted, test, shots, [chip] * len(test)))
    return {**_summary(line, everything, parts), "route": "general", "method": "general"}


def rows_of(line: PublishedLine) -> Table:
    """Return the rows that a line is evaluated on, shots included."""
    everything = table()
    pairs = zip(everything.rows, everything.limits, strict=True)
    return everything.take([index for index, (row, limits) in enumerate(pairs) if _asked(line, row, limits)])


class _Route(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The general route, and what the service makes of a device's own rows: it is corrected, and blended with the few rows."""

    fitted: FittedGeneral
    trained: Table

    def predict(self, table: Table) -> Prediction:
        """Return what is said without a row of the device."""
        return GeneralBase(self.fitted, self.trained).predict(table)

    def adapted(self, shots: Table) -> _Measured:
        """Return what is said with these rows of a device."""
        card = load_shipped().card
        few = few_of(shots, card.few, measure=False)
        modes = {row.mode for row in shots.rows}
        architectures = {name[:16] for name in self.trained.architecture.tolist()}
        learned = Learned(fitted=self.fitted, modes=modes, architectures=architectures, siblings=self.trained, few=few)
        own = OwnRows(shots, learned)
        return _Measured(own=own, few=few)


class _Measured(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The routes that rows of a device correct, in the shares that their errors give them."""

    own: OwnRows
    few: Few | None

    def predict(self, table: Table) -> Prediction:
        """Return residuals and half-widths; a row whose software was not measured is as the general route says it is."""
        residual = np.full(len(table), np.nan)
        widths = {nominal: np.full(len(table), np.nan) for nominal in NOMINALS}
        for place in self.own.places:
            here = np.flatnonzero([(row.hardware, row.platform) == place for row in table.rows])
            calibrated = self.own.at(*place)
            if not len(here) or calibrated is None:
                continue
            part = table.take(here)
            general, few = calibrated.predict(part), None if self.few is None else self.few.model.predict(part)
            for index, row in enumerate(part.rows):
                at = None if self.few is None else self.few.place(row.hardware, row.platform, row.precision, row.mode)
                known = at is not None and at.hardware == row.hardware
                shares = self.own.routes(*place).shares(row, ("general", "few") if known else ("general",))
                share = shares.get("general", 0.0)
                residual[here[index]] = share * general.residual[index]
                for nominal, values in widths.items():
                    values[here[index]] = share * (general.widths or {})[nominal][index]
                if self.few is None or few is None or at is None or share == 1.0:
                    continue
                residual[here[index]] += (1 - share) * few.residual[index]
                level = self.few.level(row.hardware, at, str(part.architecture[index]), str(part.family[index]))
                for nominal, values in widths.items():
                    width = self.few.widths.of(level, nominal) or math.nan
                    values[here[index]] += (1 - share) * width * few.difficulty[index]
        return Prediction(residual=residual, difficulty=np.ones(len(table)), widths=widths)


def _asked(line: PublishedLine, row: Row, limits: Limits | None) -> bool:
    return (
        (row.source or "").startswith(line.source)
        and (not line.makers or (limits is not None and limits.maker in line.makers))
        and line.mode in (None, row.mode)
        and (line.largest_batch is None or (row.batch_size or 1) <= line.largest_batch)
        and (not line.precisions or row.precision in line.precisions)
    )


def _shots(
    line: PublishedLine, everything: Table, here: NDArray[np.intp], seed: int
) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield what is asked and what is given of each device: `shots` rows of each of its software configurations and modes."""
    random = np.random.default_rng(seed)
    hardware = np.array([everything.rows[index].hardware for index in here], dtype=str)
    for device in np.unique(hardware):
        own = here[hardware == device]
        test: list[int] = []
        given: list[int] = []
        groups: dict[tuple[object, ...], list[int]] = {}
        for index in own.tolist():
            groups.setdefault((*everything.rows[index].software, everything.rows[index].mode), []).append(index)
        for members in groups.values():
            order = random.permutation(members)
            if len(order) > line.shots:
                given += order[: line.shots].tolist()
                test += order[line.shots :].tolist()
        if not test:
            continue
        yield np.array(test), np.array(given, dtype=np.intp)


def _folds(architectures: NDArray[np.str_]) -> NDArray[np.intp]:
    names, inverse = np.unique(architectures, return_inverse=True)
    return np.asarray((np.random.default_rng(0).permutation(len(names)) % MODEL_FOLDS)[inverse], dtype=np.intp)


def _errors(
    everything: Table, fitted: _Route, test: NDArray[np.intp], shots: NDArray[np.intp], groups: Sequence[str]
) -> tuple[NDArray[np.intp], NDArray[Any], NDArray[Any], dict[float, NDArray[Any]] | None]:
    part = everything.take(test)
    predicted = (fitted.adapted(everything.take(shots)) if len(shots) else fitted).predict(part)
    return test, part.residual - predicted.residual, np.array(groups, dtype=str), predicted.widths


def _summary(line: PublishedLine, everything: Table, parts: Sequence[Any]) -> dict[str, Any]:
    index = np.concatenate([part[0] for part in parts])
    errors = np.concatenate([part[1] for part in parts])
    groups = np.concatenate([part[2] for part in parts])
    widths: dict[float, NDArray[Any]] = {}
    for nominal in NOMINALS:
        if line.shots:
            own = np.concatenate([part[3][nominal] for part in parts])
            widths[nominal] = rescaled(errors, own, nominal, groups.tolist())
        else:
            widths[nominal] = np.zeros(len(errors))
            for group in np.unique(groups):
                others = groups != group
                widths[nominal][~others] = width_between(errors[others], nominal, groups[others].tolist())
    held = HeldOut(index=index, errors=errors, difficulty=np.ones(len(errors)), groups=groups, widths=widths)
    document = summarise(everything, held, "hardware", "latency", line.shots)
    if not line.shots:
        return document
    own = {nominal: np.concatenate([part[3][nominal] for part in parts]) for nominal in NOMINALS}
    software = np.array([software_key(everything.rows[place]) for place in index.tolist()], dtype=str)
    return {**document, "own_row_widths": _factors(errors, own, groups, software)}


def _factors(
    errors: NDArray[Any], own: dict[float, NDArray[Any]], groups: NDArray[Any], software: NDArray[Any]
) -> dict[str, dict[str, float]]:
    """Return by software how many times as wide intervals must be for the next chip, where two chips or more say so."""
    factors: dict[str, dict[str, float]] = {}
    for name in np.unique(software):
        for nominal, widths in own.items():
            here = (software == name) & np.isfinite(widths)
            factor = (
                width_between(errors[here] / np.maximum(widths[here], 1e-9), nominal, groups[here].tolist())
                if here.any()
                else math.inf
            )
            if math.isfinite(factor):
                factors.setdefault(str(name), {})[str(nominal)] = round(factor, 4)
    return factors


_FP = ("fp32", "fp16")
LINES: dict[str, PublishedLine] = {
    "tensorrt-bert-10": PublishedLine(
        title="TensorRT BERT, chip left out, 10 measurements, int8 and fp16", source="TensorRT", shots=10, bar=0.09, reach=0.07
    ),
    "amd-torch-10": PublishedLine(
        title="pytorch-gpu-benchmark, AMD chip left out, 10 measurements", source="pytorch-gpu-benchmark", shots=10,
        makers=("amd",), bar=0.14, reach=0.11,
    ),
    "batch-sweeps-10": PublishedLine(
        title="DeepLearningExamples, batch 1 to 32, chip left out, 10 measurements", source="DeepLearningExamples", shots=10,
        largest_batch=32, mode="inference", bar=0.15, reach=0.10,
    ),
    "batch-sweeps-0": PublishedLine(
        title="DeepLearningExamples, batch 1 to 32, chip left out, no measurement", source="DeepLearningExamples", shots=0,
        largest_batch=32, mode="inference", bar=0.30, reach=0.22,
    ),
    "ai-hub-model-10": PublishedLine(
        title="AI Hub, unseen Qualcomm device and unseen model, 10 measurements", source="AI Hub", shots=10, unseen_model=True,
        bar=0.20, reach=0.15,
    ),
}  # fmt: skip
