"""The predictor as of a position: what was measured since it was trained corrects it, without training anew."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ingest import evidence
from ingest.projection import Tables
from predictor.answering.facts import trace_from_row
from predictor.artifact.artifact import Predictor
from predictor.artifact.calibrations import calibrations_of
from predictor.features.dataset import COLUMNS, Row, row_from_table, training_rows
from predictor.features.devices import PUBLISHED_RUNS, Devices
from predictor.features.operators_route import SpecOf, tabulate
from predictor.features.shipped_traces import traces_of
from predictor.features.traces import TraceBook
from predictor.general.own_rows import Learned, OwnRows
from predictor.general.sibling_rows import siblings_of
from predictor.kernels.logged_profiles import profiles_at
from predictor.learning.building import few_rows

__all__ = ["NEWEST", "SHOTS", "Shots", "corrected", "current", "state_of"]

NEWEST = 300
"""So many of the newest valid measurements teach before `assay train` takes in all of them."""
SHOTS = 120
"""So many of the newest rows of a device calibrate it."""
_NEWEST_OWN = """
SELECT unnest(max(position, {shots})) AS position FROM measurements
WHERE origin IN ('measured', 'imported') AND verdict IS DISTINCT FROM 'invalid' AND run_id NOT IN ({runs})
GROUP BY hardware_id, mode
"""
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

    Devices that the trees never saw are calibrated by what was measured or imported of them, however long ago, and so is the
    general route on any device by rows that do not ship; few rows of other software take in what was measured since the
    training (imported rows come in bulk, and teach then).
    """
    devices = Devices(tables)
    if predictor.card.kernels is not None:
        profiles = profiles_at(tables, predictor.card.kernels, devices.spec)
        predictor = msgspec.structs.replace(predictor, profiles=profiles)
    calibrated = _calibration_rows(tables, predictor)
    newest = [row for row in _newest(tables) if row.position > predictor.card.position]
    own = _own_rows(tables) if predictor.general is not None else []
    if not calibrated and not newest and not own:
        return predictor
    models = {row.model for row in (*calibrated, *newest, *own)}
    book = TraceBook(map(trace_from_row, traces_of(tables, models)))
    siblings = siblings_of(tables, [row for row in own if book.find_for(row) is not None])
    return corrected(predictor, newest, book, devices.spec, Shots(trees=calibrated, general=own, siblings=siblings))


_SOFTWARE = ("position", "hardware_id", "platform", "runtime_name", "precision")
"""What of a row says whether its software is near to what trained."""


class Shots(msgspec.Struct, frozen=True, kw_only=True):
    """Rows that calibrate devices, for the trees and for the general route, and rows among which siblings of the latter are."""

    trees: Sequence[Row]
    general: Sequence[Row]
    siblings: Sequence[Row] = ()


def corrected(
    predictor: Predictor, rows: Sequence[Row], book: TraceBook, spec_of: SpecOf, shots: Shots | None = None
) -> Predictor:
    """Return the predictor with these rows taken in; `shots`, by default the same rows, calibrate devices."""
    card = predictor.card
    table = tabulate(rows, book, spec_of)
    if len(table):
        card = msgspec.structs.replace(card, few=few_rows(table, card, card.few, measure=False))
    shots = shots or Shots(trees=rows, general=rows)
    measured = table if shots.trees is rows else tabulate(shots.trees, book, spec_of)
    made = calibrations_of(measured, card.coverage, predictor.base)
    predictor = msgspec.structs.replace(predictor, card=card, calibrations=made)
    general = tabulate([row for row in shots.general if _is_own(row)], book, spec_of)
    if predictor.general is None or card.general is None or not len(general):
        return predictor
    learned = Learned(
        fitted=predictor.general,
        modes=card.general.modes,
        architectures=card.coverage.architectures,
        siblings=tabulate(shots.siblings, book, spec_of).joined(general),
        few=card.few,
        trees=made,
        digest=predictor.digest,
    )
    return msgspec.structs.replace(predictor, own_rows=OwnRows(general, learned))


def _is_own(row: Row) -> bool:
    """Whether a row does not ship: what ships trained the general route."""
    return row.run_id not in evidence.runs() and row.run_id not in PUBLISHED_RUNS


def _own_rows(tables: Tables) -> list[Row]:
    """The newest rows of each device that do not ship, oldest first."""
    shipped = sorted({*evidence.runs(), *PUBLISHED_RUNS})
    statement = _NEWEST_OWN.format(runs=", ".join("?" * len(shipped)), shots=SHOTS)
    positions = [row["position"] for row in tables.select("measurements", statement, shipped).to_pylist()]
    if not positions:
        return []
    rows = tables.view("measurements", {"position": positions}, columns=COLUMNS).to_pylist()
    return training_rows(map(row_from_table, rows), mode=None)


def _newest(tables: Tables) -> list[Row]:
    """The newest valid measurements of ours, oldest first."""
    wanted = {"origin": "measured", "verdict": "valid"}
    view = tables.view("measurements", wanted, columns=COLUMNS, limit=NEWEST, descending=True)
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
    # One question for all devices: each by itself would read the whole log again. Most rows are of other software, so that
    # their few columns are read before those of the others.
    filters = {"hardware": devices, "platform": platforms, "mode": "inference"}
    newest = tables.newest_each("measurements", "hardware_id", SHOTS, filters, columns=_SOFTWARE).to_pylist()
    near = [
        row["position"]
        for row in newest
        if coverage.near_software(row["platform"], row["runtime_name"] or "", row["precision"] or "")
    ]
    if not near:
        return []
    rows: dict[str, list[Row | None]] = {device: [] for device in devices}
    for row in tables.view("measurements", {"position": near}, columns=COLUMNS).to_pylist():
        rows[row["hardware_id"]].append(row_from_table(row))
    return [row for of_one in rows.values() for row in training_rows(of_one)]
