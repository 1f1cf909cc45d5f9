"""Signatures of events: ed25519 over the canonical JSON (RFC 8785) of an event without its signature.

`signer` names the key and `signature` holds 64 bytes in base64; both are CloudEvents extension attributes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from domain.canonical import canonical
from domain.errors import InvalidInput

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["SIGNATURE", "SIGNER", "key_id", "read_public_key", "sign", "signed_bytes", "verifies"]

SIGNER = "signer"
SIGNATURE = "signature"
_KEY_BYTES = 32


def key_id(public_key: bytes) -> str:
    """Return the name of a public key: `ed25519:` and the first 32 hex digits of its SHA-256."""
    return "ed25519:" + hashlib.sha256(public_key).hexdigest()[:32]


def read_public_key(text: str) -> bytes:
    """Return the 32 bytes of a public key that is written as PEM or in base64; InvalidInput where it is neither."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        if text.lstrip().startswith("-----BEGIN"):
            key = load_pem_public_key(text.encode())
            if isinstance(key, Ed25519PublicKey):
                return key.public_bytes_raw()
        else:
            content = base64.b64decode(text.strip(), validate=True)
            if len(content) == _KEY_BYTES:
                Ed25519PublicKey.from_public_bytes(content)
                return content
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        pass
    raise InvalidInput(
        "not an ed25519 public key.",
        field="public_key",
        remedy="Give its 32 bytes in base64, as `assay detect` prints them, or a PEM file.",
    )


def signed_bytes(event: Mapping[str, Any]) -> bytes:
    """Return what a signature of this event covers: all of it, `signer` included, without `signature`."""
    return canonical({name: value for name, value in event.items() if name != SIGNATURE})


def sign(event: Mapping[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """Return the event with `signer` and `signature`."""
    signer = key_id(key.public_key().public_bytes_raw())
    # Before `data`, so that a person who reads a line of events sees them.
    envelope = {name: value for name, value in event.items() if name not in ("data", SIGNATURE)}
    unsigned = {**envelope, SIGNER: signer, "data": event.get("data")}
    signature = base64.b64encode(key.sign(signed_bytes(unsigned))).decode()
    return {**envelope, SIGNER: signer, SIGNATURE: signature, "data": event.get("data")}


def verifies(event: Mapping[str, Any], public_key: bytes) -> bool:
    """Return whether the event's signature is that of this key."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        signature = base64.b64decode(event[SIGNATURE], validate=True)
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed_bytes(event))
    except (InvalidSignature, InvalidInput, KeyError, TypeError, ValueError):
        return False
    return True
