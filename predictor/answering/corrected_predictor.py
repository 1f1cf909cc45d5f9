"""The predictor as of a position: what was measured since it was trained corrects it, without training anew."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ingest.projection import Tables
from predictor.answering.facts import trace_from_row
from predictor.artifact.artifact import Predictor
from predictor.artifact.calibrations import calibrations_of
from predictor.features.dataset import Row, row_from_table, training_rows
from predictor.features.devices import Devices
from predictor.features.operators_route import SpecOf, tabulate
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import TraceBook
from predictor.kernels.logged_profiles import profiles_at
from predictor.learning.building import few_rows

__all__ = ["NEWEST", "corrected", "current", "state_of"]

NEWEST = 300
"""So many of the newest valid measurements teach before `assay train` takes in all of them."""
SHOTS = 120
"""So many of the newest rows of a device calibrate it."""
_STATE = """
SELECT (SELECT max(last_position) FROM main.standing), (SELECT max(position) FROM main.retraction),
    (SELECT max(position) FROM main.alias), (SELECT max(position) FROM main.hardware_description),
    (SELECT max(position) FROM main.model_trace), (SELECT max(position) FROM main.kernel_table)
"""


def state_of(tables: Tables) -> tuple[int | None, ...]:
    """Return what decides the outcome of `current` besides the predictor: two equal states give the same."""
    if Tables(tables.cursor).position != tables.position:
        return (tables.position,)
    (result,) = tables.cursor.execute(_STATE).fetchall()
    return tuple(result)


def current(predictor: Predictor, tables: Tables) -> Predictor:
    """Return the predictor with what was measured taken in: a pure function of the two, that keeps the digest.

    Devices that the trees never saw are calibrated by what was measured or imported of them, however long ago; few rows
    of other software take in what was measured since the training (imported rows come in bulk, and teach then).
    """
    devices = Devices(tables)
    if predictor.card.kernels is not None:
        profiles = profiles_at(tables, predictor.card.kernels, devices.spec)
        predictor = msgspec.structs.replace(predictor, profiles=profiles)
    calibrated = _calibration_rows(tables, predictor)
    newest = [row for row in _newest(tables) if row.position > predictor.card.position]
    if not calibrated and not newest:
        return predictor
    models = {row.model for row in (*calibrated, *newest)}
    book = TraceBook(map(trace_from_row, traces_of(tables, models)))
    return corrected(predictor, newest, book, devices.spec, calibrated)


def corrected(
    predictor: Predictor, rows: Sequence[Row], book: TraceBook, spec_of: SpecOf, shots: Sequence[Row] | None = None
) -> Predictor:
    """Return the predictor with these rows taken in; `shots`, by default the same rows, calibrate devices."""
    card = predictor.card
    table = tabulate(rows, book, spec_of)
    if len(table):
        card = msgspec.structs.replace(card, few=few_rows(table, card, card.few, measure=False))
    measured = table if shots is None else tabulate(shots, book, spec_of)
    made = calibrations_of(measured, card.coverage, predictor.base)
    return msgspec.structs.replace(predictor, card=card, calibrations=made)


def _newest(tables: Tables) -> list[Row]:
    """The newest valid measurements of ours, oldest first."""
    view = tables.view("measurements", {"origin": "measured", "verdict": "valid"}, limit=NEWEST, descending=True)
    return training_rows((row_from_table(row) for row in reversed(view.to_pylist())), mode=None)


def _calibration_rows(tables: Tables, predictor: Predictor) -> list[Row]:
    """The newest rows of each device that the trees have not seen, under platforms that they have."""
    coverage = predictor.card.coverage
    platforms = sorted({platform for platform, *_ in coverage.software})
    devices = [
        row["hardware_id"]
        for row in tables.hardware().to_pylist()
        if row["measurements"] and row["hardware_id"] not in coverage.hardware
    ]
    if not devices:
        return []
    # One question for all devices: each by itself would read the whole log again.
    filters = {"hardware": devices, "platform": platforms, "mode": "inference"}
    rows: dict[str, list[Row | None]] = {device: [] for device in devices}
    for row in tables.newest_each("measurements", "hardware_id", SHOTS, filters).to_pylist():
        rows[row["hardware_id"]].append(row_from_table(row))
    shots = (row for of_one in rows.values() for row in training_rows(of_one))
    return [row for row in shots if coverage.near_software(row.platform, row.runtime, row.precision)]
