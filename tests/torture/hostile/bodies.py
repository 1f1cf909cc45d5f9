"""Bodies that are not what they should be: JSON, text, sizes, packings."""

from __future__ import annotations

import gzip
import itertools
import json
import uuid
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import zstandard

from tests.torture.hostile.case import Case, post

__all__ = ["FAMILIES", "GOLDEN", "fresh", "paths", "put"]

GOLDEN: list[dict[str, Any]] = [
    json.loads(path.read_text()) for path in sorted((Path(__file__).parents[2] / "golden").glob("*.json"))
]
MEASUREMENT = next(event for event in GOLDEN if event["type"] == "assay.measurement.recorded.v1")
LINES, BATCH = "application/x-ndjson", "application/cloudevents-batch+json"
LIMIT = 256 * 1024
BODY_LIMIT = 16 * 1024 * 1024
MARK = "@@here@@"


def fresh(event: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a copy of an event (a measurement) with an id that no log knows."""
    copy: dict[str, Any] = json.loads(json.dumps(event or MEASUREMENT))
    return {**copy, "id": str(uuid.uuid4())}


def paths(value: Any, of: type | tuple[type, ...], prefix: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every member of a JSON value that is of a type."""
    if isinstance(value, of) and not isinstance(value, bool):
        yield prefix
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, of, (*prefix, key))


def put(event: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """Set the member at a path and return the event."""
    target: Any = event
    for key in path[:-1]:
        target = target[key]
    target[path[-1]] = value
    return event


def _with(text: bytes, *path: Any) -> bytes:
    """Return a fresh measurement with this JSON text, whatever it is, at a path."""
    return json.dumps(put(fresh(), path, MARK)).encode().replace(f'"{MARK}"'.encode(), text)


def nesting() -> Iterator[Case]:
    """Arrays and objects in each other, deeper than any reader's stack."""
    for depth, (opens, closes) in itertools.product(
        (16, 100, 500, 1000, 5000, 20_000, 60_000), ((b"[", b"]"), (b'{"a":', b"}"), (b'[{"b":', b"}]"))
    ):
        deep = opens * depth + b"1" + closes * depth
        forms = {
            "in data": post(_with(deep, "data", "extra")),
            "as the body": post(deep),
            "in a list": post(b"[" + _with(deep, "data", "extra") + b"]", BATCH),
            "never closed": post(opens * depth),
            "as a line": post(deep + b"\n" + json.dumps(fresh()).encode(), LINES),
        }
        for name, sent in forms.items():
            yield Case(family="deep nesting", name=f"{depth} {opens.decode()} {name}", sends=(sent,))


def duplicates() -> Iterator[Case]:
    """A member named twice, plainly or by an escape; two readers would see two events."""
    text = json.dumps(fresh())
    for path in [
        (),
        ("data",),
        ("data", "model"),
        ("data", "metrics"),
        ("data", "metrics", "latency_ms"),
        ("data", "execution"),
    ]:
        target: Any = MEASUREMENT
        for key in path:
            target = target[key]
        for name in list(target)[:5]:
            value = json.dumps(target[name])
            for form, again in {"plain": name, "escaped": f"\\u{ord(name[0]):04x}{name[1:]}"}.items():
                inner = json.dumps(target)[:-1] + f',"{again}":{value}}}'
                event = (
                    json.dumps(put(fresh(), path, MARK)).replace(f'"{MARK}"', inner)
                    if path
                    else text[:-1] + f',"{again}":{value}}}'
                )
                where = ".".join((*path, name))
                yield Case(
                    family="duplicate keys", name=f"{where} {form}", sends=(post(event.encode()),), forbidden=(200,)
                )


NUMBERS = [
    "1e400", "-1e400", "1e-400", "1e999999999", "1e-999999999", str(2**53), str(-(2**53)), str(2**63), str(2**64), str(2**128), "9" * 4300,
    "9" * 4301, "9" * 100_000, "0." + "0" * 5000 + "1", "1." + "1" * 50_000, "NaN", "Infinity", "-Infinity", "-0", "-0.0", "01", "+1", ".5", "5.", "0x10",
    "1e", "1e+", "--1", "1_000", "１", "1e308", "1.7976931348623159e308", "5e-324", "4.9e-325", "1,5",
]  # fmt: skip


def numbers() -> Iterator[Case]:
    """Numbers that overflow, round, or are none."""
    places = [
        ("data", "metrics", "latency_ms", "p50"),
        ("data", "workload", "batch_size"),
        ("data", "extra"),
        ("extension",),
    ]
    for number, place in itertools.product(NUMBERS, places):
        yield Case(
            family="numbers", name=f"{number[:30]} at {place[-1]}", sends=(post(_with(number.encode(), *place)),)
        )


TEXTS: dict[str, bytes] = {
    "high surrogate": b'"\\ud800"', "low surrogate": b'"\\udc00"', "surrogates reversed": b'"\\udc00\\ud800"', "surrogate bytes": b'"\xed\xa0\x80"',
    "overlong": b'"\xc0\xaf"', "overlong NUL": b'"\xc0\x80"', "cut UTF-8": b'"\xe2\x82"', "0xff": b'"\xff"', "beyond Unicode": b'"\xf4\x90\x80\x80"',
    "NUL": b'"a\x00b"', "escaped NUL": b'"a\\u0000b"', "control": b'"a\x1fb"', "escaped control": b'"a\\u001bb"', "noncharacter": b'"\\uffff"',
    "BOM inside": '"\ufeffa"'.encode(), "right to left": '"\u202eabc"'.encode(), "combining": ('"a' + "\u0301" * 5000 + '"').encode(),
    "bad escape": b'"\\x41"', "half escape": b'"\\u12"', "line separators": '"\u2028\u2029\u0085"'.encode(), "single quotes": b"'a'", "long": b'"' + b"a" * 200_000 + b'"',
}  # fmt: skip


def texts() -> Iterator[Case]:
    """Text that is no text: halves of characters, bytes that are no UTF-8, zeros, marks."""
    places = [
        ("source",),
        ("subject",),
        ("type",),
        ("data", "model", "id"),
        ("data", "environment", "os"),
        ("data", "extra"),
    ]
    for (name, text), place in itertools.product(TEXTS.items(), places):
        yield Case(family="text", name=f"{name} at {place[-1]}", sends=(post(_with(text, *place)),))
    plain = json.dumps(fresh())
    for name, body in {
        "BOM before": b"\xef\xbb\xbf" + plain.encode(), "UTF-16": plain.encode("utf-16"), "UTF-32": plain.encode("utf-32"),
        "UTF-7": plain.encode("utf-7"), "EBCDIC": plain.encode("cp500"), "NUL before": b"\x00" + plain.encode(),
        "NUL after": plain.encode() + b"\x00", "key of surrogate": b'{"\\ud800":1,' + plain.encode()[1:], "random": bytes(range(256)) * 64,
    }.items():  # fmt: skip
        yield Case(family="text", name=name, sends=(post(body),))


def packed() -> Iterator[Case]:
    """What is small and unpacks to much, or is packed wrongly."""
    plain = json.dumps(fresh()).encode()
    zeros = bytes(BODY_LIMIT * 6)
    bomb, frame = gzip.compress(zeros, 9), zstandard.compress(zeros, 19)
    member, small = gzip.compress(b" "), zstandard.compress(b" ")
    forms: dict[str, tuple[str, bytes]] = {
        "gzip bomb": ("gzip", bomb), "zstd bomb": ("zstd", frame), "gzip in gzip": ("gzip", gzip.compress(bomb)), "zstd in zstd": ("zstd", zstandard.compress(frame)),
        "gzip, gzip": ("gzip, gzip", gzip.compress(gzip.compress(plain))), "ten bombs": ("gzip", bomb * 10), "ten frames": ("zstd", frame * 10),
        "deflate": ("deflate", zlib.compress(plain)), "br": ("br", plain), "x-gzip": ("x-gzip", gzip.compress(plain)), "compress": ("compress", plain),
        "GZIP in capitals": ("GZIP", gzip.compress(plain)), "not gzip": ("gzip", plain), "not zstd": ("zstd", plain), "gzip said, zstd sent": ("gzip", zstandard.compress(plain)),
        "zstd said, gzip sent": ("zstd", gzip.compress(plain)), "gzip and rubbish": ("gzip", gzip.compress(plain) + b"rubbish"), "zstd and rubbish": ("zstd", zstandard.compress(plain) + b"rubbish"),
        "gzip of nothing": ("gzip", gzip.compress(b"")), "nothing as gzip": ("gzip", b""), "gzip header alone": ("gzip", gzip.compress(plain)[:10]), "wrong CRC": ("gzip", gzip.compress(plain)[:-8] + bytes(8)),
        "gzip with a long name": ("gzip", b"\x1f\x8b\x08\x08" + bytes(6) + b"n" * 100_000 + b"\x00" + gzip.compress(plain)[10:]),
        "dictionary asked": ("zstd", b"\x28\xb5\x2f\xfd\x23\xff\xff\xff\xff\x01" + bytes(40)), "reserved bits": ("zstd", b"\x28\xb5\x2f\xfd\x08\x00" + bytes(8)),
        "skippable frame of 4 GB": ("zstd", b"\x50\x2a\x4d\x18\xff\xff\xff\xff"), "skippable frames": ("zstd", (b"\x50\x2a\x4d\x18" + bytes(4)) * 20_000),
    }  # fmt: skip
    for count in (2, 63, 64, 65, 1000, 20_000):
        forms[f"{count} members"] = ("gzip", member * (count - 1) + gzip.compress(plain))
        forms[f"{count} frames"] = ("zstd", small * (count - 1) + zstandard.compress(plain))
    for cut in (1, 4, 8, 20, len(bomb) // 2):
        forms[f"gzip cut by {cut}"] = ("gzip", (bomb if cut > 20 else gzip.compress(plain))[:-cut])
        forms[f"zstd cut by {cut}"] = ("zstd", zstandard.compress(plain)[: -min(cut, 60)])
    for window in (20, 23, 24, 27, 31):
        parameters = zstandard.ZstdCompressionParameters(
            window_log=window, compression_level=1, write_content_size=False
        )
        engine = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
        forms[f"window of 2^{window}"] = ("zstd", engine.compress(plain) + engine.flush())
    for name, (encoding, body) in forms.items():
        yield Case(family="packed bodies", name=name, sends=(post(body, content_encoding=encoding),))


def sizes() -> Iterator[Case]:
    """Events and bodies at their limits, one byte and one event over, and far over; and bodies of nothing."""
    empty = len(_with(b'""', "data", "extra"))
    for size in (LIMIT - 1, LIMIT, LIMIT + 1, 2 * LIMIT, BODY_LIMIT, BODY_LIMIT + 1, 2 * BODY_LIMIT, 5 * BODY_LIMIT):
        for media in ("application/cloudevents+json", LINES):
            body = _with(b'"' + b"x" * (size - empty) + b'"', "data", "extra")
            yield Case(family="sizes", name=f"an event of {size} bytes, {media}", sends=(post(body, media),))
    for count in (0, 5000, 5001, 20_000):
        lines = b"\n".join(b"{}" for _ in range(count))
        yield Case(family="sizes", name=f"{count} empty objects as lines", sends=(post(lines, LINES),))
        listed = b"[" + b",".join(b"{}" for _ in range(count)) + b"]"
        yield Case(family="sizes", name=f"{count} empty objects in a list", sends=(post(listed, BATCH),))
    for count in (1_000_000, 8_000_000):
        yield Case(family="sizes", name=f"{count} line ends", sends=(post(b"\n" * count, LINES),))
        yield Case(family="sizes", name=f"{count} commas", sends=(post(b"[" + b"1," * (count // 2) + b"1]", BATCH),))
    for body in (
        b"",
        b" ",
        b"null",
        b"true",
        b'""',
        b"[]",
        b"{}",
        b"[[]]",
        b"[null]",
        b"1",
        b'{"a"',
        b"{}{}",
        b"[{}",
        b"\r\n",
    ):
        for media in ("application/json", BATCH, LINES):
            yield Case(
                family="sizes",
                name=f"{body!r} as {media}",
                sends=(post(body, media, content_length=str(len(body))),),
                forbidden=(200,),
            )


def identifiers() -> Iterator[Case]:
    """Ids, times and versions that are none."""
    made = str(uuid.uuid4())
    ids: list[Any] = [
        made.upper(), "{" + made + "}", made.replace("-", ""), "urn:uuid:" + made, made + "\n", " " + made, made[:-1], made + "0", "", None, 1, 1.5, True, [], {},
        "g" * 36, "../" * 12, "'; DROP TABLE event; --", "\x00" * 36, "٠" * 36, "0" * 5000,
    ]  # fmt: skip
    for value in ids:
        yield Case(
            family="ids and times",
            name=f"id {value!r:.40}",
            sends=(post(json.dumps(fresh() | {"id": value}).encode()),),
            forbidden=(200,),
        )
    times: list[Any] = [
        "2026-11-20", "2026-11-20T14:05:00", "2026-13-40T99:99:99Z", "0000-00-00T00:00:00Z", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "99999-01-01T00:00:00Z",
        "2026-11-20T14:05:60Z", "2026-11-20T14:05:00." + "1" * 5000 + "Z", "now", "infinity", "-infinity", "epoch", 0, -1, 1e30, [], {"$date": 1},
        "2026-11-20T14:05:00+99:99", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-11-20t14:05:00z", "",
    ]  # fmt: skip
    for value in times:
        yield Case(
            family="ids and times",
            name=f"time {value!r:.40}",
            sends=(post(json.dumps(fresh() | {"time": value}).encode()),),
        )
    for value in ("0.3", "1.1", "1.0 ", 1.0, None, "1.0\x00", ["1.0"]):
        yield Case(
            family="ids and times",
            name=f"specversion {value!r}",
            sends=(post(json.dumps(fresh() | {"specversion": value}).encode()),),
            forbidden=(200,),
        )


FAMILIES: list[Callable[[], Iterator[Case]]] = [nesting, duplicates, numbers, texts, packed, sizes, identifiers]
