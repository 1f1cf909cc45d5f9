"""Bundles: the same bytes for the same events, and nothing of one that was cut, altered or forged."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import InvalidInput, PayloadTooLarge
from domain.events import UUID
from domain.sharing.bundles import MOST_BYTES, MOST_EVENTS, derived_uuid, pack, shared_source, signer_of, unpack
from domain.signing import key_id

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
OTHER = Ed25519PrivateKey.from_private_bytes(b"o" * 32)
RUN = {
    "specversion": "1.0",
    "id": "00000000-0000-8000-8000-000000000001",
    "source": "assay-share",
    "type": "assay.run.started.v1",
    "data": {"run_id": "r", "kind": "bench"},
}
END = {**RUN, "id": "00000000-0000-8000-8000-000000000002", "type": "assay.run.finished.v1"}
BUNDLE = pack([RUN, END], KEY, tool="assay 0.1.0")


def lines_of(bundle: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(bundle).splitlines()]


def packed(*documents: dict[str, Any]) -> bytes:
    """A bundle of these lines as they are."""
    return gzip.compress(b"".join(json.dumps(document).encode() + b"\n" for document in documents))


def signed_again(manifest: dict[str, Any], key: Ed25519PrivateKey = KEY) -> dict[str, Any]:
    """The manifest signed by somebody who has the key and lies."""
    import base64

    import msgspec

    from domain.sharing.bundles import Manifest

    shape = msgspec.convert({**manifest, "signature": ""}, Manifest)
    return {**manifest, "signature": base64.b64encode(key.sign(shape.signed())).decode()}


def test_same_events_give_the_same_bytes_in_any_order():
    assert pack([END, RUN], KEY, tool="assay 0.1.0") == BUNDLE
    bundle = unpack(BUNDLE)
    assert bundle.signer == key_id(KEY.public_key().public_bytes_raw())
    assert [json.loads(line) for line in bundle.lines] == [RUN, END]
    assert bundle.manifest.types == {RUN["type"]: 1, END["type"]: 1}
    assert bundle.manifest.licence == "CC0-1.0"


@given(st.integers(0, len(BUNDLE) - 1), st.integers(1, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_changes_nothing_of_a_bundle_that_is_taken(place: int, change: int):
    altered = bytearray(BUNDLE)
    altered[place] ^= change
    try:
        bundle = unpack(bytes(altered))
    except InvalidInput:
        return
    # What gzip's header says of time and system, and bits that deflate leaves unused, are no part of what is signed.
    assert bundle == unpack(BUNDLE)


@given(st.integers(0, len(BUNDLE) - 1))
@settings(max_examples=200, deadline=None)
def test_a_bundle_that_breaks_off_is_refused(length: int):
    with pytest.raises(InvalidInput):
        unpack(BUNDLE[:length])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda manifest, rest: [{**manifest, "licence": "MIT"}, *rest], "signature"),
        (lambda manifest, rest: [{**manifest, "public_key": "AAAA"}, *rest], "public_key"),
        (lambda manifest, rest: [manifest, {**rest[0], "subject": "x"}, *rest[1:]], "digest"),
        (lambda manifest, rest: [manifest, *rest, RUN], "digest"),
        (lambda manifest, rest: [manifest, *rest[:1]], "digest"),
        (lambda manifest, rest: [signed_again({**manifest, "events": 3}), *rest], "events"),
        (lambda manifest, rest: [signed_again({**manifest, "types": {RUN["type"]: 2}}), *rest], "events"),
        (lambda manifest, rest: [signed_again(manifest, OTHER), *rest], "signature"),
        (lambda manifest, rest: [{**manifest, "assay_bundle": 2}, *rest], "assay_bundle"),
        (lambda manifest, rest: [{"assay_bundle": 1}, *rest], "manifest"),
        (lambda manifest, rest: rest, "assay_bundle"),
    ],
)
def test_manifest_and_lines_that_do_not_fit_are_refused(change: Callable[..., Any], field: str):
    manifest, *rest = lines_of(BUNDLE)
    # As they were written: canonical JSON has no spaces.
    content = b"".join(
        json.dumps(item, separators=(",", ":"), sort_keys=True).encode() + b"\n" for item in change(manifest, rest)
    )
    with pytest.raises(InvalidInput) as refused:
        unpack(gzip.compress(content))
    assert refused.value.field == field
    assert refused.value.remedy


def test_two_events_of_one_id_and_foreign_types_are_refused():
    price = {**RUN, "id": END["id"], "type": "assay.price.published.v1"}
    for events, field in (([RUN, {**END, "id": RUN["id"]}], "events"), ([RUN, price], "events")):
        with pytest.raises((InvalidInput, ValueError)) as refused:
            unpack(pack(events, KEY, tool="t"))
        if isinstance(refused.value, InvalidInput):
            assert refused.value.field == field


def test_a_bomb_costs_little_and_is_refused():
    import tracemalloc

    bomb = gzip.compress(b"\0" * (8 * MOST_BYTES), compresslevel=9)
    assert len(bomb) < 200_000
    tracemalloc.start()
    with pytest.raises(PayloadTooLarge):
        unpack(bomb)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 4 * MOST_BYTES


def test_what_follows_the_bundle_is_refused():
    with pytest.raises(InvalidInput):
        unpack(BUNDLE + gzip.compress(b"more"))


def test_too_many_events_are_refused_before_they_are_signed():
    many = [{**RUN, "id": derived_uuid(number.to_bytes(16, "big"))} for number in range(MOST_EVENTS + 1)]
    with pytest.raises(PayloadTooLarge):
        pack(many, KEY, tool="t")
    with pytest.raises(InvalidInput):
        pack([], KEY, tool="t")
    with pytest.raises(InvalidInput) as refused:
        pack([RUN], KEY, tool="t", licence="no licence!\n")
    assert refused.value.field == "licence"


@given(st.binary(min_size=16, max_size=32))
def test_derived_ids_are_ids_of_events(digest: bytes):
    assert UUID.fullmatch(derived_uuid(digest))
    assert derived_uuid(digest)[14] == "8" and derived_uuid(digest)[19] in "89ab"


def test_a_source_names_its_signer_and_no_other_text_does():
    signer = "ed25519:" + "0f" * 16
    assert signer_of(shared_source(signer)) == signer
    assert [
        signer_of(text) for text in (signer, "urn:assay:shared:", "urn:assay:shared:x", "urn:assay:importer:timm")
    ] == [None] * 4
