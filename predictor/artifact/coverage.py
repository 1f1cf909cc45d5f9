"""What the trees were trained on, and whether a configuration lies within it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import cached_property, lru_cache

import msgspec
import numpy as np

from domain.catalogues.hardware import HardwareSpec
from domain.performance.roofline import OPERATOR_CLASSES, Limits
from predictor.features.dataset import Row
from predictor.features.features import FEATURES, Software, features_of
from predictor.features.operators_route import SpecOf
from predictor.features.table import Array, Table
from predictor.features.traces import Trace

__all__ = ["NEAR_ROWS", "Coverage", "coverage_of", "op_mix"]

NEAR_ROWS = 100
"""An interval is supported where so many rows of the software trained within a factor of two of batch and size."""
NEAR_BANDWIDTH = 1.5
"""Devices of one architecture are alike where their memories are as fast up to this factor: an A100 is no RTX 3090."""

# A fixed device, so that the mix is a property of the model: 100 TFLOP/s, 1 TB/s, two bytes an element.
_REFERENCE = Limits(peak_flops=1e14, bandwidth_bytes_per_s=1e12, launch_s=0.0, activation_bytes=2.0, weight_bytes=2.0)
_FIRST_SHARE = FEATURES.index(f"time_share.{OPERATOR_CLASSES[0]}")


class Coverage(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What the training data covers; outside of it the trees are not asked.

    `software` lists (platform, runtime, precision, compiled, mode); `makers` (kind, vendor) of the devices. By platform,
    `batch_size` is the range that trained, and `launch_share` the share of roofline time spent on launches that 999 of
    1000 rows stay below: work of many tiny operators is another regime. `op_mix` holds, for each
    architecture, the shares of roofline time by operator class in thousandths; `op_mix_reach` is how far (half the sum
    of absolute differences, in shares) 99 of 100 training architectures lie from the nearest one of another family.
    """

    categories: list[str]
    modes: list[str]
    software: list[tuple[str, str, str, bool, str]]
    makers: list[tuple[str, str]]
    hardware: list[str]
    families: list[str]
    architectures: list[str]
    batch_size: dict[str, tuple[int, int]]
    launch_share: dict[str, float]
    op_mix: list[list[int]]
    op_mix_reach: float
    near: list[tuple[str, str, str, bool, str, int, int, int]] = []
    """Rows by platform, runtime, precision, compiled, mode, and the powers of two next to the batch and the item's size."""
    devices: list[tuple[str, float]] = []
    """Of the devices, the architecture as the catalogue names it and the bandwidth of the memory in bytes a second."""

    def distance(self, trace: Trace) -> float:
        """Return how far a model's mix of operators lies from the nearest one that trained, 0 to 1."""
        if not self.op_mix:
            return 1.0
        return float(np.abs(self._mixes - op_mix(trace)).sum(axis=1).min() / 2)

    @cached_property
    def _mixes(self) -> Array:
        return np.array(self.op_mix, dtype=np.float64) / 1000

    @cached_property
    def _architectures(self) -> frozenset[str]:
        return frozenset(self.architectures)

    @cached_property
    def _software(self) -> frozenset[tuple[str, str, str, bool, str]]:
        return frozenset(self.software)

    def level(self, trace: Trace) -> str:
        """Return how far a model is from those that trained, on hardware that trained."""
        if trace.architecture[:16] in self._architectures:
            return "interpolation"
        return "new_architecture" if trace.family in self.families else "new_family"

    def why_not(self, trace: Trace, mode: str) -> str | None:
        """Return why the trees cannot speak about this model, or None where they can."""
        if mode not in self.modes:
            return f"no {mode} rows trained the predictor"
        if trace.category not in self.categories:
            return f"no {trace.category or 'unclassified'} models trained the predictor"
        if self.distance(trace) > self.op_mix_reach:
            return "its mix of operators is unlike any that trained the predictor"
        return None

    def knows_software(
        self, platform: str, runtime: str, precision: str, compiled: bool, mode: str = "inference"
    ) -> bool:
        """Whether rows of this platform, runtime, precision, compilation and mode trained."""
        return (platform, runtime, precision, compiled, mode) in self._software

    def near_software(self, platform: str, runtime: str, precision: str, mode: str = "inference") -> bool:
        """Whether rows of this software trained, compiled or not: near enough to calibrate."""
        return any((platform, runtime, precision, mode) == (*existing[:3], existing[4]) for existing in self.software)

    def outside(self, platform: str, batch_size: int, launch_share: float) -> str | None:
        """Return what of the amount of work lies outside of what trained on a platform, or None."""
        low, high = self.batch_size.get(platform, (1, 0))
        if not low <= batch_size <= high:
            return f"batch {batch_size} lies outside what trained on {platform} ({low} to {high})"
        if launch_share > self.launch_share.get(platform, 0.0):
            return f"at batch {batch_size} the operators are too small: launches take a share of the time that never trained"
        return None

    def thin(self, row: Row) -> str | None:
        """Return why too few rows near this one trained to support an interval, or None."""
        software = (row.platform, row.runtime, row.precision, row.compiled, row.mode)
        batch, size = _octaves(row)
        rows = sum(
            count
            for *place, at_batch, at_size, count in self.near
            if tuple(place) == software and abs(at_batch - batch) <= 1 and abs(at_size - size) <= 1
        )
        if rows >= NEAR_ROWS:
            return None
        return f"{rows} rows near batch {row.batch_size} of this size trained"

    def knows_like(self, spec: HardwareSpec) -> bool:
        """Whether a device of this architecture trained whose memory is as fast, within a factor of `NEAR_BANDWIDTH`."""
        bandwidth = None if spec.memory_bandwidth_bytes_per_s is None else spec.memory_bandwidth_bytes_per_s.value
        return bandwidth is not None and any(
            spec.architecture == architecture and abs(math.log(bandwidth / trained)) <= math.log(NEAR_BANDWIDTH)
            for architecture, trained in self.devices
        )

    def knows_maker(self, spec: HardwareSpec) -> bool:
        """Whether a device of this kind and vendor trained."""
        return (spec.kind or "", (spec.vendor or "").lower()) in self.makers


def _octaves(row: Row) -> tuple[int, int]:
    """The powers of two next to a row's batch and to the size of its items, 0 where they have none."""
    size = row.image_size or row.sequence_length
    return round(math.log2(row.batch_size or 1)), round(math.log2(size)) if size else 0


@lru_cache(maxsize=4096)
def op_mix(trace: Trace) -> Array:
    """Return the shares of roofline time by operator class, at batch 32 on a fixed reference device; kept a trace."""
    values = features_of(trace, [_REFERENCE], [Software(batch_size=32)]).values[0]
    return np.asarray(values[_FIRST_SHARE : _FIRST_SHARE + len(OPERATOR_CLASSES)], dtype=np.float64)


def coverage_of(table: Table, spec_of: SpecOf) -> Coverage:
    """Return what a table of training rows covers."""
    by_architecture: dict[str, Trace] = {}
    for trace in table.subjects:
        by_architecture.setdefault(trace.architecture[:16], trace)
    ordered = [by_architecture[name] for name in sorted(by_architecture)]
    mixes = np.array([op_mix(trace) for trace in ordered])
    batches: dict[str, list[int]] = {}
    launches: dict[str, list[float]] = {}
    for row, share in zip(table.rows, table.values[:, FEATURES.index("launch_share")].tolist(), strict=True):
        batches.setdefault(row.platform, []).append(row.batch_size or 1)
        launches.setdefault(row.platform, []).append(share)
    near = Counter(
        (row.platform, row.runtime, row.precision, row.compiled, row.mode, *_octaves(row)) for row in table.rows
    )
    specs = [spec for name in {row.hardware for row in table.rows} if (spec := spec_of(name)) is not None]
    return Coverage(
        categories=sorted({trace.category for trace in ordered if trace.category}),
        modes=sorted({row.mode for row in table.rows}),
        software=sorted({(row.platform, row.runtime, row.precision, row.compiled, row.mode) for row in table.rows}),
        makers=sorted({(spec.kind or "", (spec.vendor or "").lower()) for spec in specs}),
        hardware=sorted({row.hardware for row in table.rows}),
        families=sorted({trace.family for trace in ordered if trace.family}),
        architectures=sorted(by_architecture),
        batch_size={name: (min(sizes), max(sizes)) for name, sizes in sorted(batches.items())},
        launch_share={name: round(float(np.quantile(shares, 0.999)), 4) for name, shares in sorted(launches.items())},
        op_mix=np.unique(np.rint(mixes * 1000).astype(int), axis=0).tolist(),
        near=[(*place, count) for place, count in sorted(near.items())],
        devices=sorted(
            {
                (spec.architecture, float(spec.memory_bandwidth_bytes_per_s.value))
                for spec in specs
                if spec.architecture and spec.memory_bandwidth_bytes_per_s is not None
            }
        ),
        op_mix_reach=round(_reach(mixes, [trace.family or "" for trace in ordered]), 4),
    )


def _reach(mixes: Array, families: Sequence[str]) -> float:
    names = np.array(families, dtype=str)
    nearest = []
    for mix, name in zip(mixes, names, strict=True):
        others = mixes[names != name]
        if len(others):
            nearest.append(float(np.abs(others - mix).sum(axis=1).min() / 2))
    return float(np.quantile(nearest, 0.99)) if nearest else 0.0
