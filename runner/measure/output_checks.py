"""Verification inside the child: what a case gives, compared with the reference, for each kind of work."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from runner.campaign.discovery import Announcer
from runner.measure.output_comparison import (
    Comparison,
    compare,
    compare_losses,
    compare_tokens,
    fingerprint,
    tolerance_for,
    widened,
)
from runner.measure.prepared_case import Ready
from runner.protocol.tasks import Case

__all__ = ["check_work"]


def check_work(ready: Ready, case: Case, speaker: Announcer) -> dict[str, Any]:
    """Return `outputs` (comparisons), `missing` names, the `tolerance`, `deterministic`, and `values` for later.

    `values` are what a recorded expectation holds: a few numbers of each output, the tokens, or the losses.
    """
    check = {"inference": _forward, "generation": _generation, "training": _training}[ready.purpose]
    result = check(ready, case, speaker)
    return {
        "tolerance": msgspec.to_builtins(tolerance_for(case.precision)),
        "kind": ready.purpose,
        "missing": [],
        **result,
    }


def _forward(ready: Ready, case: Case, speaker: Announcer) -> dict[str, Any]:
    import numpy as np

    platform, inputs = ready.platform, ready.inputs
    speaker.reach("first_run")
    first = platform.outputs(platform.run(inputs))
    speaker.reach("run")
    again = platform.outputs(platform.run(inputs))
    speaker.reach("verify")
    result = dict(first)
    tolerance = tolerance_for(case.precision)
    comparisons = [
        compare(name, result[name], expected, tolerance, ready.sensitivities.get(name), case.precision)
        for name, expected in ready.reference.items()
        if name in result
    ]
    same = all(np.array_equal(a, b, equal_nan=True) for (_, a), (_, b) in zip(first, again, strict=True))
    return {
        "missing": sorted(ready.reference.keys() - result.keys()),
        "outputs": msgspec.to_builtins(comparisons),
        "deterministic": same,
        "values": {name: fingerprint(output) for name, output in first},
    }


def _generation(ready: Ready, case: Case, speaker: Announcer) -> dict[str, Any]:
    import numpy as np

    speaker.reach("first_run")
    tokens, logits = _generated(ready, case)
    speaker.reach("run")
    again, _ = _generated(ready, case)
    speaker.reach("verify")
    tolerance, sensitivity = tolerance_for(case.precision), ready.sensitivities.get("logits")
    agreement = compare_tokens(tokens, ready.reference, widened(tolerance, case.precision, sensitivity))
    first = compare("logits", logits, ready.reference["logits"], tolerance, sensitivity, case.precision)
    comparisons = [first, agreement.comparison()]
    return {
        "outputs": msgspec.to_builtins(comparisons),
        "tokens": msgspec.to_builtins(agreement),
        "deterministic": bool(np.array_equal(tokens, again)),
        "values": {"tokens": tokens[:, :64].tolist(), "logits": fingerprint(logits)},
    }


def _generated(ready: Ready, case: Case) -> tuple[Any, Any]:
    """Return tokens [batch, steps] and the logits of the first step."""
    import numpy as np

    steps: Any = ready.work.steps  # type: ignore[union-attr]
    chosen, first = [], None
    for index in range(case.workload.output_tokens or 1):
        steps.decode() if index else steps.prefill()
        ready.platform.synchronize()
        first = steps.logits().copy() if first is None else first
        chosen.append(steps.tokens())
    return np.concatenate(chosen, axis=1), first


def _training(ready: Ready, case: Case, speaker: Announcer) -> dict[str, Any]:
    from runner.measure.reference_outputs import TRAINING_RATES, TRAINING_STEPS

    rate = TRAINING_RATES[case.workload.optimizer or "adamw"]
    steps = ready.trainer(case.workload, rate)
    losses, finite = [], True
    for index in range(TRAINING_STEPS):
        speaker.reach("run" if index else "first_run")
        steps.forward()
        losses.append(steps.loss())
        steps.backward()
        finite = finite and steps.gradients_finite()
        steps.update()
    speaker.reach("verify")
    tolerance = tolerance_for(case.precision)
    judged: list[Comparison] = compare_losses(losses, ready.reference["losses"].tolist(), tolerance, finite=finite)
    kept = [loss if math.isfinite(loss) else None for loss in losses]
    return {"outputs": msgspec.to_builtins(judged), "deterministic": None, "values": {"losses": kept}}
