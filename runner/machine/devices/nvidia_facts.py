"""What NVIDIA's figures and messages mean, decided without a device.

Sources: the NVML API reference (nvmlClocksEventReasons; units in mW, mJ, MHz, °C), NVIDIA's table of the lowest driver for
each CUDA version, and the warnings of torch/csrc/cuda and torch/cuda/__init__.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = ["DEVICE_LOST", "absence", "architecture_problem", "fp8_problem", "lost_reasons", "mig_profile", "slowed_by"]

_REASONS = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "power_cap",
    0x8: "hardware_slowdown",
    0x10: "sync_boost",
    0x20: "thermal_slowdown",
    0x40: "hardware_thermal_slowdown",
    0x80: "power_brake",
    0x100: "display_clocks",
}
_MIG = re.compile(r"\bMIG\s+(\d+(?:c\.\d+)?g\.\d+gb(?:\+\w+)?)", re.I)
_TOO_OLD = re.compile(r"driver on your system is too old \(found version (\d+)\)", re.I)
_LOST = (
    "gpu is lost",
    "fallen off the bus",
    "no cuda-capable device is detected",
    "cuda error: unknown error",
    "hiperrornodevice",
    "no rocm-capable device",
    "hip error: unknown",
    "ur_result_error_device_lost",
    "dxgi_error_device_removed",
    "uncorrectable ecc",
    "ze_result_error_device_lost",
    "nvml_error_gpu_is_lost",
)


DEVICE_LOST = "The device is gone: look into dmesg (NVIDIA: Xid), end what hangs on it, reset or restart, and go on with --resume."
"""What to do where `lost_reasons` says yes."""


def slowed_by(mask: int) -> list[str]:
    """Return the reasons in a mask of clock events, in words; a bit that nobody has documented stays a number."""
    words = [word for bit, word in _REASONS.items() if mask & bit]
    unknown = mask & ~sum(_REASONS)
    return [*words, *([f"reason_{unknown:#x}"] if unknown else [])]


def mig_profile(name: str) -> str | None:
    """Return the slice in a device's name (`1g.10gb`), or None for a whole device."""
    match = _MIG.search(name)
    return match.group(1).lower() if match else None


def absence(messages: Iterable[str], driver: str | None, built_for: str | None) -> tuple[str, str]:
    """Return why torch sees no CUDA device, and what to do, from the warnings that it gave and the driver's version."""
    text = " ".join(messages)
    old = _TOO_OLD.search(text)
    if old:
        supports = int(old.group(1))
        speaks = f"CUDA {supports // 1000}.{supports % 1000 // 10}"
        return (
            f"the driver {driver or ''}".rstrip()
            + f" is too old: it speaks {speaks}, not CUDA {built_for or 'of this torch'}.",
            f"Update the driver, or install a torch that is built for {speaks} or older.",
        )
    if "unknown error" in text.lower():
        return (
            "the driver answers with an unknown error.",
            "Look into dmesg for Xid, load the module anew (modprobe -r nvidia_uvm; modprobe nvidia_uvm), or restart.",
        )
    if driver:
        return (
            f"torch sees no CUDA device, though the driver {driver} is loaded.",
            "Look at CUDA_VISIBLE_DEVICES, at the container's --gpus, and at nvidia-smi.",
        )
    return "torch sees no CUDA device.", "Run on a machine with an NVIDIA device and its driver."


def architecture_problem(capability: tuple[int, int], built: Sequence[str]) -> str | None:
    """Return why this torch has no kernels for a device of that capability, or None where it has.

    `built` is what torch.cuda.get_arch_list gives: `sm_90` runs on 9.x from 9.0 on, `compute_90` on all that is newer.
    """
    if not built:
        return None
    major, minor = capability
    for name in built:
        kind, _, number = name.partition("_")
        digits = re.sub(r"\D", "", number)
        if len(digits) < 2:
            continue
        own = (int(digits[:-1]), int(digits[-1]))
        if (kind == "compute" and (major, minor) >= own) or (kind == "sm" and own[0] == major and minor >= own[1]):
            return None
    return f"this torch has kernels for {', '.join(built)} and none for capability {major}.{minor}."


def fp8_problem(capability: tuple[int, int]) -> str | None:
    """Return why a device of that capability cannot multiply in fp8, or None where it can (Ada, Hopper and newer)."""
    if capability >= (8, 9):
        return None
    return (
        f"fp8 needs compute capability 8.9 (Ada, Hopper) or newer, and this device has {capability[0]}.{capability[1]}."
    )


def lost_reasons(message: str) -> bool:
    """Return whether a message says that the device is gone, rather than that the work was wrong."""
    text = message.lower()
    return any(each in text for each in _LOST)
