"""Packed bodies: whole, in parts, cut off, swollen."""

from __future__ import annotations

import gzip
import json
import os

import pytest
import zstandard

from api.http.body import BODY_LIMIT_BYTES, EVENTS_LIMIT, split, unpacked
from api.http.problems import UnsupportedMedia
from domain.errors import MalformedBody, PayloadTooLarge

PACKERS = [("gzip", gzip.compress), ("zstd", zstandard.compress)]


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_what_was_packed_in_parts_is_unpacked_whole(encoding, pack):
    first, second = os.urandom(200_000), b"tail" * 1000
    assert unpacked(pack(first), encoding) == first
    assert unpacked(pack(first) + pack(b"") + pack(second), encoding) == first + second


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
@pytest.mark.parametrize("cut", [1, 9, 5000])
def test_what_was_cut_off_is_refused_not_shortened(encoding, pack, cut):
    body = pack(os.urandom(300_000))
    for broken in (body[:-cut], pack(b"one") + body[:-cut]):
        with pytest.raises(MalformedBody, match="ends too early"):
            unpacked(broken, encoding)


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_the_limit_holds_after_unpacking_over_all_parts(encoding, pack):
    most = pack(b" " * BODY_LIMIT_BYTES)
    assert len(unpacked(most, encoding)) == BODY_LIMIT_BYTES
    for bomb in (pack(b" " * (BODY_LIMIT_BYTES + 1)), most + pack(b" ")):
        with pytest.raises(PayloadTooLarge):
            unpacked(bomb, encoding)


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
def test_a_body_of_endless_parts_is_refused_soon(encoding, pack):
    with pytest.raises(MalformedBody, match="parts"):
        unpacked(pack(b"") * 100_000, encoding)


def test_other_packings_are_not_taken():
    with pytest.raises(UnsupportedMedia):
        unpacked(b"x", "br")


def test_events_are_split_by_media_type():
    one, other = b'{"id": 1.50}', b'{"id":2}'
    assert split(one, "application/json; charset=utf-8").single
    assert split(b"[" + one + b", " + other + b"]", "application/cloudevents-batch+json").events == [one, other]
    assert split(one + b"\r\n\n" + other, "application/x-ndjson").events == [one, other]
    for body in (b"", b" \n "):
        with pytest.raises(MalformedBody):
            split(body, "application/x-ndjson")
    with pytest.raises(PayloadTooLarge):
        split(json.dumps([1] * (EVENTS_LIMIT + 1)).encode(), "application/json")
