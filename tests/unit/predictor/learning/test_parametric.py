from typing import Any

import msgspec
import numpy as np
import pytest

from domain.catalogues.hardware import HardwareSpec
from domain.payloads import Figure
from predictor.features.dataset import Row
from predictor.features.operators_route import tabulate
from predictor.features.table import Array, Table
from predictor.features.traces import Trace, TraceBook, trace_from_data
from predictor.features.work import TERMS, work_of_many
from predictor.learning.parametric import ParametricMethod, SolvedInputs

RANDOM = np.random.default_rng(3)
KINDS = ("mm", "conv", "norm", "elementwise", "attention")


def operator(kind: str) -> dict[str, Any]:
    size = float(np.exp(RANDOM.uniform(np.log(1e4), np.log(3e6))))
    return {
        "name": f"aten.{kind}", "class": kind, "count": int(RANDOM.integers(4, 40)),
        "flops": size * 300 if kind in ("mm", "conv", "attention") else 0.0, "read_elements": size, "write_elements": size,
        "weight_elements": size / 2 if kind in ("mm", "conv") else 0.0, "inner": 300, "kernel": None, "stride": None,
        "groups": None,
    }  # fmt: skip


def net(name: str, *kinds: str) -> Trace:
    return trace_from_data(
        {
            "model": {"id": name, "family": name, "architecture": name, "parameters": 1e6},
            "workload": {"mode": "inference", "phase": "forward"},
            "operators": [operator(kind) for kind in kinds for _ in range(3)],
            "totals": {},
        }
    )


TRACES = [net(f"net{index}", *RANDOM.choice(KINDS[:4], 3, replace=False)) for index in range(40)]
BOOK = TraceBook(TRACES)
CPU = np.exp(RANDOM.normal(0.5, 0.8, len(TERMS)))
TRUE = {"cpu": CPU, "openvino": CPU * np.exp(RANDOM.normal(-0.5, 0.2, len(TERMS)))}


def spec_of(name: str) -> HardwareSpec:
    def figure(value: float) -> Figure:
        return Figure(value=value, status="measured", source="a probe")

    return HardwareSpec(
        id=name, name=name, kind="cpu", memory_bandwidth_bytes_per_s=figure(2e10), peak_flops={"fp32": figure(3e11)}
    )


def measured(
    names: range | list[str], platform: str, *, hardware: str = "h1", noise: float = 0.0, scale: float = 1.0
) -> Table:
    """Rows whose time is the true multiple of each kind of work."""
    models = [f"net{index}" for index in names] if isinstance(names, range) else names
    rows = [
        Row(
            model=model, hardware=hardware, platform=platform, runtime=platform, precision="fp32", batch_size=1,
            latency_ms=1.0, family=model,
        )
        for model in models
    ]  # fmt: skip
    table = tabulate(rows, BOOK, spec_of)
    work = work_of_many(table.subjects, [one for one in table.limits if one is not None], table.rows)
    random = np.random.default_rng(len(models))
    return msgspec.structs.replace(
        table, measured=scale * work @ TRUE[platform] * np.exp(noise * random.standard_normal(len(rows)))
    )


def joined(one: Table, other: Table) -> Table:
    return msgspec.structs.replace(
        one,
        rows=one.rows + other.rows,
        **{
            name: np.concatenate([getattr(one, name), getattr(other, name)])
            for name in ("values", "prior", "measured", "architecture", "family")
        },
        subjects=one.subjects + other.subjects,
        limits=one.limits + other.limits,
    )


def error(table: Table, residual: Array) -> float:
    return float(np.median(np.abs(table.residual - residual)))


def test_a_family_that_was_left_out_is_predicted_from_the_work_of_others() -> None:
    train = joined(measured(range(30), "cpu", noise=0.03), measured(range(30), "openvino", noise=0.03))
    model = ParametricMethod().fit(train)
    for platform in ("cpu", "openvino"):
        new = measured(range(30, 40), platform)
        assert error(new, model.predict(new).residual) < 0.06
        assert np.ptp(new.residual) > 0.3  # One factor for all would not do.


def test_a_platform_with_few_rows_leans_on_the_other_one() -> None:
    few = joined(measured(range(30), "cpu"), measured(range(4), "openvino"))
    new = measured(range(30, 40), "openvino")
    with_few = error(new, ParametricMethod().fit(few).predict(new).residual)
    with_none = error(new, ParametricMethod().fit(measured(range(30), "cpu")).predict(new).residual)
    alone = error(new, ParametricMethod().fit(measured(range(4), "openvino")).predict(new).residual)
    assert with_few < with_none
    assert with_few < alone


def test_a_new_device_is_learned_from_a_few_of_its_rows() -> None:
    model = ParametricMethod().fit(measured(range(30), "cpu"))
    new = measured(range(20, 40), "cpu", hardware="h2", scale=2.0)
    before = error(new, model.predict(new).residual)
    after = model.adapted(measured(range(10), "cpu", hardware="h2", scale=2.0)).predict(new)
    assert before > 0.5
    assert error(new, after.residual) < 0.08
    assert np.median(after.difficulty) < np.median(model.predict(new).difficulty)


def test_work_of_a_kind_that_was_never_seen_is_found_hard() -> None:
    strange = net("strange", "attention")
    BOOK.add(strange)
    model = ParametricMethod().fit(measured(range(30), "cpu"))
    usual, odd = measured(range(30, 40), "cpu"), measured(["strange"], "cpu")
    assert model.predict(odd).difficulty[0] > 2 * np.median(model.predict(usual).difficulty)


def test_one_absurd_row_drags_nothing() -> None:
    train = measured(range(30), "cpu", noise=0.03)
    spoiled = train.measured.copy()
    spoiled[3] *= 40
    new = measured(range(30, 40), "cpu")
    clean = ParametricMethod().fit(train).predict(new).residual
    dragged = ParametricMethod().fit(msgspec.structs.replace(train, measured=spoiled)).predict(new).residual
    assert np.abs(clean - dragged).max() < 0.1


def test_shares_add_up_and_name_what_takes_the_time() -> None:
    shares = ParametricMethod().fit(measured(range(30), "cpu")).shares(measured(range(5), "cpu"))
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares.shape == (5, len(TERMS))


def test_what_is_kept_gives_the_same_model_again() -> None:
    model = ParametricMethod().fit(measured(range(10), "cpu"))
    asked = measured(range(30, 40), "cpu")
    kept = msgspec.json.decode(msgspec.json.encode(model.known()), type=SolvedInputs)
    np.testing.assert_array_equal(type(model).restored(kept).predict(asked).residual, model.predict(asked).residual)
    with pytest.raises(ValueError, match="other kinds"):
        type(model).restored(msgspec.structs.replace(kept, terms=["mm"]))


def slower(table: Table, factor: float) -> Table:
    return msgspec.structs.replace(table, measured=table.measured * factor)


def test_what_is_odd_about_a_model_carries_over_to_the_other_platform_a_little() -> None:
    others = joined(measured(range(30), "cpu"), measured(range(30), "openvino"))
    asked = measured(range(35, 37), "openvino")
    without = ParametricMethod().fit(others).predict(asked).residual
    odd = slower(measured(range(35, 36), "cpu"), 1.4)
    same, other = ParametricMethod().fit(joined(others, odd)).predict(asked).residual - without
    assert 0.03 < same < np.log(1.4)
    assert abs(other) < same / 2


def test_a_model_of_another_family_that_spends_its_time_alike_is_left_with_the_like_error() -> None:
    twin = msgspec.structs.replace(TRACES[36], model="twin", family="twin", architecture="twin")
    BOOK.add(twin)
    others = measured(range(30), "cpu")
    odd = joined(others, slower(measured(range(36, 37), "cpu"), 1.5))
    unlike = joined(others, slower(measured(range(37, 38), "cpu"), 1.5))
    asked = measured(["twin"], "cpu")
    moved = [ParametricMethod().fit(table).predict(asked).residual[0] for table in (odd, unlike, others)]
    assert moved[0] - moved[2] > 0.2
    assert abs(moved[1] - moved[2]) < 0.1


def test_a_device_that_is_slow_at_one_product_is_expected_to_be_slow_at_the_others() -> None:
    for name, kind in (("products", "mm"), ("convolutions", "conv"), ("norms", "norm")):
        BOOK.add(net(name, kind))
    model = ParametricMethod().fit(measured(range(30), "cpu"))
    shots = slower(measured(["products"], "cpu", hardware="h2"), 2.0)
    asked = joined(measured(["convolutions"], "cpu", hardware="h2"), measured(["norms"], "cpu", hardware="h2"))
    convolutions, norms = model.adapted(shots).predict(asked).residual - model.predict(asked).residual
    assert convolutions > 0.05
    assert convolutions > 2 * abs(norms)
