"""What serving's method learns from rows whose truth is known, and what a few rows of something new correct."""

import itertools

import msgspec
import numpy as np
import pytest

from domain.catalogues import hardware
from predictor.features.table import Table
from predictor.learning.training import Learner
from predictor.llm_serving.method import FittedServing, ServingMethod
from predictor.llm_serving.neighbours import Neighbours, labels_of, points_of
from predictor.llm_serving.table import tabulate

QUICK = ServingMethod(
    learners=(Learner(objective="l2", trees=60, learning_rate=0.1, leaves=15, rows_per_leaf=10, feature_share=0.6),)
)
MODELS = ("meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B", "Qwen/Qwen3-32B", "mistralai/Mixtral-8x7B-v0.1")
SLOWER = {"nvidia-h200-sxm": 1.2, "nvidia-b200-sxm": 1.5, "nvidia-h100-sxm": 2.5}


@pytest.fixture(scope="module")
def table(served) -> Table:
    """Every combination of model, device, spread and load; slower than physics by device, engine and load."""
    rows = []
    for model, device, tensor, load, engine in itertools.product(
        MODELS, SLOWER, (2, 8), (1, 4, 16, 64, 128), ("vllm", "sglang")
    ):
        row = served(
            model=model, hardware=device, concurrency=load, runtime=engine, count=tensor,
            parallelism={"tensor": tensor, "pipeline": 1, "data": 1, "expert": 1},
        )  # fmt: skip
        prior = tabulate([row], hardware.find).prior[0]
        slower = SLOWER[device] * (1.3 if engine == "sglang" else 1.0) * (1 + load / 300)
        rows.append(msgspec.structs.replace(row, tpot_ms=prior * slower * 1e3))
    return tabulate(rows, hardware.find)


def error(fitted: FittedServing, part: Table) -> float:
    return float(np.mean(np.abs(np.expm1(fitted.predict(part).residual - part.residual))))


def on(table: Table, device: str) -> np.ndarray:
    return np.array([row.hardware == device for row in table.rows])


def test_a_load_between_those_seen_is_told(table) -> None:
    held = np.array([row.concurrency == 16 for row in table.rows])
    assert error(QUICK.fit(table.take(~held)), table.take(held)) < 0.05


def test_the_same_rows_teach_the_same_bits(table) -> None:
    first, second = (QUICK.fit(table).predict(table.take([3, 70, 150])).residual for _ in range(2))
    assert first.tolist() == second.tolist()


def test_ten_rows_of_a_device_tell_how_fast_it_is_and_nothing_is_fitted_anew(table) -> None:
    new = on(table, "nvidia-h100-sxm")
    fitted, part = QUICK.fit(table.take(~new)), table.take(new)
    adapted = fitted.adapted(part.take(np.arange(0, len(part), 4)))
    rest = part.take(np.arange(1, len(part), 4))
    assert error(adapted, rest) < 0.33 * error(fitted, rest)
    assert adapted.trees is fitted.trees
    assert len(fitted.neighbours.residual) == (~new).sum()


def test_an_unknown_device_is_harder_than_a_known_one_and_shots_make_it_easier(table) -> None:
    new = on(table, "nvidia-h100-sxm")
    fitted, part = QUICK.fit(table.take(~new)), table.take(new)
    strange, seen = fitted.predict(part).difficulty, fitted.predict(table.take(~new)).difficulty
    assert strange.min() > np.median(seen)
    assert fitted.adapted(part.take([0, 9, 33])).predict(part).difficulty.mean() < strange.mean()


def test_an_added_row_is_the_same_as_one_that_was_there(table) -> None:
    points, residual = points_of(table), table.residual
    known = Neighbours.fit(points.take(np.arange(100)), residual[:100])
    chosen = np.arange(100, 110)
    added = known.extended(points.take(chosen), residual[chosen])
    mean, variance = added.predict(points.take(chosen))
    assert mean == pytest.approx(residual[chosen], abs=0.1)
    assert (variance < known.predict(points.take(chosen))[1]).all()
    assert added.inverse == pytest.approx(added.inverse.T)


def test_a_row_left_out_is_told_as_if_it_had_never_been_there(table) -> None:
    part = table.take(np.arange(0, len(table), 3))
    points, residual = points_of(part), part.residual
    full = Neighbours.fit(points, residual)
    group = np.array([4, 5, 6])
    others = np.setdiff1d(np.arange(len(residual)), group)
    inside = np.linalg.inv(np.linalg.inv(full.inverse)[np.ix_(others, others)])
    apart = msgspec.structs.replace(full, points=points.take(others), residual=residual[others], inverse=inside)
    assert full.without([group])[0][group] == pytest.approx(apart.predict(points.take(group))[0])


def test_one_row_that_nobody_confirms_does_not_move_its_neighbours(table) -> None:
    wrong = table.measured.copy()
    wrong[100] *= 30
    odd = QUICK.fit(msgspec.structs.replace(table, measured=wrong))
    others = table.take(np.setdiff1d(np.arange(len(table)), [100]))
    assert error(odd, others) < 0.05


def test_only_what_was_corrected_by_rows_of_its_own_says_how_sure_it_is(table) -> None:
    new = on(table, "nvidia-h100-sxm")
    fitted, part = QUICK.fit(table.take(~new)), table.take(new)
    assert fitted.predict(part).widths is None
    corrected = fitted.adapted(part.take(np.arange(0, len(part), 4))).predict(part)
    assert corrected.widths is not None
    narrow, wide = (corrected.widths[nominal] for nominal in (0.5, 0.9))
    assert (narrow > 0).all()
    assert (narrow < wide).all()
    assert np.argmax(narrow) == np.argmax(corrected.difficulty)


def test_shots_that_lie_far_off_widen_the_intervals_of_their_device(table) -> None:
    new = on(table, "nvidia-h100-sxm")
    fitted, part = QUICK.fit(table.take(~new)), table.take(new)
    shots = part.take(np.arange(0, len(part), 4))
    odd = msgspec.structs.replace(shots, measured=shots.measured * np.where(np.arange(len(shots)) % 2, 4.0, 0.25))
    plain, strange = (fitted.adapted(rows).predict(part).widths for rows in (shots, odd))
    assert plain is not None and strange is not None
    assert (strange[0.8] > 2 * plain[0.8]).all()


def test_the_time_of_a_token_lies_below_the_median_by_what_is_unknown_of_it(table) -> None:
    new = on(table, "nvidia-h100-sxm")
    fitted, part = QUICK.fit(table.take(~new)), table.take(new)
    mean, variance = fitted.neighbours.predict(points_of(part))
    assert fitted.predict(part).residual == pytest.approx(mean - np.minimum(variance / 2, 0.3))
    # A rate is judged by another error: its estimate is the median.
    rate = msgspec.structs.replace(part, target="throughput")
    assert fitted.predict(rate).residual == pytest.approx(mean)


def test_the_month_stands_for_a_version_that_nobody_stated(served) -> None:
    rows = [
        served(runtime_version=version, concurrency=index + 1, time=time)
        for index, (version, time) in enumerate(
            [("", "2026-02-03"), ("", "2026-02-20"), ("", None), ("0.18.0", "2026-02-03")]
        )
    ]
    assert labels_of(tabulate(rows, hardware.find))["version"].tolist() == ["2026-02", "2026-02", "", "0.18.0"]
