"""torch on NVIDIA's and AMD's devices. ROCm answers under the name `cuda`; what torch was built for distinguishes the two."""

from __future__ import annotations

import importlib
import importlib.util
import warnings
from typing import Any, ClassVar

from domain.errors import PartMissing, UnsupportedWorkload
from runner.machine.devices.amd import find_amd
from runner.machine.devices.nvidia import find_nvidia
from runner.machine.devices.nvidia_facts import absence, architecture_problem, fp8_problem, mig_profile
from runner.machine.devices.watching import Watcher
from runner.machine.environment import nvidia_driver
from runner.measure.power.meter import Unread
from runner.platforms.base import Observation, Settings
from runner.platforms.execution_options import RANK_OPTIONS, batch_parts
from runner.platforms.torch_platform import TorchPlatform

__all__ = ["Cuda", "Rocm", "amd_fp8_problem"]

_CAPTURING_CALLS = 3


class Cuda(TorchPlatform):
    """torch on NVIDIA devices; a ROCm build of torch answers under the same name and is refused here."""

    name = "cuda"
    device_type = "cuda"
    known_options: ClassVar[frozenset[str]] = frozenset({"cuda-graphs", "streams", "device-map", *RANK_OPTIONS})

    def __init__(self) -> None:
        super().__init__()
        self._graph: Any = None
        self._captured: Any = None
        self._streams: list[Any] = []

    def _exists(self) -> str | None:
        import torch

        if torch.version.hip is not None:
            return "this torch is a ROCm build; its devices are the rocm platform."
        if torch.version.cuda is None:
            return "this torch is built without CUDA."
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            here = torch.cuda.is_available()
        if not here:
            messages = [str(each.message) for each in heard]
            reason, self._remedy = absence(messages, nvidia_driver(), torch.version.cuda)
            return reason
        problem = architecture_problem(torch.cuda.get_device_capability(), torch.cuda.get_arch_list())
        if problem:
            self._remedy = "Install a torch that is built for this device."
        return problem

    def _device_names(self) -> tuple[str, ...]:
        import torch

        return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))

    def most_ranks(self) -> int:
        """Return the devices."""
        import torch

        return int(torch.cuda.device_count())

    def precisions(self) -> tuple[str, ...]:
        """Return those of every torch device, tf32, and fp8 where the device multiplies in it."""
        fp8 = () if "fp8" in self.refusals() else ("fp8",)
        return ("fp32", "tf32", *super().precisions()[1:], *fp8)

    def refusals(self) -> dict[str, str]:
        """Return the quantized precisions where torchao is missing, and fp8 on a device that has none."""
        refusals = super().refusals()
        problem = refusals.get("int8") or self._fp8_problem()
        return refusals | ({"fp8": problem} if problem else {})

    def _fp8_problem(self) -> str | None:
        import torch

        return fp8_problem(torch.cuda.get_device_capability())

    def _allow_tf32(self, allowed: bool) -> None:
        import torch

        torch.backends.cudnn.conv.fp32_precision = "tf32" if allowed else "ieee"
        torch.backends.cuda.matmul.fp32_precision = "tf32" if allowed else "ieee"

    def load(self, model: Any, settings: Settings) -> None:
        """Move the module to the device that was named, or spread it over all of them where that was asked for."""
        import torch

        if settings.rank is not None:
            torch.cuda.set_device(settings.rank.local_index)
        elif settings.device and ":" in settings.device:
            torch.cuda.set_device(settings.device)
        torch.cuda.reset_peak_memory_stats()
        super().load(model, settings)
        if self._asked.device_map:
            self._module = self._call = _spread(self._module)
            self._options |= {"device_map": _places(self._module)}

    def place(self, inputs: dict[str, Any]) -> Any:
        """Return tensors on the device, one set for each stream; capture the call where graphs were asked for."""
        import torch

        placed = super().place(inputs)
        if self._asked.streams > 1:
            self._streams = [torch.cuda.Stream() for _ in range(self._asked.streams)]
            self._options |= {"streams": self._asked.streams}
            return batch_parts(placed, self._asked.streams)
        if self._asked.graphs:
            self._capture(placed)
        return placed

    def _capture(self, placed: Any) -> None:
        import torch

        side, now = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(now)
        with torch.cuda.stream(side):
            for _ in range(_CAPTURING_CALLS):
                super().run(placed)
        now.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._captured = super().run(placed)
        except RuntimeError as error:
            if "captur" not in str(error):
                raise
            raise UnsupportedWorkload(
                f"one call of {type(self._module).__name__} cannot be captured: {str(error).splitlines()[0]}",
                field="options",
                remedy="Measure without cuda-graphs.",
            ) from error
        self._graph = graph
        self._options |= {"cuda_graphs": True}

    def run(self, inputs: Any) -> Any:
        """Call the module once: its graph where there is one, on all streams where there are some."""
        import torch

        if self._graph is not None:
            self._graph.replay()
            return self._captured
        if not self._streams:
            return super().run(inputs)
        now, results = torch.cuda.current_stream(), []
        for stream, part in zip(self._streams, inputs, strict=True):
            stream.wait_stream(now)
            with torch.cuda.stream(stream):
                results.append(super().run(part))
        for stream in self._streams:
            now.wait_stream(stream)
        return results

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return the floating outputs as float32 arrays, those of all streams put together again."""
        if not self._streams:
            return super().outputs(result)
        import numpy as np

        parts = [super(Cuda, self).outputs(each) for each in result]
        return [(name, np.concatenate([part[at][1] for part in parts])) for at, (name, _) in enumerate(parts[0])]

    def observe(self, inputs: Any) -> Observation:
        """Return what did the work; of streams, what did that of the first."""
        return super().observe(inputs[0] if self._streams else inputs)

    def synchronize(self) -> None:
        """Wait for all streams of the device, of every device where the module is spread."""
        import torch

        if self._asked.device_map:
            for index in range(torch.cuda.device_count()):
                torch.cuda.synchronize(index)
        else:
            torch.cuda.synchronize()

    def mark(self) -> Any:
        """Return an event in the queue of the current stream; none where several devices have a part of the work."""
        import torch

        if self._asked.device_map:
            return None
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between_ms(self, start: Any, end: Any) -> float:
        """Return the time between two events."""
        return float(start.elapsed_time(end))

    def device_memory_bytes(self) -> int | None:
        """Return the highest memory that torch reserved on its devices in this process."""
        return self.allocator_bytes().get("reserved_bytes")

    def allocator_bytes(self) -> dict[str, int]:
        """Return the highest of torch's allocator, over all devices where the module is spread."""
        import torch

        devices = range(torch.cuda.device_count()) if self._asked.device_map else [torch.cuda.current_device()]
        result = {
            "allocated_bytes": sum(int(torch.cuda.max_memory_allocated(each)) for each in devices),
            "reserved_bytes": sum(int(torch.cuda.max_memory_reserved(each)) for each in devices),
        }
        return {name: value for name, value in result.items() if value}

    def device_key(self, device: str | None) -> str | None:
        """Return the device's UUID, which stays the same whatever is visible; its index where torch does not tell."""
        import torch

        device_properties = torch.cuda.get_device_properties(device or "cuda")
        uuid = getattr(device_properties, "uuid", None)
        kind = "MIG" if mig_profile(device_properties.name) else "GPU"
        return f"{kind}-{uuid}" if uuid is not None else f"{self.name}-{torch.cuda.current_device()}"

    def watcher(self, device: str | None) -> Watcher | Unread | None:
        """Return the device as NVML shows it."""
        import torch

        device_properties = torch.cuda.get_device_properties(device or "cuda")
        if getattr(device_properties, "uuid", None) is None:
            return Unread("this torch does not tell a device's UUID.", "Install torch 2.5 or newer.")
        return find_nvidia(str(self.device_key(device)), device_properties.name)


class Rocm(Cuda):
    """torch on AMD devices: a ROCm build, which calls its devices `cuda`."""

    name = "rocm"

    def _exists(self) -> str | None:
        import torch

        if torch.version.hip is None:
            return "this torch is not a ROCm build."
        return None if torch.cuda.is_available() else "torch sees no ROCm device."

    def precisions(self) -> tuple[str, ...]:
        """Return those of every torch device, and fp8 where the device multiplies in it."""
        fp8 = () if "fp8" in self.refusals() else ("fp8",)
        return (*TorchPlatform.precisions(self), *fp8)

    def _fp8_problem(self) -> str | None:
        import torch

        return amd_fp8_problem(torch.cuda.get_device_properties("cuda").gcnArchName)

    def _allow_tf32(self, allowed: bool) -> None:
        """ROCm has no tf32 to turn off."""

    def watcher(self, device: str | None) -> Watcher | Unread | None:
        """Return the device as amdsmi shows it."""
        import torch

        device_properties = torch.cuda.get_device_properties(device or "cuda")
        if not hasattr(device_properties, "pci_bus_id"):
            return Unread("this torch does not tell a device's PCI address.", "Install torch 2.5 or newer.")
        return find_amd(
            f"{device_properties.pci_domain_id:04x}:{device_properties.pci_bus_id:02x}:{device_properties.pci_device_id:02x}.0"
        )


def amd_fp8_problem(architecture: str) -> str | None:
    """Return why an AMD device of that architecture (`gfx942:sramecc+`) cannot multiply in fp8, or None where it can."""
    name = architecture.partition(":")[0]
    if name.startswith(("gfx94", "gfx95", "gfx12")):
        return None
    return f"fp8 needs gfx942 (MI300), gfx950 or gfx12, and this device is {name}."


def _spread(module: Any) -> Any:
    """Return the module with its layers spread over all devices, as accelerate balances them."""
    if importlib.util.find_spec("accelerate") is None:
        raise PartMissing("device-map needs accelerate.", field="options", remedy="pip install accelerate")
    accelerate = importlib.import_module("accelerate")
    balanced = importlib.import_module("accelerate.utils").get_balanced_memory
    whole = getattr(module, "_no_split_modules", None) or []
    memory = balanced(module, no_split_module_classes=list(whole))
    # A layer on the processor would be measured as if it were on a device.
    memory = {device: size for device, size in memory.items() if isinstance(device, int)}
    places = accelerate.infer_auto_device_map(module, max_memory=memory, no_split_module_classes=list(whole))
    if {"cpu", "disk"} & set(places.values()):
        raise MemoryError("the module does not fit into the memory of all devices together")
    return accelerate.dispatch_model(module, device_map=places)


def _places(module: Any) -> dict[str, int]:
    """Return how many parts of a spread module each device holds."""
    matches: dict[str, int] = {}
    for place in getattr(module, "hf_device_map", {}).values():
        matches[str(place)] = matches.get(str(place), 0) + 1
    return matches
