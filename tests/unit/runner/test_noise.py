"""The score of a machine, on figures whose answer is known; and the probes, on this machine."""

from __future__ import annotations

import math

import msgspec
import pytest

from domain.payloads import Environment
from runner.measure.noise import LIMITS, figures, noise, score

QUIET = {
    "loop_jitter": 0.01,
    "loop_lost_share": 0.001,
    "loop_drift": 0.005,
    "other_load": 0.01,
    "steal_share": 0.0,
    "bandwidth_spread": 0.03,
    "clock_drop": 0.0,
    "timer_step_ms": 0.00004,
    "swap_growth_bytes": 0.0,
}


def test_a_quiet_machine_passes() -> None:
    found = score(QUIET)
    assert (found.verdict, found.reasons, found.remedies) == ("pass", [], [])
    assert found.figures == QUIET
    assert score({}).verdict == "pass"


@pytest.mark.parametrize("name", list(LIMITS))
def test_each_figure_makes_a_machine_noisy_and_then_unusable(name: str) -> None:
    limit = LIMITS[name]
    assert score({**QUIET, name: limit.noisy}).verdict == "pass"
    noisy = score({**QUIET, name: (limit.noisy + limit.unusable) / 2})
    assert (noisy.verdict, len(noisy.reasons)) == ("noisy", 1)
    assert noisy.remedies == [limit.remedy]
    assert score({**QUIET, name: limit.unusable * 1.01}).verdict == "unusable"


def test_reasons_carry_the_figure_and_remedies_come_once() -> None:
    found = score({**QUIET, "other_load": 0.62, "loop_lost_share": 0.3, "steal_share": 0.021})
    assert found.verdict == "unusable"
    assert "other work uses 62% of the processors" in found.reasons
    assert "the hypervisor gives 2.1% of the time to other guests" in found.reasons
    assert len(found.reasons) == 3 and len(found.remedies) == 2


def test_a_saving_governor_is_named_only_where_it_shows() -> None:
    assert score(QUIET, governor="powersave").verdict == "pass"
    shown = score({**QUIET, "loop_drift": 0.1}, governor="powersave")
    assert "the governor of the clock is powersave" in shown.reasons


def test_the_probes_of_this_machine_give_finite_figures_and_an_event_can_carry_them() -> None:
    found = figures(1.0)
    assert found.keys() >= {
        "loop_jitter",
        "loop_lost_share",
        "loop_drift",
        "bandwidth_spread",
        "timer_step_ms",
        "seconds",
    }
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    assert found["loop_ms"] > 0.01 and found["copy_bytes_per_s"] > 1e8
    assert 0.9 < found["seconds"] < 30


def test_the_score_fits_into_an_environment() -> None:
    environment = msgspec.convert({"fingerprint": "f", "noise": msgspec.to_builtins(noise(1.0))}, Environment)
    assert environment.noise is not None and environment.noise.verdict in ("pass", "noisy", "unusable")
