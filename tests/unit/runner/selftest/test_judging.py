"""Figures of self-tests whose meaning is known."""

from __future__ import annotations

import numpy as np
import pytest

from runner.selftest.checks import ARITHMETIC, arithmetic_of, memory_problem, precision_problem, timing_problem


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Round to so many bits of mantissa, as a narrower type does."""
    mantissa, exponent = np.frexp(values)
    return np.ldexp(np.round(mantissa * 2.0**bits) / 2.0**bits, exponent)


@pytest.mark.parametrize(("bits", "names"), [(24, "fp32"), (11, "tf32 or fp16"), (8, "bf16")])
def test_the_error_of_a_product_tells_its_arithmetic(bits: int, names: str) -> None:
    random = np.random.default_rng(0)
    left, right = random.standard_normal((2, 256, 256))
    got, exact = rounded(left, bits) @ rounded(right, bits), left @ right
    error = float(np.linalg.norm(got - exact) / np.linalg.norm(exact))
    assert arithmetic_of(error) == names
    for name in names.split(" or "):
        assert precision_problem(name, error) is None


def test_a_wider_and_a_narrower_arithmetic_are_both_not_what_was_asked_for() -> None:
    assert "is that of tf32 or fp16" in str(precision_problem("fp32", 3e-4))
    assert "is that of fp32" in str(precision_problem("bf16", 3e-7))
    assert "none that is known" in str(precision_problem("fp32", 0.5))
    assert {"fp32", "tf32", "fp16", "bf16"} == set(ARITHMETIC)


@pytest.mark.parametrize(
    ("samples", "wall", "queued", "device", "said"),
    [
        (100.0, 101.0, 95.0, None, None),
        (100.0, 101.0, 95.0, 97.0, None),
        (110.0, 100.0, 95.0, None, "another clock saw"),
        (60.0, 100.0, 55.0, None, "the loop took"),
        (2.0, 2.1, 80.0, None, "waiting returns too early"),
        (100.0, 101.0, 95.0, 140.0, "the device's own clock"),
        (100.0, 101.0, 95.0, 3.0, "the device's own clock"),
    ],
)
def test_times_that_cannot_be_right(
    samples: float, wall: float, queued: float, device: float | None, said: str | None
) -> None:
    found = timing_problem(samples, wall, queued, device)
    assert (found is None) if said is None else (said in str(found))


@pytest.mark.parametrize(
    ("counted", "said"), [(134, None), (330, None), (20, "20 bytes were counted where 134"), (900, "for 134 bytes")]
)
def test_memory_that_is_not_that_of_the_weights(counted: int, said: str | None) -> None:
    found = memory_problem(134, counted)
    assert (found is None) if said is None else (said in str(found))
