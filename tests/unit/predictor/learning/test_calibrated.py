"""Made-up devices that obey the roofline at limits of their own, so that what calibration must find is known."""

from typing import Any

import msgspec
import numpy as np
import pytest

from domain.catalogues.hardware import HardwareSpec
from domain.catalogues.hardware import find as catalogued
from predictor.artifact.calibrated import Calibrated, LearnedBase, few
from predictor.features.dataset import Row
from predictor.features.operators_route import relimited, tabulate
from predictor.features.table import Table
from predictor.features.traces import TraceBook, trace_from_data
from predictor.learning.training import Learner, fit_trees
from predictor.learning.trees import FittedTrees

LEARNERS = (Learner(objective="l2", trees=60, learning_rate=0.1, leaves=7, rows_per_leaf=20, feature_share=0.8),)
KNOWN = ("nvidia-rtx-3090", "nvidia-rtx-4090")
NEW = "nvidia-rtx-5090"
MODELS = 120


def trace_of(index: int) -> Any:
    """A net of convolutions, products and element-wise work in proportions of its own."""
    random = np.random.default_rng(index)
    size = 10 ** random.uniform(4.5, 6.5)

    def operator(kind: str, intensity: float, count: int, inner: int | None) -> dict[str, Any]:
        return {
            "name": kind, "class": kind, "count": count, "flops": size * intensity, "read_elements": size,
            "write_elements": size, "weight_elements": 1e4 if intensity else 0, "inner": inner,
        }  # fmt: skip

    return trace_from_data(
        {
            "model": {"id": f"acme/net{index}", "family": f"f{index % 20}", "architecture": f"a{index}"},
            "workload": {"image_size": 224},
            "operators": [
                operator("conv", 10 ** random.uniform(2, 3.6), int(random.integers(5, 40)), 576),
                operator("mm", 10 ** random.uniform(2, 3.6), int(random.integers(1, 40)), 768),
                operator("elementwise", 0.0, int(random.integers(5, 60)), None),
            ],
        }
    )


TRACES = [trace_of(index) for index in range(MODELS)]


def spec_of(name: str) -> HardwareSpec | None:
    return catalogued(name)


def rows_of(hardware: str, models: Any, *, compiled: bool = False) -> list[Row]:
    return [
        Row(
            model=f"acme/net{index}", hardware=hardware, platform="cuda", precision="amp-fp16", batch_size=256,
            image_size=224, latency_ms=1.0, runtime="torch", runtime_version="2.9", compiled=compiled,
        )
        for index in models
    ]  # fmt: skip


def measured(rows: list[Row], *, peak: float = 1.0, offset: float = 0.0, oddness: float = 0.15) -> Table:
    """The table of rows as a device measures them that reaches `peak` of its sheet; every model is odd in its own way."""
    table = tabulate(rows, TraceBook(TRACES), spec_of)
    limits = [msgspec.structs.replace(one, peak_flops=one.peak_flops * peak) for one in table.limits if one is not None]
    true = relimited(table, limits).prior
    odd = np.array([np.random.default_rng(10_000 + int(row.model[8:])).normal(0, oddness) for row in rows])
    noise = np.random.default_rng(len(rows)).normal(0, 0.02, len(rows))
    return msgspec.structs.replace(table, measured=true * 1.5 * np.exp(odd + offset + noise))


def joined(*tables: Table) -> Table:
    first = tables[0]
    return msgspec.structs.replace(
        first,
        rows=[row for one in tables for row in one.rows],
        subjects=[subject for one in tables for subject in one.subjects],
        limits=[limit for one in tables for limit in one.limits],
        **{
            name: np.concatenate([getattr(one, name) for one in tables])
            for name in ("values", "prior", "measured", "architecture", "family")
        },
    )


@pytest.fixture(scope="module")
def known() -> LearnedBase:
    """What sixty models on two devices taught; the other sixty are new wherever they are asked for."""
    table = joined(*(measured(rows_of(name, range(MODELS // 2))) for name in KNOWN))
    return LearnedBase(FittedTrees(fit_trees(table.values, table.residual, learners=LEARNERS)), table)


def unseen(start: int = MODELS // 2, stop: int = MODELS) -> Any:
    return range(start, stop)


def error(fitted: Any, table: Table) -> float:
    return float(np.mean(np.abs(table.residual - fitted.predict(table).residual)))


def test_the_effective_peak_is_found(known: LearnedBase) -> None:
    def found(true: float) -> float:
        return known.adapted(measured(rows_of(NEW, unseen(60, 90)), peak=true, oddness=0.03)).effective_peak

    assert found(1.0) == pytest.approx(1.0, rel=0.1)
    assert found(0.6) == pytest.approx(0.6, rel=0.3)
    assert found(0.6) < found(0.8) < found(1.0)


def test_a_lying_data_sheet_is_mended_by_ten_measurements(known: LearnedBase) -> None:
    asked = measured(rows_of(NEW, unseen(75)), peak=0.55, offset=0.1)
    calibrated = known.adapted(measured(rows_of(NEW, unseen(60, 70)), peak=0.55, offset=0.1))
    assert error(calibrated, asked) < 0.6 * error(known, asked)


@pytest.mark.parametrize("shots", [1, 2, 5, 10])
def test_calibration_is_never_worse_than_none_by_more_than_noise(known: LearnedBase, shots: int) -> None:
    before, after = [], []
    for draw in range(8):
        taken = np.random.default_rng(draw).permutation(unseen())[:shots].tolist()
        asked = measured(rows_of(NEW, [index for index in unseen() if index not in taken]))
        before.append(error(known, asked))
        after.append(error(known.adapted(measured(rows_of(NEW, taken))), asked))
    assert float(np.mean(after) / np.mean(before)) < 1.15


def test_one_measurement_moves_every_row_alike_and_by_less_than_its_own_error(known: LearnedBase) -> None:
    shots = measured(rows_of(NEW, [60]), offset=0.5, oddness=0.0)
    asked = measured(rows_of(NEW, unseen(70)), offset=0.5, oddness=0.0)
    moved = known.adapted(shots).predict(asked).residual - known.predict(asked).residual
    own = float((shots.residual - known.predict(shots).residual)[0])
    assert np.all((moved > 0) & (moved < own))
    assert np.ptp(moved) < 0.05


def test_a_freak_does_not_drag_the_others(known: LearnedBase) -> None:
    shots = measured(rows_of(NEW, unseen(60, 72)), offset=0.2, oddness=0.05)
    freak = msgspec.structs.replace(shots, measured=shots.measured * np.where(np.arange(12) == 3, 10.0, 1.0))
    asked = measured(rows_of(NEW, unseen(80)), offset=0.2, oddness=0.05)
    assert error(known.adapted(freak), asked) < error(known.adapted(shots), asked) + 0.03


def test_a_model_measured_on_a_sibling_brings_its_oddness_along(known: LearnedBase) -> None:
    shots = measured(rows_of(NEW, range(10)), peak=0.7)
    seen, new = rows_of(NEW, range(20, 60)), rows_of(NEW, unseen(70, 110))
    calibrated = known.adapted(shots)
    assert calibrated.reference is not None
    assert sum(weight for name, weight in calibrated.reference.weights.items() if name.startswith("sibling")) > 0.7
    alone = known.adapted(shots)
    alone.reference = None
    table = measured(seen, peak=0.7)
    assert error(calibrated, table) < 0.8 * error(alone, table)
    assert error(calibrated, table) < 0.6 * error(calibrated, measured(new, peak=0.7))


def test_other_software_of_the_device_learns_a_part(known: LearnedBase) -> None:
    shots = measured(rows_of(NEW, unseen(60, 75)), offset=0.4, oddness=0.05)
    calibrated = known.adapted(shots)

    def moved(compiled: bool) -> float:
        asked = measured(rows_of(NEW, unseen(80), compiled=compiled), offset=0.4)
        return float(np.mean(calibrated.predict(asked).residual - known.predict(asked).residual))

    assert 0.2 * moved(False) < moved(True) < 0.98 * moved(False)


@pytest.mark.parametrize("shots", [1, 10, 25])
def test_widths_cover_models_to_come_and_shrink(known: LearnedBase, shots: int) -> None:
    covered, reach = [], []
    for start in range(60, 90, 10):
        taken = [60 + (start - 60 + 2 * step) % 60 for step in range(shots)]
        calibrated = known.adapted(measured(rows_of(NEW, taken), offset=0.2))
        rest = [index for index in unseen() if index not in taken]
        asked = measured(rows_of(NEW, rest), offset=0.2)
        predicted = calibrated.predict(asked)
        assert predicted.widths is not None
        covered.append(np.mean(np.abs(asked.residual - predicted.residual) <= predicted.widths[0.8]))
        reach.append(float(np.mean(predicted.widths[0.8])))
    assert float(np.mean(covered)) >= 0.77
    assert float(np.mean(reach)) < (0.6 if shots < 3 else 0.4)


def test_nothing_measured_is_not_calibrated(known: LearnedBase) -> None:
    calibrated = known.adapted(measured(rows_of(NEW, unseen(60, 70))))
    elsewhere = measured(rows_of("nvidia-a100-pcie-80gb", unseen(70, 80)))
    predicted = calibrated.predict(elsewhere)
    assert predicted.widths is not None
    assert np.all(np.isnan(predicted.widths[0.8]))
    np.testing.assert_allclose(predicted.residual, known.predict(elsewhere).residual)
    assert known.predict(elsewhere).widths is None
    with pytest.raises(ValueError, match="at least one"):
        Calibrated(known, elsewhere.take([]))


def test_of_many_rows_every_software_and_as_many_models_as_possible_are_taken() -> None:
    eager = rows_of(NEW, [index % 6 for index in range(40)])
    compiled = rows_of(NEW, range(3), compiled=True)
    rows = [msgspec.structs.replace(row, position=place) for place, row in enumerate([*eager, *compiled])]
    taken = [rows[index] for index in few(rows, 9)]
    assert {row.model for row in taken if not row.compiled} == {f"acme/net{index}" for index in range(6)}
    assert sum(row.compiled for row in taken) == 3
    assert min(row.position for row in taken) >= 34
    assert few(rows, 100).tolist() == list(range(43))
