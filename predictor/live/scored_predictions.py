"""Predictions that were given out, each beside the first measurement that came after it."""

from __future__ import annotations

import math

import msgspec

from ingest.projection import Tables

__all__ = ["PREDICTED", "TARGETS", "Scored", "given_out", "scored_at"]

TARGETS = ("latency", "memory", "ttft", "tpot", "energy")
PREDICTED = ("reference", "calibrated", "predicted", "roofline")
"""Bases of what was predicted; a figure that was measured or imported is no prediction."""
_COLUMNS = {
    "target": "target",
    "basis": "basis",
    "model": "model_id",
    "family": "family",
    "hardware": "hardware_id",
    "platform": "platform",
    "precision": "precision",
    "configuration": "configuration",
    "predictor": "predictor",
    "predicted": "predicted",
    "measured": "measured",
    "low": "low",
    "high": "high",
    "interval": "interval_coverage",
    "supported": "interval_covered",
    "position": "position",
    "event_id": "event_id",
    "measured_position": "measured_position",
    "measured_event_id": "measured_event_id",
}
"""Member → column of the view `scored_predictions`."""


class Scored(msgspec.Struct, frozen=True, kw_only=True):
    """A prediction and what was measured, in ms, bytes or joules by its target.

    `interval` is the share of cases that `low` to `high` is meant to hold, `supported` whether measurement stands behind
    that. The positions and ids are those of the event that recorded the answer and of the measurement.
    """

    target: str
    basis: str
    model: str
    hardware: str
    platform: str
    precision: str
    configuration: str
    predicted: float
    measured: float
    position: int
    event_id: str
    measured_position: int
    measured_event_id: str
    predictor: str | None = None
    family: str | None = None
    low: float | None = None
    high: float | None = None
    interval: float | None = None
    supported: bool = False

    @property
    def log_error(self) -> float:
        """ln(predicted ÷ measured): above 0 too much was predicted."""
        return math.log(self.predicted / self.measured)

    @property
    def within(self) -> bool | None:
        """Whether the interval holds what was measured; None without an interval."""
        return None if self.low is None or self.high is None else self.low <= self.measured <= self.high


def scored_at(tables: Tables) -> list[Scored]:
    """Return what was scored at the tables' position, of every target, in the order of the measurements.

    The same figure of one predictor, given out twice and met by one measurement, counts once.
    """
    scored_predictions = tables.scored_predictions(nth=1, columns=list(_COLUMNS.values()))
    kept: dict[tuple[str | None, str, str, str], Scored] = {}
    for row in scored_predictions.to_pylist():
        scored = msgspec.convert({name: row[column] for name, column in _COLUMNS.items()}, Scored)
        kept.setdefault((scored.predictor, scored.target, scored.configuration, scored.measured_event_id), scored)
    return list(kept.values())


def given_out(tables: Tables) -> int:
    """Return how many predictions were given out and recorded."""
    return tables.count("predictions", {"basis": PREDICTED})
