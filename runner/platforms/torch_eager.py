"""PyTorch on its own devices: cpu, cuda, rocm, mps, xpu. One implementation, strict probes.

What did the work is seen operator by operator, in one more call under a dispatch mode: each operator with known
FLOPs counts by its FLOPs, with the device and the type of its inputs.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections import Counter
from typing import Any, ClassVar

from domain.configuration import Runtime
from runner.platforms.base import Observation, Platform, Probe, Settings

__all__ = ["Cpu", "Cuda", "Mps", "Rocm", "TorchPlatform", "Xpu"]

_DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}
_NAMES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16", "float64": "fp64"}
_MISSING = Probe(
    available=False,
    reason="torch is not installed.",
    remedy="Install the runner extra: pip install 'assay-bench[runner]'.",
)


class TorchPlatform(Platform):
    """Eager (or `torch.compile`d) execution of a module on one torch device."""

    device_type: ClassVar[str]

    def __init__(self) -> None:
        self._module: Any = None
        self._settings: Settings | None = None

    def _exists(self) -> str | None:
        """Return why torch has no such device here, or None where it has one."""
        raise NotImplementedError

    def _device_names(self) -> tuple[str, ...]:
        raise NotImplementedError

    def probe(self) -> Probe:
        """Return whether the device exists, shown by a small matrix product on it."""
        if importlib.util.find_spec("torch") is None:
            return _MISSING
        import torch

        reason = self._exists()
        if reason:
            return Probe(available=False, reason=reason, remedy=f"Run on a machine with a {self.name} device.")
        try:
            product = torch.ones(8, 8, device=self.device_type) @ torch.ones(8, 8, device=self.device_type)
            total, where = float(product.sum().cpu()), product.device.type
        except RuntimeError as error:
            return Probe(available=False, reason=f"the device refused a small matrix product: {error}")
        if total != 512.0 or where != self.device_type:
            reason = f"a small matrix product gave {total} on {where}, not 512 on {self.device_type}."
            return Probe(available=False, reason=reason)
        evidence = f"torch {torch.__version__}: 8×8 matrix product on {product.device} gave the right sum"
        return Probe(available=True, devices=self._device_names(), evidence=evidence)

    def runtime(self) -> Runtime:
        """Return torch and its version, without the build's suffix."""
        try:
            version = importlib.metadata.version("torch").split("+")[0]
        except importlib.metadata.PackageNotFoundError:
            version = None
        return Runtime(name="torch", version=version)

    def precisions(self) -> tuple[str, ...]:
        """Return fp32 (no shortcuts), bf16 and fp16."""
        return ("fp32", "bf16", "fp16")

    def load(self, model: Any, settings: Settings) -> None:
        """Move the module to the device in the precision asked for; fp32 means IEEE fp32, never tf32."""
        import torch

        torch.set_num_threads(settings.threads)
        torch.set_float32_matmul_precision("high" if settings.precision == "tf32" else "highest")
        self._settings = settings
        self._allow_tf32(settings.precision == "tf32")
        dtype = getattr(torch, _DTYPES[settings.precision])
        self._module = model.to(device=settings.device or self.device_type, dtype=dtype).eval()
        self.synchronize()

    def _allow_tf32(self, allowed: bool) -> None:
        """Set the switch for tf32 convolutions where the device has one."""

    def weights_dtype(self, precision: str) -> str:
        """Return the type itself: torch makes weights in any."""
        return _DTYPES[precision]

    def compile(self) -> bool:
        """Wrap the module with `torch.compile` where asked; its work happens in the first run."""
        import torch

        if self._settings is not None and self._settings.compiled:
            self._module = torch.compile(self._module)
        return False

    def place(self, inputs: dict[str, Any]) -> dict[str, Any]:
        """Return tensors on the device, floating ones in the module's precision."""
        import torch

        assert self._settings is not None
        dtype = getattr(torch, _DTYPES[self._settings.precision])
        device = self._settings.device or self.device_type
        placed = {}
        for name, value in inputs.items():
            tensor = torch.as_tensor(value)
            placed[name] = tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else tensor.dtype)
        return placed

    def run(self, inputs: Any) -> Any:
        """Call the module once, in inference mode."""
        import torch

        with torch.inference_mode():
            return self._module(**inputs)

    def outputs(self, result: Any) -> list[tuple[str, Any]]:
        """Return the floating outputs as float32 arrays."""
        from runner.platforms.outputs import flatten

        return [(name, tensor.detach().float().cpu().numpy()) for name, tensor in flatten(result)]

    def observe(self, inputs: Any) -> Observation:
        """Return the device and precision that carried most FLOPs of one call, and the share that was elsewhere."""
        assert self._settings is not None
        work = self._work(inputs)
        (device, precision), _ = work.most_common(1)[0]
        asked = self._settings.precision
        wanted = "fp32" if asked == "tf32" else asked
        elsewhere = sum(
            flops for (on, kind), flops in work.items() if on.split(":")[0] != self.device_type or kind != wanted
        )
        return Observation(
            device=device,
            platform=self._platform_of(device),
            precision="tf32" if asked == "tf32" and precision == "fp32" else precision,
            fallback_share=elsewhere / work.total(),
        )

    def _work(self, inputs: Any) -> Counter[tuple[str, str]]:
        """Return FLOPs by (device, precision); of parameters and outputs, by elements, where no operator is known."""
        import torch

        from runner.platforms.work import WorkRecorder

        recorder = WorkRecorder()
        module = getattr(self._module, "_orig_mod", self._module)
        with torch.no_grad(), recorder:
            result = module(**inputs)
        self.synchronize()
        work: Counter[tuple[str, str]] = Counter(recorder.work)
        if not work:
            from runner.platforms.outputs import flatten

            tensors = [*module.parameters(), *(tensor for _, tensor in flatten(result))]
            work.update({(str(t.device), str(t.dtype).removeprefix("torch.")): t.numel() for t in tensors})
        named: Counter[tuple[str, str]] = Counter()
        for (device, dtype), flops in work.items():
            named[(device, _NAMES.get(dtype, dtype))] += flops
        return named

    def _platform_of(self, device: str) -> str:
        return self.name if device.split(":")[0] == self.device_type else device.split(":")[0]

    def close(self) -> None:
        """Drop the module."""
        self._module = None


class Cpu(TorchPlatform):
    """torch on the processor."""

    name = "cpu"
    device_type = "cpu"

    def _exists(self) -> str | None:
        return None

    def _device_names(self) -> tuple[str, ...]:
        return ("cpu",)


class Cuda(TorchPlatform):
    """torch on NVIDIA devices; a ROCm build of torch answers under the same name and is refused here."""

    name = "cuda"
    device_type = "cuda"

    def _exists(self) -> str | None:
        import torch

        if torch.version.hip is not None:
            return "this torch is a ROCm build; its devices are the rocm platform."
        if torch.version.cuda is None:
            return "this torch is built without CUDA."
        return None if torch.cuda.is_available() else "torch sees no CUDA device."

    def _device_names(self) -> tuple[str, ...]:
        import torch

        return tuple(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))

    def precisions(self) -> tuple[str, ...]:
        """Return those of every torch device, and tf32."""
        return ("fp32", "tf32", "bf16", "fp16")

    def _allow_tf32(self, allowed: bool) -> None:
        import torch

        torch.backends.cudnn.conv.fp32_precision = "tf32" if allowed else "ieee"
        torch.backends.cuda.matmul.fp32_precision = "tf32" if allowed else "ieee"

    def synchronize(self) -> None:
        """Wait for all streams of the device."""
        import torch

        torch.cuda.synchronize()

    def device_memory_bytes(self) -> int | None:
        """Return the highest memory that torch reserved on the device in this process."""
        import torch

        return int(torch.cuda.max_memory_reserved()) or None


class Rocm(Cuda):
    """torch on AMD devices: a ROCm build, which calls its devices `cuda`."""

    name = "rocm"

    def _exists(self) -> str | None:
        import torch

        if torch.version.hip is None:
            return "this torch is not a ROCm build."
        return None if torch.cuda.is_available() else "torch sees no ROCm device."

    def precisions(self) -> tuple[str, ...]:
        """Return those of every torch device."""
        return ("fp32", "bf16", "fp16")

    def _allow_tf32(self, allowed: bool) -> None:
        """ROCm has no tf32 to turn off."""


class Mps(TorchPlatform):
    """torch on Apple's graphics processor."""

    name = "mps"
    device_type = "mps"

    def _exists(self) -> str | None:
        import torch

        if not torch.backends.mps.is_built():
            return "this torch is built without MPS."
        return None if torch.backends.mps.is_available() else "torch sees no Metal device."

    def _device_names(self) -> tuple[str, ...]:
        return ("mps",)

    def synchronize(self) -> None:
        """Wait for the command queue."""
        import torch

        torch.mps.synchronize()

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

    def device_memory_bytes(self) -> int | None:
        """Return the highest memory that torch reserved on the device in this process."""
        import torch

        return int(torch.xpu.max_memory_reserved()) or None
