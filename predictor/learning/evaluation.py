"""How wrong the predictor is on what it has not seen, with what it has not seen chosen by group.

Only a random split of rows is called interpolation: there the same model is on both sides. Intervals of each fold rest
on the errors of the other folds, so their coverage is measured, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.errors import UsageError
from predictor.learning.calibration import fit_offset, leave_one_model_out, widths_from_errors
from predictor.learning.conformal import width
from predictor.learning.dataset import Row, by_software
from predictor.learning.scores import score
from predictor.learning.traces import Array
from predictor.learning.training import LEARNERS, Learner, Table, fit_trees

__all__ = ["SPLITS", "TARGETS", "HeldOut", "evaluate", "hold_out", "split_groups"]

SPLITS = ("random", "configuration", "architecture", "family", "hardware", "time")
TARGETS = ("latency", "throughput")
NOMINALS = (0.8, 0.9)
FOLDS = 5
ROWS_NEEDED = 50
GROUPS_NEEDED = 5
BETWEEN_DEVICES = 0.25
"""Spread of devices about the trees, in log units, that shrinks an offset. A round figure above the 0.14 that timm's
devices showed when held out: five are few."""
WITHIN_DEVICE = 0.15
"""Spread of the models of one device about its offset, in log units; a round figure."""

Indexes = NDArray[np.intp]


class HeldOut(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Errors on held-out rows: `errors` is log(measured / predicted); `widths` the intervals' half-widths by nominal.

    `index` says which rows of the table they are; `groups` the group each was held out with.
    """

    index: Indexes
    errors: Array
    groups: NDArray[np.str_]
    widths: dict[float, Array]


def split_groups(table: Table, split: str) -> NDArray[np.str_]:
    """Return the group of each row: rows of one group are held out together."""
    if split not in SPLITS:
        raise UsageError(f"no split {split!r}.", field="split", remedy=f"One of {', '.join(SPLITS)}.")
    name: dict[str, Callable[[int, Row], str]] = {
        "random": lambda index, _: str(index),
        "configuration": lambda _, row: (
            row.configuration
            or repr((*row.software, row.model, row.mode, row.batch_size, row.image_size, row.sequence_length))
        ),
        "architecture": lambda index, _: table.traces[index].architecture,
        "family": lambda index, row: table.traces[index].family or row.family or row.model,
        "hardware": lambda _, row: row.hardware,
        "time": lambda index, _: str(index),
    }
    return np.array([name[split](index, row) for index, row in enumerate(table.rows)], dtype=str)


def hold_out(
    table: Table, split: str, *, shots: int = 0, learners: Sequence[Learner] = LEARNERS, seed: int = 0
) -> HeldOut:
    """Return the errors on held-out rows of each fold. Raises UsageError where there are too few rows or groups."""
    groups = split_groups(table, split)
    needed = 2 if split == "hardware" else GROUPS_NEEDED
    found = len(set(groups.tolist()))
    if len(table) < ROWS_NEEDED or found < needed:
        raise UsageError(
            f"{len(table)} traced rows in {found} groups; a {split} split needs {ROWS_NEEDED} rows in {needed} groups "
            f"(missing: {max(0, ROWS_NEEDED - len(table))} rows, {max(0, needed - found)} groups).",
            field="split",
            remedy="Measure or import more, and trace the models.",
        )
    if split == "hardware":
        return _by_hardware(table, groups, shots, learners, seed)
    if split == "time":
        return _by_time(table, groups, learners)
    folds = _folds(groups, seed)
    errors = np.zeros(len(table))
    for fold in range(FOLDS):
        out = folds == fold
        trees = fit_trees(table.values[~out], table.residual[~out], learners=learners)
        errors[out] = table.residual[out] - trees.predict(table.values[out])
    index = np.arange(len(table))
    return HeldOut(index=index, errors=errors, groups=groups, widths=_cross_widths(errors, groups, folds, split))


def _folds(groups: NDArray[np.str_], seed: int) -> Indexes:
    names, inverse = np.unique(groups, return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(names))
    return np.asarray(order[inverse] % FOLDS, dtype=np.intp)


def _cross_widths(errors: Array, groups: NDArray[np.str_], folds: Indexes, split: str) -> dict[float, Array]:
    """Widths of each fold from the errors of the others; families count as one draw each."""
    widths = {nominal: np.zeros(len(errors)) for nominal in NOMINALS}
    for fold in np.unique(folds):
        others = folds != fold
        of = groups[others].tolist() if split == "family" else None
        for nominal in NOMINALS:
            widths[nominal][~others] = width(errors[others], nominal, of)
    return widths


def _by_time(table: Table, groups: NDArray[np.str_], learners: Sequence[Learner]) -> HeldOut:
    """Train on the earlier four fifths, test on what came after; widths from the last fifth of the training part."""
    when = [(row.time or "", row.position, index) for index, row in enumerate(table.rows)]
    order = np.array([entry[2] for entry in sorted(when)], dtype=np.intp)
    cut, check = int(len(order) * 0.8), int(len(order) * 0.64)
    early = fit_trees(table.values[order[:check]], table.residual[order[:check]], learners=learners)
    before = order[check:cut]
    known = table.residual[before] - early.predict(table.values[before])
    trees = fit_trees(table.values[order[:cut]], table.residual[order[:cut]], learners=learners)
    test = order[cut:]
    widths = {nominal: np.full(len(test), width(known, nominal)) for nominal in NOMINALS}
    errors = table.residual[test] - trees.predict(table.values[test])
    return HeldOut(index=test, errors=errors, groups=groups[test], widths=widths)


def _by_hardware(table: Table, groups: NDArray[np.str_], shots: int, learners: Sequence[Learner], seed: int) -> HeldOut:
    """Each device in turn, trained on the others of its platform; `shots` rows a software configuration calibrate it."""
    random = np.random.default_rng(seed)
    platforms = np.array([row.platform for row in table.rows], dtype=str)
    parts: list[tuple[Indexes, Array, dict[float, Array]]] = []
    for device in np.unique(groups):
        out = np.flatnonzero(groups == device)
        same = np.isin(platforms, np.unique(platforms[out])) & (groups != device)
        train = same if same.sum() >= ROWS_NEEDED else groups != device
        trees = fit_trees(table.values[train], table.residual[train], learners=learners)
        errors = table.residual[out] - trees.predict(table.values[out])
        parts.extend(_after_shots(table, out, errors, shots, random))
    joined = np.concatenate([part[0] for part in parts])
    widths = {nominal: np.concatenate([part[2][nominal] for part in parts]) for nominal in NOMINALS}
    return HeldOut(
        index=joined, errors=np.concatenate([part[1] for part in parts]), groups=groups[joined], widths=widths
    )


def _after_shots(
    table: Table, out: Indexes, errors: Array, shots: int, random: np.random.Generator
) -> list[tuple[Indexes, Array, dict[float, Array]]]:
    parts: list[tuple[Indexes, Array, dict[float, Array]]] = []
    for members in by_software([table.rows[index] for index in out]).values():
        chosen = np.array(members, dtype=np.intp)
        picked = random.permutation(len(chosen))
        if len(chosen) <= shots:
            continue
        shot, rest = chosen[picked[:shots]], chosen[picked[shots:]]
        balance = table.balance[out]
        names = [table.rows[out[index]].model for index in shot]
        fit = fit_offset(errors[shot], balance[shot], names, between=BETWEEN_DEVICES, within=WITHIN_DEVICE)
        left = errors[rest] - fit.correction(balance[rest])
        local = leave_one_model_out(errors[shot], balance[shot], names, between=BETWEEN_DEVICES, within=WITHIN_DEVICE)
        parts.append((out[rest], left, {nominal: _shot_width(local, nominal, len(rest)) for nominal in NOMINALS}))
    return parts


def _shot_width(local: Array, nominal: float, rows: int) -> Array:
    """Zero shots: nothing measured says how wide, so the answer is "not calibrated" and no interval is given."""
    if not len(local):
        return np.full(rows, math.nan)
    names = [str(index) for index in range(len(local))]
    reach = widths_from_errors(local, names, between=BETWEEN_DEVICES, within=WITHIN_DEVICE)[nominal]
    return np.full(rows, reach)


def evaluate(
    table: Table,
    split: str,
    target: str = "throughput",
    *,
    shots: int = 0,
    learners: Sequence[Learner] = LEARNERS,
) -> dict[str, Any]:
    """Return the scores of a split: overall, by hardware and by family, and the mean over families.

    Shares and errors are 0 to 1. A throughput error is relative to the measured throughput, a latency error to the
    measured latency. Raises UsageError for a split or target that does not exist, or too few rows.
    """
    if target not in TARGETS:
        raise UsageError(
            f"no predictor of {target!r} is evaluated here.", field="target", remedy=f"One of {', '.join(TARGETS)}."
        )
    if shots < 0 or (shots and split != "hardware"):
        raise UsageError("shots calibrate held-out hardware.", field="shots", remedy="Use --split hardware.")
    held = hold_out(table, split, shots=shots, learners=learners)
    return summarise(table, held, split, target, shots)


def summarise(table: Table, held: HeldOut, split: str, target: str, shots: int) -> dict[str, Any]:
    """Return the answer's shape of `evaluate` for held-out errors that are there already."""
    rows = [table.rows[index] for index in held.index]
    hardware = np.array([row.hardware for row in rows], dtype=str)
    families = split_groups(table, "family")[held.index]
    measured = np.array([row.latency_ms or math.nan for row in rows])
    blocks = np.array([repr(row.software) for row in rows], dtype=str)

    def scored(chosen: NDArray[np.bool_]) -> dict[str, Any]:
        return score(
            held.errors[chosen],
            measured[chosen],
            {nominal: widths[chosen] for nominal, widths in held.widths.items()},
            target,
            blocks[chosen],
        )

    everything = np.ones(len(rows), dtype=bool)
    by_family = {str(name): scored(families == name) for name in np.unique(families)}
    macro = float(np.mean([entry["mape"] for entry in by_family.values()]))
    return {
        "split": split,
        "target": target,
        "shots": shots,
        "rows": len(rows),
        "groups": len(set(held.groups.tolist())),
        "interpolation": split == "random",
        "calibrated": split != "hardware" or shots > 0,
        "overall": scored(everything),
        "macro_family_mape": round(macro, 6),
        "by_hardware": {str(name): scored(hardware == name) for name in np.unique(hardware)},
        "by_family": by_family,
        "left_out": table.dropped,
    }
