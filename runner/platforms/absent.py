"""Platforms that Assay names and this version cannot run: they say so, and never run elsewhere instead."""

# ruff: noqa: ARG002 - the arguments are the contract's, and every call is refused
from __future__ import annotations

from typing import Any, ClassVar

from domain.configuration import Runtime
from domain.errors import PlatformUnavailable
from runner.platforms.base import Observation, Platform, Probe, Settings

__all__ = ["AbsentPlatform", "Wasm", "WebGpu", "WebNn"]


class AbsentPlatform(Platform):
    """A platform with an honest probe and nothing else."""

    runtime_name: ClassVar[str]
    reason: ClassVar[str]
    remedy: ClassVar[str]

    def probe(self) -> Probe:
        """Return that it is not available, and why."""
        return Probe(available=False, reason=self.reason, remedy=self.remedy)

    def runtime(self) -> Runtime:
        """Return the runtime that it would use, without a version."""
        return Runtime(name=self.runtime_name)

    def precisions(self) -> tuple[str, ...]:
        """Return none."""
        return ()

    def _refuse(self) -> PlatformUnavailable:
        return PlatformUnavailable(self.reason, field="platform", remedy=self.remedy)

    def load(self, model: Any, settings: Settings) -> None:
        """Refuse."""
        raise self._refuse()

    def compile(self) -> bool:
        """Refuse."""
        raise self._refuse()

    def place(self, inputs: dict[str, Any]) -> Any:
        """Refuse."""
        raise self._refuse()

    def run(self, inputs: Any) -> Any:
        """Refuse."""
        raise self._refuse()

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Refuse."""
        raise self._refuse()

    def observe(self, inputs: Any) -> Observation:
        """Refuse."""
        raise self._refuse()


class _Browser(AbsentPlatform):
    runtime_name = "onnxruntime-web"
    reason = "this version of Assay does not drive a browser; nothing stands in for it."
    remedy = "Name a platform that `assay detect` lists as available."


class WebNn(_Browser):
    """WebNN in a real browser."""

    name = "webnn"


class WebGpu(_Browser):
    """WebGPU in a real browser."""

    name = "webgpu"


class Wasm(_Browser):
    """WebAssembly in a real browser."""

    name = "wasm"
