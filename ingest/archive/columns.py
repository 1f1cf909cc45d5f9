"""Columns of JSON scalars: numbers as numbers where their text can be made again exactly, and as their text where not.

What goes in and what comes out is the spelling of a scalar as it stands in an event: `1.21`, `6612.0`, `"cuda"`. Raw samples
are lists of numbers; a column holds the lists of an event.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["LISTS", "Column", "chosen", "with_lists", "without_lists"]

_NUMBER = re.compile(r"-?\d{1,19}(?:\.(\d+))?")
_HEX = re.compile(r'"((?:[a-z0-9_-]+:)?)((?:[0-9a-f]{2}){16,64})"')
_FLOAT = re.compile(r"-?\d[0-9.eE+-]*")
_LIST = re.compile(r"\[(-?\d++(?:\.\d++)?+(?:,-?\d++(?:\.\d++)?+)*+)\]")
_LARGEST_SCALE = 9
_LARGEST = 2**63
_LARGEST_EXACT = 2**53


LISTS = pa.list_(pa.list_(pa.int64()))
"""The type of a column of lists of numbers."""


class Column(msgspec.Struct, frozen=True, kw_only=True):
    """How the scalars at one path are stored.

    decimal: an integer, `scale` digits of it behind the point; `trimmed`, the text has no zeros at its end. float: a
    double, whose shortest text it is. hex: the bytes of `width` after `prefix`. text: as it is. id, time: not at all,
    being the event's own; same: not at all, being what the event has at the path `of`. `repeats` says that few values come often.
    """

    kind: Literal["text", "decimal", "float", "hex", "id", "time", "same"] = "text"
    scale: int = 0
    trimmed: bool = False
    prefix: str = ""
    width: int = 0
    of: str = ""
    repeats: bool = False

    @property
    def type(self) -> pa.DataType | None:
        """The Arrow type of the values; None where there is no column of values."""
        types = {"decimal": pa.int64(), "float": pa.float64(), "hex": pa.binary(self.width)}
        return types.get(self.kind)

    def encoded(self, texts: pa.StringArray, own: pa.StringArray) -> tuple[pa.Array | None, pa.StringArray]:
        """Return the values and, for those whose text they would not give exactly, the texts; null elsewhere.

        `own` is the text that the event's own id or time, or what it has at `of`, would have here.
        """
        if self.kind == "text":
            return None, texts
        values = self._parsed(texts.to_pylist())
        exact = pc.fill_null(pc.equal(self.text(values, own), texts), False)
        rest = pc.if_else(exact, pa.scalar(None, pa.string()), texts)
        return None if values is None else pc.if_else(exact, values, pa.scalar(None, values.type)), rest

    def text(self, values: pa.Array | None, own: pa.StringArray) -> pa.StringArray:
        """Return the texts of values, null where they are."""
        if self.kind in ("id", "time", "same") or values is None:
            return own
        if self.kind == "hex":
            return pc.binary_join_element_wise(f'"{self.prefix}', _hex_of(values), '"', "")
        if self.kind == "float":
            text = pc.cast(values, pa.string())
            whole = pc.invert(pc.or_(pc.match_substring(text, "."), pc.match_substring(text, "e")))
            return pc.if_else(whole, pc.binary_join_element_wise(text, ".0", ""), text)
        text = pc.cast(_decimals(values, self.scale), pa.string())
        if self.trimmed:
            text = pc.ascii_rtrim(text, "0")
            text = pc.if_else(pc.ends_with(text, "."), pc.binary_join_element_wise(text, "0", ""), text)
        return text

    def _parsed(self, texts: Sequence[str | None]) -> pa.Array | None:
        if self.kind == "decimal":
            return pa.array([None if text is None else _scaled(text, self.scale) for text in texts], pa.int64())
        if self.kind == "float":
            numbers = [float(text) if text is not None and _FLOAT.fullmatch(text) else None for text in texts]
            return pa.array(numbers, pa.float64())
        if self.kind == "hex":
            return pa.array([None if text is None else self._bytes(text) for text in texts], pa.binary(self.width))
        return None

    def _bytes(self, text: str) -> bytes | None:
        match = _HEX.fullmatch(text)
        return bytes.fromhex(match[2]) if match and len(match[2]) == 2 * self.width else None


def chosen(texts: Sequence[str], own: Sequence[str], *, kind: str | None = None) -> Column:
    """Return how to store scalars of which these are some; `own`: the events' own `kind`, id or time, written here."""
    distinct = len(set(texts))
    repeats = 4 * distinct <= len(texts)
    if kind is not None and 2 * sum(map(str.__eq__, texts, own)) > len(texts):
        return Column(kind="id" if kind == "id" else "time")
    numbers = [text for text in map(_NUMBER.fullmatch, texts) if text]
    if 2 * len(numbers) > len(texts):
        decimals = [number[1] or "" for number in numbers]
        scale = sorted(map(len, decimals))[len(decimals) * 98 // 100]
        if scale <= _LARGEST_SCALE:
            zeros = sum(len(part) > 1 and part.endswith("0") for part in decimals)
            return Column(kind="decimal", scale=scale, trimmed=scale > 0 and not zeros, repeats=repeats)
        return Column(kind="float", repeats=repeats)
    hexes = {(text[1], len(text[2]) // 2) for text in map(_HEX.fullmatch, texts) if text}
    if len(hexes) == 1 and 2 * distinct > len(texts):
        ((prefix, width),) = hexes
        return Column(kind="hex", prefix=prefix, width=width)
    return Column(repeats=repeats)


def _scaled(text: str, scale: int) -> int | None:
    match = _NUMBER.fullmatch(text)
    if match is None or len(match[1] or "") > scale:
        return None
    whole, _, part = text.partition(".")
    value = int(whole + part.ljust(scale, "0"))
    return value if -_LARGEST <= value < _LARGEST else None


def _decimals(values: pa.Int64Array, scale: int) -> pa.Array:
    """Return integers as decimals with so many digits behind the point; Arrow's cast would take them for whole ones."""
    low = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    both = np.stack([low, low >> 63], axis=1)
    made = pa.Array.from_buffers(pa.decimal128(38, scale), len(values), [None, pa.py_buffer(both)])
    return pc.if_else(pc.is_valid(values), made, pa.scalar(None, made.type))


_DIGITS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)


def _hex_of(values: pa.FixedSizeBinaryArray) -> pa.StringArray:
    rows, width = len(values), values.type.byte_width
    if rows == 0:
        return pa.array([], pa.string())
    filled: Any = pc.fill_null(values, pa.scalar(bytes(width), values.type)) if values.null_count else values
    raw = np.frombuffer(filled.buffers()[1], np.uint8, rows * width, filled.offset * width)
    offsets = np.arange(0, 2 * width * rows + 1, 2 * width, dtype=np.int32)
    text = pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(_DIGITS[raw].reshape(-1)))
    return pc.if_else(pc.is_valid(values), text, pa.scalar(None, pa.string()))


LISTED = "\x1e"
"""Stands in a body in the place of a list of numbers; no JSON text can hold it."""
_SAMPLES = Column(kind="decimal", scale=6, trimmed=True)
"""The spelling of raw samples: ms to the nanosecond, without zeros at the end."""


def without_lists(bodies: pa.StringArray) -> tuple[pa.StringArray, pa.Array]:
    """Return bodies with LISTED in the place of each list of numbers, and the numbers of these lists as lists of integers.

    A list begins with its median in millionths; what follows are the differences from it, by zigzag: 2x, or -2x - 1 below
    zero. Samples scatter around their median, so the upper bytes of these are zero. A list that would not come back with the
    same spelling stays in the body.
    """
    lists = pc.split_pattern(
        pa.array([text for body in bodies.to_pylist() for text in _LIST.findall(body)], pa.string()), ","
    )
    spellings = lists.flatten()
    starts = lists.offsets.to_numpy()[:-1]
    numbers = spellings.cast(pa.float64()).to_numpy() * 10.0**_SAMPLES.scale
    scaled = np.rint(np.clip(numbers, -_LARGEST_EXACT, _LARGEST_EXACT)).astype(np.int64)
    same = pc.equal(_SAMPLES.text(pa.array(scaled), spellings), spellings).to_numpy(zero_copy_only=False)
    exact = np.logical_and.reduceat(same, starts) if len(starts) else same
    pieces = zip(exact.tolist(), np.split(scaled, starts[1:]), strict=True)
    rest: list[str] = []
    taken: list[list[Any]] = []

    def mark(match: re.Match[str]) -> str:
        fits, values = next(pieces)
        if not fits:
            return match[0]
        taken[-1].append(_differences(values))
        return LISTED

    for body in bodies.to_pylist():
        taken.append([])
        rest.append(_LIST.sub(mark, body))
    return pa.array(rest, pa.string()), pa.array(taken, LISTS)


def with_lists(bodies: pa.StringArray, lists: pa.Array) -> pa.StringArray:
    """Return the bodies of `without_lists` as they were."""
    inner = lists.flatten()
    lengths = pc.list_value_length(inner).to_numpy()
    coded = inner.flatten().to_numpy()
    starts = np.cumsum(lengths) - lengths
    values = (coded >> 1) ^ -(coded & 1)
    values = np.delete(values + np.repeat(values[starts], lengths), starts)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths - 1)]), pa.int32())
    texts = pa.ListArray.from_arrays(offsets, _SAMPLES.text(pa.array(values), pa.array([], pa.string())))
    spelled = iter(pc.binary_join(texts, ",").to_pylist())
    made = []
    for body in bodies.to_pylist():
        first, *others = body.split(LISTED)
        made.append(first + "".join(f"[{next(spelled)}]{other}" for other in others))
    return pa.array(made, pa.string())


def _differences(values: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    median = int(np.median(values))
    differences = np.concatenate([[median], values - median])
    return (differences << 1) ^ (differences >> 63)
