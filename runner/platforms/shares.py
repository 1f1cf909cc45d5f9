"""From work counted by device and type to what is said of a run: one rule for every platform."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from domain.vocabulary import arithmetic_precision
from runner.platforms.base import Observation

__all__ = ["observation_of"]

_MIXED = frozenset({"int8", "int4", "fp8", "fp4", "amp-bf16", "amp-fp16"})
_MOST = 0.5


def observation_of(
    work: Counter[tuple[str, str]],
    name: str,
    *,
    at_home: Callable[[str], bool],
    platform_of: Callable[[str], str],
    details: dict[str, Any] | None = None,
) -> Observation:
    """Return what did the work, from FLOPs by (device, precision); at least one is counted.

    A plain precision is what carried most FLOPs, and everything else is fallback. A mixed or quantized one is what
    was asked for where it carried at least half; what it leaves wider by design is then no fallback.
    `details.devices` has the share of each, where several of them did the work.
    """
    total = work.total()
    arithmetic = "fp32" if name == "tf32" else arithmetic_precision(name)
    devices: Counter[str] = Counter()
    precisions: Counter[str] = Counter()
    for (device, precision), flops in work.items():
        devices[device] += flops
        precisions[precision] += flops
    device = devices.most_common(1)[0][0]
    home = sum(flops for (on, _), flops in work.items() if at_home(on))
    right = sum(flops for (on, kind), flops in work.items() if at_home(on) and kind == arithmetic)
    as_asked = name in _MIXED and right >= _MOST * total
    several = [on for on in devices if at_home(on)]
    placed = {"devices": {on: round(devices[on] / total, 4) for on in several}} if len(several) > 1 else {}
    seen = precisions.most_common(1)[0][0]
    precision = name if as_asked or (name == "tf32" and seen == "fp32") else seen
    share = precisions[arithmetic if precision == name else precision] / total
    return Observation(
        device=device,
        platform=platform_of(device),
        precision=precision,
        fallback_share=1 - (home if as_asked else right) / total,
        precision_share=share,
        details={**(details or {}), **placed},
    )
