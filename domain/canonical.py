"""Canonical JSON (RFC 8785), digests of it, and JSON that every reader understands alike (I-JSON, RFC 7493)."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

import rfc8785

from domain.errors import InvalidEvent, InvalidInput, MalformedBody

__all__ = [
    "canonical",
    "digest",
    "drop_nulls",
    "first_difference",
    "is_plain",
    "require_interoperable",
    "require_shallow",
    "same_members",
]

DEEPEST = 64
"""Levels of objects and lists in an event. A limit of our own, far below those of the programs that read it."""
_EXACT = 2**53 - 1
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_LISTS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_SPACED_MEMBER = re.compile(rb'"\s+:')


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value; equal values give equal bytes.

    Integers beyond ±(2**53 - 1) have no exact JSON number and raise InvalidInput, as do NaN and infinities.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as error:
        raise InvalidInput(
            f"the value has no canonical JSON form: {error}.",
            remedy="Send finite numbers within ±(2^53 - 1) and well-formed Unicode.",
        ) from error


def digest(value: Any) -> str:
    """Return `sha256:<64 hex>` of the canonical JSON."""
    return "sha256:" + hashlib.sha256(canonical(value)).hexdigest()


def drop_nulls(value: Any) -> Any:
    """Return the value without object members that are null, at every depth; lists keep theirs.

    Objects left empty are dropped as well, so that an absent object and one of nulls are the same.
    """
    if isinstance(value, dict):
        kept = {key: drop_nulls(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in kept.items() if item != {}}
    if isinstance(value, list):
        return [drop_nulls(item) for item in value]
    return value


def first_difference(item: Any, other: Any, path: str = "") -> str | None:
    """Return the path of the first member in which two JSON values differ, or None where they are equal."""
    if isinstance(item, dict) and isinstance(other, dict):
        for key in sorted(item.keys() | other.keys()):
            here = f"{path}.{key}" if path else key
            if key not in item or key not in other:
                return here
            text = first_difference(item[key], other[key], here)
            if text:
                return text
        return None
    if isinstance(item, list) and isinstance(other, list):
        for index in range(max(len(item), len(other))):
            here = f"{path}[{index}]"
            if index >= len(item) or index >= len(other):
                return here
            text = first_difference(item[index], other[index], here)
            if text:
                return text
        return None
    same = item == other and isinstance(item, bool) == isinstance(other, bool)
    return None if same else (path or ".")


def require_interoperable(text: bytes, value: Any) -> None:
    """Raise InvalidEvent where two programs could read `text`, whose JSON value is `value`, in two ways."""
    members = _members_of(value)
    # Without a backslash a quote before a colon can only be the end of a member's name, and counting them is enough.
    if b"\\" in text or members != text.count(b'":') or _SPACED_MEMBER.search(text):
        _require_single_members(text)


def same_members(text: bytes, again: bytes) -> bool:
    """Return whether `text`, without a backslash, has each member of `again` once and no other.

    `again` is the shortest spelling of what was decoded from `text`, in which members that no structure knows are lost
    and each member stands once.
    """
    if text == again:
        return True
    # In another order, or with other spellings of the same length.
    return len(text) == len(again) and text.count(b'":') == again.count(b'":') and not _SPACED_MEMBER.search(text)


def is_plain(value: Any) -> bool:
    """Return whether `require_interoperable` takes a value that stands in a part of an event's data."""
    if value is None:
        return True
    try:
        _members_of([[[value]]])  # As deep as it lies in the event.
    except InvalidEvent:
        return False
    return True


def require_shallow(text: bytes) -> None:
    """Raise MalformedBody where objects and lists in `text` are nested more than DEEPEST levels.

    Scans the bytes without decoding them, so that no decoder recurses into a deep text.
    """
    if text.count(b"[") + text.count(b"{") <= DEEPEST:
        return
    brackets = _STRING.sub(b"", text).translate(_LISTS, _NO_BRACKETS)
    for _ in range(DEEPEST):
        # Removes the innermost level of every list.
        brackets = brackets.replace(b"[]", b"")
    if b"[]" in brackets or brackets.count(b"[") > DEEPEST:
        raise MalformedBody(
            f"objects and lists are nested more than {DEEPEST} levels.", field="$", remedy="Send a flatter value."
        )


def _members_of(value: Any) -> int:
    """Return how many members the objects of a value have; raise where it is too deep or an integer not exact."""
    members = 0
    level = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is dict:
                members += len(item)
                inner.extend(item.values())
            elif kind is list:
                inner.extend(item)
            elif kind is int and not -_EXACT <= item <= _EXACT:
                raise InvalidEvent(
                    f"the integer {str(item)[:24]} is beyond ±(2^53 - 1), where readers of JSON round.",
                    field="data",
                    remedy="Send it as a string, or in a larger unit.",
                )
        if not inner:
            return members
        level = inner
    raise InvalidEvent(
        f"objects and lists lie in each other more than {DEEPEST} deep.", field="data", remedy="Send a flatter value."
    )


def _require_single_members(text: bytes) -> None:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        row: dict[str, Any] = {}
        for name, item in pairs:
            if name in row:
                raise InvalidEvent(
                    "an object names this member twice, and readers differ in which one counts.",
                    field=name[:60] or "$",
                    remedy="Send each member once.",
                )
            row[name] = item
        return row

    json.loads(text, object_pairs_hook=once)
