"""Build the general route: fit it on all rows, and measure it on groups that are left out whole, level by level."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.artifact.difficulty import Difficulty, cross_fitted
from predictor.features.table import Array, Table
from predictor.general.inputs import inputs_of
from predictor.general.kept import GENERAL, LEVELS, General, GeneralLevel, maker_of, software_of
from predictor.general.method import GENERAL_LEARNERS, FittedGeneral, GeneralMethod, spread
from predictor.kernels.kept import chip_of
from predictor.kernels.physics import Parameters
from predictor.learning.evaluation import score
from predictor.learning.training import Learner, Trees

__all__ = ["build_general", "left_out"]

FOLDS = 8
Names = NDArray[np.str_]


def build_general(
    table: Table,
    parameters: dict[str, Parameters],
    learners: Sequence[Learner] = GENERAL_LEARNERS,
    say: Callable[[str], None] | None = None,
) -> tuple[General, dict[str, Trees]]:
    """Return the general route that a table of measured rows teaches, and its trees by name."""
    table = table.take(spread(table))
    method = GeneralMethod(parameters, learners)
    values = inputs_of(table, parameters).values
    levels: dict[str, GeneralLevel] = {}
    scores: dict[str, Any] = {}
    hard: dict[str, str] = {}
    for level in LEVELS:
        groups, errors = left_out(table, method, level)
        here = np.isfinite(errors)
        doubt = np.ones(int(here.sum()))
        difficulty = cross_fitted(values[here], doubt, errors[here], groups[here])
        levels[level] = GeneralLevel.fitted(errors[here] / difficulty, groups[here].tolist())
        hard[level] = Difficulty.fitted(values[here], doubt, errors[here]).text
        scores[level] = _scores(table.take(here), errors[here], difficulty, levels[level])
        if say is not None:
            say(f"{level}: {scores[level]['overall']}")
    fitted = method.fit(table)
    general = General.of(table, levels)
    general = General(**{name: getattr(general, name) for name in General.__struct_fields__} | {"scores": scores})
    return general, {GENERAL: fitted.trees, f"{GENERAL}.difficulty": Trees(hard)}


def left_out(table: Table, method: GeneralMethod, level: str) -> tuple[Names, Array]:
    """Return the group that each row is left out with at a level, and its log error (NaN: never left out)."""
    architecture, family = table.architecture, table.family
    chips = np.array([chip_of(row.hardware) for row in table.rows], dtype=str)
    software = np.array(["|".join(name[:3]) for name in _software(table)], dtype=str)
    if level == "hardware_family":
        return _both(table, method, chips, family)
    groups = {"architecture": architecture, "family": family, "hardware": chips, "software": software}[level]
    errors = np.full(len(table), np.nan)
    folds = _folds(groups, len(set(groups.tolist())) if level == "software" else FOLDS)
    for fold in range(int(folds.max()) + 1):
        out = folds == fold
        errors[out] = _errors(method.fit(table.take(~out)), table.take(out))
    return groups, errors


def _both(table: Table, method: GeneralMethod, chips: Names, family: Names) -> tuple[Names, Array]:
    """Leave out devices and families together: what is asked has neither in common with what trained."""
    errors = np.full(len(table), np.nan)
    devices, families = _folds(chips, FOLDS // 2), _folds(family, FOLDS // 2)
    for device in range(FOLDS // 2):
        for fold in range(FOLDS // 2):
            out = (devices == device) & (families == fold)
            if out.any():
                train = (devices != device) & (families != fold)
                errors[out] = _errors(method.fit(table.take(train)), table.take(out))
    return chips, errors


def _software(table: Table) -> list[tuple[str, str, str, int]]:
    return [software_of(row, maker_of(limit)) for row, limit in zip(table.rows, table.limits, strict=True)]


def _errors(fitted: FittedGeneral, table: Table) -> Array:
    return table.residual - fitted.predict(table).residual


def _folds(groups: Names, count: int) -> NDArray[np.intp]:
    names, inverse = np.unique(groups, return_inverse=True)
    return np.asarray((np.random.default_rng(0).permutation(len(names)) % count)[inverse], dtype=np.intp)


def _scores(table: Table, errors: Array, difficulty: Array, level: GeneralLevel) -> dict[str, Any]:
    """Return the scores of a level, overall and by vendor and platform."""
    reach = {float(name): np.nan if half is None else half for name, half in level.widths.items()}

    def of(here: NDArray[np.bool_]) -> dict[str, Any]:
        widths = {nominal: half * difficulty[here] for nominal, half in reach.items()}
        blocks = np.array(["|".join(map(str, name)) for name in _software(table.take(here))], dtype=str)
        return score(errors[here], table.measured[here] * 1e3, widths, "latency", blocks)

    names = np.array([f"{maker} {platform}" for maker, platform, *_ in _software(table)], dtype=str)
    return {
        "overall": of(np.ones(len(table), dtype=bool)),
        "by_vendor": {str(name): of(names == name) for name in np.unique(names)},
    }
