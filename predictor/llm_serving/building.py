"""Make the serving part of a predictor from rows, and measure how far off it is on what it has not seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from predictor.artifact.conformal import Widths
from predictor.features.dataset import Row, version_key
from predictor.features.table import Table
from predictor.learning.evaluation import HeldOut, hold_out, summarise
from predictor.learning.training import Learner, Trees
from predictor.llm_serving.neighbours import Scales, points_of, tuned
from predictor.llm_serving.shipped import LEARNERS, PARTS, Serving, ShippedMethod, engine_of, kind_of, part_name
from predictor.llm_serving.table import SpecOf, taught

__all__ = ["SHOTS", "TARGETS", "serving_of"]

TARGETS = ("ttft", "tpot")
SHOTS = 10
_LEVELS = {
    "interpolation": "configuration",
    "new_architecture": "architecture",
    "new_family": "family",
    "new_hardware": "hardware",
}


def serving_of(
    rows: Sequence[Row], spec_of: SpecOf, learners: Mapping[str, Sequence[Learner]] = LEARNERS
) -> tuple[Serving, dict[str, Trees]]:
    """Return the serving part of a card and its trees by name. Raises UsageError where there are too few rows."""
    tables = {target: taught(rows, spec_of, target) for target in TARGETS}
    method = ShippedMethod(learners=learners)
    fitted = {target: method.fit(table) for target, table in tables.items()}
    held = {
        target: {level: hold_out(table, method, split) for level, split in _LEVELS.items()}
        for target, table in tables.items()
    }
    scales = {target: _scales(table, held[target]) for target, table in tables.items()}
    after = {
        target: _after(table, msgspec.structs.replace(method, scales=scales[target]))
        for target, table in tables.items()
    }
    kept = [row for table in tables.values() for row in table.rows]
    serving = Serving(
        offsets={
            part_name(target, part): value.parts[part].offsets for target, value in fitted.items() for part in PARTS
        },
        widths={target: _widths(tables[target], value) for target, value in held.items()},
        after={target: _few_widths(value) for target, value in after.items()},
        scales=scales,
        rows={target: len(table) for target, table in tables.items()},
        architectures={target: sorted(set(table.architecture.tolist())) for target, table in tables.items()},
        families=sorted({name for table in tables.values() for name in table.family.tolist()}),
        devices={target: sorted({row.hardware for row in table.rows}) for target, table in tables.items()},
        engines={target: sorted({engine_of(row) for row in table.rows}) for target, table in tables.items()},
        precisions={target: _precisions(table) for target, table in tables.items()},
        newest_version=_newest(kept),
        scores={target: _scores(table, held[target], after[target]) for target, table in tables.items()},
    )
    return serving, {
        part_name(target, part): value.parts[part].trees for target, value in fitted.items() for part in PARTS
    }


def _widths(table: Table, held: dict[str, HeldOut]) -> Widths:
    """Errors by level. Of devices that were left out count those whose engine was there: another one is not covered."""
    there = {engine for engine in map(engine_of, table.rows) if _devices_under(table, engine) > 1}
    errors: dict[str, tuple[Any, Sequence[Any] | None]] = {}
    for level, value in held.items():
        kept = np.array([level != "new_hardware" or engine_of(table.rows[index]) in there for index in value.index])
        errors[level] = (value.errors[kept], None if level == "interpolation" else value.groups[kept].tolist())
    return Widths.fitted(errors)


def _after(table: Table, method: ShippedMethod) -> dict[str, HeldOut]:
    """Errors on models and on devices of which ten rows were there."""
    levels = ("new_architecture", "new_hardware")
    return {level: hold_out(table, method, _LEVELS[level], shots=SHOTS) for level in levels}


def _few_widths(after: dict[str, HeldOut]) -> Widths:
    """Errors in units of their difficulty; each model and device counts once."""
    return Widths.fitted(
        {level: (value.errors / value.difficulty, value.groups.tolist()) for level, value in after.items()}
    )


def _precisions(table: Table) -> list[str]:
    """Engines with a precision in which two models or more are there: held-out models say how far off another one is."""
    models: dict[str, set[str]] = {}
    for row, model in zip(table.rows, table.architecture.tolist(), strict=True):
        models.setdefault(kind_of(row), set()).add(model)
    return sorted(kind for kind, here in models.items() if len(here) > 1)


def _devices_under(table: Table, engine: str) -> int:
    return len({row.hardware for row in table.rows if engine_of(row) == engine})


def _scales(table: Table, held: dict[str, HeldOut]) -> Scales:
    """How like errors are of like rows: of models that were left out and of devices that were, whichever is more."""
    result = []
    for level in ("new_architecture", "new_hardware"):
        item = held[level]
        result.append(tuned(points_of(table.take(item.index)), item.errors))
    models, devices = result
    variance = {name: max(value, devices.variance[name]) for name, value in models.variance.items()}
    return msgspec.structs.replace(models, variance=variance, noise=max(models.noise, devices.noise))


def _newest(rows: Sequence[Row]) -> dict[str, str]:
    versions: dict[str, set[str]] = {}
    for row in rows:
        if row.runtime_version and "nightly" not in row.runtime_version:
            versions.setdefault(row.runtime, set()).add(row.runtime_version)
    return {
        engine: max(version, key=lambda item: (version_key(item), item)) for engine, version in sorted(versions.items())
    }


def _scores(table: Table, held: dict[str, HeldOut], after: dict[str, HeldOut]) -> dict[str, Any]:
    """What was left out without a measurement of it, and models and devices after ten."""
    summarises = {
        _LEVELS[level]: summarise(table, item, _LEVELS[level], table.target, 0) for level, item in held.items()
    }
    for level, value in after.items():
        summarises[f"{_LEVELS[level]}-{SHOTS}"] = summarise(table, value, _LEVELS[level], table.target, SHOTS)
    return {name: _short(item) for name, item in summarises.items()}


def _short(document: dict[str, Any]) -> dict[str, Any]:
    """An evaluation for the card: no row, and of groups only the error."""
    devices = {name: {"rows": value["rows"], "mape": value["mape"]} for name, value in document["by_hardware"].items()}
    names = ("split", "target", "shots", "rows", "groups", "overall", "macro_family_mape", "macro_hardware_mape")
    return {**{name: document[name] for name in names}, "by_hardware": devices}
