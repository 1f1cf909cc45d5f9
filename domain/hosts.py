"""The host names under which a server may be addressed.

A browser that is made to resolve a foreign name to this machine (DNS rebinding) sends that name in `Host`. Refusing
unknown names stops such a page. An IP address in `Host` cannot be rebound.
"""

from __future__ import annotations

import functools
import ipaddress
import re
from urllib.parse import urlsplit

import msgspec

from domain.errors import UsageError

__all__ = ["ENVIRONMENT", "AllowedHosts", "allowed_hosts", "hostname", "is_loopback", "is_same_origin"]

ENVIRONMENT = "ASSAY_ALLOWED_HOSTS"
"""Names for the service and the dashboard, separated by commas; `*.example.org` covers subdomains, `*` everything."""
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?")
_DEFAULT_PORTS = {"http": 80, "https": 443}


class AllowedHosts(msgspec.Struct, frozen=True, kw_only=True):
    """Host names that a server answers to.

    `configured` are the names that the operator listed, `names` those that always hold. `addresses` admits any IP
    address, for servers that other machines reach.
    """

    configured: frozenset[str]
    names: frozenset[str] = LOCAL
    addresses: bool = False

    def admits(self, host: str) -> bool:
        """Return whether the value of a Host header names this server."""
        name = hostname(f"//{host}")
        if name is None:
            return False
        return "*" in self.configured or name in self.names or self.lists(name) or (self.addresses and _is_ip(name))

    def lists(self, name: str) -> bool:
        """Return whether the operator listed this name, or `*.` and one of its parent domains."""
        if name in self.configured:
            return True
        return any(entry.startswith("*.") and name.endswith(entry[1:]) for entry in self.configured)


def allowed_hosts(text: str, bound: str | None, *own: str) -> AllowedHosts:
    """Return the hosts for a server bound to an address, with the names from ASSAY_ALLOWED_HOSTS.

    `own` are more names of this machine. They count only where other machines reach the server, which is also the case
    where `bound` is None. Raises UsageError where an entry is not a host name.
    """
    entries = frozenset(_entry(part) for part in text.split(",") if part.strip())
    if bound is not None and is_loopback(bound):
        return AllowedHosts(configured=entries, names=LOCAL | {bound})
    names = LOCAL | {name.lower() for name in (bound, *own) if name}
    return AllowedHosts(configured=entries, names=names, addresses=True)


@functools.lru_cache(1024)
def hostname(address: str) -> str | None:
    """Return the host name in an origin (`https://host:1`) or an authority (`//host:1`), or None."""
    try:
        parts = urlsplit(address)
        parts.port  # noqa: B018 - raises ValueError for a port that is none
    except ValueError:
        return None
    name = parts.hostname
    return name.rstrip(".") if name and parts.username is None and not parts.path else None


def is_same_origin(origin: str, host: str, hosts: AllowedHosts) -> bool:
    """Return whether an Origin is the address that the request went to (its Host), or a name that the operator listed."""
    scheme, _, sent = origin.partition("://")
    if sent and _authority(scheme, sent) == _authority(scheme, host):
        return True
    name = hostname(origin)
    return name is not None and hosts.lists(name)


def _authority(scheme: str, host: str) -> str:
    """Return `host[:port]` in lower case without the default port of the scheme."""
    return host.lower().removesuffix(f":{_DEFAULT_PORTS.get(scheme, 0)}")


def is_loopback(host: str) -> bool:
    """Return whether only programs on this machine reach a server that is bound to this host."""
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _entry(part: str) -> str:
    entry = part.strip().lower().rstrip(".")
    bare = entry.removeprefix("[").removesuffix("]")
    if _is_ip(bare):
        return bare
    if entry != "*" and not _NAME.fullmatch(entry):
        raise UsageError(
            f"{part.strip()[:80]!r} is not a host name.",
            field=ENVIRONMENT,
            remedy="List names without scheme and port, separated by commas: assay.example.org,*.corp.example.",
        )
    return entry
