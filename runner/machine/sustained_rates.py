"""Short probes of what a device sustains: the rate of a matrix product and the bandwidth of a copy."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from typing import Any

import msgspec

from domain.payloads import Figure

__all__ = ["Sustained", "sustained_numpy", "sustained_torch"]

_BUDGET_S = 0.4
_FEWEST = 3
_ELEMENTS = {"cpu": 1024}
_ELEMENTS_OTHER = 4096
_DTYPES = {"fp32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Sustained(msgspec.Struct, frozen=True, kw_only=True):
    """Figures with status `measured`: FLOP/s by precision, and bytes read and written per second."""

    flops: dict[str, Figure] = {}
    bandwidth: Figure | None = None


def sustained_torch(device: str, precisions: tuple[str, ...], copy_bytes: int) -> Sustained:
    """Measure with torch on one device, about 0.4 s a figure, synchronized before every reading of the clock.

    The fastest of the repetitions counts: what else runs on the machine only ever slows one down.
    """
    torch = importlib.import_module("torch")
    kind = device.partition(":")[0]

    def synchronize() -> None:
        if kind != "cpu":
            getattr(torch, kind).synchronize()

    size = _ELEMENTS.get(kind, _ELEMENTS_OTHER)
    how = f"torch {torch.__version__}" + (f", {torch.get_num_threads()} threads" if kind == "cpu" else "")
    with torch.inference_mode():
        flops = {
            precision: _rate(
                _product(torch, size, _DTYPES[precision], device),
                2.0 * size**3,
                synchronize,
                f"products of {size} x {size} {precision} matrices, {how}",
            )
            for precision in precisions
        }
        source = torch.ones(copy_bytes // 4, dtype=torch.float32, device=device)
        target = torch.empty_like(source)
        copied = f"copies of {copy_bytes:,} bytes, {how}"
        bandwidth = _rate(lambda: target.copy_(source), 2.0 * copy_bytes, synchronize, copied)
    return Sustained(flops=flops, bandwidth=bandwidth)


def sustained_numpy(copy_bytes: int) -> Sustained:
    """Measure the CPU with numpy where torch is not installed: fp32 only, and the copy runs on one thread."""
    numpy = importlib.import_module("numpy")
    size = _ELEMENTS["cpu"]
    left = numpy.full((size, size), 0.5, dtype=numpy.float32)
    product = numpy.empty_like(left)
    source = numpy.ones(copy_bytes // 4, dtype=numpy.float32)
    target = numpy.empty_like(source)
    how = f"numpy {numpy.__version__}"
    work = f"products of {size} x {size} fp32 matrices, {how}"
    return Sustained(
        flops={"fp32": _rate(lambda: numpy.matmul(left, left, out=product), 2.0 * size**3, _nothing, work)},
        bandwidth=_rate(
            lambda: numpy.copyto(target, source),
            2.0 * copy_bytes,
            _nothing,
            f"copies of {copy_bytes:,} bytes on one thread, {how}",
        ),
    )


def _product(torch: Any, size: int, dtype: str, device: str) -> Callable[[], object]:
    left = torch.full((size, size), 0.5, dtype=getattr(torch, dtype), device=device)
    return lambda: left @ left


def _nothing() -> None:
    """Numpy has finished when it returns."""


def _rate(work: Callable[[], object], amount: float, synchronize: Callable[[], None], what: str) -> Figure:
    """Return `amount` over the fastest repetition's seconds; two repetitions before that warm up."""
    for _ in range(2):
        work()
    synchronize()
    fastest, repetitions, began = float("inf"), 0, time.perf_counter()
    while repetitions < _FEWEST or time.perf_counter() - began < _BUDGET_S:
        start = time.perf_counter()
        work()
        synchronize()
        fastest = min(fastest, time.perf_counter() - start)
        repetitions += 1
    return Figure(value=amount / fastest, status="measured", source=f"fastest of {repetitions} {what}")
