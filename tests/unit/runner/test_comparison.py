"""Comparing outputs on arrays with the known answer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runner.measure.output_comparison import (
    TOLERANCES,
    Sensitivity,
    compare,
    compare_losses,
    compare_tokens,
    table,
    tolerance_for,
    widened,
    worst,
)

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
    assert table() in page


def reference_tokens(margin: float) -> dict[str, np.ndarray]:
    """One item, three steps; the runner-up lies `margin` below a likeliest logit of 10."""
    ids = np.tile(np.arange(4), (3, 1, 1))
    logits = np.tile(np.array([10.0, 10.0 - margin, 5.0, 1.0]), (3, 1, 1))
    return {"tokens": np.zeros((1, 3), int), "top_ids": ids, "top_logits": logits}


def test_equal_tokens_pass_whatever_the_margin() -> None:
    found = compare_tokens(np.zeros((1, 3), int), reference_tokens(1e-9), TOLERANCES["fp32"])
    assert found.passed and found.share == 1.0 and found.first_divergence is None


def test_a_near_tie_is_excused_and_a_clear_choice_is_not() -> None:
    other = np.array([[0, 1, 3]])
    near = compare_tokens(other, reference_tokens(0.01), TOLERANCES["fp32"])
    assert near.passed and near.first_divergence == 1 and near.share == pytest.approx(1 / 3)
    assert near.margin == pytest.approx(0.001)
    clear = compare_tokens(other, reference_tokens(1.0), TOLERANCES["fp32"])
    assert not clear.passed and "step 1" in (clear.comparison().why or "")
    assert compare_tokens(other, reference_tokens(1.0), TOLERANCES["bf16"]).passed


def test_a_token_far_from_the_likeliest_fails_in_any_precision() -> None:
    found = compare_tokens(np.array([[99, 0, 0]]), reference_tokens(0.01), TOLERANCES["int4"])
    assert not found.passed and found.margin is None


def judged(losses: list[float], *, finite: bool = True) -> dict[str, bool]:
    found = compare_losses(losses, [2.0, 1.9, 1.8], TOLERANCES["bf16"], finite=finite)
    return {each.name: each.passed for each in found}


def test_losses_have_to_be_finite_fall_and_begin_as_the_reference() -> None:
    assert all(judged([2.01, 1.9, 1.85]).values())
    assert not judged([2.2, 1.9, 1.8])["first loss"]
    assert not judged([2.0, 2.0, 2.1])["falling loss"]
    assert not judged([2.0, float("nan"), float("nan")])["losses"]
    assert not judged([2.0, 1.9, 1.8], finite=False)["gradients"]
    assert not judged([float("nan")] * 3)["first loss"]


def test_an_ill_conditioned_output_is_judged_by_what_rounding_alone_does() -> None:
    """A similarity of nearly orthogonal vectors: rounding its inputs to bf16 moves it by 10 %."""
    similarity, off = np.array([0.29], np.float32), np.array([0.36], np.float32)
    sensitive = Sensitivity(relative=0.1, cosine_loss=0.0)
    assert not compare("s", off, similarity, TOLERANCES["bf16"], None, "bf16").passed
    excused = compare("s", off, similarity, TOLERANCES["bf16"], sensitive, "bf16")
    assert excused.passed and excused.conditioning == 0.1
    assert not compare("s", off, similarity, TOLERANCES["fp32"], sensitive, "fp32").passed
    assert not compare("s", -similarity, similarity, TOLERANCES["bf16"], sensitive, "bf16").passed


def test_a_well_conditioned_output_keeps_the_table() -> None:
    calm = Sensitivity(relative=1e-4, cosine_loss=1e-9)
    assert widened(TOLERANCES["bf16"], "bf16", calm) == TOLERANCES["bf16"]
    assert widened(TOLERANCES["int8"], "int8", Sensitivity(relative=0.3, cosine_loss=0.1)) == TOLERANCES["int8"]


def test_however_sensitive_half_of_an_output_has_to_be_there() -> None:
    wild = widened(TOLERANCES["bf16"], "bf16", Sensitivity(relative=9.0, cosine_loss=0.9))
    assert (wild.relative, wild.cosine) == (0.5, 0.9)
