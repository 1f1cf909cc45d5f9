"""Canonical JSON (RFC 8785) and digests of it."""

from __future__ import annotations

import hashlib
from typing import Any

import rfc8785

from domain.errors import InvalidInput

__all__ = ["canonical", "digest", "drop_nulls", "first_difference"]


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
