"""The machine of a run, as far as figures depend on it: no names, no paths."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import psutil

__all__ = ["machine", "versions"]

_PACKAGES = (
    "adbc-driver-postgresql", "duckdb", "granian", "httpx", "litestar", "msgspec", "numpy", "psycopg", "pyarrow",
)  # fmt: skip


def machine() -> dict[str, Any]:
    """Return processor, cores, memory, system and the versions of what the figures rest on."""
    return {
        "processor": _processor(),
        "cores": psutil.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "packages": versions(_PACKAGES),
    }


def versions(packages: tuple[str, ...]) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    told = Path("/proc/cpuinfo")
    if told.is_file():
        for line in told.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
