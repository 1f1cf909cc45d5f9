"""Whether outputs are right: compared with a reference, under tolerances that stand in one table.

Outputs are compared element by element; tokens until the first one that differs, which is excused where the reference
itself was undecided between the two; losses step by step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from domain.vocabulary import arithmetic_precision

__all__ = [
    "TOLERANCES",
    "Comparison",
    "Sensitivity",
    "TokenAgreement",
    "Tolerance",
    "compare",
    "compare_losses",
    "compare_tokens",
    "fingerprint",
    "sensitivity_between",
    "table",
    "tolerance_for",
    "widened",
    "worst",
]


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """`cosine`: the least similarity. `relative`: the largest |difference| over the largest |reference|.

    `loss`: the largest difference of the first step's loss over the reference's.
    """

    cosine: float
    relative: float
    loss: float


TOLERANCES = {
    "fp32": Tolerance(cosine=0.9999, relative=1e-3, loss=1e-4),
    "tf32": Tolerance(cosine=0.999, relative=1e-2, loss=1e-3),
    "fp16": Tolerance(cosine=0.999, relative=3e-2, loss=5e-3),
    "bf16": Tolerance(cosine=0.99, relative=1.5e-1, loss=2e-2),
    "fp8": Tolerance(cosine=0.97, relative=3e-1, loss=5e-2),
    "int8": Tolerance(cosine=0.97, relative=3e-1, loss=5e-2),
    "int4": Tolerance(cosine=0.90, relative=6e-1, loss=1e-1),
    "fp4": Tolerance(cosine=0.90, relative=6e-1, loss=1e-1),
}
"""By the precision that was asked for. Mixed forms count as their arithmetic type."""


class Sensitivity(msgspec.Struct, frozen=True, kw_only=True):
    """How an output of the reference moves when nothing but its weights and inputs are rounded to bf16.

    `relative`: the largest |change| over the largest |value|; `cosine_loss`: 1 − cosine similarity.
    """

    relative: float
    cosine_loss: float


UNIT_ROUNDOFF = {"fp32": 2.0**-24, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
"""Relative error of one rounding; the types that have one, all others keep to the table."""
ARITHMETIC_OVER_ROUNDING = 4.0
"""How much more than rounding weights and inputs all the rounding in between may do."""
LEAST_COSINE, MOST_RELATIVE = 0.9, 0.5
"""Beyond these nothing is left of an output to verify, however sensitive it is."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One output against its reference; `max_relative` is over the largest reference value, elements apart.

    `conditioning` is what rounding weights and inputs alone does to it, where that is more than the table allows for.
    """

    name: str
    passed: bool
    shape: list[int]
    reference_shape: list[int]
    not_finite: int
    cosine: float | None = None
    max_absolute: float | None = None
    max_relative: float | None = None
    conditioning: float | None = None
    why: str | None = None


def tolerance_for(precision: str) -> Tolerance:
    """Return the tolerance of a precision; fp32's, the strictest, where the table has none."""
    return TOLERANCES.get(arithmetic_precision(precision), TOLERANCES["fp32"])


def widened(tolerance: Tolerance, precision: str, sensitivity: Sensitivity | None) -> Tolerance:
    """Return the tolerance for one output: the table's, or what its own conditioning makes unavoidable.

    A similarity of two nearly orthogonal vectors is the small rest of large terms that cancel; rounding its inputs
    moves it by per cents, and no arithmetic can give them back. Errors grow in proportion to the unit roundoff, and
    1 − cosine with its square.
    """
    roundoff = UNIT_ROUNDOFF.get(arithmetic_precision(precision))
    if sensitivity is None or roundoff is None:
        return tolerance
    factor = ARITHMETIC_OVER_ROUNDING * roundoff / UNIT_ROUNDOFF["bf16"]
    return Tolerance(
        cosine=min(tolerance.cosine, max(LEAST_COSINE, 1 - factor**2 * sensitivity.cosine_loss)),
        relative=max(tolerance.relative, min(MOST_RELATIVE, factor * sensitivity.relative)),
        loss=tolerance.loss,
    )


def compare(
    name: str,
    output: Any,
    reference: Any,
    tolerance: Tolerance,
    sensitivity: Sensitivity | None = None,
    precision: str = "fp32",
) -> Comparison:
    """Compare two float arrays, under the tolerance as `widened` by the output's sensitivity."""
    table_tolerance, tolerance = tolerance, widened(tolerance, precision, sensitivity)
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
    ravel = output[finite].astype(np.float64).ravel()
    other = reference[finite].astype(np.float64).ravel()
    cosine, absolute, relative = _distances(ravel, other)
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
        conditioning=sensitivity.relative if sensitivity and tolerance != table_tolerance else None,
        why=None if passed else why,
        shape=shape,
        reference_shape=reference_shape,
    )


def sensitivity_between(output: Any, rounded: Any) -> Sensitivity | None:
    """Return how far an output moved; None where it is not finite or changed its shape."""
    import numpy as np

    if output.shape != rounded.shape or not np.array_equal(np.isfinite(output), np.isfinite(rounded)):
        return None
    finite = np.isfinite(output)
    cosine, _, relative = _distances(
        rounded[finite].astype(np.float64).ravel(), output[finite].astype(np.float64).ravel()
    )
    return Sensitivity(relative=relative, cosine_loss=1 - cosine)


def _distances(item: Any, other: Any) -> tuple[float, float, float]:
    import numpy as np

    if item.size == 0:
        return 1.0, 0.0, 0.0
    # Sums and not dots: OpenBLAS was seen waiting for ever for a thread that it had not woken.
    norms = math.sqrt(float((item * item).sum()) * float((other * other).sum()))
    absolute = float(np.abs(item - other).max())
    scale = float(np.abs(other).max())
    cosine = float((item * other).sum()) / norms if norms else (1.0 if absolute == 0 else 0.0)
    relative = absolute / scale if scale else (0.0 if absolute == 0 else math.inf)
    return min(1.0, cosine), absolute, min(relative, 1e300)


class TokenAgreement(msgspec.Struct, frozen=True, kw_only=True):
    """Greedy tokens beside the reference's: the share that is equal (0–1), and the first step at which one differs.

    `margin` is how much the reference preferred its own token there, over its largest logit; None where the other
    token was not among its likeliest.
    """

    passed: bool
    share: float
    compared: int
    first_divergence: int | None = None
    item: int | None = None
    margin: float | None = None
    allowed: float

    def comparison(self) -> Comparison:
        """Return it as one more output."""
        why = None
        if not self.passed:
            margin = "not among its likeliest" if self.margin is None else f"{self.margin:.3g} of the largest logit"
            why = (
                f"{self.share:.0%} of the tokens are equal; at step {self.first_divergence} of item {self.item} "
                f"another token was chosen, which the reference ranks lower by {margin} (at most {self.allowed:.3g})"
            )
        return Comparison(
            name="tokens", passed=self.passed, shape=[], reference_shape=[], not_finite=0, cosine=self.share, why=why
        )


def compare_tokens(tokens: Any, reference: Mapping[str, Any], tolerance: Tolerance) -> TokenAgreement:
    """Compare tokens [batch, steps] with the reference's `tokens`, `top_ids` and `top_logits`.

    Rounding may tip the choice between two tokens that the reference holds almost equal, and all that follows is
    then another text. So each item is judged at its first difference: the reference's logits of the two tokens may
    lie apart by twice the relative tolerance, because each of them may be wrong by once.
    """
    import numpy as np

    expected, allowed = reference["tokens"], 2 * tolerance.relative
    share = float((tokens == expected).mean())
    worst: tuple[float, int, int, float | None] | None = None
    for item in np.flatnonzero((tokens != expected).any(axis=1)):
        step = int(np.argmax(tokens[item] != expected[item]))
        ids, logits = reference["top_ids"][step, item], reference["top_logits"][step, item]
        place = np.flatnonzero(ids == tokens[item, step])
        margin = float((logits[0] - logits[place[0]]) / np.abs(logits).max()) if place.size else None
        badness = np.inf if margin is None else margin
        if worst is None or badness > worst[0]:
            worst = (badness, step, int(item), margin)
    if worst is None:
        return TokenAgreement(passed=True, share=share, compared=tokens.size, allowed=allowed)
    badness, step, worst_item, margin = worst
    return TokenAgreement(
        passed=bool(badness <= allowed),
        share=share,
        compared=tokens.size,
        first_divergence=step,
        item=worst_item,
        margin=margin,
        allowed=allowed,
    )


def compare_losses(
    losses: Sequence[float], reference: Sequence[float], tolerance: Tolerance, *, finite: bool
) -> list[Comparison]:
    """Judge losses of steps on one batch: finite with their gradients, the first as the reference's, and falling.

    They have to fall only where the reference's did.
    """
    bad = sum(not math.isfinite(loss) for loss in losses)
    first = abs(losses[0] - reference[0]) / max(abs(reference[0]), 1e-12) if math.isfinite(losses[0]) else math.inf
    falls, falling = losses[-1] < losses[0], reference[-1] < reference[0]
    document = [
        ("losses", not bad, f"{bad} of {len(losses)} losses are NaN or infinite", bad),
        ("gradients", finite, "a gradient is NaN or infinite", int(not finite)),
        ("first loss", first <= tolerance.loss, f"off by {first:.3g} (at most {tolerance.loss:g})", 0),
        ("falling loss", falls or not falling, f"{losses[0]:.6g} became {losses[-1]:.6g}", 0),
    ]
    return [
        Comparison(
            name=name,
            passed=passed,
            shape=[],
            reference_shape=[],
            not_finite=count,
            max_relative=min(first, 1e300) if name == "first loss" else None,
            why=None if passed else why,
        )
        for name, passed, why, count in document
    ]


def fingerprint(output: Any) -> dict[str, Any]:
    """Return what is kept of an output to compare with another day: its shape, its size, and 16 of its values."""
    import numpy as np

    flat = np.asarray(output, dtype=np.float64).ravel()
    chosen = flat[np.linspace(0, flat.size - 1, min(16, flat.size)).astype(int)] if flat.size else flat
    finite = flat[np.isfinite(flat)]
    norm = math.sqrt(float((finite * finite).sum()))
    return {
        "shape": list(output.shape),
        "norm": norm,
        "largest": float(np.abs(flat[np.isfinite(flat)]).max()) if np.isfinite(flat).any() else None,
        "sample": [float(value) if math.isfinite(value) else None for value in chosen],
    }


def table() -> str:
    """Return the tolerances as the Markdown table of docs/verification.md."""
    head = "| precision | cosine similarity, at least | largest absolute difference over the largest reference value, at most | first training loss, relative, at most |"
    rows = [f"| {name} | {each.cosine:g} | {each.relative:g} | {each.loss:g} |" for name, each in TOLERANCES.items()]
    return "\n".join([head, "| --- | --- | --- | --- |", *rows])


def worst(comparisons: Sequence[Comparison]) -> Comparison:
    """Return the one that failed, or the least similar."""
    return min(comparisons, key=lambda each: (each.passed, each.cosine if each.cosine is not None else -2.0))
