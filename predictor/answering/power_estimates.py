"""Energy of a call that nobody measured: the power that devices were measured to draw, for as long as the call takes."""

from __future__ import annotations

import math

import msgspec

from ingest.projection import Tables
from predictor.answering.context import AnswerContext
from predictor.answering.option import Option
from predictor.artifact.energy import Draw, EnergyModel, draw_from_row, fit_energy
from predictor.features.operators_route import SpecOf

__all__ = ["energy_at", "powered"]

NEWEST = 2000
"""So many of the newest rows with a power or an energy teach."""
_DRAWN = """
SELECT position FROM main.measurement WHERE (power_w IS NOT NULL OR energy_j IS NOT NULL) AND position <= ?
ORDER BY position DESC LIMIT ?
"""
_COLUMNS = (
    "origin",
    "energy_verdict",
    "power_w",
    "energy_j",
    "latency_mean_ms",
    "latency_p50_ms",
    "latency_p90_ms",
    "hardware_id",
    "scenario",
    "hardware_count",
)


def energy_at(tables: Tables, spec_of: SpecOf) -> EnergyModel | None:
    """Return what the measurements in the tables say of power; None where none says anything."""
    positions = [position for (position,) in tables.cursor.execute(_DRAWN, [tables.position, NEWEST]).fetchall()]
    if not positions:
        return None
    rows = tables.view("measurements", {"position": positions}, columns=_COLUMNS).to_pylist()
    draws: list[Draw] = [draw for row in rows if (draw := draw_from_row(row)) is not None]
    return fit_energy(draws, spec_of)


def powered(option: Option, context: AnswerContext) -> Option:
    """Return the option with the energy of a call, or of a request where it is served; as it is where that is not known.

    The spreads of time and of power are taken to be independent.
    """
    if context.energy is None or option.energy_j is not None or not option.latency_ms:
        return option
    scenario = "serving" if option.concurrency is not None else "single_stream"
    power = context.energy.power(option.hardware, context.spec, count=option.count, scenario=scenario)
    if power is None:
        return option
    energy = power.power_w * option.latency_ms / 1e3 / (option.concurrency or 1)
    low = high = None
    if option.low_ms and option.high_ms:
        low = energy * math.exp(
            -math.hypot(math.log(option.latency_ms / option.low_ms), math.log(power.power_w / power.low_w))
        )
        high = energy * math.exp(
            math.hypot(math.log(option.high_ms / option.latency_ms), math.log(power.high_w / power.power_w))
        )
    whose = (
        f"{power.own_rows} measurements of this device draw"
        if power.own_rows
        else f"{power.rows} measurements of its kind draw of their rating"
    )
    return msgspec.structs.replace(
        option,
        energy_j=energy,
        energy_low_j=low,
        energy_high_j=high,
        energy_basis="predicted",
        energy_verdict=None,
        why=f"{option.why}; energy by the power that {whose}",
    )
