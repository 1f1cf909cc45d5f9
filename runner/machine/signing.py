"""The key of this machine's runner: made once, kept under ASSAY_HOME, never sent; it signs what the runner writes."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from domain.errors import InvalidInput, UsageError
from domain.signing import key_id, sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = ["KEY_FILE", "SHARING_KEY_FILE", "PublicKey", "find_key", "make_key", "publish", "signer"]

KEY_FILE = "signing_key.pem"
SHARING_KEY_FILE = "sharing_key.pem"
"""Another key than the runner's: what is shared must not be traced to what the runner signed for its own log."""
_MODE = 0o600


class PublicKey:
    """What others may know of a key: its id, and its 32 bytes in base64."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        content = key.public_key().public_bytes_raw()
        self.id = key_id(content)
        self.text = base64.b64encode(content).decode()


def find_key(home: Path, name: str = KEY_FILE, passphrase: str | None = None) -> Ed25519PrivateKey | None:
    """Return the key in this data directory, or None; UsageError where its file or the passphrase cannot be used."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = home / name
    try:
        content = path.read_bytes()
        encrypted = b"ENCRYPTED" in content
        if encrypted and not passphrase:
            raise UsageError(
                f"{path} is encrypted.",
                field="passphrase",
                remedy="Set ASSAY_PASSPHRASE, or type it where you are asked.",
            )
        key = load_pem_private_key(content, password=passphrase.encode() if encrypted and passphrase else None)
    except FileNotFoundError:
        return None
    except (OSError, TypeError, ValueError, UnsupportedAlgorithm) as error:
        if isinstance(error, ValueError) and passphrase and encrypted:
            raise UsageError(
                f"the passphrase does not open {path}.", field="passphrase", remedy="Type it again."
            ) from error
        raise _unusable(path, str(error)) from error
    if not isinstance(key, Ed25519PrivateKey):
        raise _unusable(path, "not an ed25519 key")
    return key


def make_key(home: Path, name: str = KEY_FILE, passphrase: str | None = None) -> Ed25519PrivateKey:
    """Return the key in this data directory, made where there is none, readable by its owner alone.

    A new key is encrypted with the passphrase where one is given.
    """
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        KeySerializationEncryption,
        NoEncryption,
        PrivateFormat,
    )

    if (key := find_key(home, name, passphrase)) is not None:
        return key
    how: KeySerializationEncryption = BestAvailableEncryption(passphrase.encode()) if passphrase else NoEncryption()
    content = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)
    path = home / name
    beside = path.with_suffix(f".{os.getpid()}.new")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            # A link, not a rename: it never takes the place of a key that another process has made meanwhile.
            path.hardlink_to(beside)
        except FileExistsError:
            pass
        finally:
            beside.unlink()
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}.",
            field="ASSAY_HOME",
            remedy="Name a directory that you may write to.",
        ) from error
    made = find_key(home, name, passphrase)
    if made is None:
        raise _unusable(path, "it vanished")
    return made


def publish(home: Path, key: Ed25519PrivateKey) -> None:
    """Write the public half of the sharing key beside it, so that the service on this home knows its owner's bundles."""
    path = (home / SHARING_KEY_FILE).with_suffix(".pub")
    text = PublicKey(key).text + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def signer(home: Path) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return what signs an event with the key in this data directory, or leaves it as it is where there is none.

    An event without a canonical form stays unsigned: the service refuses it for what is wrong with it.
    """
    key = find_key(home)
    if key is None:
        return lambda event: event

    def signed(event: dict[str, Any]) -> dict[str, Any]:
        try:
            return sign(event, key)
        except InvalidInput:
            return event

    return signed


def _unusable(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is not a signing key: {why}.",
        field="ASSAY_HOME",
        remedy="Restore the file, or remove it: `assay detect` makes another key, which must be registered.",
    )
