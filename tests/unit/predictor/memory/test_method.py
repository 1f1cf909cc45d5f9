from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from predictor.features.dataset import Row
from predictor.features.traces import Trace, TraceBook, trace_from_data
from predictor.memory.facts import FACTS, tabulate
from predictor.memory.method import SPARED, SURE, MemoryFitted, MemoryMethod

MODELS = 40


def trace(model: int, parameters: float, peak: float | None, attention: float = 0.0) -> Trace:
    written = (peak or 1e6) * 5
    operators = [
        {"class": "conv", "count": 4, "flops": 1e8, "read_elements": 1e5, "write_elements": written * (1 - attention) / 4,
         "weight_elements": parameters / 4},
        {"class": "attention", "count": 2, "flops": 1e8, "read_elements": 1e5, "write_elements": written * attention / 2,
         "weight_elements": 0},
    ]  # fmt: skip
    totals = {"parameters": parameters} | ({} if peak is None else {"peak_activation_elements": peak})
    return trace_from_data(
        {
            "model": {
                "id": f"acme/net-{model}",
                "architecture": f"a{model}",
                "family": f"f{model}",
                "parameters": parameters,
            },
            "workload": {"mode": "inference"},
            "operators": operators,
            "totals": totals,
        }
    )


RANDOM = np.random.default_rng(0)
TRACES = [trace(n, RANDOM.uniform(2e6, 3e8), RANDOM.uniform(1e5, 5e7), float(n % 2) * 0.8) for n in range(MODELS)]
BOOK = TraceBook(TRACES)


def row(model: int = 0, need: float | None = None, **over: Any) -> Row:
    given = {
        "model": f"acme/net-{model}", "hardware": "acme-1", "platform": "cpu", "runtime": "torch", "precision": "fp32",
        "batch_size": 1, "peak_memory_bytes": need,
    }  # fmt: skip
    return Row(**{**given, **over})


def need(model: int, runtime: str = "torch", noise: float = 0.0) -> float:
    """The need: a constant, the weights once or twice, and half as much again where there is attention."""
    floor = 4 * (TRACES[model].parameters or 0.0), 4 * TRACES[model].totals["peak_activation_elements"]
    constant, copies = {"torch": (4e8, 1.0), "openvino": (1.4e8, 2.0)}[runtime]
    odd = 1.5 if model % 2 else 1.0
    return float((constant + copies * floor[0] + floor[1]) * odd * np.exp(RANDOM.normal(scale=noise)))


def measured(models: Sequence[int], noise: float = 0.03) -> list[Row]:
    return [
        row(model, need(model, runtime, noise), runtime=runtime)
        for model in models
        for runtime in ("torch", "openvino")
    ]


@pytest.fixture(scope="module")
def fitted() -> MemoryFitted:
    return MemoryMethod().fit(tabulate(measured(range(30)), BOOK))


def asked(models: Sequence[int] = range(30, MODELS), runtime: str = "torch", **over: Any) -> Any:
    return tabulate([row(model, need(model, runtime), runtime=runtime, **over) for model in models], BOOK)


def test_an_unseen_model_needs_what_its_like_needs_on_each_runtime(fitted: MemoryFitted) -> None:
    for runtime in ("torch", "openvino"):
        table = asked(runtime=runtime)
        assert np.abs(table.residual - fitted.predict(table).residual).mean() < 0.1


def test_the_kind_of_work_is_told_apart_where_weights_and_activations_are_the_same(fitted: MemoryFitted) -> None:
    plain, with_attention = (tabulate([row(99, 1e9)], TraceBook([trace(99, 1e8, 1e7, share)])) for share in (0.0, 0.8))
    ratio = np.exp(fitted.predict(with_attention).residual - fitted.predict(plain).residual)
    assert ratio[0] == pytest.approx(1.5, abs=0.15)


def test_an_absurd_row_does_not_drag_its_like_along() -> None:
    rows = measured([n for n in range(30) if n % 2 == 0])
    far = row(2, 30 * need(2))
    known, after = (MemoryMethod().fit(tabulate(some, BOOK)) for some in (rows, [*rows, far]))
    table = asked([2])
    moved = after.predict(table).residual - known.predict(table).residual
    assert abs(moved[0]) < 0.35


def test_a_bigger_batch_needs_more(fitted: MemoryFitted) -> None:
    table = tabulate([row(31, 1e9, batch_size=batch) for batch in (1, 8, 64)], BOOK)
    needs = np.exp(fitted.predict(table).residual) * table.prior
    assert needs[0] < needs[1] < needs[2]


def test_the_chance_of_fitting_rises_with_the_room_from_none_to_all(fitted: MemoryFitted) -> None:
    table = asked([31] * 6)
    true = float(table.measured[0])
    chances = fitted.chance(table, true * np.array([0.2, 0.7, 0.95, 1.05, 1.5, 5.0]))
    assert (np.diff(chances) >= 0).all()
    assert chances[0] < 0.05
    assert chances[1] < 0.5 < chances[4]
    assert chances[-1] > 0.95


def test_more_than_sure_is_said_only_with_room_to_spare(fitted: MemoryFitted) -> None:
    table = asked([31] * 60)
    chances = fitted.chance(table, float(table.measured[0]) * np.geomspace(1.0, 5.0, 60))
    spared = fitted.chance(table, SPARED * float(table.measured[0]) * np.geomspace(1.0, 5.0, 60))
    assert (chances == SURE).any()
    assert (spared[chances > SURE] > SURE - 0.01).all()
    assert (np.diff(chances) >= 0).all()


def test_chances_hold_on_models_that_took_no_part() -> None:
    rows = measured(range(30), noise=0.15)
    known = MemoryMethod().fit(tabulate(rows, BOOK))
    table = tabulate([row(n, need(n, noise=0.15)) for _ in range(20) for n in range(30, MODELS)], BOOK)
    predicted = np.exp(known.predict(table).residual) * table.prior
    for factor in (0.85, 1.0, 1.2):
        room = predicted * factor
        assert known.chance(table, room).mean() == pytest.approx((table.measured <= room).mean(), abs=0.17)


def test_another_runtime_is_less_sure_until_a_few_rows_of_it_are_there(fitted: MemoryFitted) -> None:
    new = [row(n, 2 * need(n), platform="cuda", precision="fp32") for n in range(MODELS)]
    rest = tabulate(new[30:], BOOK)
    after = fitted.adapted(tabulate(new[:10], BOOK))
    assert fitted.predict(rest).difficulty.mean() > 1.2 * after.predict(rest).difficulty.mean()
    assert np.abs(rest.residual - after.predict(rest).residual).mean() < 0.2
    assert np.abs(rest.residual - fitted.predict(rest).residual).mean() > 0.3


def test_without_a_measurement_the_floor_and_a_runtime_s_usual_constant_are_told_with_no_sureness() -> None:
    nothing = MemoryMethod().fit(tabulate([], BOOK))
    table = asked([31])
    found = nothing.predict(table)
    assert np.exp(found.residual[0]) * table.prior[0] == pytest.approx(1e8 + table.prior[0])
    assert 0.1 < nothing.chance(table, 1.2 * (1e8 + table.prior))[0] < 0.9


def test_rows_that_cannot_be_learned_from_are_counted() -> None:
    book = TraceBook([TRACES[0], trace(1, 1e6, None)])
    table = tabulate([row(0, 1e9), row(0), row(1, 1e9), row(2, 1e9)], book)
    assert len(table) == 1
    assert table.dropped == {
        "no figure of the target": 1,
        "no parameters or activations in the trace": 1,
        "no trace": 1,
    }
    assert table.names == FACTS
    assert table.prior[0] == pytest.approx(
        4 * (TRACES[0].parameters or 0) + 4 * TRACES[0].totals["peak_activation_elements"]
    )


def test_the_same_rows_give_the_same_bits() -> None:
    table, question = tabulate(measured(range(10)), BOOK), asked()
    once, again = (MemoryMethod().fit(table).predict(question).residual.tobytes() for _ in range(1, 3))
    assert once == again
