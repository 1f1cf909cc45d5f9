"""Request bodies: read under a limit, unpacked under the same limit, and split into events."""

from __future__ import annotations

import asyncio
import functools
import io
import itertools
import re
import zlib
from collections.abc import Mapping
from typing import Any, cast

import msgspec
import zstandard
from litestar.types import Receive

from api.http.body_budget import Held
from api.http.logs import header
from api.http.problems import BodyTooSlow, UnsupportedMedia
from domain.errors import MalformedBody, PayloadTooLarge

__all__ = [
    "BODY_LIMIT_BYTES",
    "EVENTS_LIMIT",
    "Body",
    "Timely",
    "announced_bytes",
    "has_body",
    "read_body",
    "split",
    "unpacked",
]

BODY_LIMIT_BYTES = 16 * 1024 * 1024
EVENTS_LIMIT = 5000
ZSTD_WINDOW_BYTES = 8 * 1024 * 1024
PACKED_PARTS = 64
"""Members of gzip or frames of zstd in one body; each costs a copy of what follows it."""
_DRAINED_BYTES = 4 * BODY_LIMIT_BYTES
_SINGLE = frozenset({"application/cloudevents+json", "application/json"})
_BATCH = frozenset({"application/cloudevents-batch+json", "application/json"})
_ONE_OR_MANY = _SINGLE | _BATCH
_LINES = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl", "application/jsonlines"})
_MEDIA = _ONE_OR_MANY | _LINES
_SMALL_BYTES = 64 * 1024
"""A list of this size is decoded at once: it is cheap even if none of its elements is an event."""
_LINE = re.compile(rb"\S[^\r\n]*")
_TOO_LARGE = "Send fewer events a body: 5,000 or 16 MB at the most, whichever comes first."


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The events of a body as they were sent; `single` where it held one event and no list."""

    events: list[bytes]
    single: bool


async def read_body(receive: Receive, headers: Mapping[bytes, bytes], held: Held, deadline_s: float) -> bytes:
    """Return the unpacked body; raise PayloadTooLarge, UnsupportedMedia, MalformedBody, BodyTooSlow or TooBusy.

    What comes after the limit is thrown away as it arrives, so that the sender gets to read the answer.
    """
    try:
        with held.within(deadline_s):
            taken = await _received(receive, headers, held)
    except TimeoutError as error:
        raise _too_slow(deadline_s) from error
    encoding = header(headers, b"content-encoding").strip().lower()
    if encoding in ("", "identity"):
        return taken
    # In a thread: unpacking 16 MB would hold up everybody else.
    plain = await asyncio.to_thread(unpacked, taken, encoding)
    held.reach(len(plain))
    return plain


async def _received(receive: Receive, headers: Mapping[bytes, bytes], held: Held) -> bytes:
    announced = announced_bytes(headers)
    chunks: list[bytes] = []
    size = 0
    refused = announced > BODY_LIMIT_BYTES
    more = True
    while more:
        message: dict[str, Any] = cast("dict[str, Any]", await receive())
        if message["type"] == "http.disconnect":
            raise MalformedBody("the sender left.", field="$", remedy="Send it again.")
        chunk = message.get("body", b"")
        more = message.get("more_body", False)
        size += len(chunk)
        if size > BODY_LIMIT_BYTES:
            refused = True
            chunks.clear()
        if size > _DRAINED_BYTES:
            break
        if not refused:
            held.reach(size)
            chunks.append(chunk)
    if refused:
        raise PayloadTooLarge(f"the body is over {BODY_LIMIT_BYTES:,} bytes.", field="$", remedy=_TOO_LARGE)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


class Timely:
    """A `receive` that raises BodyTooSlow where the body is not there in time; what comes after it may take long.

    `whole` says whether the end of the body was received.
    """

    def __init__(self, receive: Receive, deadline_s: float) -> None:
        self.whole = False
        self._receive = receive
        self._deadline_s = deadline_s
        self._until = asyncio.get_running_loop().time() + deadline_s

    async def __call__(self) -> Any:
        """Return the next message."""
        if self.whole:
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._until):
                message = cast("dict[str, Any]", await self._receive())
        except TimeoutError as error:
            raise _too_slow(self._deadline_s) from error
        self.whole = not message.get("more_body", False)
        return message


def _too_slow(deadline_s: float) -> BodyTooSlow:
    return BodyTooSlow(
        f"the body was not there after {deadline_s:g} s.", field="$", remedy="Send it in one go, or in parts."
    )


def announced_bytes(headers: Mapping[bytes, bytes]) -> int:
    """Return how long the body says it is; 0 where it does not say."""
    announced = headers.get(b"content-length", b"")
    return int(announced) if announced.isdigit() else 0


def has_body(headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request announces a body."""
    return headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers


def unpacked(body: bytes, encoding: str) -> bytes:
    """Return the body without its gzip or zstd; raise PayloadTooLarge before more than the limit is held."""
    unpack = {"gzip": _gunzipped, "zstd": _unzstd}.get(encoding)
    if unpack is None:
        raise UnsupportedMedia(
            f"{encoding!r} is not taken.", field="Content-Encoding", remedy="Send gzip, zstd or no encoding."
        )
    try:
        plain = unpack(body)
    except (zlib.error, zstandard.ZstdError) as error:
        raise MalformedBody(
            f"the body is not {encoding}: {error}.", field="Content-Encoding", remedy="Send it again, whole."
        ) from error
    if plain is None:
        raise MalformedBody("the packed body ends too early.", field="Content-Encoding", remedy="Send it again, whole.")
    if len(plain) > BODY_LIMIT_BYTES:
        raise PayloadTooLarge(f"the body unpacks to over {BODY_LIMIT_BYTES:,} bytes.", field="$", remedy=_TOO_LARGE)
    return plain


def _gunzipped(packed: bytes) -> bytes | None:
    """Unpack every member; None where the last one is cut off. Stops one byte over the limit."""
    plain = bytearray()
    for _ in range(PACKED_PARTS):
        engine = zlib.decompressobj(31)
        plain += engine.decompress(packed, BODY_LIMIT_BYTES + 1 - len(plain))
        if len(plain) > BODY_LIMIT_BYTES:
            return bytes(plain)
        if not engine.eof:
            return None
        packed = engine.unused_data
        if not packed:
            return bytes(plain)
    raise _in_too_many_parts()


def _unzstd(packed: bytes) -> bytes | None:
    """Unpack every frame; None where the last one is cut off. Stops one byte over the limit."""
    engine = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
    with engine.stream_reader(io.BytesIO(packed), read_across_frames=True) as reader:
        plain = reader.read(BODY_LIMIT_BYTES + 1)
    if len(plain) > BODY_LIMIT_BYTES:
        return plain
    # The reader keeps to a limit, and takes a frame that was cut off for whole; this one knows ends, and no limit.
    for _ in range(PACKED_PARTS):
        frame = engine.decompressobj()
        frame.decompress(packed)
        if not frame.eof:
            return None
        packed = frame.unused_data
        if not packed:
            return plain
    raise _in_too_many_parts()


def _in_too_many_parts() -> MalformedBody:
    return MalformedBody(
        f"the packed body has more than {PACKED_PARTS} parts.", field="Content-Encoding", remedy="Pack it as one."
    )


def split(body: bytes, content_type: str) -> Body:
    """Return the events of a body by its media type; JSON may be one event or a list of them."""
    media = content_type if content_type in _MEDIA else content_type.partition(";")[0].strip().lower()
    if media in _LINES:
        return Body(events=_counted(_lines(body)), single=False)
    if media not in _ONE_OR_MANY:
        raise UnsupportedMedia(
            f"{media[:80]!r} is not taken." if media else "the body has no media type.",
            field="Content-Type",
            remedy="Send application/cloudevents+json, application/cloudevents-batch+json or application/x-ndjson.",
        )
    start = body.lstrip()[:1]
    if start == b"[" and media in _BATCH:
        return Body(events=_counted(_elements(body)), single=False)
    if media == "application/cloudevents-batch+json":
        raise MalformedBody("not a JSON list.", field="$", remedy="Send [ … ], or application/cloudevents+json.")
    return Body(events=_counted([body] if start else []), single=True)


def _lines(body: bytes) -> list[bytes]:
    """Return the lines that are not blank, or one more than the limit of them: 16 MB may hold millions of lines."""
    if b"\r" not in body:
        lines = body.split(b"\n", 2 * EVENTS_LIMIT)
        if len(lines) <= 2 * EVENTS_LIMIT:
            return [line for line in lines if line.strip()]
    return [line[0] for line in itertools.islice(_LINE.finditer(body), EVENTS_LIMIT + 1)]


def _elements(body: bytes) -> list[bytes]:
    """Return the elements of a JSON list; raise before millions of them are held."""
    try:
        if len(body) <= _SMALL_BYTES:
            return [bytes(element) for element in msgspec.json.decode(body, type=list[msgspec.Raw])]
        batch = msgspec.structs.astuple(_batch_decoder().decode(body))
        return [bytes(element) for element in batch if element is not None]
    except msgspec.ValidationError as error:
        raise PayloadTooLarge(f"over {EVENTS_LIMIT:,} events in one body.", field="$", remedy=_TOO_LARGE) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedBody(
            f"not valid JSON: {error}.", field="$", remedy="Send a JSON list of events; NaN is not JSON."
        ) from error


@functools.cache
def _batch_decoder() -> msgspec.json.Decoder[Any]:
    """Return a decoder of a list of up to EVENTS_LIMIT elements that stops at the first element beyond.

    A list type checks its length only after all elements are decoded; a struct as an array stops at once.
    """
    fields = [(f"e{index}", msgspec.Raw, None) for index in range(EVENTS_LIMIT)]
    return msgspec.json.Decoder(msgspec.defstruct("Batch", fields, array_like=True, forbid_unknown_fields=True))


def _counted(events: list[bytes]) -> list[bytes]:
    if not events:
        raise MalformedBody("there is no event in the body.", field="$", remedy="Send one event or more.")
    if len(events) > EVENTS_LIMIT:
        raise PayloadTooLarge(f"{len(events):,} events in one body.", field="$", remedy=_TOO_LARGE)
    return events
