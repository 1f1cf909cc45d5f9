"""Kernels and devices as columns: what physics and trees read, one entry a kernel."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from domain.performance.roofline import Limits
from predictor.features.table import Array

__all__ = ["ATTENTION", "CLASSES", "MOVING", "MOVING_KINDS", "PRODUCT", "SIZES", "Columns", "device_columns"]

PRODUCT, ATTENTION, MOVING = "product", "attention", "moving"
CLASSES = (PRODUCT, ATTENTION, MOVING)
"""Classes of kernels that are modelled apart: matrix products and convolutions, attention, and what only moves memory."""

SIZES: dict[str, tuple[str, ...]] = {
    PRODUCT: ("batch", "m", "n", "k", "area", "left_bytes", "right_bytes", "out_bytes"),
    ATTENTION: ("batch", "heads", "kv_heads", "queries", "keys", "width", "causal", "bytes", "kv_bytes"),
    MOVING: ("rows", "row", "moved", "kind", "bytes"),
}
"""The sizes of a kernel of each class. A product is (batch, m, k) times (k, n); a convolution is one over its patches,
whose input is read once an `area` of its kernel. A moving kernel reads and writes `moved` elements for each of `rows`
rows of `row` elements that it makes."""
MOVING_KINDS = ("elementwise", "costly elementwise", "norm", "softmax", "copy", "reduce", "embedding")
_DEFAULT_UNITS = 1.0
_DEFAULT_CACHE = 4e6
_DEFAULT_CLOCK = 1.8e9
_DEFAULT_YEAR = 2020.0


class Columns(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Kernels of one class: their sizes by name, the device of each, and how each was launched.

    `device` holds `peak` (FLOP/s), `bandwidth` (bytes/s), `units`, `cache` (bytes), `clock` (Hz), `power` (W an FLOP/s of
    peak, NaN where not known) and `year`. `regime` says how a kernel is launched and timed: `graph`, `eager` …
    """

    sizes: dict[str, Array]
    device: dict[str, Array]
    regime: np.ndarray

    def __len__(self) -> int:
        return len(self.regime)

    def take(self, chosen: np.ndarray) -> Columns:
        """Return the chosen kernels, by indexes or by a mask."""
        return Columns(
            sizes={name: values[chosen] for name, values in self.sizes.items()},
            device={name: values[chosen] for name, values in self.device.items()},
            regime=self.regime[chosen],
        )


def device_columns(limits: Sequence[Limits]) -> dict[str, Array]:
    """Return the device columns of kernels that run under these limits; what a device does not say is usual."""

    def column(values: list[float | None], default: float) -> Array:
        return np.array([default if value is None else value for value in values], dtype=np.float64)

    peak = np.array([item.peak_flops for item in limits])
    power = column([item.power_w for item in limits], np.nan)
    return {
        "peak": peak,
        "bandwidth": np.array([item.bandwidth_bytes_per_s for item in limits]),
        "units": column([item.units for item in limits], _DEFAULT_UNITS),
        "cache": column([item.cache_bytes for item in limits], _DEFAULT_CACHE),
        "clock": column([item.clock_hz for item in limits], _DEFAULT_CLOCK),
        "power": power / peak,
        "year": column([None if item.year is None else float(item.year) for item in limits], _DEFAULT_YEAR),
    }
