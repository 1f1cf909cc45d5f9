"""What is kept of the general route: what trained it, and how wide its intervals are by level."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from domain.performance.roofline import Limits
from predictor.artifact.conformal import COVERAGES, width
from predictor.artifact.coverage import op_mix
from predictor.features.dataset import Row
from predictor.features.table import Array, Matrix, Table
from predictor.features.traces import Trace
from predictor.general.inputs import runtime_of

__all__ = ["DIFFICULTY", "LEVELS", "General", "GeneralLevel", "place_of", "software_of"]

NEAR_MIX = 0.1
"""Models whose shares of time by operator class differ by no more (half the sum of differences) count as one family."""
MOST_MIXES = 64
DIFFICULTY = "general.difficulty"
"""The name of the trees that say how hard rows are, one text a level."""
LEVELS = ("architecture", "family", "hardware", "hardware_family", "software")
"""How far a question lies from what trained, from the nearest: a new model of a known family on a known device, a new family,
a new device, both, and software that trained on no device of the vendor."""
_TEXTS = {
    "architecture": "models of its family were measured on this device with this software",
    "family": "other families of models were measured on this device with this software",
    "hardware": "models of its family were measured with this software on other {vendor} devices",
    "hardware_family": "other families of models were measured with this software on other {vendor} devices",
    "software": "nothing was measured with this software on {vendor} devices; models like it were with other software",
}


class GeneralLevel(msgspec.Struct, frozen=True, kw_only=True):
    """What a level rests on: half-widths in units of difficulty by nominal coverage, rows and groups that were left out."""

    widths: dict[str, float | None]
    rows: int
    groups: int

    @classmethod
    def fitted(cls, errors: Array, groups: Sequence[Any]) -> GeneralLevel:
        """Take log errors on groups that were left out whole, in units of their difficulty."""
        reach = {nominal: width(errors, nominal, groups) for nominal in COVERAGES}
        return cls(
            widths={str(nominal): round(half, 6) if np.isfinite(half) else None for nominal, half in reach.items()},
            rows=len(errors),
            groups=len(set(groups)),
        )


class General(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """What trained, widths by level, and the scores of every level.

    `places` are (hardware, platform, runtime), `software` (maker, platform, runtime, bits). By maker, platform and runtime,
    `families` are the families of models, `mixes` the shares of their time by operator class in thousandths, and `batches`
    the smallest and the largest batch.
    """

    places: list[tuple[str, str, str]]
    software: list[tuple[str, str, str, int]]
    families: dict[str, list[str]]
    mixes: dict[str, list[list[int]]]
    batches: dict[str, tuple[int, int]]
    modes: list[str]
    levels: dict[str, GeneralLevel]
    scores: dict[str, Any] = {}
    rows: int = 0

    @classmethod
    def of(cls, table: Table, levels: dict[str, GeneralLevel]) -> General:
        """Return what a training table covers."""
        families: dict[str, set[str]] = {}
        mixes: dict[str, set[tuple[int, ...]]] = {}
        batches: dict[str, list[int]] = {}
        makers = [maker_of(limit) for limit in table.limits]
        for row, maker, family, trace in zip(table.rows, makers, table.family.tolist(), table.subjects, strict=True):
            group = _group(row, maker)
            families.setdefault(group, set()).add(family)
            mixes.setdefault(group, set()).add(tuple(np.rint(op_mix(trace) * 1000).astype(int).tolist()))
            batches.setdefault(group, []).append(row.batch_size or 1)
        return cls(
            places=sorted({place_of(row) for row in table.rows}),
            software=sorted({software_of(row, maker) for row, maker in zip(table.rows, makers, strict=True)}),
            families={name: sorted(members) for name, members in sorted(families.items())},
            mixes={name: _spread_out(sorted(members)) for name, members in sorted(mixes.items())},
            batches={name: (min(sizes), max(sizes)) for name, sizes in sorted(batches.items())},
            modes=sorted({row.mode for row in table.rows}),
            levels=levels,
            rows=len(table),
        )

    def level(self, row: Row, limits: Limits, trace: Trace) -> str:
        """Return how far a question lies from what trained: one of LEVELS."""
        maker = maker_of(limits)
        if software_of(row, maker) not in self.software:
            return "software"
        near = self._near(_group(row, maker), trace)
        if place_of(row) in self.places:
            return "architecture" if near else "family"
        return "hardware" if near else "hardware_family"

    def _near(self, group: str, trace: Trace) -> bool:
        """Whether a model is of a family that trained, or spends its time as a model that trained does."""
        if (trace.family or trace.model) in self.families.get(group, ()):
            return True
        mixes = self._shares.get(group)
        return mixes is not None and bool(np.abs(mixes - op_mix(trace)).sum(axis=1).min() / 2 <= NEAR_MIX)

    @cached_property
    def _makers(self) -> set[str]:
        return {maker for maker, *_ in self.software}

    @cached_property
    def _shares(self) -> dict[str, Matrix]:
        return {group: np.array(mixes) / 1000 for group, mixes in self.mixes.items()}

    def outside(self, row: Row, limits: Limits) -> str | None:
        """Return why a question lies outside of what trained, or None.

        A maker of whom nothing trained lies outside, since the groups that were left out were of makers with other rows; so
        does a batch that is more than a factor of two off.
        """
        maker = maker_of(limits)
        sizes = self.batches.get(_group(row, maker))
        if sizes is None and maker not in self._makers:
            return f"no device of {maker.capitalize() if maker != 'other' else 'this maker'} trained the predictor"
        low, high = sizes or (1, 1 << 20)
        batch = row.batch_size or 1
        return None if low / 2 <= batch <= high * 2 else f"batch {batch} lies outside what trained ({low} to {high})"

    def reach(self, level: str, nominal: float) -> float | None:
        """Return the half-width in units of difficulty; None where too few groups were left out to say it."""
        return None if level not in self.levels else self.levels[level].widths.get(str(nominal))

    def why(self, level: str, limits: Limits) -> str:
        """Return what a prediction of a level rests on, in words."""
        vendor = {"nvidia": "NVIDIA", "amd": "AMD"}.get(name := maker_of(limits), name.capitalize())
        groups = self.levels[level].groups if level in self.levels else 0
        measured = f"; its interval is what {groups} such groups were off when they were left out" if groups else ""
        return f"predicted from its kernels: {_TEXTS[level].format(vendor=vendor)}{measured}"


def place_of(row: Row) -> tuple[str, str, str]:
    """Return the device of a row with the software that drives it."""
    return (row.hardware, row.platform, runtime_of(row))


def maker_of(limits: Limits | None) -> str:
    """Return who made the chip of a device, `other` where that is not known."""
    return (None if limits is None else limits.maker) or "other"


def software_of(row: Row, maker: str) -> tuple[str, str, str, int]:
    """Return maker, platform, runtime and bits of a row's arithmetic: what errs alike on devices of a maker."""
    return (maker, row.platform, runtime_of(row), bits_of(row.precision))


def bits_of(precision: str) -> int:
    """Return how wide the arithmetic of a precision is: 32, 16 or 8 bits."""
    if precision in ("fp32", "tf32", "float", ""):
        return 32
    return 8 if precision.startswith(("int8", "w8a8", "fp8", "int4", "fp4", "w4a8")) else 16


def _group(row: Row, maker: str) -> str:
    return "|".join((maker, row.platform, runtime_of(row)))


def _spread_out(mixes: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """Return at most MOST_MIXES of the mixes, each the farthest from those before it."""
    array = np.array(mixes, dtype=np.float64)
    chosen = [0]
    apart = np.abs(array - array[0]).sum(axis=1)
    while len(chosen) < min(MOST_MIXES, len(array)) and apart.max() > 0:
        chosen.append(int(apart.argmax()))
        apart = np.minimum(apart, np.abs(array - array[chosen[-1]]).sum(axis=1))
    return [list(mixes[index]) for index in sorted(chosen)]
