"""Limits on connections: how many at a time, how many from one address, and how long one may be silent."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import struct
import sys
import threading
from collections import defaultdict
from pathlib import Path

__all__ = ["CONNECTIONS", "ActivePeers", "AddressLimit", "connection_limit"]

_LOG = logging.getLogger(__name__)
CONNECTIONS = 2048
"""Connections that a process works on at a time, and that may wait to be accepted."""
RESERVED_DESCRIPTORS = 40
"""For Postgres, the tables, files and child processes."""
LEAST_CONNECTIONS = 8
LOOK_S = 0.5
_DESCRIPTORS = Path("/proc/self/fd")
_LINUX = sys.platform == "linux"
_TCP_INFO_SILENCE = struct.Struct("=44xI4xI")
"""Of `struct tcp_info` (linux/tcp.h): milliseconds since data was last sent and last received."""


def connection_limit(wanted: int) -> int:
    """Raise the limit of file descriptors as far as it goes and return how many connections fit under it, at most `wanted`."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = wanted + 4 * RESERVED_DESCRIPTORS
    if soft != resource.RLIM_INFINITY and soft < most:
        soft = most if hard == resource.RLIM_INFINITY else min(hard, most)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    room = max(LEAST_CONNECTIONS, min(wanted, soft - RESERVED_DESCRIPTORS))
    if room < wanted:
        _LOG.warning("%s file descriptors allow %s connections at a time; raise `ulimit -n` for %s", soft, room, wanted)
    return room


class ActivePeers:
    """The addresses and ports of clients whose requests are under way."""

    def __init__(self) -> None:
        self._peers: dict[tuple[str, str], int] = {}

    def enter(self, peer: tuple[str, int | str] | None) -> None:
        """Count a request of a client; the server names the port in text."""
        if peer is not None:
            key = (peer[0], str(peer[1]))
            self._peers[key] = self._peers.get(key, 0) + 1

    def leave(self, peer: tuple[str, int | str] | None) -> None:
        """Forget a request of a client."""
        if peer is not None:
            key = (peer[0], str(peer[1]))
            left = self._peers.get(key, 0) - 1
            if left > 0:
                self._peers[key] = left
            else:
                self._peers.pop(key, None)

    def __contains__(self, peer: tuple[str, int]) -> bool:
        return (peer[0], str(peer[1])) in self._peers


class AddressLimit:
    """Closes the connections that one address holds beyond a limit, the longest silent first.

    A context manager: a thread looks at this process's own sockets. Connections whose request is under way are never
    closed. It works on Linux; elsewhere only the time limit of silent connections holds.
    """

    def __init__(self, limit: int, active: ActivePeers) -> None:
        self._limit = limit
        self._active = active
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="connections", daemon=True)

    def __enter__(self) -> AddressLimit:
        if _LINUX:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopping.wait(LOOK_S):
            # Counting names is cheap, looking at each socket is not.
            if sum(1 for _ in _DESCRIPTORS.iterdir()) > self._limit:
                self.enforce()

    def enforce(self) -> int:
        """Close what is over the limit now, and return how many connections that were."""
        by_address: dict[str, list[tuple[int, socket.socket]]] = defaultdict(list)
        with contextlib.ExitStack() as stack:
            ports: set[int] = set()
            peers: list[tuple[str, int, int, socket.socket]] = []
            for path in list(_DESCRIPTORS.iterdir()):
                connection = _tcp_socket(path)
                if connection is None:
                    continue
                stack.enter_context(connection)
                with contextlib.suppress(OSError):
                    port = connection.getsockname()[1]
                    if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                        ports.add(port)
                    else:
                        host, from_port = connection.getpeername()[:2]
                        # The server leaves out the interface of a link-local address.
                        peers.append((host.partition("%")[0], from_port, port, connection))
            for host, from_port, port, connection in peers:
                if port in ports:
                    silence = -1 if (host, from_port) in self._active else _silence_ms(connection)
                    by_address[host].append((silence, connection))
            closed = 0
            for host, connections in by_address.items():
                extra = len(connections) - self._limit
                if extra <= 0:
                    continue
                connections.sort(key=lambda item: -item[0])
                for silence, connection in connections[:extra]:
                    if silence >= 0:
                        with contextlib.suppress(OSError):
                            connection.shutdown(socket.SHUT_RDWR)
                            closed += 1
                if closed:
                    _LOG.warning("%s holds %s connections; the limit is %s", host, len(connections), self._limit)
        return closed


def _tcp_socket(path: Path) -> socket.socket | None:
    """Return another handle of a TCP socket of this process, or None where the descriptor is something else."""
    try:
        if not str(path.readlink()).startswith("socket:"):
            return None
        connection = socket.socket(fileno=os.dup(int(path.name)))
    except OSError:
        return None
    if connection.family in (socket.AF_INET, socket.AF_INET6) and connection.type == socket.SOCK_STREAM:
        return connection
    connection.close()
    return None


def _silence_ms(connection: socket.socket) -> int:
    try:
        sent, received = _TCP_INFO_SILENCE.unpack_from(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192))
    except (OSError, struct.error):
        return 0
    return int(min(sent, received))
