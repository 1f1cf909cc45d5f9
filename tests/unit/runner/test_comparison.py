"""Comparing outputs on arrays with the known answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runner.comparison import TOLERANCES, compare, tolerance_for, worst

REFERENCE = np.linspace(-2.0, 2.0, 200, dtype=np.float32).reshape(2, 100)


def test_equal_arrays_pass_with_no_distance() -> None:
    found = compare("y", REFERENCE.copy(), REFERENCE, TOLERANCES["fp32"])
    assert found.passed and found.max_absolute == 0 and found.cosine == pytest.approx(1)


def test_distances_are_the_largest_and_relative_to_the_largest_reference() -> None:
    output = REFERENCE.copy()
    output[0, 0] += 0.1
    found = compare("y", output, REFERENCE, TOLERANCES["bf16"])
    assert found.passed
    assert found.max_absolute == pytest.approx(0.1, rel=1e-5)
    assert found.max_relative == pytest.approx(0.05, rel=1e-5)
    assert not compare("y", output, REFERENCE, TOLERANCES["fp32"]).passed


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_fails_and_is_counted(bad: float) -> None:
    output = REFERENCE.copy()
    output[1, 3] = bad
    found = compare("y", output, REFERENCE, TOLERANCES["int4"])
    assert not found.passed and found.not_finite == 1 and "infinite" in (found.why or "")


def test_infinities_that_the_reference_has_too_are_right() -> None:
    masked = REFERENCE.copy()
    masked[0, :5] = -np.inf
    assert compare("y", masked.copy(), masked, TOLERANCES["fp32"]).passed


def test_another_shape_fails_even_with_the_same_values() -> None:
    found = compare("y", REFERENCE.reshape(100, 2), REFERENCE, TOLERANCES["fp32"])
    assert not found.passed and found.shape == [100, 2] and found.reference_shape == [2, 100]


def test_a_reversed_output_has_the_right_size_and_fails_by_its_direction() -> None:
    assert not compare("y", -REFERENCE, REFERENCE, TOLERANCES["int4"]).passed


def test_zeros_against_zeros_pass_and_against_anything_fail() -> None:
    zeros = np.zeros((2, 2), np.float32)
    assert compare("y", zeros, zeros, TOLERANCES["fp32"]).passed
    assert not compare("y", np.ones((2, 2), np.float32), zeros, TOLERANCES["fp32"]).passed


def test_tolerances_widen_with_fewer_bits_and_mixed_forms_use_their_arithmetic() -> None:
    relative = [TOLERANCES[name].relative for name in ("fp32", "tf32", "fp16", "bf16", "int8", "int4")]
    assert relative == sorted(relative)
    assert tolerance_for("amp-bf16") == TOLERANCES["bf16"]
    assert tolerance_for("unheard-of") == TOLERANCES["fp32"]


def test_the_worst_is_one_that_failed() -> None:
    good = compare("a", REFERENCE, REFERENCE, TOLERANCES["fp32"])
    bad = compare("b", -REFERENCE, REFERENCE, TOLERANCES["fp32"])
    assert worst([good, bad]).name == "b"


def test_the_documented_table_is_the_one_in_use() -> None:
    page = (Path(__file__).parents[3] / "docs" / "verification.md").read_text()
    for name, tolerance in TOLERANCES.items():
        assert f"| {name} | {tolerance.cosine:g} | {tolerance.relative:g} |" in page
