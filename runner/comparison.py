"""Whether outputs are right: compared with a reference, under tolerances that stand in one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec

__all__ = ["TOLERANCES", "Comparison", "Tolerance", "compare", "tolerance_for", "worst"]


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """`cosine`: the least similarity. `relative`: the largest |difference| over the largest |reference|."""

    cosine: float
    relative: float


TOLERANCES = {
    "fp32": Tolerance(cosine=0.9999, relative=1e-3),
    "tf32": Tolerance(cosine=0.999, relative=1e-2),
    "fp16": Tolerance(cosine=0.999, relative=3e-2),
    "bf16": Tolerance(cosine=0.99, relative=1.5e-1),
    "fp8": Tolerance(cosine=0.97, relative=3e-1),
    "int8": Tolerance(cosine=0.97, relative=3e-1),
    "int4": Tolerance(cosine=0.90, relative=6e-1),
    "fp4": Tolerance(cosine=0.90, relative=6e-1),
}
"""By the precision that was asked for. Mixed forms count as their arithmetic type."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One output against its reference; `max_relative` is over the largest reference value, elements apart."""

    name: str
    passed: bool
    shape: list[int]
    reference_shape: list[int]
    not_finite: int
    cosine: float | None = None
    max_absolute: float | None = None
    max_relative: float | None = None
    why: str | None = None


def tolerance_for(precision: str) -> Tolerance:
    """Return the tolerance of a precision; fp32's, the strictest, where the table has none."""
    return TOLERANCES.get(precision.removeprefix("amp-"), TOLERANCES["fp32"])


def compare(name: str, output: Any, reference: Any, tolerance: Tolerance) -> Comparison:
    """Compare two float arrays."""
    import numpy as np

    shape, reference_shape = list(output.shape), list(reference.shape)
    not_finite = int(output.size - np.isfinite(output).sum())
    if output.shape != reference.shape:
        why = f"the shape is {list(output.shape)}, not {list(reference.shape)}"
        return Comparison(
            name=name, passed=False, shape=shape, reference_shape=reference_shape, not_finite=not_finite, why=why
        )
    # Masked logits are -inf in the reference too; only what the reference has finite can be compared.
    finite = np.isfinite(reference)
    wrong = int((np.isfinite(output) != finite).sum())
    if wrong:
        why = f"{wrong} elements are NaN or infinite on one side only"
        return Comparison(
            name=name, passed=False, shape=shape, reference_shape=reference_shape, not_finite=not_finite, why=why
        )
    one = output[finite].astype(np.float64).ravel()
    other = reference[finite].astype(np.float64).ravel()
    cosine, absolute, relative = _distances(one, other)
    passed = cosine >= tolerance.cosine and relative <= tolerance.relative
    why = (
        f"cosine {cosine:.6f} (at least {tolerance.cosine}), "
        f"largest relative error {relative:.3g} (at most {tolerance.relative:g})"
    )
    return Comparison(
        name=name,
        passed=passed,
        not_finite=not_finite,
        cosine=cosine,
        max_absolute=absolute,
        max_relative=relative,
        why=None if passed else why,
        shape=shape,
        reference_shape=reference_shape,
    )


def _distances(one: Any, other: Any) -> tuple[float, float, float]:
    import numpy as np

    if one.size == 0:
        return 1.0, 0.0, 0.0
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    absolute = float(np.abs(one - other).max())
    scale = float(np.abs(other).max())
    cosine = float(np.dot(one, other)) / norms if norms else (1.0 if absolute == 0 else 0.0)
    relative = absolute / scale if scale else (0.0 if absolute == 0 else math.inf)
    return min(1.0, cosine), absolute, min(relative, 1e300)


def worst(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the one that failed, or the least similar."""
    return min(comparisons, key=lambda each: (each.passed, each.cosine if each.cosine is not None else -2.0))
