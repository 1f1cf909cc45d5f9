"""Signed heads: what the log's last event was at some moment, in a form that can be kept elsewhere and held against it."""

from __future__ import annotations

import os
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from domain.canonical import canonical
from domain.errors import InvalidInput, LogAltered, UsageError
from ingest.archive.segments import connected

__all__ = ["SignedHead", "key_path", "read_head", "sign_head", "signing_key"]

FORMAT = "assay.log.head.v1"
_HEAD = """
SELECT log.id::text, log.epoch, coalesce(event.position, 0), coalesce(event.chain, sha256(uuid_send(log.id))),
    clock_timestamp()
FROM log LEFT JOIN (SELECT position, chain FROM event ORDER BY position DESC LIMIT 1) AS event ON true
"""


class SignedHead(msgspec.Struct, frozen=True, kw_only=True):
    """The head of a log at one moment. `chain`, `public_key` and `signature` are hex.

    The Ed25519 signature is over the canonical JSON (RFC 8785) of the other members.
    """

    format: str
    log: str
    epoch: int
    position: int
    chain: str
    time: datetime
    public_key: str
    signature: str

    @property
    def genuine(self) -> bool:
        """Whether the signature is that of the public key over what the head says."""
        try:
            key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(self.public_key))
            key.verify(bytes.fromhex(self.signature), _signed(msgspec.to_builtins(self)))
        except (InvalidSignature, ValueError):
            return False
        return True


def key_path(home: Path) -> Path:
    """Return where the key of an installation lies."""
    return home / "keys" / "log.pem"


def signing_key(home: Path) -> Ed25519PrivateKey:
    """Return the key of an installation, made at the first need; UsageError where its file cannot be read or written."""
    path = key_path(home)
    try:
        if not path.exists():
            _make(path)
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"the signing key {path} cannot be used: {error}.", field="ASSAY_HOME", remedy="Put it back from a backup."
        ) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise UsageError(f"{path} holds no Ed25519 key.", field="ASSAY_HOME", remedy="Put it back from a backup.")
    return key


def _make(path: Path) -> None:
    """Write a new key; of two processes that do so at once, one wins and both use its key."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    content = Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(beside, path)
        except FileExistsError:
            return
    finally:
        beside.unlink(missing_ok=True)


def sign_head(url: str, key: Ed25519PrivateKey) -> SignedHead:
    """Return the head of the log at `url`, signed; LogAltered where the log has no identity."""
    with connected(url) as connection:
        row = connection.execute(_HEAD).fetchone()
    if row is None:
        raise LogAltered("the table `log` is empty: the log has lost its identity.", remedy="Restore a backup.")
    log, epoch, position, chain, time = row
    public = key.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
    head: dict[str, Any] = {
        "format": FORMAT,
        "log": log,
        "epoch": epoch,
        "position": position,
        "chain": chain.hex(),
        "time": msgspec.to_builtins(time),
        "public_key": public.hex(),
    }
    return msgspec.convert({**head, "signature": key.sign(_signed(head)).hex()}, SignedHead)


def read_head(path: Path) -> SignedHead:
    """Return the head in a file; InvalidInput where it holds none."""
    try:
        head = msgspec.json.decode(path.read_bytes(), type=SignedHead)
        bytes.fromhex(head.chain)
    except (OSError, ValueError, msgspec.DecodeError) as error:
        raise InvalidInput(
            f"{path} holds no signed head: {error}.", field="head", remedy="Name a file of `assay log head`."
        ) from error
    if head.format != FORMAT:
        raise InvalidInput(
            f"{path} has the format {head.format[:40]!r}.", field="head", remedy=f"Name a file of {FORMAT}."
        )
    return head


def _signed(head: dict[str, Any]) -> bytes:
    return canonical({name: value for name, value in head.items() if name != "signature"})
