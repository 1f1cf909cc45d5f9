"""PyTorch's own devices: cpu, cuda, rocm, mps, xpu. What is told apart here is how each is found and waited for."""

from __future__ import annotations

from runner.platforms.torch_platform import TorchPlatform

__all__ = ["Cpu", "Cuda", "Mps", "Rocm", "TorchPlatform", "Xpu"]


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
        return ("fp32", "tf32", *super().precisions()[1:])

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
        return TorchPlatform.precisions(self)

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
