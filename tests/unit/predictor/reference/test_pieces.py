from typing import Any

import numpy as np
import pytest

from predictor.device_transfer.pieces import copied_hardware, piece_of, tabulate
from predictor.features.dataset import Row


def row(model: str = "acme/net", hardware: str = "acme-1", latency: float = 10.0, **over: Any) -> Row:
    given = {
        "model": model, "hardware": hardware, "platform": "qnn", "runtime": "tflite", "runtime_version": "2.42.0",
        "precision": "int8", "batch_size": 1, "latency_ms": latency,
    }  # fmt: skip
    return Row(**{**given, **over})


def no_spec(_: str) -> None:
    return None


@pytest.mark.parametrize(
    "other",
    [
        {"precision": "fp16"}, {"runtime": "qairt"}, {"runtime_version": "2.43.1"}, {"compiled": True},
        {"batch_size": 8}, {"image_size": 384}, {"mode": "training"}, {"platform": "cpu"}, {"layout": "nhwc"},
        {"options": {"artifact": "context_binary"}}, {"parallelism": {"tensor": 2}}, {"concurrency": 4}, {"count": 2},
    ],
    ids=str,
)  # fmt: skip
def test_a_row_that_ran_otherwise_is_no_sibling(other: dict[str, Any]) -> None:
    table = tabulate([row(), row(hardware="acme-2", **other)], no_spec)
    assert (len(table), table.dropped) == (0, {"no sibling": 2})


def test_the_same_piece_on_two_devices_makes_two_rows_whose_residual_is_the_log_of_the_figure() -> None:
    table = tabulate([row(latency=10.0, threads=2), row(hardware="acme-2", latency=20.0, threads=8)], no_spec)
    assert np.exp(table.residual).tolist() == pytest.approx([0.010, 0.020])
    assert table.column("siblings").tolist() == [1.0, 1.0]
    assert table.limits == [None, None]


def test_a_repeat_on_the_same_device_is_no_sibling() -> None:
    assert len(tabulate([row(latency=10.0), row(latency=11.0)], no_spec)) == 0


def test_a_row_without_the_target_is_counted_and_left_out() -> None:
    rows = [row(), row(hardware="acme-2"), row(hardware="acme-3", latency=0.0)]
    table = tabulate(rows, no_spec)
    assert (len(table), table.dropped) == (2, {"no figure of the target": 1})
    memory = [row(hardware=name, peak_memory_bytes=2e6) for name in ("acme-1", "acme-2")]
    assert tabulate([*memory, row()], no_spec, "memory").measured.tolist() == [2e6, 2e6]


def test_a_device_whose_figures_repeat_another_device_s_is_a_copy_and_stays_out() -> None:
    figures = np.random.default_rng(0).lognormal(size=30)
    rows = [row(model=f"acme/net-{n}", hardware=name, latency=float(value))
            for name in ("board", "board-proxy") for n, value in enumerate(figures)]  # fmt: skip
    rows += [
        row(model=f"acme/net-{n}", hardware="other", latency=float(value) * 1.1) for n, value in enumerate(figures)
    ]
    rows.append(row(model="acme/one-more", hardware="board"))
    assert copied_hardware(rows) == {"board-proxy": "board"}
    table = tabulate(rows, no_spec)
    assert {one.hardware for one in table.rows} == {"board", "other"}
    assert table.dropped == {"copy of another device's figures": 30, "no sibling": 1}


def test_equal_needs_of_memory_make_no_copy_and_a_copy_by_time_is_none_of_memory_either() -> None:
    rows = [row(model=f"acme/net-{n}", hardware=name, latency=speed * (n + 1), peak_memory_bytes=1e6 * (n + 1))
            for name, speed in (("a", 1.0), ("b", 1.5), ("a-proxy", 1.0)) for n in range(30)]  # fmt: skip
    table = tabulate(rows, no_spec, "memory")
    assert {one.hardware for one in table.rows} == {"a", "b"}


def test_a_few_equal_figures_make_no_copy() -> None:
    rows = [row(model=f"acme/net-{n}", hardware=name) for name in ("a", "b") for n in range(10)]
    assert copied_hardware(rows) == {}


def test_a_piece_does_not_name_its_device() -> None:
    assert piece_of(row(hardware="acme-1", threads=2)) == piece_of(row(hardware="acme-2", threads=4))
