from typing import Any

import numpy as np
import pytest

from predictor.features.dataset import Row
from predictor.memory.lines import ANYWHERE, UNIT, fit_lines, parts_of


def row(**over: Any) -> Row:
    given = {
        "model": "acme/net", "hardware": "acme-1", "platform": "cpu", "runtime": "torch", "precision": "fp32",
        "batch_size": 1,
    }  # fmt: skip
    return Row(**{**given, **over})


def made(count: int, constant: float, weight: float, activation: float, seed: int = 0, **over: Any) -> tuple[Any, ...]:
    random = np.random.default_rng(seed)
    weights, activations = random.uniform(5e7, 1e9, count), random.uniform(1e6, 3e8, count)
    return [row(**over)] * count, weights, activations, constant + weight * weights + activation * activations


def test_a_runtime_s_constant_and_its_bytes_a_byte_are_found() -> None:
    lines = fit_lines(*made(200, 4.3e8, 1.9, 1.4))
    assert lines.of(row(), 1e9, 1e8) == pytest.approx(4.3e8 + 1.9e9 + 1.4e8, rel=0.05)


def test_a_part_with_few_rows_is_like_the_whole_and_with_many_like_itself() -> None:
    whole = made(200, 4e8, 1.0, 1.0)

    def with_int8(count: int) -> float:
        part = made(count, 4e8, 3.0, 1.0, seed=1, precision="int8")
        joined = [np.concatenate([one, other]) for one, other in zip(whole[1:], part[1:], strict=True)]
        return fit_lines([*whole[0], *part[0]], *joined).of(row(precision="int8"), 1e9, 0.0)

    assert 1.4e9 < with_int8(1) < 2.4e9 < with_int8(100)
    assert with_int8(400) == pytest.approx(3.4e9, rel=0.1)


def test_one_row_of_a_part_is_believed_by_less_than_half() -> None:
    rows, weights, activations, needs = made(200, 4e8, 1.0, 1.0)
    one = np.array([3 * (4e8 + 5e8)])
    lines = fit_lines(
        [*rows, row(precision="int8")],
        np.append(weights, 5e8),
        np.append(activations, 0.0),
        np.concatenate([needs, one]),
    )
    assert 9.5e8 < lines.of(row(precision="int8"), 5e8, 0.0) < 1.8e9


def test_one_absurd_row_moves_a_line_little() -> None:
    rows, weights, activations, needs = made(40, 4e8, 1.0, 1.0)
    needs[3] *= 0.02
    assert fit_lines(rows, weights, activations, needs).of(row(), 5e8, 1e8) == pytest.approx(1e9, rel=0.08)


def test_a_runtime_never_measured_is_like_all_others_and_a_device_like_its_runtime() -> None:
    empty = fit_lines([], *[np.zeros(0)] * 3)
    assert empty.of(row(), 1e9, 1e8) == pytest.approx(ANYWHERE[0] * UNIT + 1.1e9)
    lines = fit_lines(*made(50, 8e8, 2.0, 1.0))
    true, other = 2.8e9, lines.of(row(platform="cuda"), 1e9, 0.0)
    assert empty.of(row(platform="cuda"), 1e9, 0.0) < other < true
    assert abs(lines.of(row(hardware="acme-2"), 1e9, 0.0) - true) < abs(other - true)


def test_no_coefficient_is_negative_so_more_weights_never_need_less() -> None:
    rows, weights, activations, _ = made(60, 0.0, 1.0, 1.0)
    lines = fit_lines(rows, weights, activations, 2e9 - weights)
    assert all(value >= 0 for line in lines.by_part.values() for value in line)
    assert lines.of(row(), 2e9, 0.0) >= lines.of(row(), 1e9, 0.0)


def test_the_parts_of_a_row_go_from_wide_to_narrow() -> None:
    lengths = [len(part) for part in parts_of(row(options={"artifact": "dlc"}))]
    assert lengths == [0, 2, 3, 4, 5, 6]
    assert parts_of(row(options={"a": 1}))[3] != parts_of(row(options={"a": 2}))[3]
