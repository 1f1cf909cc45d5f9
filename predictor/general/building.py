"""Build the general route: fit it on all rows, and measure it on groups that are left out whole, level by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.performance.roofline import Limits
from predictor.artifact.difficulty import Difficulty, cross_fitted
from predictor.features.dataset import Row
from predictor.features.table import Array, Table
from predictor.features.traces import Trace
from predictor.general.inputs import GeneralInputs, inputs_of, kind_of
from predictor.general.kept import DIFFICULTY, LEVELS, General, GeneralLevel, maker_of, software_of
from predictor.general.method import GENERAL_LEARNERS, fit_beyond, log_seconds, spread
from predictor.kernels.kept import chip_of
from predictor.kernels.physics import Parameters
from predictor.learning.evaluation import score
from predictor.learning.training import Learner, Trees

__all__ = ["build_general", "left_out"]

FOLDS = 8
Names = NDArray[np.str_]
Bools = NDArray[np.bool_]


def build_general(
    table: Table,
    parameters: dict[str, Parameters],
    learners: Sequence[Learner] = GENERAL_LEARNERS,
    say: Callable[[str], None] | None = None,
) -> tuple[General, dict[str, Trees]]:
    """Return the general route that a table of measured rows teaches, and its trees by name."""
    table = table.take(spread(table))
    inputs = inputs_of(table, parameters)
    levels: dict[str, GeneralLevel] = {}
    scores: dict[str, Any] = {}
    hard: dict[str, str] = {}
    for level in LEVELS:
        groups, errors = left_out(table, inputs, level, learners)
        here = np.isfinite(errors)
        values, doubt = inputs.values[here], np.ones(int(here.sum()))
        difficulty = cross_fitted(values, doubt, errors[here], groups[here])
        levels[level] = GeneralLevel.fitted(errors[here] / difficulty, groups[here].tolist())
        hard[level] = Difficulty.fitted(values, doubt, errors[here]).text
        scores[level] = _scores(table.take(here), errors[here], difficulty, levels[level])
        if say is not None:
            say(f"{level}: {scores[level]['overall']}")
    general = msgspec.structs.replace(General.of(table, levels), scores=scores)
    return general, {**fit_beyond(inputs, table.measured, learners), DIFFICULTY: Trees(hard)}


def left_out(table: Table, inputs: GeneralInputs, level: str, learners: Sequence[Learner]) -> tuple[Names, Array]:
    """Return the group that each row of a table is left out with at a level, and its log error; `inputs` are the table's."""
    chips = np.array([chip_of(row.hardware) for row in table.rows], dtype=str)
    software = np.array(["|".join(name[:3]) for name in _software(table)], dtype=str)
    if level == "hardware_family":
        groups, parts = chips, _both(chips, table.family)
    else:
        groups = {
            "architecture": table.architecture,
            "family": table.family,
            "hardware": chips,
            "software": software,
        }[level]
        folds = _folds(groups, len(set(groups.tolist())) if level == "software" else FOLDS)
        parts = [(folds != fold, folds == fold) for fold in range(int(folds.max()) + 1)]
    errors = np.full(len(table), np.nan)
    for train, out in parts:
        trees = fit_beyond(inputs.take(train), table.measured[train], learners)
        errors[out] = np.log(table.measured[out]) - log_seconds(inputs.take(out), trees)
    return groups, errors


def _both(chips: Names, family: Names) -> list[tuple[Bools, Bools]]:
    """Return what trains and what is left out where a question has neither device nor family in common with what trained."""
    devices, families = _folds(chips, FOLDS // 2), _folds(family, FOLDS // 2)
    parts = []
    for device in range(FOLDS // 2):
        for fold in range(FOLDS // 2):
            out = (devices == device) & (families == fold)
            if out.any():
                parts.append(((devices != device) & (families != fold), out))
    return parts


def cell_of(row: Row, limits: Limits | None, trace: Trace) -> str:
    """Return the class of device and the class of model of a row, as the page of coverage has them."""
    return f"{maker_of(limits)} {kind_of(row)}|{trace.category or 'other'}"


def _software(table: Table) -> list[tuple[str, str, str, int]]:
    return [software_of(row, maker_of(limit)) for row, limit in zip(table.rows, table.limits, strict=True)]


def _folds(groups: Names, count: int) -> NDArray[np.intp]:
    names, inverse = np.unique(groups, return_inverse=True)
    return np.asarray((np.random.default_rng(0).permutation(len(names)) % count)[inverse], dtype=np.intp)


def _scores(table: Table, errors: Array, difficulty: Array, level: GeneralLevel) -> dict[str, Any]:
    """Return the scores of a level, overall and by `cell_of`."""
    reach = {float(name): np.nan if half is None else half for name, half in level.widths.items()}

    def of(here: NDArray[np.bool_]) -> dict[str, Any]:
        widths = {nominal: half * difficulty[here] for nominal, half in reach.items()}
        blocks = np.array(["|".join(map(str, name)) for name in _software(table.take(here))], dtype=str)
        return score(errors[here], table.measured[here] * 1e3, widths, "latency", blocks)

    names = np.array([cell_of(*pair) for pair in zip(table.rows, table.limits, table.subjects, strict=True)], dtype=str)
    return {
        "overall": of(np.ones(len(table), dtype=bool)),
        "by_cell": {str(name): of(names == name) for name in np.unique(names)},
    }
