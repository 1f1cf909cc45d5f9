"""Platforms of another package: one that works, and some that are broken in ways that must be noticed."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from domain.configuration import Runtime
from runner.platforms.base import Converted, Observation, Platform, Probe, Recipe, Settings
from runner.platforms.torch_eager import Cpu, TorchPlatform


class Doubling(Platform):
    """Doubles its input with numpy: all that a platform has to be."""

    name = "doubling"
    converts = True

    def probe(self) -> Probe:
        good = bool((np.ones(2) * 2 == 2).all())
        return Probe(available=good, devices=("cpu",), evidence="numpy doubled two ones")

    def runtime(self) -> Runtime:
        return Runtime(name="numpy", version=np.__version__)

    def precisions(self) -> tuple[str, ...]:
        return ("fp32",)

    def load(self, model: Any, settings: Settings) -> None:
        assert isinstance(model, Converted)

    def compile(self) -> bool:
        return False

    def place(self, inputs: dict[str, Any]) -> Any:
        return inputs["x"]

    def run(self, inputs: Any) -> Any:
        return inputs * 2

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        return [("y", result)]

    def observe(self, inputs: Any) -> Observation:
        return Observation(device="cpu", platform=self.name, precision="fp32", fallback_share=0.0)


class Saboteur(Doubling):
    """Fails at the stage and in the way that EXAMPLE_SABOTAGE says, as `stage:way`."""

    name = "saboteur"

    def __init__(self) -> None:
        self._stage, _, self._way = os.environ.get("EXAMPLE_SABOTAGE", ":").partition(":")
        self._runs = 0

    def _maybe(self, stage: str) -> None:
        if stage != self._stage:
            return
        if self._way == "hang":
            time.sleep(3600)
        elif self._way == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self._way == "abort":
            os.abort()
        elif self._way == "exit":
            os._exit(7)
        elif self._way == "memory":
            held = [np.ones(2_000_000) for _ in range(40)]
            time.sleep(3600)
            del held
        elif self._way == "slow-start":
            # The first run and the four calls after it, as where caches and kernels are made on the way.
            time.sleep(0.05 if self._runs <= 5 else 0.002)
        elif self._way == "exhausted":
            raise MemoryError("not enough memory: 1 TB")
        elif self._way == "missing":
            raise NotImplementedError("no rule for aten::example")
        else:
            raise RuntimeError("sabotage in /home/ada/secret/model.bin")

    def load(self, model: Any, settings: Settings) -> None:
        self._maybe("load")

    def compile(self) -> bool:
        self._maybe("compile")
        return False

    def run(self, inputs: Any) -> Any:
        self._runs += 1
        self._maybe("first_run" if self._runs == 1 else "run")
        return super().run(inputs)


class Fragile(Cpu):
    """torch on the processor, and a process that dies of an input of so many elements as EXAMPLE_FATAL says."""

    name = "fragile"

    def place(self, inputs: dict[str, Any]) -> dict[str, Any]:
        if inputs["x"].numel() == int(os.environ.get("EXAMPLE_FATAL", "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().place(inputs)


class Exported(Platform):
    """Runs what torch exported of a module on the processor: a whole platform, for any model."""

    name = "exported"
    converts = True

    def __init__(self) -> None:
        self._graph: Any = None
        self._inputs: list[str] = []
        self._names: list[str] = []

    def probe(self) -> Probe:
        import torch

        program = torch.export.export(torch.nn.Identity(), (torch.ones(2),))
        total = float(program.module()(torch.ones(2)).sum())
        if total != 2.0:
            return Probe(available=False, reason=f"two ones made {total}.", remedy="Install torch again.")
        return Probe(available=True, devices=("cpu",), evidence="an exported program gave its input back")

    def runtime(self) -> Runtime:
        import torch

        return Runtime(name="torch-export", version=torch.__version__.split("+")[0])

    def precisions(self) -> tuple[str, ...]:
        return ("fp32",)

    def convert(self, module: Any, inputs: dict[str, Any], folder: Path, recipe: Recipe) -> None:
        import torch

        from runner.platforms.outputs import FlatOutputs, flatten

        names = [name for name, _ in flatten(module(**inputs))]
        flat = FlatOutputs(module, list(inputs), {}).eval()
        torch.export.save(torch.export.export(flat, tuple(inputs.values()), strict=False), folder / "graph.pt2")
        (folder / "names.json").write_text(json.dumps([list(inputs), names]))

    def load(self, model: Any, settings: Settings) -> None:
        import torch

        assert isinstance(model, Converted)
        torch.set_num_threads(settings.threads)
        self._graph = torch.export.load(model.folder / "graph.pt2").module()
        self._inputs, self._names = json.loads((model.folder / "names.json").read_text())

    def compile(self) -> bool:
        return False

    def place(self, inputs: dict[str, Any]) -> Any:
        import torch

        return [torch.as_tensor(inputs[name]) for name in self._inputs]

    def run(self, inputs: Any) -> Any:
        import torch

        with torch.inference_mode():
            return self._graph(*inputs)

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        return [(name, tensor.float().numpy()) for name, tensor in zip(self._names, result, strict=True)]

    def observe(self, inputs: Any) -> Observation:
        kinds = {parameter.dtype for parameter in self.run(inputs)}
        precision = "fp32" if {str(kind) for kind in kinds} == {"torch.float32"} else "other"
        return Observation(device="cpu", platform=self.name, precision=precision, fallback_share=0.0)


class Corrupting(Cpu):
    """Runs the model on the processor with one weight matrix negated."""

    name = "corrupting"

    def load(self, model: Any, settings: Settings) -> None:
        import torch

        matrix = next(parameter for parameter in reversed(list(model.parameters())) if parameter.dim() == 2)
        with torch.no_grad():
            matrix.neg_()
        super().load(model, settings)


class Pretending(TorchPlatform):
    """Says that it is a device of its own, and quietly runs on the processor."""

    name = "pretending"
    device_type = "pretended"

    def probe(self) -> Probe:
        return Probe(available=True, devices=("pretended:0",), evidence="it says so")

    def load(self, model: Any, settings: Settings) -> None:
        super().load(model, Settings(precision=settings.precision, threads=settings.threads, device="cpu"))


class Narrowing(Cpu):
    """Says that it computes in fp32, and quietly does so in bf16."""

    name = "narrowing"

    def load(self, model: Any, settings: Settings) -> None:
        super().load(model, msgspec.structs.replace(settings, precision="bf16"))


class Exclusive(Doubling):
    """Has one device, on which one runner at a time may measure."""

    name = "exclusive"

    def device_key(self, device: str | None) -> str | None:
        return "example-exclusive"
