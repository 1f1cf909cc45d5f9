"""What configurations need of a device's memory, and what a device has to give.

Where memory was measured under a runtime its needs are learned (`predictor.memory.kept`). Elsewhere a need is weights, keys
and values, a runtime, and live activations times what allocators usually make of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

from predictor.features.table import Array

__all__ = ["HEADROOM", "RUNTIME_BYTES", "Needs", "share_below", "unmeasured", "usable_bytes"]

HEADROOM = 0.1
"""Share of a device's memory that its context, its driver and what lies between allocations take."""
RUNTIME_BYTES = 1e9
"""What a runtime takes beside weights and activations; an order of magnitude, not a measurement."""
_RUNTIME_SPREAD_BYTES = 0.5e9
_WEIGHTS_SPREAD = 0.02
_ACTIVATIONS = {"inference": (1.6, 0.45), "training": (0.55, 0.6)}
"""Times the live activations of a trace that are needed, and the standard deviation of its log: medians over timm's lowered
batches on CUDA, where the batch fitted and the next did not (3,839 rows of inference, 3,044 of training)."""


class Needs(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Bytes at the peak, with the ends of their interval, and the chance that each fits; one entry a configuration.

    The chance is NaN where the room is not known. `learned` says whether memory was measured under the same runtime.
    """

    expected: Array
    low: Array
    high: Array
    fits: Array
    learned: NDArray[np.bool_]


def usable_bytes(memory_bytes: float | None) -> float | None:
    """Return the bytes that work may use of a device's memory; None where that is not known."""
    return None if memory_bytes is None else (1 - HEADROOM) * memory_bytes


def unmeasured(
    weights_bytes: Array | Sequence[float],
    activations_bytes: Array | Sequence[float],
    room_bytes: Array | Sequence[float],
    mode: str,
    nominal: float,
) -> Needs:
    """Return what is needed under a runtime whose memory was never measured.

    Keys and values count as weights. A need is log-normal. At inference it is never below weights and live activations;
    a training step can recompute or share what a trace counts.
    """
    weights, live, room = (
        np.asarray(item, dtype=np.float64) for item in (weights_bytes, activations_bytes, room_bytes)
    )
    times, of_activations = _ACTIVATIONS["training" if mode == "training" else "inference"]
    activations = times * live
    expected = RUNTIME_BYTES + weights + activations
    deviation = np.hypot(of_activations * activations, np.hypot(_WEIGHTS_SPREAD * weights, _RUNTIME_SPREAD_BYTES))
    spread = deviation / expected
    reach = NormalDist().inv_cdf((1 + nominal) / 2) * spread
    floor = np.zeros_like(expected) if mode == "training" else weights + live
    fits = np.where(room < floor, 0.0, share_below(np.log(room / expected) / spread))
    return Needs(
        expected=expected,
        low=np.maximum(expected * np.exp(-reach), floor),
        high=expected * np.exp(reach),
        fits=fits,
        learned=np.zeros(len(expected), dtype=np.bool_),
    )


share_below = np.vectorize(lambda deviation: 0.5 * math.erfc(-deviation * math.sqrt(0.5)), otypes=[np.float64])
"""Share of a normal distribution below so many standard deviations; SciPy has it too, and takes 0.2 s to import."""
