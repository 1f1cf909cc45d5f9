from typing import Any

import pytest

from domain.catalogues.hardware import HardwareSpec
from domain.payloads import Figure
from predictor.artifact.energy import draw_from_row, fit_energy

RATED = {"acme-big": 400.0, "acme-small": 100.0, "acme-new": 300.0}


def spec_of(name: str) -> HardwareSpec | None:
    if name not in (*RATED, "acme-unrated"):
        return None
    rated = RATED.get(name)
    figure = None if rated is None else Figure(value=rated, status="sourced", source="a data sheet")
    return HardwareSpec(id=name, name=name, kind="gpu", power_w=figure)


def row(**over: Any) -> dict[str, Any]:
    return {
        "origin": "imported", "verdict": "suspect", "energy_verdict": "suspect", "hardware_id": "acme-big",
        "scenario": "offline", "hardware_count": 2, "power_w": 640.0,
    } | over  # fmt: skip


def test_a_device_draws_the_share_of_its_rating_that_was_measured() -> None:
    model = fit_energy([draw for _ in range(60) if (draw := draw_from_row(row()))], spec_of)
    assert model is not None
    found = model.power("acme-big", spec_of, count=4, scenario="offline", latency_ms=500.0)
    assert found is not None
    assert found.power_w == pytest.approx(4 * 400.0 * 0.8, rel=0.05)
    assert found.energy_j == pytest.approx(found.power_w / 2)
    assert found.low_w < found.power_w < found.high_w
    assert (found.rows, found.own_rows) == (60, 60)


def test_a_device_that_was_never_measured_takes_its_kinds_share_with_a_wider_interval() -> None:
    model = fit_energy([draw for _ in range(60) if (draw := draw_from_row(row()))], spec_of)
    assert model is not None
    new, known = (model.power(name, spec_of, scenario="server") for name in ("acme-new", "acme-big"))
    assert new is not None
    assert known is not None
    assert new.power_w == pytest.approx(300.0 * 0.8, rel=0.1)
    assert new.high_w / new.power_w > known.high_w / known.power_w
    assert new.own_rows == 0
    assert new.energy_j is None


def test_one_call_after_another_draws_less_than_a_busy_device() -> None:
    busy = [draw for _ in range(30) if (draw := draw_from_row(row()))]
    idle = [draw for _ in range(30) if (draw := draw_from_row(row(scenario="single_stream", power_w=240.0)))]
    model = fit_energy([*busy, *idle], spec_of)
    assert model is not None
    one, many = (model.power("acme-big", spec_of, scenario=name) for name in ("single_stream", "offline"))
    assert one is not None
    assert many is not None
    assert one.power_w == pytest.approx(120.0, rel=0.1)
    assert many.power_w == pytest.approx(320.0, rel=0.1)


def test_without_a_rating_or_without_rows_there_is_no_answer() -> None:
    draw = draw_from_row(row())
    assert draw is not None
    model = fit_energy([draw], spec_of)
    assert model is not None
    assert model.power("acme-unrated", spec_of) is None
    assert model.power("nobody", spec_of) is None
    assert fit_energy([], spec_of) is None


def test_energy_over_time_is_power() -> None:
    draw = draw_from_row(row(power_w=None, energy_j=3.0, latency_mean_ms=10.0))
    assert draw is not None
    assert draw.power_w == pytest.approx(300.0)


@pytest.mark.parametrize(
    "over",
    [
        {"origin": "simulated"},
        {"energy_verdict": "invalid"},
        {"origin": "measured"},
        {"power_w": None},
        {"power_w": 0.0},
    ],
)
def test_what_may_not_teach_says_nothing(over: dict[str, Any]) -> None:
    assert draw_from_row(row(**over)) is None


def test_the_verdict_on_energy_decides_and_not_that_on_times() -> None:
    assert draw_from_row(row(origin="measured", verdict="suspect", energy_verdict="valid")) is not None
    assert draw_from_row(row(origin="measured", verdict="valid", energy_verdict="suspect")) is None
