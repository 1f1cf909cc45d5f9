"""Which of the processes on a device are our own: decided from what a driver lists, where that is possible."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["Shared", "own_names", "shared"]

_STATUS = Path("/proc/self/status")


class Shared(NamedTuple):
    """Bytes of this process, how many others there are, and their bytes; None is unknown."""

    own_bytes: int | None
    others: int
    others_bytes: int | None


def own_names(status: Path = _STATUS) -> frozenset[int]:
    """Return the process ids under which a driver may list this process.

    In a container a process has one id for each name space that it can see; that of the host is not among them.
    """
    result = {os.getpid()}
    if status.exists():
        line = next((line for line in status.read_text("utf-8").splitlines() if line.startswith("NSpid:")), "")
        result |= {int(word) for word in line.split()[1:]}
    return frozenset(result)


def shared(processes: Sequence[tuple[int, int | None]], own: frozenset[int], *, present: bool = True) -> Shared:
    """Return how a device is shared, from (process id, bytes or None) as the driver lists them.

    `present` says that this process uses the device by now. Where none of its ids is listed (a container) and others
    are, one of them has to be this process: it is not counted, and its bytes are those of the only one there is.
    """
    mine = [each for each in processes if each[0] in own]
    others = [each for each in processes if each[0] not in own]
    if not mine and present and others:
        mine, others = (others, []) if len(others) == 1 else ([], others[1:])
    sizes = [size for _, size in others]
    return Shared(
        own_bytes=sum(size for _, size in mine if size is not None) or None,
        others=len(others),
        others_bytes=sum(size for size in sizes if size is not None) or None,
    )
