"""When the kernel received what is read: SO_TIMESTAMPNS of Linux, for TCP since 4.13 (Documentation/networking/timestamping).

The stamp of a read is that of the last segment in it. It is in real time, and converted here to the monotonic clock.
"""

from __future__ import annotations

import platform
import socket
import struct
import sys
from time import perf_counter_ns, time_ns
from typing import Any

__all__ = ["HERE", "receive", "stamped_twin"]

_STAMP = 35
"""SO_TIMESTAMPNS and SCM_TIMESTAMPNS in asm-generic/socket.h; Python has no name for them."""
_MOMENT = struct.Struct("@ll")
HERE = sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64", "riscv64", "ppc64le", "s390x")
"""Whether the kernel stamps what it receives."""
_MOST = 2**16
_ROOM = socket.CMSG_SPACE(_MOMENT.size) if hasattr(socket, "CMSG_SPACE") else 0


def stamped_twin(connected: Any) -> socket.socket | None:
    """Return another handle of a connected socket whose reads are stamped; None where the kernel has no stamps."""
    if not HERE:
        return None
    try:
        connected.setsockopt(socket.SOL_SOCKET, _STAMP, 1)
    except OSError:
        return None
    twin: socket.socket = connected.dup()
    twin.setblocking(False)
    return twin


def receive(twin: socket.socket) -> tuple[bytes, int | None]:
    """Return what is there and when it came, as a reading of the monotonic clock in ns; None where there is no stamp."""
    # Sockets of Windows have no such method, and no stamps.
    stamped: Any = twin
    data, document, _, _ = stamped.recvmsg(_MOST, _ROOM)
    now, real = perf_counter_ns(), time_ns()
    for level, kind, content in document:
        if level == socket.SOL_SOCKET and kind == _STAMP and len(content) >= _MOMENT.size:
            seconds, nanoseconds = _MOMENT.unpack_from(content)
            age = real - (seconds * 10**9 + nanoseconds)
            # A real-time clock that was set meanwhile would make an age that cannot be.
            return data, now - age if 0 <= age < 60 * 10**9 else None
    return data, None
