"""Scores of predictions against what was measured."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array

__all__ = ["kendall_tau", "score"]


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
