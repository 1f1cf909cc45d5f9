"""Bundles: measurements that are shared, in one signed file.

A bundle is one member of gzip. Its first line is the manifest, and each other line is an event. The manifest holds the
SHA-256 of the lines after it, how many events of each type they are, the licence, and the public key; its signature is
Ed25519 over its canonical JSON (RFC 8785). The same events and the same key give the same lines, whoever packs them when.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import hashlib
import re
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from domain.canonical import canonical
from domain.configuration import Count
from domain.errors import InvalidInput, PayloadTooLarge
from domain.events import EVENT_LIMIT_BYTES, MEASUREMENT_FAILED, MEASUREMENT_RECORDED, RUN_FINISHED, RUN_STARTED
from domain.events import TEST_REPORTED as TEST
from domain.measured import Digest
from domain.permissions import SHARED_SOURCE
from domain.signing import key_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

__all__ = [
    "DEFAULT_LICENCE",
    "FORMAT",
    "MOST_BYTES",
    "MOST_EVENTS",
    "SHARED_TYPES",
    "SUFFIX",
    "Bundle",
    "Manifest",
    "derived_uuid",
    "pack",
    "shared_source",
    "signer_of",
    "unpack",
]

FORMAT = 1
"""The version of the format; a reader refuses every other one."""
SUFFIX = ".assay.ndjson.gz"
DEFAULT_LICENCE = "CC0-1.0"
"""Figures are facts: without another word nobody asks anything of who uses them."""
MOST_EVENTS = 5_000
MOST_BYTES = 16 * 1024 * 1024
"""Bytes that a bundle may unpack to: what one transaction of the log takes within its time."""
SHARED_TYPES = (RUN_STARTED, MEASUREMENT_RECORDED, MEASUREMENT_FAILED, TEST, RUN_FINISHED)
"""What a bundle may hold. Descriptions, traces, timings of kernels, names and prices would change answers about other rows."""

_PURPOSE = b"assay bundle 1\n"
"""Stands before what is signed, so that no signature of something else is one of a bundle."""
_SPDX = r"^[A-Za-z0-9][A-Za-z0-9.+ ()-]{0,99}$(?!\n)"
_SIGNER = re.compile(r"ed25519:[0-9a-f]{32}")
_AGAIN = "Ask whoever shared it for the file again; nothing of it was added."


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a bundle: what the lines after it are, and whose."""

    assay_bundle: Annotated[int, msgspec.Meta(ge=1)]
    tool: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]
    licence: Annotated[str, msgspec.Meta(pattern=_SPDX)]
    events: Count
    types: dict[str, Count]
    digest: Digest
    public_key: Annotated[str, msgspec.Meta(max_length=100)]
    signature: Annotated[str, msgspec.Meta(max_length=200)]

    def signed(self) -> bytes:
        """Return the bytes that the signature covers."""
        document = {name: value for name, value in msgspec.to_builtins(self).items() if name != "signature"}
        return _PURPOSE + canonical(document)


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """A bundle whose digest, counts and signature are right; `signer` is the id of its key, `lines` its events."""

    manifest: Manifest
    signer: str
    lines: list[bytes]


class _Named(msgspec.Struct):
    id: str
    type: str


def pack(
    events: Sequence[dict[str, Any]], key: Ed25519PrivateKey, *, tool: str, licence: str = DEFAULT_LICENCE
) -> bytes:
    """Return the bundle of these events, in the order of their ids, runs before their rows.

    Raises InvalidInput for a licence that is no SPDX expression, and PayloadTooLarge for more than a bundle may hold.
    """
    if not re.match(_SPDX, licence):
        raise InvalidInput(
            f"{licence!r} is no SPDX expression.", field="licence", remedy=f"Write one, such as {DEFAULT_LICENCE}."
        )
    if not events:
        raise InvalidInput("no event is there to share.", field="events", remedy="Select a run that has rows.")
    ordered = sorted(events, key=lambda event: (SHARED_TYPES.index(event["type"]), event["id"]))
    content = b"".join(canonical(event) + b"\n" for event in ordered)
    _require_size(len(ordered), len(content))
    unsigned = Manifest(
        assay_bundle=FORMAT,
        tool=tool,
        licence=licence,
        events=len(ordered),
        types=dict(sorted(Counter(event["type"] for event in ordered).items())),
        digest=_digest(content),
        public_key=base64.b64encode(key.public_key().public_bytes_raw()).decode(),
        signature="",
    )
    manifest = msgspec.structs.replace(unsigned, signature=base64.b64encode(key.sign(unsigned.signed())).decode())
    return gzip.compress(canonical(msgspec.to_builtins(manifest)) + b"\n" + content, compresslevel=9, mtime=0)


def unpack(content: bytes) -> Bundle:
    """Return what a bundle holds; raise before anything of one that was cut, altered or forged is used.

    Raises PayloadTooLarge where it unpacks to too much, else InvalidInput: with the field `bundle` where it is no whole one,
    with `digest`, `events`, `public_key` or `signature` where its manifest and its lines are not of one piece.
    """
    first, _, rest = _gunzipped(content).partition(b"\n")
    manifest = _manifest(first)
    public_key = _public_key(manifest)
    _require_signature(manifest, public_key)
    if _digest(rest) != manifest.digest:
        raise InvalidInput(
            "the events are not those that were signed: their digest differs.", field="digest", remedy=_AGAIN
        )
    lines = rest.splitlines()
    _require_size(len(lines), len(rest))
    _require_counts(manifest, lines)
    return Bundle(manifest=manifest, signer=key_id(public_key), lines=lines)


def shared_source(signer: str) -> str:
    """Return the source of events that came in a bundle of this signer."""
    return SHARED_SOURCE + signer


def signer_of(source: str) -> str | None:
    """Return the signer whose bundle an event came in, or None where its source is another."""
    name = source.removeprefix(SHARED_SOURCE)
    return name if name != source and _SIGNER.fullmatch(name) else None


def derived_uuid(digest: bytes) -> str:
    """Return a UUIDv8 built from the first 16 bytes of a digest."""
    text = digest[:16].hex()
    variant = "89ab"[int(text[16], 16) & 3]
    return f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:]}"


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _gunzipped(content: bytes) -> bytes:
    engine = zlib.decompressobj(31)
    try:
        plain = engine.decompress(content, MOST_BYTES + EVENT_LIMIT_BYTES)
    except zlib.error as error:
        raise InvalidInput(f"not a bundle: {error}.", field="bundle", remedy=_AGAIN) from error
    if engine.unconsumed_tail:
        raise PayloadTooLarge(
            f"the bundle unpacks to more than {MOST_BYTES:,} bytes.",
            field="bundle",
            remedy="Share fewer runs at a time.",
        )
    if not engine.eof:
        raise InvalidInput("the bundle is cut off.", field="bundle", remedy="Copy it again, whole.")
    if engine.unused_data:
        raise InvalidInput("something follows the bundle in its file.", field="bundle", remedy=_AGAIN)
    return plain


def _manifest(line: bytes) -> Manifest:
    try:
        version = msgspec.json.decode(line).get("assay_bundle")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, AttributeError) as error:
        raise InvalidInput(
            "the first line is no manifest.", field="bundle", remedy="`assay post` takes a plain file of events."
        ) from error
    if version != FORMAT:
        raise InvalidInput(
            f"this is format {version!r}; this version reads {FORMAT}."
            if version is not None
            else "the first line is no manifest of a bundle.",
            field="assay_bundle",
            remedy="Install a newer version of Assay."
            if version is not None
            else "`assay post` takes a file of events.",
        )
    try:
        return msgspec.json.decode(line, type=Manifest)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"the manifest is wrong: {error}.", field="manifest", remedy=_AGAIN) from error


def _public_key(manifest: Manifest) -> bytes:
    try:
        key = base64.b64decode(manifest.public_key, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != 32:
        raise InvalidInput("the public key is not 32 bytes in base64.", field="public_key", remedy=_AGAIN)
    return key


def _require_signature(manifest: Manifest, public_key: bytes) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        signature = base64.b64decode(manifest.signature, validate=True)
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, manifest.signed())
    except (InvalidSignature, ValueError) as error:
        raise InvalidInput(
            f"the signature is not that of {key_id(public_key)}: the manifest was changed, or somebody else wrote it.",
            field="signature",
            remedy=_AGAIN,
        ) from error


def _require_counts(manifest: Manifest, lines: Sequence[bytes]) -> None:
    try:
        named = [msgspec.json.decode(line, type=_Named) for line in lines]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"a line is no event: {error}.", field="events", remedy=_AGAIN) from error
    types = Counter(event.type for event in named)
    if manifest.events != len(lines) or manifest.types != types:
        raise InvalidInput(
            f"the manifest says {manifest.events:,} events, and there are {len(lines):,}"
            + (" of other types." if manifest.events == len(lines) else "."),
            field="events",
            remedy=_AGAIN,
        )
    other = sorted(types.keys() - set(SHARED_TYPES))
    if other:
        raise InvalidInput(
            f"a bundle holds runs and their rows alone, and this one {other[0][:100]!r}.", field="events", remedy=_AGAIN
        )
    if len({event.id for event in named}) != len(named):
        raise InvalidInput("two events have one id.", field="events", remedy=_AGAIN)


def _require_size(events: int, size: int) -> None:
    if events > MOST_EVENTS or size > MOST_BYTES:
        raise PayloadTooLarge(
            f"{events:,} events of {size:,} bytes; a bundle holds {MOST_EVENTS:,} events and {MOST_BYTES:,} bytes.",
            field="events",
            remedy="Share fewer runs at a time: name them, or use --model or --since.",
        )
