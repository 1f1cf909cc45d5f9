"""Resident memory of this process, as the operating system counts it."""

from __future__ import annotations

import sys
from pathlib import Path

__all__ = ["peak_memory_bytes", "proportional_memory_bytes", "resident_memory_bytes", "status_bytes"]

_STATUS = Path("/proc/self/status")


def status_bytes(name: str) -> int | None:
    """Return an amount in this process's status file (`VmHWM`, `VmSwap`), in bytes; None where Linux does not say."""
    if not _STATUS.exists():
        return None
    for line in _STATUS.read_text("utf-8").splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return None


def peak_memory_bytes() -> int:
    """Return the highest resident memory of this process since it started its program.

    Linux's `ru_maxrss` survives exec and so may be the parent's; its status file counts this program alone.
    """
    peak = status_bytes("VmHWM")
    if peak is not None:
        return peak
    if sys.platform == "win32":
        import psutil

        return int(psutil.Process().memory_info().peak_wset)
    else:  # noqa: RET505 - a type checker for Windows skips this branch
        import resource

        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def resident_memory_bytes() -> int:
    """Return the resident memory of this process now."""
    import psutil

    return int(psutil.Process().memory_info().rss)


def proportional_memory_bytes(pid: int) -> int:
    """Return the memory of a process, a page that n processes map counting 1/n: sums over processes count it once.

    What was swapped out counts too. Where the system does not say so (Linux does), it is the resident memory. Raises
    psutil.NoSuchProcess where the process has ended.
    """
    import psutil

    try:
        memory = psutil.Process(pid).memory_full_info()
    except psutil.AccessDenied:
        return int(psutil.Process(pid).memory_info().rss)
    return int(getattr(memory, "pss", memory.rss)) + int(getattr(memory, "swap", 0))
