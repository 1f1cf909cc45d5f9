"""A prediction taken apart: the roofline's parts, and what was learned beyond it, in ms that add up to it.

The roofline is a sum, and its parts are exact. What is learned multiplies it: prediction = roofline · exp(Σ cᵢ). A
factor has no milliseconds of its own, so each cᵢ gets L · cᵢ, L being the logarithmic mean of prediction and roofline,
(a − b) ÷ ln(a ÷ b). The sum of them is the difference then, none depends on the order in which the factors are taken,
and no rest is left over (the LMDI of Ang, *Energy Policy* 32, 2004).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from domain import answers
from domain.performance.roofline import Roofline
from predictor.explaining.groups import COMPUTE, LAUNCHES, MEMORY
from predictor.explaining.kernels import KernelSum

__all__ = [
    "CALIBRATION",
    "HOST",
    "SIBLING",
    "USUAL",
    "Explanation",
    "Part",
    "explain",
    "explain_kernels",
    "explain_shares",
]

USUAL = "usual overhead"
"""How far real software usually lies from the roofline: what the trees would say of a model they know nothing of."""
CALIBRATION = "this device's calibration"
SIBLING = "a sibling device's measurement"
"""What this model took elsewhere under the same software, beside what the trees or the roofline would say."""
HOST = "launches of the host"
"""What the host takes to launch the operators, as far as the device does not work meanwhile."""
_WORDS = {"compute": "compute-bound", "memory": "bandwidth-bound", "launch": "launch-bound"}
Times = TypeVar("Times", answers.KernelTime, answers.OperatorTime)
_WHAT = {"compute": "arithmetic", "memory": "traffic to and from memory", "launch": "starting operators"}


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One group's share in ms: `roofline_ms` by physics, `learned_ms` beyond it (below 0: faster than that)."""

    group: str
    roofline_ms: float
    learned_ms: float

    @property
    def ms(self) -> float:
        """Both together."""
        return self.roofline_ms + self.learned_ms


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """`parts` add up to `latency_ms`, largest first; `by_class_ms` and `bottleneck` (compute, memory or launch) are the
    roofline's, `kernels` what the kernel model says."""

    latency_ms: float
    roofline_ms: float
    bottleneck: str
    told: str
    parts: tuple[Part, ...]
    by_class_ms: dict[str, float]
    kernels: KernelSum | None = None

    def document(self) -> answers.Explanation:
        """Return it as answers have it, with six significant digits."""
        return answers.Explanation(
            latency_ms=_figures(self.latency_ms),
            roofline_ms=_figures(self.roofline_ms),
            bottleneck=self.bottleneck,
            told=self.told,
            parts=[
                answers.Part(
                    group=part.group,
                    roofline_ms=_figures(part.roofline_ms),
                    learned_ms=_figures(part.learned_ms),
                    ms=_figures(part.ms),
                )
                for part in self.parts
            ],
            by_class_ms={name: _figures(value) for name, value in sorted(self.by_class_ms.items())},
            kernels=None if self.kernels is None else [_rounded(item) for item in self.kernels.classes],
            longest=None if self.kernels is None else [_rounded(item) for item in self.kernels.longest],
        )

    def brief(self) -> answers.BriefExplanation:
        """Return the sentence and the two largest parts, as a ranked option has them."""
        parts = [answers.BriefPart(group=part.group, ms=_figures(part.ms)) for part in self.parts[:2]]
        return answers.BriefExplanation(told=self.told, parts=parts)


def _figures(value: float) -> float:
    return float(f"{value:.6g}")


def _rounded(item: Times) -> Times:
    values = {name: value for name in item.__struct_fields__ if isinstance(value := getattr(item, name), float)}
    return msgspec.structs.replace(item, **{name: _figures(value) for name, value in values.items()})


def explain(latency_ms: float, floor: Roofline, learned: Mapping[str, float], rest: str = CALIBRATION) -> Explanation:
    """Return the parts of a predicted latency.

    `learned` maps groups to what the trees add to log(latency / roofline). What they leave unsaid is the `rest`: the
    device's calibration, or where no trees were asked all that stands between the roofline and the prediction.
    """
    factors = dict(learned)
    total = math.log(latency_ms / floor.latency_ms)
    left = total - sum(factors.values())
    if abs(left) > 1e-9:
        factors[rest] = factors.get(rest, 0.0) + left
    mean = _logarithmic_mean(latency_ms, floor.latency_ms)
    return _told(latency_ms, floor, {group: mean * factor for group, factor in factors.items()})


def explain_shares(latency_ms: float, floor: Roofline, shares: Mapping[str, float]) -> Explanation:
    """Return the parts of a predicted latency of which a method says itself which share each group takes."""
    physics = _physics(floor)
    beyond = {
        group: latency_ms * shares.get(group, 0.0) - physics.get(group, 0.0)
        for group in dict.fromkeys((*physics, *shares))
    }
    return _told(latency_ms, floor, beyond)


def explain_kernels(latency_ms: float, floor: Roofline, kernels: KernelSum, rest: str) -> Explanation:
    """Return the parts of a latency that is a sum of kernels: each class of them, what the host's launches add, and the rest.

    A class has its own operators' share of the roofline; the host has none of it.
    """
    own = [
        Part(group=item.kind, roofline_ms=(roof := kernels.roofline_ms[item.kind]), learned_ms=item.ms - roof)
        for item in kernels.classes
    ]
    host = Part(group=HOST, roofline_ms=0.0, learned_ms=kernels.host_ms)
    beyond = Part(group=rest, roofline_ms=0.0, learned_ms=latency_ms - kernels.total_ms)
    return _of_parts(latency_ms, floor, [*own, host, beyond])


def _told(latency_ms: float, floor: Roofline, learned_ms: Mapping[str, float]) -> Explanation:
    physics = _physics(floor)
    parts = [
        Part(group=group, roofline_ms=physics.get(group, 0.0), learned_ms=learned_ms.get(group, 0.0))
        for group in dict.fromkeys((*physics, *learned_ms))
    ]
    return _of_parts(latency_ms, floor, parts)


def _of_parts(latency_ms: float, floor: Roofline, parts: Sequence[Part]) -> Explanation:
    return Explanation(
        latency_ms=latency_ms,
        roofline_ms=floor.latency_ms,
        bottleneck=floor.bound,
        told=_sentence(floor, _physics(floor)),
        parts=tuple(sorted(parts, key=lambda part: (-abs(part.ms), part.group))),
        by_class_ms=dict(floor.by_class_ms),
    )


def _physics(floor: Roofline) -> dict[str, float]:
    """Each operator's time is its arithmetic or its traffic, whichever is longer, and its launch."""
    bandwidth_ms = floor.latency_ms - floor.launch_ms - floor.compute_bound_ms
    return {COMPUTE: floor.compute_bound_ms, MEMORY: bandwidth_ms, LAUNCHES: floor.launch_ms}


def _sentence(floor: Roofline, physics: Mapping[str, float]) -> str:
    share = physics[{"compute": COMPUTE, "memory": MEMORY, "launch": LAUNCHES}[floor.bound]] / floor.latency_ms
    return f"{_WORDS[floor.bound]}: {share:.0%} of the roofline is {_WHAT[floor.bound]}"


def _logarithmic_mean(value: float, other: float) -> float:
    ratio = math.log(value / other)
    # Near 1 the quotient would be 0 / 0; the geometric mean is the limit, and its error the square of the ratio.
    return math.sqrt(value * other) if abs(ratio) < 1e-6 else (value - other) / ratio
