"""Costs, neighbours and trees together, on the small world of this folder's conftest."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware
from predictor.features.operators_route import tabulate
from predictor.features.table import Table
from predictor.learning.blend import LOCAL, BlendMethod, FittedBlend, SoftwareKey, nearest
from predictor.learning.evaluation import evaluate
from predictor.learning.trees import TreeMethod
from tests.integration.predictor.conftest import World


@pytest.fixture(scope="module")
def many() -> World:
    return World(families=18, members=8)


@pytest.fixture(scope="module")
def table(many: World) -> Table:
    return many.table()


@pytest.fixture(scope="module")
def fitted(table: Table, learners: Any) -> FittedBlend:
    return BlendMethod(learners).fit(table)


def test_a_new_architecture_is_predicted_closer_than_by_trees_alone(table: Table, learners: Any) -> None:
    blend = evaluate(table, BlendMethod(learners), "architecture")
    trees = evaluate(table, TreeMethod(learners), "architecture")
    assert blend["overall"]["mape"] < 0.75 * trees["overall"]["mape"]
    assert blend["macro_family_mape"] < 0.75 * trees["macro_family_mape"]
    assert 0.7 < blend["overall"]["coverage_80"] < 0.92


def test_more_batch_is_never_less_time(many: World, fitted: FittedBlend) -> None:
    sizes = [1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 512]
    rows = [
        msgspec.structs.replace(row, batch_size=size)
        for row in many.rows
        if row.batch_size == 32 and row.model.endswith(("m0", "m3"))
        for size in sizes
    ]
    asked = tabulate(rows, many.book, hardware.find)
    times = (np.log(asked.prior) + fitted.predict(asked).residual).reshape(-1, len(sizes))
    assert np.diff(times, axis=1).min() >= 0.0


def test_a_device_that_was_measured_one_item_at_a_time_says_nothing_of_single_items_elsewhere(
    many: World, learners: Any
) -> None:
    alone = [
        World.row(data, "nvidia-rtx-3090", 1, 3.0 * (1 + index % 7 / 100)) for index, data in enumerate(many.traces)
    ]
    together = [row for row in many.rows if row.hardware == "nvidia-rtx-4090" and row.batch_size > 32]
    fitted = BlendMethod(learners).fit(tabulate([*alone, *together], many.book, hardware.find))
    rows = [msgspec.structs.replace(row, batch_size=size) for row in together[::8] for size in (1, 2)]
    asked = tabulate(rows, many.book, hardware.find)
    times = (np.log(asked.prior) + fitted.predict(asked).residual).reshape(-1, 2)
    assert np.mean(times[:, 1] < times[:, 0]) < 0.05


def test_what_is_kept_predicts_the_same_and_without_fields_speaks_of_no_row(
    table: Table, fitted: FittedBlend, learners: Any
) -> None:
    some = table.take(range(0, len(table), 7))
    restored = FittedBlend.restored(fitted.texts())
    np.testing.assert_array_equal(restored.predict(some).residual, fitted.predict(some).residual)
    np.testing.assert_array_equal(restored.predict(some).difficulty, fitted.predict(some).difficulty)
    bare = FittedBlend.restored(BlendMethod(learners, fields=False).fit(table).texts())
    assert np.abs(some.residual - bare.predict(some).residual).mean() < 0.2
    assert len(bare.texts()[LOCAL]) < 0.2 * len(fitted.texts()[LOCAL])
    with pytest.raises(ValueError, match="other features"):
        FittedBlend.restored({**fitted.texts(), LOCAL: '{"work": [], "wide": []}'})


def test_without_fields_more_trees_stand_in_for_them(table: Table, learners: Any) -> None:
    fitted = BlendMethod(learners, fields=False).fit(table)
    assert all(one.field is None for one in fitted.local.values())
    some = table.take(range(0, len(table), 11))
    restored = FittedBlend.restored(fitted.texts())
    np.testing.assert_array_equal(restored.predict(some).residual, fitted.predict(some).residual)
    plain = FittedBlend(fitted.trees, fitted.scales, fitted.local)
    assert (
        np.abs(some.residual - fitted.predict(some).residual).mean()
        < np.abs(some.residual - plain.predict(some).residual).mean()
    )


def test_the_same_rows_give_the_same_bits(table: Table, fitted: FittedBlend, learners: Any) -> None:
    assert BlendMethod(learners).fit(table).texts() == fitted.texts()


def test_work_unlike_any_measured_is_doubted(many: World, fitted: FittedBlend, table: Table) -> None:
    known = fitted.predict(table).difficulty
    trace = many.book.find(table.rows[0].model, image_size=224)
    odd = msgspec.structs.replace(trace, kernel=np.full(len(trace.kernel), 11.0), inner=trace.inner * 7 + 1)
    stranger = msgspec.structs.replace(table.take([0]), subjects=[odd], family=np.array(["stranger"]))
    assert fitted.predict(stranger).difficulty[0] > np.quantile(known, 0.95)


def test_software_that_was_never_measured_is_taken_from_its_nearest_kin(
    many: World, table: Table, learners: Any
) -> None:
    devices = np.array([row.hardware for row in table.rows])
    fitted = BlendMethod(learners).fit(table.take(devices != "nvidia-rtx-4090"))
    other = table.take(devices == "nvidia-rtx-4090")
    assert np.abs(other.residual - fitted.predict(other).residual).mean() < 0.25


def test_the_nearest_place_is_compiled_alike_before_anything_else() -> None:
    asked = SoftwareKey("new", "cuda", "torch", "amp-fp16", True, False, "2.9", "inference")
    eager = asked._replace(hardware="one", compiled=False)
    old = asked._replace(hardware="one", version="2.4")
    known = [eager, old, old._replace(hardware="two", compiled=False), old._replace(platform="cpu")]
    assert nearest(asked, known) == [old]
    assert nearest(asked, [eager]) == [eager]
    assert nearest(asked, []) == []
