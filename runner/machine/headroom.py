"""How much memory this process may still take: of the machine, and of the group of processes that bounds it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import psutil

from domain.errors import AssayError
from runner.machine.processor import control_groups

__all__ = [
    "CONVERTING",
    "FP32_BYTES",
    "MARGIN",
    "RUNTIME_BYTES",
    "WEIGHT_BYTES",
    "NotEnoughMemory",
    "available_bytes",
    "resting_bytes",
    "weights_bytes",
]

MARGIN = 0.2
"""Of everything counted; for what allocators round up and libraries keep for themselves."""
RUNTIME_BYTES = 400_000_000
"""Resident memory of a process that has imported torch and transformers and run a first small model."""
WEIGHT_BYTES = {"fp16": 2.0, "bf16": 2.0, "fp8": 1.0, "int8": 1.0, "int4": 0.5, "fp4": 0.5}
FP32_BYTES = 4.0
CONVERTING = frozenset({"openvino", "onnxruntime"})
_QUANTIZED = ("fp8", "int8", "int4", "fp4")

_UNLIMITED = 2**60
"""Version 1 of control groups writes a number near 2^63 where there is no limit."""


class NotEnoughMemory(AssayError, MemoryError):
    """What was asked for needs more memory than is free."""

    type = "not-enough-memory"
    status = 507


def available_bytes(groups: Iterable[Path] | None = None) -> int:
    """Return the bytes that can be allocated without swapping, and without the control group's ending us.

    The least of what the machine has available and of limit − use of every control group above this process (Linux,
    both versions; `groups` names other folders); pages of files that the kernel may drop do not count as used.
    """
    result = int(psutil.virtual_memory().available)
    for folder in control_groups("memory") if groups is None else groups:
        room = _room(folder)
        result = result if room is None else min(result, room)
    return max(result, 0)


def weights_bytes(parameters: int, precision: str, platform: str) -> int:
    """Return what the weights take at their peak: quantizing and converting hold them in fp32 as well."""
    size = WEIGHT_BYTES.get(precision, FP32_BYTES)
    twice = precision in _QUANTIZED or platform in CONVERTING
    return int(parameters * (size + FP32_BYTES if twice else size))


def resting_bytes(parameters: int, precision: str, platform: str) -> int:
    """Return what a loaded model takes before its first call, with the margin, from its number of parameters alone."""
    return int((weights_bytes(parameters, precision, platform) + RUNTIME_BYTES) * (1 + MARGIN))


def _room(folder: Path) -> int | None:
    limit = _number(folder / "memory.max") or _number(folder / "memory.limit_in_bytes")
    used = _number(folder / "memory.current") or _number(folder / "memory.usage_in_bytes")
    if limit is None or used is None or limit >= _UNLIMITED:
        return None
    return limit - used + _droppable(folder / "memory.stat")


def _number(path: Path) -> int | None:
    try:
        text = path.read_text("utf-8").strip()
    except OSError:
        # Absent in the other version of control groups, and in a group without this controller.
        return None
    return int(text) if text.isdigit() else None


def _droppable(path: Path) -> int:
    try:
        lines = path.read_text("utf-8").splitlines()
    except OSError:
        return 0
    counted = dict(line.split(" ", 1) for line in lines if " " in line)
    return int(counted.get("total_inactive_file") or counted.get("inactive_file") or 0)
