"""Shares of routes by their errors on rows left out, and limits that rows of a device fit."""

import msgspec
import numpy as np
import pytest

from predictor.features.dataset import Row
from predictor.general.calibration import FITTED, FittedLimits, GeneralBase
from predictor.general.inputs import inputs_of, parts_of
from predictor.general.method import FittedGeneral, fit_beyond
from predictor.general.own_rows import RouteErrors
from tests.unit.predictor.general.test_general import MODELS, PARAMETERS, QUICK, table

__all__ = ["table"]


def row(batch: int, runtime: str = "torch", precision: str = "fp16") -> Row:
    return Row(model="m", hardware="h", platform="cuda", precision=precision, batch_size=batch, runtime=runtime)


def routes(general: list[float], few: list[float], batches: tuple[int, ...] = (1, 1, 64, 64)) -> RouteErrors:
    errors = {"general": np.array(general), "few": np.array(few)}
    return RouteErrors(rows=[row(batch) for batch in batches], errors=errors)


def test_the_route_that_errs_less_has_the_larger_share() -> None:
    shares = routes([0.1] * 4, [0.3] * 4).shares(row(8), ("general", "few"))
    assert shares["general"] > 0.6 and sum(shares.values()) == pytest.approx(1.0)
    assert routes([0.3] * 4, [0.1] * 4).shares(row(8), ("general", "few"))["few"] == pytest.approx(shares["general"])


def test_errors_at_near_batches_count_more() -> None:
    errors = routes([0.5, 0.5, 0.05, 0.05], [0.05, 0.05, 0.5, 0.5])
    small, large = (errors.shares(row(batch), ("general", "few")) for batch in (1, 64))
    assert small["few"] > 0.7 and large["general"] > 0.7


def test_a_route_that_is_far_off_is_left_out_and_rows_of_one_route_alone_say_nothing() -> None:
    assert routes([0.05] * 4, [2.0] * 4).shares(row(8), ("general", "few")) == {"general": 1.0}
    assert routes([0.5] * 4, [np.nan] * 4).shares(row(8), ("general", "few")) == {"general": 1.0}
    assert routes([0.5] * 4, [0.1] * 4).shares(row(8), ("general",)) == {"general": 1.0}


def shots_of(table, launch: float, peak: float):
    here = [i for i, r in enumerate(table.rows) if r.hardware == "nvidia-t4" and r.model in MODELS[:4]]
    part = table.take(here)
    seconds = parts_of(part, PARAMETERS).seconds(launch=launch, peak=peak)
    return msgspec.structs.replace(part, measured=part.measured * seconds / parts_of(part, PARAMETERS).seconds())


@pytest.mark.parametrize(("launch", "peak"), [(4.0, 1.0), (1.0, 0.6), (0.5, 1.3)])
def test_rows_at_mixed_batches_tell_launches_from_the_peak(table, launch: float, peak: float) -> None:
    fitted = FittedGeneral(fit_beyond(inputs_of(table, PARAMETERS), table.measured, QUICK), PARAMETERS)
    shots = shots_of(table, launch, peak)
    limits = FittedLimits(fitted, shots, fitted.predict(shots).residual)
    assert limits.launch["torch"] == pytest.approx(launch, rel=0.35)
    assert limits.peak(FITTED) == pytest.approx(peak, rel=0.25)
    assert 0.8 < limits.bandwidth < 1.25


def test_rows_of_a_slow_host_mend_batch_1_of_another_model(table) -> None:
    fitted = FittedGeneral(fit_beyond(inputs_of(table, PARAMETERS), table.measured, QUICK), PARAMETERS)
    shots = shots_of(table, 4.0, 1.0)
    other = table.take(
        [
            i
            for i, r in enumerate(table.rows)
            if r.hardware == "nvidia-t4" and r.model == MODELS[4] and r.batch_size == 1
        ]
    )
    parts = parts_of(other, PARAMETERS)
    truth = other.residual + np.log(parts.seconds(launch=4.0) / parts.seconds())
    corrected = GeneralBase(fitted, shots, devices=()).adapted(shots).predict(other).residual
    assert abs(fitted.predict(other).residual - truth).max() > 0.7
    assert abs(corrected - truth).max() < 0.3
