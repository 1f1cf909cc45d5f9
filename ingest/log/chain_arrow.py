"""The hash chain over Arrow tables of events: computed from their bodies, with as little Python an event as it takes."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256

import numpy as np
import pyarrow as pa

from ingest.log.chain import EPOCH_US

__all__ = ["link_table"]

_LENGTH = struct.Struct("!i")
_FIXED = np.dtype(
    [
        ("position_length", ">i4"),
        ("position", ">i8"),
        ("recorded_at_length", ">i4"),
        ("recorded_at", ">i8"),
        ("id_length", ">i4"),
        ("id", "V16"),
        ("digest_length", ">i4"),
    ]
)
_TIME = np.dtype([("length", ">i4"), ("time", ">i8")])
_NULL = _LENGTH.pack(-1)


def link_table(previous: bytes, table: pa.Table) -> bytes:
    """Return the link of the last of a table's events, computed from the bodies themselves and not from their digests.

    The columns are those of CHAINED and `body`; `id` has 16 bytes, `digest` is read where there is no body. A change of
    any of them gives another link.
    """
    count = table.num_rows
    fixed = np.empty(count, _FIXED)
    fixed["position_length"] = fixed["recorded_at_length"] = 8
    fixed["id_length"], fixed["digest_length"] = 16, 32
    fixed["position"] = table["position"].to_numpy()
    fixed["recorded_at"] = table["recorded_at"].cast(pa.int64()).to_numpy() - EPOCH_US
    identifiers = table["id"].combine_chunks()
    fixed["id"] = np.frombuffer(identifiers.buffers()[1], "V16", count, identifiers.offset * 16)
    times = np.empty(count, _TIME)
    times["length"] = 8
    times["time"] = table["time"].cast(pa.int64()).fill_null(0).to_numpy() - EPOCH_US
    moments = _split(times)
    for index in np.flatnonzero(table["time"].is_null().to_numpy()).tolist():
        moments[index] = _NULL
    texts, codes = _texts([table[name] for name in ("attestation", "type", "source", "subject")])
    heads, start = _split(fixed), 0
    for body in table["body"].chunks:
        end = start + len(body)
        rows = zip(heads[start:end], _bodies(body), codes[start:end], moments[start:end], strict=True)
        if body.null_count:
            stored = zip(body.is_valid().to_pylist(), table["digest"].slice(start, len(body)).to_pylist(), strict=True)
            for (head, text, code, time), (existing, digest) in zip(rows, stored, strict=True):
                fields = (previous, head, sha256(text).digest() if existing else digest or b"", texts[code], time)
                previous = sha256(b"".join(fields)).digest()
        else:
            for head, text, code, time in rows:
                previous = sha256(b"".join((previous, head, sha256(text).digest(), texts[code], time))).digest()
        start = end
    return previous


def _bodies(column: pa.Array) -> Iterator[memoryview]:
    """Return the texts of a column where Arrow has them."""
    _, offsets, content = column.buffers()
    width = np.dtype(np.int64 if pa.types.is_large_string(column.type) else np.int32)
    ends = np.frombuffer(offsets, width, len(column) + 1, column.offset * width.itemsize).tolist()
    return map(memoryview(content or b"").__getitem__, map(slice, ends, itertools.islice(ends, 1, None)))


def _split(records: np.ndarray[tuple[int], np.dtype[np.void]]) -> list[bytes]:
    return records.view(f"V{records.itemsize}").tolist()


def _texts(columns: Sequence[pa.ChunkedArray]) -> tuple[list[bytes], list[int]]:
    """Return the encoded texts of each distinct combination of the columns, and the combination of each row."""
    distinct: list[list[bytes]] = []
    combined = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        encoded = column.combine_chunks().dictionary_encode()
        values = [text.encode() for text in encoded.dictionary.to_pylist()]
        distinct.append([_LENGTH.pack(len(value)) + value for value in values] + [_NULL])
        combined = combined * len(distinct[-1]) + encoded.indices.fill_null(len(values)).to_numpy()
    result, codes = np.unique(combined, return_inverse=True)
    texts = []
    for code in result.tolist():
        parts = []
        for values in reversed(distinct):
            code, index = divmod(code, len(values))
            parts.append(values[index])
        texts.append(b"".join(reversed(parts)))
    return texts, codes.tolist()
