"""Fit a class of kernels: the parameters of its physics, then trees on what physics leaves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array
from predictor.kernels.columns import PRODUCT, Columns
from predictor.kernels.kept import TREES
from predictor.kernels.physics import FEATURES, FLOOR_US, PARTS, START, Parameters, features_of, seconds_of
from predictor.learning.single_thread import single_threaded
from predictor.learning.training import Learner, Trees, fit_trees

__all__ = ["ALL", "HALF", "FittedClass", "fit_class", "fit_parameters"]

MOST = 20_000
"""Kernels that parameters are fitted on; trees see all that are given."""
BEND = 0.1
"""Errors beyond as many log units count linearly."""
PULL = {"power": 20.0, "vector": 20.0, "halving": 20.0, "blend": 20.0, "cache": 20.0, "resident": 20.0}
"""How strongly a parameter keeps to where it starts, beside one kernel's error; others: 0.3. Few devices say what power does,
and what overlaps or stays in a cache is told by few kernels."""
USUAL_PULL = 0.3
KERNEL_LEARNERS = (
    Learner(objective="l1", trees=400, learning_rate=0.05, leaves=63, rows_per_leaf=40, feature_share=0.6),
)
HALF_LEARNERS = (msgspec.structs.replace(KERNEL_LEARNERS[0], leaves=127),)
"""Products of 16 bits have the most kernels on the most devices, and their trees more leaves."""
ALL, HALF = "all", "half"
"""Trees of all kernels of a class, and of products whose operands are both of 16 bits, which have trees of their own."""


class FittedClass(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A class of kernels as it was learned: physics, and the trees of what physics leaves, by `ALL` and `HALF`."""

    name: str
    parameters: Parameters
    trees: dict[str, Trees]

    @classmethod
    def kept(cls, name: str, parameters: Parameters, others: Mapping[str, Trees]) -> FittedClass:
        """Return a class from the parameters and the trees of a predictor."""
        keys = {key: f"{TREES}{name}.{key}" for key in (ALL, HALF)}
        return cls(
            name=name, parameters=parameters, trees={key: others[at] for key, at in keys.items() if at in others}
        )

    def seconds(self, columns: Columns) -> Array:
        """Return the seconds that each kernel takes; where no trees were fitted, what physics says."""
        left = np.zeros(len(columns))
        half = _half(self.name, columns) & (HALF in self.trees)
        values = features_of(self.name, self.parameters, columns)
        for key, here in ((HALF, half), (ALL, ~half)):
            if key in self.trees:
                left[here] = self.trees[key].predict(values[here])
        return np.asarray(seconds_of(self.name, self.parameters, columns) * np.exp(left), dtype=np.float64)


def _half(name: str, columns: Columns) -> NDArray[np.bool_]:
    """Return which kernels are products whose operands are both of 16 bits."""
    if name != PRODUCT:
        return np.zeros(len(columns), dtype=bool)
    return np.asarray((columns.sizes["left_bytes"] == 2) & (columns.sizes["right_bytes"] == 2))


def fit_parameters(name: str, columns: Columns, seconds: Array) -> Parameters:
    """Return the parameters that measured kernels of a class teach; the same kernels teach the same."""
    from scipy.optimize import least_squares  # Half a second of an import that only training needs.

    if len(columns) > MOST:
        chosen = np.random.default_rng(0).choice(len(columns), MOST, replace=False)
        columns, seconds = columns.take(np.sort(chosen)), seconds[np.sort(chosen)]
    regimes = sorted(set(columns.regime.tolist()))
    names = list(START[name])
    start = np.log([*START[name].values(), *(FLOOR_US.get(regime, FLOOR_US["eager"]) for regime in regimes)])
    pull = np.array([*(PULL.get(parameter, USUAL_PULL) for parameter in names), *[USUAL_PULL] * len(regimes)])
    parts, wanted = PARTS[name](columns), np.log(seconds)

    def made(logs: Array) -> Parameters:
        values = np.exp(np.clip(logs, -12.0, 12.0)).tolist()
        return Parameters(
            values=dict(zip(names, values, strict=False)),
            floors_us=dict(zip(regimes, values[len(names) :], strict=True)),
        )

    def errors(logs: Array) -> Array:
        return np.concatenate([np.log(seconds_of(name, made(logs), columns, parts)) - wanted, pull * (logs - start)])

    with single_threaded():
        fitted = least_squares(errors, start, loss="soft_l1", f_scale=BEND)
    return made(np.round(fitted.x, 6))


def fit_class(name: str, columns: Columns, seconds: Array, keys: Sequence[str] = (ALL, HALF)) -> FittedClass:
    """Return what measured kernels of a class teach, with the trees of `keys`; the same kernels give the same bits."""
    parameters = fit_parameters(name, columns, seconds)
    left = np.log(seconds / seconds_of(name, parameters, columns))
    values = features_of(name, parameters, columns)
    trees: dict[str, Trees] = {}
    if ALL in keys:
        trees[ALL] = fit_trees(values, left, names=FEATURES[name], learners=KERNEL_LEARNERS)
    half = _half(name, columns)
    if HALF in keys and half.any():
        trees[HALF] = fit_trees(values[half], left[half], names=FEATURES[name], learners=HALF_LEARNERS)
    return FittedClass(name=name, parameters=parameters, trees=trees)
