"""What measured kernels reached on a device: rates and shares of its limits, kernel by kernel and as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from domain.kernels import DEPTHWISE, LATENCY, SIZES, expanded
from domain.payloads import KernelMeasured
from domain.performance.kernel_work import kernel_work

__all__ = ["KernelFigure", "Reached", "kernel_figures", "reached"]

_MOVING = ("softmax", "norm", "elementwise")
LARGE = 4.0
"""A kernel that moves no less than the largest one over this comes from memory; smaller ones may lie in a cache."""


class KernelFigure(msgspec.Struct, frozen=True, kw_only=True):
    """One kernel: its time, FLOP/s of the plain algorithm, bytes/s at the least, and the share of its limit that it reached.

    `bound` is what its least time comes from, `arithmetic` or `memory`; `share` is None where the limit is not known.
    """

    name: str
    operator: str
    sizes: dict[str, int]
    latency_ms: float
    flops_per_s: float
    bytes_per_s: float
    intensity: float
    moving: bool
    bound: str | None = None
    share: float | None = None
    verdict: str = "valid"
    reason: str | None = None

    @property
    def bytes(self) -> float:
        """The bytes that it moves at the least."""
        return self.bytes_per_s * self.latency_ms / 1e3


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """What a device reached in one precision: its best arithmetic and traffic, and the time of the smallest kernel.

    Shares are of `peak_flops` and `bandwidth_bytes_per_s`. Invalid timings count for nothing.
    """

    flops_per_s: float | None = None
    bytes_per_s: float | None = None
    arithmetic_share: float | None = None
    bandwidth_share: float | None = None
    floor_us: float | None = None
    kernels: int = 0
    doubtful: int = 0
    invalid: int = 0


def kernel_figures(
    data: KernelMeasured, peak_flops: float | None, bandwidth_bytes_per_s: float | None
) -> list[KernelFigure]:
    """Return the figures of an event's kernels; those whose sizes do not tell their work stay out."""
    columns = {name: expanded(values) for name, values in data.columns.items()}
    sizes = SIZES[data.operator]
    figures = []
    for row in range(data.timings):
        own = {
            name: int(value)
            for name in (*sizes.needed, *sizes.optional)
            if (value := columns[name][row] if name in columns else data.fixed.get(name)) is not None
        }
        work = kernel_work(data.operator, own, data.types, phase=data.phase)
        if work is None:
            continue
        seconds = float(columns[LATENCY][row] or 0.0) / 1e3
        flops = float(work.flops) * own.get("kernel_height", 1) * own.get("kernel_width", 1)
        moved = float(work.bytes)
        moving = data.operator in _MOVING or data.name == DEPTHWISE
        least = {
            "arithmetic": flops / peak_flops if peak_flops and not moving else 0.0,
            "memory": moved / bandwidth_bytes_per_s if bandwidth_bytes_per_s else 0.0,
        }
        bound = max(least, key=lambda name: least[name])
        mark = columns["mark"][row] if "mark" in columns else None
        said = data.marks.get(str(mark)) if mark is not None else None
        figures.append(
            KernelFigure(
                name=str((columns.get("kernel") or [data.name] * data.timings)[row] or data.name or data.operator),
                operator=data.operator,
                sizes=own,
                latency_ms=seconds * 1e3,
                flops_per_s=flops / seconds,
                bytes_per_s=moved / seconds,
                intensity=flops / moved,
                moving=moving,
                bound=bound if least[bound] else None,
                share=least[bound] / seconds if least[bound] else None,
                verdict="valid" if said is None else said.verdict,
                reason=None if said is None else said.reason,
            )
        )
    return figures


def reached(figures: Iterable[KernelFigure], peak_flops: float | None, bandwidth_bytes_per_s: float | None) -> Reached:
    """Return what kernels of one precision reached together."""
    every: Sequence[KernelFigure] = list(figures)
    used = [figure for figure in every if figure.verdict != "invalid"]
    flops = max((figure.flops_per_s for figure in used if not figure.moving), default=None)
    streams = [figure for figure in used if figure.moving and figure.operator != "convolution"]
    largest = max((figure.bytes for figure in streams), default=0.0)
    moved = max((figure.bytes_per_s for figure in streams if figure.bytes * LARGE >= largest), default=None)
    return Reached(
        flops_per_s=flops,
        bytes_per_s=moved,
        arithmetic_share=flops / peak_flops if flops and peak_flops else None,
        bandwidth_share=moved / bandwidth_bytes_per_s if moved and bandwidth_bytes_per_s else None,
        floor_us=min((figure.latency_ms * 1e3 for figure in used), default=None),
        kernels=len(used),
        doubtful=sum(figure.verdict == "suspect" for figure in every),
        invalid=sum(figure.verdict == "invalid" for figure in every),
    )
