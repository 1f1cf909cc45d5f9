"""Live accuracy: errors and coverage of the predictions given out, over all and by what they rest on and speak of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from predictor.live.scored_predictions import Scored

__all__ = ["accuracy", "score"]

_GROUPS: dict[str, Callable[[Scored], str | None]] = {
    "by_basis": lambda item: item.basis,
    "by_hardware": lambda item: item.hardware,
    "by_family": lambda item: item.family,
    "by_predictor": lambda item: item.predictor,
}


def accuracy(scored: Sequence[Scored]) -> dict[str, Any]:
    """Return the scores of all, and by basis, hardware, family and predictor; what has no family is `unknown`.

    `macro_mape` is the mean of the models' own errors, so that a model with many measurements counts once.
    """
    document: dict[str, Any] = {"overall": score(scored)}
    for name, of in _GROUPS.items():
        groups: dict[str, list[Scored]] = {}
        for item in scored:
            groups.setdefault(of(item) or "unknown", []).append(item)
        document[name] = {group: score(groups[group]) for group in sorted(groups)}
    return document


def score(scored: Sequence[Scored]) -> dict[str, Any]:
    """Return the errors (shares: 0.08 is 8 %) and the share of intervals that held; None where nothing is to be said.

    `coverage_80` is of the 80 % intervals that measurement supports, `width_80` the mean of (high − low) ÷ predicted of
    those; `unsupported_80` the share of the others that held. `bias` is the median of ln(predicted ÷ measured).
    """
    if not scored:
        return {"rows": 0, "models": 0, **dict.fromkeys(_EMPTY)}
    errors = np.array([item.predicted / item.measured - 1 for item in scored])
    models = np.array([item.model for item in scored])
    absolute = np.abs(errors)
    intervals = [item for item in scored if item.within is not None and item.interval == 0.8]
    supported = [interval for interval in intervals if interval.supported]
    return {
        "rows": len(scored),
        "models": len(set(models.tolist())),
        "mape": _rounded(absolute.mean()),
        "macro_mape": _rounded(np.mean([absolute[models == name].mean() for name in np.unique(models)])),
        "median_ape": _rounded(np.median(absolute)),
        "within_10": _rounded(np.mean(absolute <= 0.1)),
        "within_20": _rounded(np.mean(absolute <= 0.2)),
        "bias": _rounded(np.median([item.log_error for item in scored])),
        "coverage_80": _held(supported),
        "width_80": _width(supported),
        "unsupported_80": _held([interval for interval in intervals if not interval.supported]),
    }


_EMPTY = (
    "mape", "macro_mape", "median_ape", "within_10", "within_20", "bias", "coverage_80", "width_80", "unsupported_80",
)  # fmt: skip


def _held(scored: Sequence[Scored]) -> float | None:
    return _rounded(np.mean([bool(item.within) for item in scored])) if scored else None


def _width(scored: Sequence[Scored]) -> float | None:
    widths = [
        (item.high - item.low) / item.predicted for item in scored if item.low is not None and item.high is not None
    ]
    return _rounded(np.mean(widths)) if widths else None


def _rounded(value: Any) -> float:
    return round(float(value), 6)
