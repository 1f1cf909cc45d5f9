"""Evidence: the energy of an option has a verdict of its own, and an invalid one is no figure."""

from __future__ import annotations

from typing import Any

import pytest

from domain.answers import Sizes
from predictor.answering.evidence import options_from_rows
from predictor.answering.objective import cautious, value_of
from predictor.answering.option import SIZE_NAMES, Option

ENERGY = ("energy_j", "power_w")


def row(
    position: int = 1, *, energy: str | None = "valid", reasons: tuple[str, ...] = (), **over: Any
) -> dict[str, Any]:
    judged = {name: {"verdict": energy, "reasons": list(reasons)} for name in ENERGY} if energy else {}
    return {
        "origin": "measured", "verdict": "valid", "configuration": "one", "hardware_id": "acme-big", "platform": "cuda",
        "batch_size": 4, "latency_p50_ms": 10.0, "event_id": f"event {position}", "position": position, "energy_j": 8.0,
        "power_w": 100.0, "energy_verdict": energy, "metric_verdicts": judged,
    } | dict.fromkeys(SIZE_NAMES) | over  # fmt: skip


def option(*rows: dict[str, Any]) -> Option:
    (found,) = options_from_rows(rows, Sizes(), "p50")
    return found


def test_suspect_energy_is_told_beside_times_that_are_valid() -> None:
    found = option(row(energy="suspect", reasons=("12 % off",)))
    assert (found.verdict, found.energy_verdict, found.energy_basis) == ("valid", "suspect", "measured")
    assert value_of(found, "energy") == pytest.approx(2.0)
    assert "energy suspect: 12 % off" in found.why


def test_valid_energy_stays_valid_beside_times_that_are_suspect() -> None:
    found = option(row(verdict="suspect", verdict_reasons=["drifting"]))
    assert (found.verdict, found.energy_verdict, found.power_w) == ("suspect", "valid", 100.0)
    assert "energy" not in found.why


def test_invalid_energy_is_no_figure_and_ranks_nothing() -> None:
    found = option(row(energy="invalid", reasons=("not read for 4.0 s",)))
    assert (found.energy_j, found.power_w, found.energy_verdict) == (None, None, None)
    assert cautious(found, "energy") == float("inf")
    assert "energy invalid: not read for 4.0 s" in found.why


def test_a_run_whose_meter_failed_leaves_the_energy_of_the_run_before() -> None:
    older, newer = row(1, energy_j=8.0), row(2, energy="invalid", energy_j=None, power_w=None, latency_p50_ms=9.0)
    found = option(older, newer)
    assert (found.latency_ms, found.energy_j, found.energy_verdict) == (9.0, 8.0, "valid")


def test_what_was_not_read_is_null_and_nothing_is_said_of_it() -> None:
    found = option(row(energy=None, energy_j=None, power_w=None))
    assert (found.energy_j, found.energy_verdict) == (None, None)
    assert "energy" not in found.why
