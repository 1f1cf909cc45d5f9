"""What each feature adds to the trees' prediction, read off the way that a row takes through every tree.

Each split moves the expected value of the rows that trained from that of the node to that of the child, and the step
belongs to the feature that was asked. The steps and the root's value add up to the prediction. Shapley values of the
same trees differ by a fifth of a contribution's size and take a hundred times as long (docs/suggestions.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array
from predictor.learning.training import Trees

__all__ = ["Attribution", "attribution_of"]

_DEFAULT_LEFT, _MISSING_SHIFT, _MISSING_ZERO, _MISSING_NAN = 2, 2, 1, 2
_ZERO = 1e-35
_WHOLE = ("split_feature", "left_child", "right_child", "leaf_count", "internal_count", "decision_type")
_REAL = ("threshold", "leaf_value")
Indexes = NDArray[np.intp]


class Attribution:
    """The trees of a predictor, laid out so that one row goes through all of them at once."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Take the models as LightGBM text; their mean is what is explained."""
        trees = [tree for name in sorted(texts) for tree in _parsed(texts[name])]
        grown = [tree for tree in trees if len(tree.get("split_feature", ()))]
        width = max((len(tree["split_feature"]) for tree in grown), default=0)
        self._share = 1.0 / len(texts)
        # A tree that never split is a constant, and all of it is the base.
        self._constant = float(sum(tree["leaf_value"][0] for tree in trees if not len(tree.get("split_feature", ()))))
        self._feature = _stacked(grown, "split_feature", width).astype(np.intp)
        self._threshold = _stacked(grown, "threshold", width)
        kinds = _stacked(grown, "decision_type", width).astype(np.intp)
        self._missing = (kinds >> _MISSING_SHIFT) & 3
        self._default_left = (kinds & _DEFAULT_LEFT) > 0
        # A child is a node (0 or more) or the complement of a leaf; leaves lie behind the nodes in `_value`.
        self._left, self._right = (_children(grown, name, width) for name in ("left_child", "right_child"))
        self._width = width
        self._value = self._expected(grown)

    def _expected(self, grown: list[dict[str, Array]]) -> Array:
        """Expected value of every node, from the leaves up: a child always stands behind its parent."""
        width = self._width
        values = np.hstack([np.zeros((len(grown), width)), _stacked(grown, "leaf_value", width + 1)])
        counts = np.hstack([_stacked(grown, "internal_count", width), _stacked(grown, "leaf_count", width + 1)])
        every = np.arange(len(grown))
        for node in reversed(range(width)):
            left, right = self._left[:, node], self._right[:, node]
            total = counts[every, left] + counts[every, right]
            sums = counts[every, left] * values[every, left] + counts[every, right] * values[every, right]
            values[:, node] = np.divide(sums, total, out=np.zeros(len(grown)), where=total > 0)
        return values

    def of(self, row: Array) -> tuple[float, Array]:
        """Return the base value and each feature's contribution; together they are the prediction for this row."""
        trees = np.arange(len(self._value))
        node = np.zeros(len(trees), dtype=np.intp)
        value = self._value[:, 0] if len(trees) else np.zeros(0)
        base = self._constant + float(value.sum())
        sums = np.zeros(len(row))
        while len(trees):
            feature = self._feature[trees, node]
            child = self._child(trees, node, row[feature])
            after = self._value[trees, child]
            sums += np.bincount(feature, weights=after - value, minlength=len(row))
            on = child < self._width
            trees, node, value = trees[on], child[on], after[on]
        return base * self._share, sums * self._share

    def _child(self, trees: Indexes, node: Indexes, values: Array) -> Indexes:
        """The child that each tree sends a value to; what is missing goes where training sent it."""
        missing = self._missing[trees, node]
        unknown = np.isnan(values)
        values = np.where(unknown & (missing != _MISSING_NAN), 0.0, values)
        by_default = (unknown & (missing == _MISSING_NAN)) | ((missing == _MISSING_ZERO) & (np.abs(values) <= _ZERO))
        with np.errstate(invalid="ignore"):
            left = np.where(by_default, self._default_left[trees, node], values <= self._threshold[trees, node])
        return np.where(left, self._left[trees, node], self._right[trees, node])


@lru_cache(maxsize=4)
def attribution_of(trees: Trees) -> Attribution:
    """Return the attribution of a predictor's trees; reading their texts takes a third of a second, once."""
    return Attribution(trees.texts)


def _parsed(text: str) -> list[dict[str, Array]]:
    trees: list[dict[str, Array]] = []
    for block in text.split("\nTree=")[1:]:
        values: dict[str, Array] = {}
        for line in block.split("\n"):
            name, _, value = line.partition("=")
            if name in _WHOLE or name in _REAL:
                values[name] = np.array(value.split(), dtype=np.float64)
            elif name == "is_linear" and value != "0":
                raise ValueError("trees with linear leaves have no constant steps")
            elif line == "end of trees":
                break
        trees.append(values)
    return trees


def _stacked(trees: list[dict[str, Array]], name: str, width: int) -> Array:
    """One row a tree, filled up with zeros."""
    table = np.zeros((len(trees), width))
    for index, tree in enumerate(trees):
        table[index, : len(tree[name])] = tree[name]
    return table


def _children(trees: list[dict[str, Array]], name: str, width: int) -> Indexes:
    # Nodes that a smaller tree has not point at its empty last leaf and weigh nothing.
    table = np.full((len(trees), width), 2 * width, dtype=np.intp)
    for index, tree in enumerate(trees):
        child = tree[name].astype(np.intp)
        table[index, : len(child)] = np.where(child < 0, width + ~child, child)
    return table
