"""What is asked, and what its operator states about it: an address and an API, and the hardware behind it."""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from domain.configuration import Runtime
from domain.errors import UsageError

__all__ = ["APIS", "Api", "Stated", "Target", "runtime_of", "target_of"]

Api = Literal["openai", "tgi", "ovms", "http"]
APIS: tuple[Api, ...] = ("openai", "tgi", "ovms", "http")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """An endpoint. `path` is that of its base, `served_as` what it calls the model; `key` is sent as a bearer token."""

    host: str
    port: int
    tls: bool
    path: str
    api: Api
    served_as: str
    key: str | None = None

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.tls else 80) else f"{host}:{self.port}"

    @property
    def local(self) -> bool:
        """Whether it is reached on this machine's own loopback."""
        return self.host in _LOOPBACK


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator says of the machine that serves: nothing of it was seen."""

    model: str
    hardware: str
    kind: str | None = None
    count: int = 1
    platform: str
    precision: str
    runtime: Runtime | None = None
    tensor_parallel: int | None = None


def target_of(url: str, api: Api, served_as: str, key: str | None = None) -> Target:
    """Return the target of an address; raises UsageError where it is none, or holds a user's name or password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _no_address(url, str(error)) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _no_address(url, "it has no http:// or https:// and a host")
    if parts.username or parts.password:
        raise UsageError(
            "holds a name or a password.", field="endpoint", remedy="Leave it out, and give the key by --key-variable."
        )
    if parts.query or parts.fragment:
        raise _no_address(url, "it has a query or a fragment")
    if re.search(r"[^!-~]", url):
        raise _no_address(url, "it has a character that no address has")
    tls = parts.scheme == "https"
    return Target(
        host=parts.hostname,
        port=port or (443 if tls else 80),
        tls=tls,
        path=parts.path.rstrip("/"),
        api=api,
        served_as=served_as,
        key=key,
    )


def _no_address(url: str, why: str) -> UsageError:
    return UsageError(
        f"{url!r} is no address of an endpoint: {why}.", field="endpoint", remedy="Write http://127.0.0.1:8000."
    )


def runtime_of(text: str) -> Runtime:
    """Return the runtime that `vllm` or `vllm==0.11.0` names; raises UsageError."""
    name, _, version = text.partition("==")
    try:
        return msgspec.convert({"name": name.strip(), "version": version.strip() or None}, Runtime)
    except msgspec.ValidationError:
        raise UsageError(f"{text!r} names no runtime.", field="runtime", remedy="Write vllm==0.11.0.") from None
