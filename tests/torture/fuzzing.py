"""A fuzzer of the gate that every event passes: `python -m tests.torture.fuzzing --seconds 600`.

It changes events that are known to be good, as bytes and as JSON, and goes on from whatever the gate answers in a way
that it has not answered before. Only errors of ours may come out, and what is taken must be what every other reader of
JSON would read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
import sys
import time
import uuid
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec

from domain.errors import AssayError
from domain.events import Decoded, decode_event

__all__ = ["SLOW_S", "Fuzzed", "examine", "fuzz"]

SLOW_S = 1.0
"""More CPU time than this no input under the limit of an event may cost the gate, whatever is in it."""
CORPUS = 4000
KEPT = 20_000
GOLDEN = [path.read_bytes() for path in sorted((Path(__file__).parents[1] / "golden").glob("*.json"))]
_ID = re.compile(rb'"id"\s*:\s*"[0-9a-f-]{36}"')
TOKENS = [
    b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"null", b"true", b"false", b"NaN", b"Infinity", b"-", b"1e999", b"1E-999", b"-0", b"9007199254740993", b"18446744073709551616", b"0.1", b"1e5", b"00",
    b"\\u0000", b"\\ud800", b"\\udfff", b"\\ud83d\\ude00", b"\\u002f", b"\\/", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbf", b"\x00", b"\x7f", b" ", b"\n", b"\t", b"\r", b"\x0c", b"\xc2\xa0", b"/**/", b"//", b"'",
    b'"id":', b'"data":', b'"type":', b'"specversion":"1.0",', b'"time":"2026-11-20T14:05:00Z",', b'"data_base64":"AA==",', b"assay.run.finished.v1", b"e400", b'{"a":1,"a":1}', b'{"":""}',
]  # fmt: skip
VALUES: list[Any] = [
    None, True, False, 0, -1, 1, 2**31, 2**53 - 1, 2**53, -(2**53), 2**63, 2**64, 10**30, 0.0, -0.0, 0.1, 1e-320, 1.7e308, "", "x", "a" * 501, "\u0000", "\ud800", "\U0001f600", "\u202e", "é", "e\u0301",
    "2026-11-20T14:05:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "1.0", "assay.measurement.recorded.v1", [], {}, [[]], [None], {"": None}, [1, 2, 3], {"p50": [2, 1]}, ["x"] * 50, "P1D", "NaN", "-inf", "0x1", "1_0",
]  # fmt: skip


class Fuzzed(msgspec.Struct, kw_only=True):
    """What was tried: inputs, how many the gate took, how many different answers it gave, the slowest of them."""

    tried: int = 0
    taken: int = 0
    answers: int = 0
    slowest_s: float = 0.0
    kept: list[Decoded] = msgspec.field(default_factory=list)


def examine(raw: bytes) -> tuple[Decoded | None, str]:
    """Give an input to the gate; AssertionError where anything but an error of ours, or a wrong event, comes out.

    Return the event, or None, and what kind of answer it was.
    """
    begun = time.thread_time()
    taken, refusal = None, None
    try:
        taken = decode_event(raw)
    except AssayError as error:
        refusal = error
    except Exception as error:
        raise AssertionError(f"{type(error).__name__}: {error}: {raw!r}") from error
    took_s = time.thread_time() - begun
    assert took_s < SLOW_S, f"{took_s:.1f} s for {len(raw)} bytes: {raw[:200]!r}"
    if taken is None:
        assert refusal is not None and refusal.detail and refusal.remedy, f"no word on what to do: {raw[:500]!r}"
        str(refusal).encode()
        return None, f"{type(refusal).__name__} {refusal.field} {re.sub(r'[0-9]+', '0', refusal.detail)[:60]}"
    _require_same(taken, raw)
    return taken, f"{taken.type} {len(taken.warnings)} {sorted(taken.event)}"


def _require_same(taken: Decoded, raw: bytes) -> None:
    """Fail unless the event is what the standard library reads, each member once, every number and character whole."""
    assert taken.raw == raw
    assert taken.digest == hashlib.sha256(raw).digest()
    read = json.loads(raw.decode("utf-8"), object_pairs_hook=_once, parse_constant=_none)
    assert _exactly(read) == _exactly(taken.event), raw
    assert (taken.id, taken.type, taken.source, taken.subject) == (
        read["id"],
        read["type"],
        read["source"],
        read.get("subject"),
    )
    assert (taken.time is None) == (read.get("time") is None)
    json.dumps(read, ensure_ascii=False, allow_nan=False).encode()
    if taken.time is not None:
        # A moment that has no year in UTC cannot be stored.
        taken.time.astimezone(UTC)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    assert len(found) == len(pairs), f"taken with a member twice: {pairs!r:.200}"
    return found


def _none(constant: str) -> Any:
    raise AssertionError(f"taken with {constant}")


def _exactly(value: Any) -> Any:
    """Return a value that is equal only to what has the same types: 1, 1.0 and true are three things."""
    if isinstance(value, dict):
        return {key: _exactly(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_exactly(item) for item in value]
    return (type(value).__name__, repr(value))


def fuzz(seconds: float, seed: int = 1) -> Fuzzed:
    """Examine changed events for so many seconds; AssertionError with the first that breaks a promise."""
    dice = random.Random(seed)
    corpus = [*GOLDEN, *(json.dumps(json.loads(text), separators=(",", ":")).encode() for text in GOLDEN)]
    seen: set[str] = set()
    told = Fuzzed()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        raw = _changed(dice, corpus)
        begun = time.thread_time()
        taken, answer = examine(raw)
        told.slowest_s = max(told.slowest_s, time.thread_time() - begun)
        told.tried += 1
        if taken is not None:
            told.taken += 1
            if len(told.kept) < KEPT:
                told.kept.append(taken)
        if answer not in seen and len(raw) < 20_000:
            seen.add(answer)
            corpus.append(raw)
            if len(corpus) > CORPUS:
                corpus.pop(dice.randrange(2 * len(GOLDEN), len(corpus)))
    told.answers = len(seen)
    return told


def _changed(dice: random.Random, corpus: list[bytes]) -> bytes:
    raw = dice.choice(corpus)
    for _ in range(1 + int(dice.expovariate(0.7))):
        raw = dice.choice(_CHANGES)(dice, raw, corpus)
    # A fresh id, so that what is taken can be stored beside the others.
    fresh = b'"id":"%s"' % str(uuid.UUID(int=dice.getrandbits(128))).encode()
    return _ID.sub(fresh, raw, count=1)


def _flip(dice: random.Random, raw: bytes, _: list[bytes]) -> bytes:
    if not raw:
        return raw
    at = dice.randrange(len(raw))
    return raw[:at] + bytes([raw[at] ^ (1 << dice.randrange(8))]) + raw[at + 1 :]


def _insert(dice: random.Random, raw: bytes, _: list[bytes]) -> bytes:
    at = dice.randint(0, len(raw))
    return raw[:at] + dice.choice(TOKENS) * (1 if dice.random() < 0.9 else dice.randint(2, 3000)) + raw[at:]


def _cut(dice: random.Random, raw: bytes, _: list[bytes]) -> bytes:
    at = dice.randint(0, len(raw))
    return raw[:at] + raw[at + dice.randint(1, 20) :]


def _again(dice: random.Random, raw: bytes, _: list[bytes]) -> bytes:
    begin = dice.randint(0, len(raw))
    end = min(len(raw), begin + dice.randint(1, 60))
    return raw[:end] + raw[begin:end] * dice.randint(1, 3) + raw[end:]


def _splice(dice: random.Random, raw: bytes, corpus: list[bytes]) -> bytes:
    other = dice.choice(corpus)
    return raw[: dice.randint(0, len(raw))] + other[dice.randint(0, len(other)) :]


def _rewrite(dice: random.Random, raw: bytes, corpus: list[bytes]) -> bytes:
    """Change the value that the text stands for, and write it anew in one of the many ways to write it."""
    try:
        value = json.loads(raw)
        node, key = dice.choice(list(_places(value)))
    except (ValueError, RecursionError, IndexError):
        return _splice(dice, raw, corpus)
    match dice.randrange(6):
        case 0:
            node[key] = dice.choice(VALUES)
        case 1 if isinstance(node, dict):
            node[dice.choice(["", "extra", "Extra", "a" * 41, "é", "id", "data", "p50", "n", "\u0000"])] = node[key]
        case 2:
            del node[key]
        case 3:
            node[key] = [node[key]]
        case 4:
            node[key] = {"value": node[key]}
        case _:
            node[key] = dice.choice(list(_places(value)))[0]
    try:
        text = json.dumps(value, ensure_ascii=dice.random() < 0.5, indent=dice.choice([None, None, 1]))
    except (ValueError, RecursionError):
        return raw
    return text.encode("utf-8", "surrogatepass")


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    rest = [value]
    for item in rest:
        keys = list(item) if isinstance(item, dict) else list(range(len(item))) if isinstance(item, list) else []
        found += [(item, key) for key in keys]
        rest += [item[key] for key in keys if isinstance(item[key], dict | list)]
    return found


def _spell(dice: random.Random, raw: bytes, _: list[bytes]) -> bytes:
    """Spell a letter by its escape, which changes nothing, or a space by another."""
    if not raw:
        return raw
    at = dice.randrange(len(raw))
    return raw[:at] + b"\\u%04x" % raw[at] + raw[at + 1 :]


_CHANGES: list[Callable[[random.Random, bytes, list[bytes]], bytes]] = [
    _flip, _insert, _cut, _again, _splice, _spell, _rewrite, _rewrite, _rewrite, _rewrite, _rewrite,
]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    told = fuzz(asked.seconds, asked.seed)
    print(
        f"{told.tried:,} inputs in {asked.seconds:.0f} s, {told.taken:,} taken, {told.answers:,} different answers, "
        f"slowest {told.slowest_s * 1000:.0f} ms"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
