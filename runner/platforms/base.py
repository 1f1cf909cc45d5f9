"""The contract of a platform: what the child process asks of the thing that executes a model.

The order of calls is `probe` → (`convert` →) `load` → `compile` → `place` → `run` … → `observe` → `close`. A platform
that converts does so in a process of its own, so that the memory of converting is not counted as that of running.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from domain.configuration import Runtime

__all__ = ["Converted", "Observation", "Platform", "Probe", "Settings"]


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a platform works here. `evidence` was gained by using it; `reason` and `remedy` say why it does not."""

    available: bool
    devices: tuple[str, ...] = ()
    evidence: str | None = None
    reason: str | None = None
    remedy: str | None = None


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What may be set on a platform: the device (None: its first), threads, and whether to compile the module."""

    precision: str
    threads: int
    device: str | None = None
    compiled: bool = False


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """What did the work: `fallback_share` is the share of it (0–1) done on another device or in another precision."""

    device: str
    platform: str
    precision: str
    fallback_share: float


class Converted(msgspec.Struct, frozen=True, kw_only=True):
    """A model in a platform's own form, and the inputs that it was converted with, in a folder."""

    folder: Path


class Platform(ABC):
    """One runtime on one kind of device."""

    name: ClassVar[str]
    converts: ClassVar[bool] = False
    """True where `convert` must have run, in another process, before `load`."""

    @abstractmethod
    def probe(self) -> Probe:
        """Return whether this works here, by really using it. Never raises; environment variables prove nothing."""

    @abstractmethod
    def runtime(self) -> Runtime:
        """Return the software that executes, with its version."""

    @abstractmethod
    def precisions(self) -> tuple[str, ...]:
        """Return the precisions that can be asked for here; only asked where the probe said yes."""

    def convert(self, module: Any, inputs: dict[str, Any], folder: Path) -> None:
        """Write the torch module, with those example inputs, into the folder in the platform's own form."""
        raise NotImplementedError(f"{self.name} runs torch modules as they are")

    @abstractmethod
    def load(self, model: Any, settings: Settings) -> None:
        """Take the model: a torch module in eval mode, or `Converted` where `converts` is true."""

    def weights_dtype(self, precision: str) -> str:  # noqa: ARG002
        """Return the torch type in which the weights for a precision may be made, to save the memory of casting."""
        return "float32"

    @abstractmethod
    def compile(self) -> bool:
        """Prepare for the device; return False where there was nothing to prepare."""

    @abstractmethod
    def place(self, inputs: dict[str, Any]) -> Any:
        """Return the inputs (name → torch tensor or numpy array) where and as `run` wants them."""

    @abstractmethod
    def run(self, inputs: Any) -> Any:
        """Run one call and return its outputs; may return before the device has finished."""

    def synchronize(self) -> None:  # noqa: B027 - nothing to wait for is the common case
        """Wait until the device has finished; a no-op where `run` already did."""

    @abstractmethod
    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return what `run` returned as (name, float32 numpy array) pairs, in the model's own order."""

    @abstractmethod
    def observe(self, inputs: Any) -> Observation:
        """Return what really did the work; may run the model once more."""

    def device_memory_bytes(self) -> int | None:
        """Return the highest memory allocated on a device of its own; None where it has none or cannot tell."""
        return None

    def close(self) -> None:  # noqa: B027
        """Let go of the device."""
