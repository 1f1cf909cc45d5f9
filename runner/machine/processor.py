"""What the operating system says about this machine's CPU: name, usable cores, caches, instructions, memory."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import msgspec
import psutil

__all__ = [
    "WINDOWS_MACHINE",
    "Processor",
    "affinity",
    "control_groups",
    "cpu_quota",
    "processor",
    "quota_of",
    "registry_value",
    "threads_allowed",
]

_INSTRUCTIONS = (
    "sse4_2",
    "avx",
    "fma",
    "avx2",
    "avx_vnni",
    "avx512f",
    "avx512_vnni",
    "avx512_bf16",
    "avx512_fp16",
    "amx_tile",
    "amx_bf16",
    "amx_int8",
    "asimd",
    "asimdhp",
    "asimddp",
    "i8mm",
    "bf16",
    "sve",
    "sve2",
)
_CPUINFO = Path("/proc/cpuinfo")
_CACHES = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")

_AMD_SERIES = (
    (23, range(0x10), "7001"),
    (23, range(0x30, 0x40), "7002"),
    (25, range(0x10), "7003"),
    (25, range(0x10, 0x20), "9004"),
    (25, range(0xA0, 0xB0), "97x4"),
    (26, range(0x20), "9005"),
)
"""CPUID family and models of the EPYC series, for hypervisors that hide the rest of the name."""


class Processor(msgspec.Struct, frozen=True, kw_only=True):
    """A machine's CPU. `cores` are physical and usable (a container's CPU quota counts, affinity does not);
    `threads` is how many this process may run at once. Sizes in bytes, clock in Hz; None is not readable here."""

    name: str
    vendor: str | None
    machine: str
    sockets: int
    cores: int
    threads: int
    instructions: tuple[str, ...]
    cache_bytes: dict[str, int]
    clock_hz: float | None
    clock_source: str | None
    memory_bytes: int
    quota_cpus: float | None
    virtual: bool

    @property
    def last_level_bytes(self) -> int | None:
        """Size of the largest cache level that could be read, in bytes."""
        return self.cache_bytes[max(self.cache_bytes)] if self.cache_bytes else None


@cache
def processor() -> Processor:
    """Return this machine's CPU as the operating system describes it. Environment variables have no say."""
    return {"darwin": _macos, "win32": _windows}.get(sys.platform, _linux)()


def threads_allowed() -> int:
    """Return how many threads this process may run at once: its affinity, or a container's CPU quota if lower."""
    allowed = len(affinity() or ()) or os.cpu_count() or 1
    return max(1, min(allowed, int(cpu_quota() or allowed)))


def affinity() -> list[int] | None:
    """Return the numbers of the processors that this process is bound to; None on macOS, which binds none."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return sorted(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity") else None


def cpu_quota() -> float | None:
    """Return the CPUs that this process's control group may use, or None without a limit."""
    limits = [limit for folder in control_groups("cpu") if (limit := quota_of(folder)) is not None]
    return min(limits) if limits else None


def quota_of(folder: Path) -> float | None:
    """Return the CPUs that one control group's folder grants (version 2 or 1), or None without a limit."""
    unified = _read(folder / "cpu.max")
    if unified is not None:
        quota, _, period = unified.partition(" ")
        return None if quota == "max" else int(quota) / int(period)
    legacy, every = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
    return int(legacy) / int(every) if legacy and every and int(legacy) > 0 else None


def _memory_limit() -> int | None:
    result = (
        _read(folder / name) for folder in control_groups("memory") for name in ("memory.max", "memory.limit_in_bytes")
    )
    limits = [int(text) for text in result if text and text.isdigit()]
    return min(limits) if limits else None


def control_groups(controller: str) -> list[Path]:
    """Return the folders of this process's control group and its parents, of both versions, where they are there."""
    folders: list[Path] = []
    for line in (_read(Path("/proc/self/cgroup")) or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        root = _CGROUP / controllers if controllers else _CGROUP
        inner = root / path.lstrip("/")
        folders += [folder for folder in (inner, *inner.parents) if folder.is_relative_to(root)]
    return [folder for folder in dict.fromkeys((*folders, _CGROUP, _CGROUP / controller)) if folder.is_dir()]


def _linux() -> Processor:
    blocks = [_fields(block) for block in (_read(_CPUINFO) or "").split("\n\n") if block.strip()]
    first = blocks[0] if blocks else {}
    flags = set((first.get("flags") or first.get("Features") or "").split())
    quota = cpu_quota()
    physical = psutil.cpu_count(logical=False) or psutil.cpu_count() or 1
    clock_hz, clock_source = _linux_clock(first)
    limit = _memory_limit()
    total = int(psutil.virtual_memory().total)
    return Processor(
        name=_linux_name(first),
        vendor=_vendor(first.get("vendor_id") or first.get("CPU implementer") or ""),
        machine=platform.machine(),
        sockets=len({block["physical id"] for block in blocks if "physical id" in block}) or 1,
        cores=physical if quota is None else max(1, min(physical, round(quota))),
        threads=threads_allowed(),
        instructions=tuple(name for name in _INSTRUCTIONS if name in flags),
        cache_bytes=_linux_caches(),
        clock_hz=clock_hz,
        clock_source=clock_source,
        memory_bytes=total if limit is None else min(total, limit),
        quota_cpus=quota,
        virtual="hypervisor" in flags,
    )


def _linux_name(fields: dict[str, str]) -> str:
    name = fields.get("model name") or _device_tree() or _arm_core(fields) or platform.machine()
    if name.strip() != "AMD EPYC" or not fields.get("cpu family"):
        return name.strip()
    family, model = int(fields["cpu family"]), int(fields.get("model", "0"))
    series = next((s for f, models, s in _AMD_SERIES if f == family and model in models), None)
    return f"AMD EPYC {series}" if series else name.strip()


def _device_tree() -> str | None:
    text = _read(Path("/proc/device-tree/model"))
    return text.strip("\x00") if text else None


_ARM_CORES = {
    ("0x41", "0xd08"): "ARM Cortex-A72",
    ("0x41", "0xd0c"): "ARM Neoverse-N1",
    ("0x41", "0xd40"): "ARM Neoverse-V1",
    ("0x41", "0xd42"): "ARM Cortex-A78AE",
    ("0x41", "0xd49"): "ARM Neoverse-N2",
    ("0x41", "0xd4f"): "ARM Neoverse-V2",
}


def _arm_core(fields: dict[str, str]) -> str | None:
    return _ARM_CORES.get((fields.get("CPU implementer", ""), fields.get("CPU part", "")))


def _linux_clock(fields: dict[str, str]) -> tuple[float | None, str | None]:
    """The base clock where one is published, else the name's, else what the kernel reports now."""
    base = _read(_CACHES / "cpu0/cpufreq/base_frequency")
    if base:
        return int(base) * 1e3, "cpufreq base_frequency"
    named = re.search(r"@\s*([\d.]+)\s*GHz", fields.get("model name", ""))
    if named:
        return float(named.group(1)) * 1e9, "the CPU's name"
    if fields.get("cpu MHz"):
        return float(fields["cpu MHz"]) * 1e6, "/proc/cpuinfo cpu MHz"
    highest = _read(_CACHES / "cpu0/cpufreq/cpuinfo_max_freq")
    return (int(highest) * 1e3, "cpufreq cpuinfo_max_freq") if highest else (None, None)


def _linux_caches() -> dict[str, int]:
    """Total size by level over the whole machine, each shared cache counted once."""
    seen: dict[tuple[str, str], int] = {}
    for index in _CACHES.glob("cpu[0-9]*/cache/index*"):
        kind, level, size = (_read(index / part) for part in ("type", "level", "size"))
        if kind == "Instruction" or not level or not size:
            continue
        shared = _read(index / "shared_cpu_list") or index.parent.parent.name
        seen[f"L{level}", shared] = int(size.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(size[-1], 1)
    totals: dict[str, int] = {}
    for (level, _), size_bytes in seen.items():
        totals[level] = totals.get(level, 0) + size_bytes
    return dict(sorted(totals.items()))


_MACOS_FLAGS = {
    "asimdhp": "hw.optional.arm.FEAT_FP16",
    "bf16": "hw.optional.arm.FEAT_BF16",
    "i8mm": "hw.optional.arm.FEAT_I8MM",
    "avx2": "hw.optional.avx2_0",
    "fma": "hw.optional.fma",
    "avx512f": "hw.optional.avx512f",
}


def _macos() -> Processor:
    name = _sysctl("machdep.cpu.brand_string") or platform.machine()
    caches = {f"L{level}": _sysctl(f"hw.l{level}cachesize") for level in (2, 3)}
    frequency = _sysctl("hw.cpufrequency")
    arm = platform.machine() == "arm64"
    present = {flag for flag, key in _MACOS_FLAGS.items() if _sysctl(key) == "1"} | ({"asimd"} if arm else set())
    return Processor(
        name=name,
        vendor="apple" if arm else "intel",
        machine=platform.machine(),
        sockets=1,
        cores=psutil.cpu_count(logical=False) or 1,
        threads=threads_allowed(),
        instructions=tuple(flag for flag in _INSTRUCTIONS if flag in present),
        cache_bytes={level: int(size) for level, size in caches.items() if size and int(size)},
        clock_hz=float(frequency) if frequency and float(frequency) else None,
        clock_source="sysctl hw.cpufrequency" if frequency else None,
        memory_bytes=int(psutil.virtual_memory().total),
        quota_cpus=None,
        virtual=_sysctl("kern.hv_vmm_present") == "1",
    )


_WINDOWS_FEATURES = {
    38: "sse4_2",
    39: "avx",
    40: "avx2",
    41: "avx512f",
    19: "asimd",
    43: "asimddp",
}
"""Numbers of IsProcessorFeaturePresent (winnt.h, PF_…); it is not asked of fma, VNNI, bf16 and AMX, which have none."""
_WINDOWS_PROCESSOR = r"HARDWARE\DESCRIPTION\System\CentralProcessor\0"
WINDOWS_MACHINE = r"HARDWARE\DESCRIPTION\System\BIOS"


def _windows() -> Processor:
    name = registry_value(_WINDOWS_PROCESSOR, "ProcessorNameString") or platform.processor() or platform.machine()
    megahertz = registry_value(_WINDOWS_PROCESSOR, "~MHz")
    product = str(registry_value(WINDOWS_MACHINE, "SystemProductName") or "")
    return Processor(
        name=str(name).strip(),
        vendor=_vendor(str(registry_value(_WINDOWS_PROCESSOR, "VendorIdentifier") or "")),
        machine={"AMD64": "x86_64"}.get(platform.machine(), platform.machine().lower()),
        sockets=1,
        cores=psutil.cpu_count(logical=False) or psutil.cpu_count() or 1,
        threads=threads_allowed(),
        instructions=_windows_instructions(),
        cache_bytes={},
        clock_hz=float(megahertz) * 1e6 if megahertz else None,
        clock_source="registry ~MHz" if megahertz else None,
        memory_bytes=int(psutil.virtual_memory().total),
        quota_cpus=None,
        virtual=re.search("virtual|vmware|kvm|qemu|hvm", product, re.IGNORECASE) is not None,
    )


def _windows_instructions() -> tuple[str, ...]:
    """Return the instructions that Windows says are there."""
    if sys.platform == "win32":
        import ctypes

        kernel = ctypes.windll.kernel32
        present = {name for number, name in _WINDOWS_FEATURES.items() if kernel.IsProcessorFeaturePresent(number)}
        return tuple(name for name in _INSTRUCTIONS if name in present)
    return ()


def registry_value(key: str, name: str) -> str | int | None:
    """Return a value below HKEY_LOCAL_MACHINE of Windows' registry; None where it is absent, and on other systems."""
    if sys.platform == "win32":
        import winreg

        with contextlib.suppress(OSError), winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, key) as opened:
            value: str | int = winreg.QueryValueEx(opened, name)[0]
            return value
    return None


def _sysctl(key: str) -> str | None:
    done = subprocess.run(["/usr/sbin/sysctl", "-n", key], capture_output=True, text=True, timeout=5, check=False)
    return done.stdout.strip() or None if done.returncode == 0 else None


def _vendor(word: str) -> str | None:
    x86 = {"AuthenticAMD": "amd", "GenuineIntel": "intel"}
    arm = {"0x41": "arm", "0x51": "qualcomm", "0x61": "apple", "0xc0": "ampere"}
    return (x86 | arm).get(word)


def _fields(block: str) -> dict[str, str]:
    pairs = (line.partition(":") for line in block.splitlines() if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _read(path: Path) -> str | None:
    """The file's text without its last line end, or None where it is absent or closed to us."""
    try:
        return path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None
