"""How wrong a method is on what it has not seen, with what it has not seen chosen by group.

Only a random split of rows is called interpolation: there the same model is on both sides. Intervals of each fold rest
on the errors of the other folds, so their coverage is measured, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from domain.comparison.parity import fields
from domain.errors import UsageError
from predictor.artifact.conformal import rescaled, width, width_between
from predictor.artifact.difficulty import Difficulty, cross_fitted
from predictor.features.dataset import TARGETS, by_software
from predictor.features.table import Array, Matrix, Names, Table
from predictor.learning.method import Fitted, Method, Prediction

__all__ = ["SPLITS", "HeldOut", "evaluate", "hold_out", "kendall_tau", "pooled", "score", "split_groups", "summarise"]


def score(
    log_errors: Array, measured_ms: Array, widths: dict[float, Array], target: str, blocks: NDArray[Any]
) -> dict[str, Any]:
    """Return the scores of some rows; `log_errors` is log(measured time / predicted time).

    Kendall's τ compares the order of times within each block (a software configuration) and is the mean over blocks by
    their rows; `width_80` is the mean of (high − low) / prediction. Coverage and width are null where no interval is
    given.
    """
    relative = np.abs(np.expm1(log_errors)) if target == "throughput" else np.abs(np.expm1(-log_errors))
    answer: dict[str, Any] = {
        "rows": len(log_errors),
        "mape": _rounded(np.mean(relative)),
        "median_ape": _rounded(np.median(relative)),
        "within_10": _rounded(np.mean(relative <= 0.1)),
        "within_20": _rounded(np.mean(relative <= 0.2)),
        "kendall_tau": _tau_by_block(np.log(measured_ms), log_errors, blocks),
    }
    for nominal in (0.8, 0.9):
        answer[f"coverage_{round(nominal * 100)}"] = _covered(log_errors, widths[nominal])
    narrow = widths[0.8]
    bounded = np.isfinite(narrow)
    answer["width_80"] = _rounded(np.mean(2 * np.sinh(narrow[bounded]))) if bounded.any() else None
    return answer


def _covered(log_errors: Array, widths: Array) -> float | None:
    value = ~np.isnan(widths)
    return _rounded(np.mean(np.abs(log_errors[value]) <= widths[value])) if value.any() else None


def _rounded(value: Any) -> float:
    return round(float(value), 6)


def _tau_by_block(log_measured: Array, log_errors: Array, blocks: NDArray[Any]) -> float | None:
    total = weight = 0.0
    for name in np.unique(blocks):
        here = blocks == name
        tau = kendall_tau(log_measured[here], (log_measured - log_errors)[here])
        if tau is not None:
            total += tau * float(here.sum())
            weight += float(here.sum())
    return _rounded(total / weight) if weight else None


def kendall_tau(values: Array, other: Array) -> float | None:
    """Return Kendall's τ-a of two sequences, or None with fewer than three; counted by merge sort in n log n."""
    count = len(values)
    if count < 3:
        return None
    order = np.lexsort((other, values))
    discordant = _inversions(other[order])
    pairs = count * (count - 1) / 2
    return 1 - 2 * discordant / pairs


def _inversions(values: Array) -> int:
    """Return how many pairs stand in the wrong order: for each value, the greater ones before it."""
    ranks = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    tree = [0] * (len(ranks) + 1)
    inversions = 0
    for seen, rank in enumerate(ranks.tolist()):
        position = rank + 1
        not_greater = 0
        while position > 0:
            not_greater += tree[position]
            position -= position & -position
        inversions += seen - not_greater
        position = rank + 1
        while position < len(tree):
            tree[position] += 1
            position += position & -position
    return inversions


SPLITS = ("random", "configuration", "architecture", "family", "hardware", "hardware+family", "time")
NOMINALS = (0.5, 0.8, 0.9)
FOLDS = 5
ROWS_NEEDED = 50
GROUPS_NEEDED = {"hardware": 2, "hardware+family": 2}
POINTS = 2000

Indexes = NDArray[np.intp]


class HeldOutPart(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Rows that were held out together: what may train for them, what may correct, what is asked."""

    train: Indexes
    shots: Indexes
    test: Indexes


class HeldOut(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Errors on held-out rows: `errors` is log(measured / predicted), `widths` the intervals' half-widths by nominal.

    `index` says which rows of the table they are; `groups` the group that each was held out with; a width is NaN where
    no interval is given, because nothing measured says how wide it would be.
    """

    index: Indexes
    errors: Array
    difficulty: Array
    groups: Names
    widths: dict[float, Array]


def split_groups(table: Table, split: str) -> Names:
    """Return the group of each row: rows of one group are held out together."""
    if split not in SPLITS:
        raise UsageError(f"no split {split!r}.", field="split", remedy=f"One of {', '.join(SPLITS)}.")
    if split in ("random", "time"):
        return np.array([str(index) for index in range(len(table))], dtype=str)
    if split == "configuration":
        return np.array([row.configuration or repr(row.same) for row in table.rows], dtype=str)
    if split in ("architecture", "family"):
        return table.architecture if split == "architecture" else table.family
    return np.array([row.hardware for row in table.rows], dtype=str)


def hold_out(table: Table, method: Method, split: str, *, shots: int = 0, seed: int = 0) -> HeldOut:
    """Return the errors on held-out rows of each part. Raises UsageError where there are too few rows or groups."""
    groups = split_groups(table, split)
    needed, count = GROUPS_NEEDED.get(split, FOLDS), len(set(groups.tolist()))
    if len(table) < ROWS_NEEDED or count < needed:
        raise UsageError(
            f"{len(table)} usable rows in {count} groups; a {split} split needs {ROWS_NEEDED} rows in {needed} groups "
            f"(missing: {max(0, ROWS_NEEDED - len(table))} rows, {max(0, needed - count)} groups).",
            field="split",
            remedy="Measure or import more, and trace the models.",
        )
    index: list[Indexes] = []
    errors: list[Array] = []
    predictions: list[Prediction] = []
    folds: list[Indexes] = []
    last: tuple[bytes, Fitted] | None = None
    for number, part in enumerate(_parts(table, groups, split, shots, np.random.default_rng(seed))):
        key = part.train.tobytes()
        if last is None or last[0] != key:  # Parts of one fold differ in their shots alone.
            last = (key, method.fit(table.take(part.train)))
        fitted = last[1].adapted(table.take(part.shots)) if len(part.shots) else last[1]
        request = table.take(part.test)
        predicted = fitted.predict(request)
        index.append(part.test)
        predictions.append(predicted)
        errors.append(request.residual - predicted.residual)
        folds.append(np.full(len(part.test), number, dtype=np.intp))
    joined = np.concatenate(index)
    difficulty = np.concatenate([prediction.difficulty for prediction in predictions])
    held = HeldOut(index=joined, errors=np.concatenate(errors), difficulty=difficulty, groups=groups[joined], widths={})
    return msgspec.structs.replace(
        held, widths=_widths(table.values[joined], held, predictions, np.concatenate(folds), split, shots)
    )


def pooled(draws: Sequence[HeldOut]) -> HeldOut:
    """Return the errors of several draws of shots as those of one evaluation; each has widths of its own."""
    return HeldOut(
        index=np.concatenate([held.index for held in draws]),
        errors=np.concatenate([held.errors for held in draws]),
        difficulty=np.concatenate([held.difficulty for held in draws]),
        groups=np.concatenate([held.groups for held in draws]),
        widths={nominal: np.concatenate([held.widths[nominal] for held in draws]) for nominal in draws[0].widths},
    )


def _parts(table: Table, groups: Names, split: str, shots: int, random: np.random.Generator) -> Iterator[HeldOutPart]:
    if split == "time":
        yield _latest(table)
    elif split == "hardware":
        yield from _devices(table, groups, shots, random)
    elif split == "hardware+family":
        yield from _devices_and_families(table, groups, shots, random)
    else:
        folds = _folds(groups, random)
        for fold in range(FOLDS):
            train, out = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            if not shots:
                yield HeldOutPart(train=train, shots=out[:0], test=out)
                continue
            for name in np.unique(groups[out]):
                yield from _after(train, [out[groups[out] == name]], shots, random)


def _folds(groups: Names, random: np.random.Generator) -> Indexes:
    names, inverse = np.unique(groups, return_inverse=True)
    order = random.permutation(len(names))
    return np.asarray(order[inverse] % FOLDS, dtype=np.intp)


def _latest(table: Table) -> HeldOutPart:
    """The last fifth of the rows, by time and position, after all the others."""
    when = [(row.time or "", row.position, index) for index, row in enumerate(table.rows)]
    order = np.array([entry[2] for entry in sorted(when)], dtype=np.intp)
    cut = int(len(order) * 0.8)
    return HeldOutPart(train=order[:cut], shots=order[:0], test=order[cut:])


def _devices(table: Table, groups: Names, shots: int, random: np.random.Generator) -> Iterator[HeldOutPart]:
    """Each device in turn; `shots` rows of each of its software configurations correct what the others taught."""
    for device in np.unique(groups):
        out = np.flatnonzero(groups == device)
        yield from _after(_alike(table, groups, device), _by_software(table, out), shots, random)


def _devices_and_families(
    table: Table, groups: Names, shots: int, random: np.random.Generator
) -> Iterator[HeldOutPart]:
    """Each device in turn and on it each fold of families, neither of which trained; shots are of other families."""
    folds = _folds(table.family, random)
    for device in np.unique(groups):
        alike = _alike(table, groups, device)
        for fold in range(FOLDS):
            train = alike[folds[alike] != fold]
            seen = _by_software(table, np.flatnonzero((groups == device) & (folds != fold)))
            chosen = [random.permutation(members)[:shots] for members in seen]
            shot = np.concatenate(chosen) if chosen else train[:0]
            out = np.flatnonzero((groups == device) & (folds == fold))
            if len(out) and len(train) >= ROWS_NEEDED:
                yield HeldOutPart(train=train, shots=shot, test=out)


def _alike(table: Table, groups: Names, device: str) -> Indexes:
    """What may train for a device: the others on its platforms, or all others where those are few."""
    platforms = np.array([row.platform for row in table.rows], dtype=str)
    same = np.isin(platforms, np.unique(platforms[groups == device])) & (groups != device)
    return np.flatnonzero(same if same.sum() >= ROWS_NEEDED else groups != device)


def _by_software(table: Table, out: Indexes) -> list[Indexes]:
    return [out[members] for members in by_software([table.rows[index] for index in out]).values()]


def _after(train: Indexes, sets: Sequence[Indexes], shots: int, random: np.random.Generator) -> Iterator[HeldOutPart]:
    """One part: of each set some rows are shots and the rest is asked. A set with no more rows than that is left out."""
    picked = [random.permutation(members) for members in sets if len(members) > shots]
    if picked:
        yield HeldOutPart(
            train=train,
            shots=np.concatenate([members[:shots] for members in picked]),
            test=np.concatenate([members[shots:] for members in picked]),
        )


def _widths(
    values: Matrix, held: HeldOut, predictions: Sequence[Prediction], folds: Indexes, split: str, shots: int
) -> dict[float, Array]:
    """Widths of each part: its method's own at the scale that other groups' errors ask for, or what the errors of all
    other parts teach: how hard which rows are, and how far off rows of that difficulty lie."""
    own = all(prediction.widths is not None for prediction in predictions)
    if own:
        return {
            nominal: rescaled(
                held.errors,
                np.concatenate([(prediction.widths or {})[nominal] for prediction in predictions]),
                nominal,
                held.groups.tolist(),
            )
            for nominal in NOMINALS
        }
    widths = {nominal: np.full(len(held.errors), math.nan) for nominal in NOMINALS}
    if split in GROUPS_NEEDED and not shots:
        return widths  # Too few devices say how far off the next one is: not calibrated.
    groups = held.groups if split in ("family", *GROUPS_NEEDED) else None
    if split == "time":
        return widths
    for fold in np.unique(folds):
        others = folds != fold
        of = None if groups is None else groups[others].tolist()
        difficulty, request = held.difficulty[others], held.difficulty[~others]
        if not shots:  # After some, the method itself has seen what is hard here; and every group is a part then.
            taught = values[others], difficulty, held.errors[others]
            difficulty = cross_fitted(*taught, held.groups[others])
            request = Difficulty.fitted(*taught).of(values[~others], request)
        scores = held.errors[others] / difficulty
        for nominal in NOMINALS:
            reach = width_between(scores, nominal, of) if shots and of is not None else width(scores, nominal, of)
            widths[nominal][~others] = reach * request
    return widths


def evaluate(
    table: Table,
    method: Method,
    split: str,
    target: str = "throughput",
    *,
    shots: int = 0,
    seed: int = 0,
    points: bool = False,
) -> dict[str, Any]:
    """Return the scores of a split: overall, by hardware and by family, with the means over families and devices.

    Shares and errors are 0 to 1. A throughput error is relative to the measured throughput, any other to the measured
    figure. `points` adds up to 2,000 pairs of measured and predicted. Raises UsageError for a split or target that does
    not exist, or too few rows.
    """
    if target not in TARGETS:
        raise UsageError(f"no target {target!r}.", field="target", remedy=f"One of {', '.join(TARGETS)}.")
    if shots < 0 or (shots and split in ("random", "configuration", "time")):
        raise UsageError(
            "shots are measurements of what is held out: a device, an architecture or a family.",
            field="shots",
            remedy="Use --split hardware, hardware+family, architecture or family.",
        )
    held = hold_out(table, method, split, shots=shots, seed=seed)
    document = summarise(table, held, split, target, shots)
    return {**document, "method": method.name, **({"points": _points(table, held)} if points else {})}


def summarise(table: Table, held: HeldOut, split: str, target: str, shots: int) -> dict[str, Any]:
    """Return the answer's shape of `evaluate` for held-out errors that are there already."""
    rows = [table.rows[index] for index in held.index]
    hardware = np.array([row.hardware for row in rows], dtype=str)
    families = table.family[held.index]
    measured = table.measured[held.index]
    blocks = np.array([repr(row.software) for row in rows], dtype=str)

    def scored(chosen: NDArray[np.bool_]) -> dict[str, Any]:
        widths = {nominal: widths[chosen] for nominal, widths in held.widths.items()}
        return score(held.errors[chosen], measured[chosen], widths, target, blocks[chosen])

    by_family = {str(name): scored(families == name) for name in np.unique(families)}
    by_hardware = {str(name): scored(hardware == name) for name in np.unique(hardware)}
    return {
        "split": split,
        "target": target,
        "shots": shots,
        "rows": len(rows),
        "groups": len(set(held.groups.tolist())),
        "interpolation": split == "random",
        "calibrated": split not in GROUPS_NEEDED or shots > 0,
        "overall": scored(np.ones(len(rows), dtype=bool)),
        "macro_family_mape": _macro(by_family),
        "macro_hardware_mape": _macro(by_hardware),
        "calibration": [
            {"nominal": nominal, "covered": _share(np.abs(held.errors), widths)}
            for nominal, widths in sorted(held.widths.items())
        ],
        "regret": _regret(rows, measured, held.errors),
        "fields": fields(zip(measured.tolist(), (measured * np.exp(-held.errors)).tolist(), strict=True)),
        "by_hardware": by_hardware,
        "by_family": by_family,
        "left_out": table.dropped,
    }


def _macro(parts: dict[str, dict[str, Any]]) -> float:
    return round(float(np.mean([part["mape"] for part in parts.values()])), 6)


def _share(errors: Array, widths: Array) -> float | None:
    value = ~np.isnan(widths)
    return round(float(np.mean(errors[value] <= widths[value])), 6) if value.any() else None


def _regret(rows: Sequence[Any], measured: Array, errors: Array) -> dict[str, Any]:
    """What choosing the fastest device by prediction costs, over pieces of work that several devices were measured on."""
    works: dict[tuple[Any, ...], list[int]] = {}
    for index, row in enumerate(rows):
        works.setdefault((row.model, row.mode, row.batch_size, *row.sizes, row.concurrency), []).append(index)
    lost: list[float] = []
    for members in works.values():
        if len({rows[index].hardware for index in members}) < 2:
            continue
        here = np.array(members)
        predicted = np.log(measured[here]) - errors[here]
        lost.append(float(measured[here][np.argmin(predicted)] / measured[here].min() - 1))
    if not lost:
        return {"choices": 0, "top_1": None, "median": None, "p90": None}
    return {
        "choices": len(lost),
        "top_1": round(float(np.mean(np.array(lost) == 0.0)), 6),
        "median": round(float(np.median(lost)), 6),
        "p90": round(float(np.quantile(lost, 0.9)), 6),
    }


def _points(table: Table, held: HeldOut) -> list[dict[str, Any]]:
    """Every k-th row by its measured value, in the target's unit, so that small and large ones are seen alike."""
    measured = table.measured[held.index]
    order = np.argsort(measured, kind="stable")
    order = order[:: max(1, math.ceil(len(order) / POINTS))]
    predicted = measured * np.exp(-held.errors)
    documents: list[dict[str, Any]] = []
    for index in order.tolist():
        reach = float(held.widths[0.8][index])
        row = table.rows[int(held.index[index])]
        bounds = (None, None) if not math.isfinite(reach) else (-reach, reach)
        low, high = (None if bound is None else float(f"{predicted[index] * math.exp(bound):.6g}") for bound in bounds)
        documents.append(
            {
                "measured": float(f"{measured[index]:.6g}"),
                "predicted": float(f"{predicted[index]:.6g}"),
                "low": low,
                "high": high,
                "model": row.model,
                "family": str(table.family[held.index[index]]),
                "hardware": row.hardware,
            }
        )
    return documents
