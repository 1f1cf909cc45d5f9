"""Hosts whose processes are ranks of one case: named, checked, and met at a store of the first of them.

It is the static rendezvous of torchrun: the same command runs on each host and says which of them it is.
"""

from __future__ import annotations

import importlib
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec

from domain.errors import AssayError, ServiceUnavailable, UsageError
from runner.platforms.base import Rank

__all__ = ["DEFAULT_PORT", "DEFAULT_WAIT_S", "Nodes", "choose_interface", "connect", "listen", "meet", "read_nodes"]

DEFAULT_PORT = 29500
DEFAULT_WAIT_S = 120.0
_MOST_NODES = 1024
_HERE = "127.0.0.1"
_HOST = re.compile(r"(?=.{1,253}\Z)[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}))*")
_LONGEST_S = 4 * 3600.0
"""A rank waits for its next call as long as the first one rests; a dead one is seen by its process, not by this."""
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}


class Nodes(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts of a case in their order, the port of the first, which of them this is, and how long to wait in s."""

    hosts: tuple[str, ...]
    port: int = DEFAULT_PORT
    rank: int = 0
    wait_s: float = DEFAULT_WAIT_S


def read_nodes(names: Sequence[str], rank: int | None, wait_s: float = DEFAULT_WAIT_S) -> Nodes | None:
    """Return the nodes that were named, None for none; the first may have a port. Raises UsageError."""
    if not names:
        if rank is not None:
            raise UsageError("is of several nodes.", field="node_rank", remedy="Name them: --nodes HOST,HOST.")
        return None
    first, colon, port = names[0].rpartition(":") if _has_port(names[0]) else (names[0], "", "")
    hosts = tuple(_host(name) for name in (first, *names[1:]))
    if len(set(hosts)) != len(hosts):
        raise UsageError("a host is named twice.", field="nodes", remedy="One host has all of its ranks: name it once.")
    if not 2 <= len(hosts) <= _MOST_NODES:
        raise UsageError(
            f"{len(hosts)} is no number of nodes.", field="nodes", remedy=f"Name 2 to {_MOST_NODES} hosts, or none."
        )
    if colon and not 1 <= int(port) <= 65535:
        raise UsageError(f"{port} is no port.", field="nodes", remedy="Give 1 to 65535.")
    if rank is None:
        raise UsageError(
            "several nodes, and nothing says which of them this is.",
            field="node_rank",
            remedy=f"Run the same command on each, with --node-rank 0 on {hosts[0]}, 1 on {hosts[1]} and so on.",
        )
    if not 0 <= rank < len(hosts):
        raise UsageError(
            f"{rank} is none of {len(hosts)} nodes.", field="node_rank", remedy=f"Give 0 to {len(hosts) - 1}."
        )
    return Nodes(hosts=hosts, port=int(port) if colon else DEFAULT_PORT, rank=rank, wait_s=wait_s)


def _has_port(name: str) -> bool:
    return name.count(":") == 1 and name.rpartition(":")[2].isdecimal() and name.isascii()


def _host(name: str) -> str:
    if _HOST.fullmatch(name):
        return name.lower()
    with suppress(ValueError):
        return str(ipaddress.IPv6Address(name))
    raise UsageError(
        f"{name[:60]!r} is no name of a host.",
        field="nodes",
        remedy="Write names or addresses with commas between: node1,node2 or 10.0.0.1:29500,10.0.0.2.",
    )


def listen(nodes: Nodes | None) -> tuple[Any, int]:
    """Return the store at which ranks meet, and its port: on loopback, or at the address of the first node.

    Raises UsageError where the first node is another machine, ServiceUnavailable where its port is taken.
    """
    import torch.distributed as dist

    host, port = (nodes.hosts[0], nodes.port) if nodes else (_HERE, 0)
    address = _resolved(host)
    server = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind((address, port))
        server.listen()
    except OSError as error:
        server.close()
        if error.errno in _TAKEN:
            raise ServiceUnavailable(
                f"port {port} of {host} is taken.",
                field="nodes",
                remedy=f"Name another on every node: --nodes {host}:{port + 1},…",
            ) from error
        raise UsageError(
            f"node 0 is {host}, and that is no address of this machine ({error.strerror}).",
            field="node_rank",
            remedy="Give each node its place in --nodes: the first has --node-rank 0.",
        ) from error
    port = int(server.getsockname()[1])
    store = dist.TCPStore(address, port, is_master=True, wait_for_workers=False, master_listen_fd=server.detach())
    return store, port


_TAKEN = frozenset({48, 98, 10048})
"""EADDRINUSE of macOS, Linux and Windows."""


def connect(host: str, port: int, wait_s: float) -> Any:
    """Return the store of the first rank; ServiceUnavailable where it is not there in that time."""
    import torch.distributed as dist

    try:
        return dist.TCPStore(_resolved(host), port, is_master=False, timeout=timedelta(seconds=wait_s))
    except RuntimeError as error:
        raise ServiceUnavailable(
            f"node 0 ({host}) did not listen on port {port} within {wait_s:g} s.",
            field="nodes",
            remedy="Start the same command there with --node-rank 0, and let this port through.",
        ) from error


def _resolved(host: str) -> str:
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except OSError as error:
        raise UsageError(
            f"{host} has no address here ({error.strerror}).", field="nodes", remedy="Name its address instead."
        ) from error


def meet(rank: Rank, device_type: str) -> None:
    """Wait until all ranks are here; what is imported for splitting layers is imported then, and is no part of its time."""
    import torch.distributed as dist

    if rank.strategy == "tensor":
        importlib.import_module("transformers.distributed.tensor_parallel")
    choose_interface(rank.host, rank.node)
    wait_s = rank.wait_s or _LONGEST_S
    store = connect(rank.host or _HERE, rank.port, wait_s)
    backend = "gloo" if device_type == "cpu" else f"cpu:gloo,{device_type}:nccl"
    timeout = timedelta(seconds=wait_s)
    dist.init_process_group(backend, store=store, rank=rank.index, world_size=rank.size, timeout=timeout)


def choose_interface(host: str | None, rank: int) -> None:
    """Let gloo and nccl use the network that leads to the first node; without nodes, gloo uses loopback.

    A machine's own name need not lead to the network that the nodes share. What the environment names stays.
    """
    if host is None:
        if sys.platform in _LOOPBACK:
            os.environ.setdefault("GLOO_SOCKET_IFNAME", _LOOPBACK[sys.platform])
        return
    import psutil

    address = _resolved(host)
    if rank:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))
            address = str(probe.getsockname()[0])
    for name, addresses in psutil.net_if_addrs().items():
        if any(each.address.partition("%")[0] == address for each in addresses):
            os.environ.setdefault("GLOO_SOCKET_IFNAME", name)
            os.environ.setdefault("NCCL_SOCKET_IFNAME", name)
            return
    raise AssayError(f"no network interface has the address {address}.", field="nodes", remedy="Name its address.")
