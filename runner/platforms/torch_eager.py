"""PyTorch's own devices: cpu, cuda, rocm, mps, xpu. They differ in how each is found and waited for."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import msgspec

from runner.machine.devices.apple import Apple
from runner.machine.devices.watching import Watcher
from runner.machine.processor import threads_allowed
from runner.measure.power.hwmon import find_hwmon
from runner.measure.power.meter import Meter, Unread
from runner.platforms.base import Observation
from runner.platforms.execution_options import RANK_OPTIONS
from runner.platforms.torch_cuda import Cuda, Rocm
from runner.platforms.torch_platform import TorchPlatform

__all__ = ["Cpu", "Cuda", "Mps", "Rocm", "TorchPlatform", "Xpu", "moved_operators"]


class Cpu(TorchPlatform):
    """torch on the processor."""

    name = "cpu"
    device_type = "cpu"
    known_options: ClassVar[frozenset[str]] = frozenset(RANK_OPTIONS)

    def _exists(self) -> str | None:
        return None

    def _device_names(self) -> tuple[str, ...]:
        return ("cpu",)

    def most_ranks(self) -> int:
        """Return the processors: ranks that shared one would wait for each other."""
        return threads_allowed()


_FALLBACK = re.compile(r"operator '([\w:.]+)' is not currently supported on the MPS backend", re.I)


def moved_operators(messages: Iterable[str]) -> frozenset[str]:
    """Return the operators (`aten.name`) that torch says it ran on the processor in place of Metal."""
    groups = (match.group(1) for message in messages for match in _FALLBACK.finditer(message))
    return frozenset(".".join(name.replace("::", ".").split(".")[:2]) for name in groups)


@contextmanager
def _every_warning(torch: Any) -> Iterator[None]:
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)


class Mps(TorchPlatform):
    """torch on Apple's graphics processor."""

    name = "mps"
    device_type = "mps"

    def __init__(self) -> None:
        super().__init__()
        self._moved: frozenset[str] = frozenset()

    def _exists(self) -> str | None:
        import torch

        if not torch.backends.mps.is_built():
            return "this torch is built without MPS."
        return None if torch.backends.mps.is_available() else "torch sees no Metal device."

    def _device_names(self) -> tuple[str, ...]:
        return ("mps",)

    def _work(self, inputs: Any) -> Counter[tuple[str, str]]:
        """Return FLOPs by (device, precision), those of operators that torch moved to the processor as the processor's.

        It moves them where PYTORCH_ENABLE_MPS_FALLBACK is set, and says so once for each; without it they are errors.
        """
        import torch

        if os.environ.get("PYTORCH_ENABLE_MPS_FALLBACK") != "1":
            return super()._work(inputs)
        with warnings.catch_warnings(record=True) as heard, _every_warning(torch):
            warnings.simplefilter("always")
            self._once(inputs)
        self._moved = moved_operators(str(each.message) for each in heard)
        return super()._work(inputs)

    def _recorder(self) -> Any:
        from runner.platforms.work import WorkRecorder

        return WorkRecorder(moved=self._moved)

    def observe(self, inputs: Any) -> Observation:
        """Return what did the work; operators that were moved count by their FLOPs and stand by name in the details."""
        observe = super().observe(inputs)
        if not self._moved:
            return observe
        return msgspec.structs.replace(observe, details={**observe.details, "moved_to_cpu": sorted(self._moved)})

    def synchronize(self) -> None:
        """Wait for the command queue."""
        import torch

        torch.mps.synchronize()

    def mark(self) -> Any:
        """Return an event in the command queue."""
        import torch

        event = torch.mps.Event(enable_timing=True)
        event.record()
        return event

    def between_ms(self, start: Any, end: Any) -> float:
        """Return the time between two events."""
        return float(start.elapsed_time(end))

    def device_key(self, device: str | None) -> str | None:  # noqa: ARG002
        """Return the one device."""
        return "apple-gpu"

    def watcher(self, device: str | None) -> Watcher | Unread | None:  # noqa: ARG002
        """Return the one graphics processor of the machine."""
        return Apple()

    def allocator_bytes(self) -> dict[str, int]:
        """Return what torch has allocated and what Metal holds for it now; both lie in the machine's own memory."""
        import torch

        held = {
            "allocated_bytes": int(torch.mps.current_allocated_memory()),
            "reserved_bytes": int(torch.mps.driver_allocated_memory()),
        }
        return {name: value for name, value in held.items() if value}

    def device_memory_bytes(self) -> int | None:
        """Return the memory that Metal has allocated for this process now."""
        import torch

        return int(torch.mps.driver_allocated_memory()) or None


class Xpu(TorchPlatform):
    """torch on Intel graphics processors."""

    name = "xpu"
    device_type = "xpu"

    def _exists(self) -> str | None:
        import torch

        return None if torch.xpu.is_available() else "torch sees no Intel XPU device."

    def _device_names(self) -> tuple[str, ...]:
        import torch

        return tuple(torch.xpu.get_device_name(index) for index in range(torch.xpu.device_count()))

    def synchronize(self) -> None:
        """Wait for all queues of the device."""
        import torch

        torch.xpu.synchronize()

    def mark(self) -> Any:
        """Return an event in the current queue."""
        import torch

        event = torch.xpu.Event(enable_timing=True)
        event.record()
        return event

    def between_ms(self, start: Any, end: Any) -> float:
        """Return the time between two events."""
        return float(start.elapsed_time(end))

    def device_key(self, device: str | None) -> str | None:
        """Return the device's index."""
        return (device or "xpu:0").replace(":", "-")

    def meter(self, device: str | None) -> Meter | Unread:  # noqa: ARG002
        """Return the meter of the one card, as its driver shows it."""
        return find_hwmon(("i915", "xe"))

    def device_memory_bytes(self) -> int | None:
        """Return the highest memory that torch reserved on the device in this process."""
        import torch

        return int(torch.xpu.max_memory_reserved()) or None
