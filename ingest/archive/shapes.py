"""Events taken apart into a shape and its scalars, column by column, and put together again to the byte.

Most of an event's text is the same in thousands of others. Its shape is that text with U+001F, which no JSON text can
hold, in the place of each string and number; the scalars go into one column a path (`$.data.metrics.load_ms`), where
they lie beside their like. A body whose shape is rare stays whole. Nothing is understood that could be lost: what the
columns do not give back exactly is kept as text, and the archive compares every event with its digest.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.archive.columns import Column, chosen

__all__ = ["ENVELOPE", "MARK", "Plan", "planned"]

MARK = "\x1f"
ENVELOPE = [
    ("position", pa.int64()),
    ("id", pa.uuid()),
    ("type", pa.string()),
    ("source", pa.string()),
    ("subject", pa.string()),
    ("time", pa.timestamp("us", tz="UTC")),
    ("recorded_at", pa.timestamp("us", tz="UTC")),
    ("shape", pa.string()),
    ("body", pa.string()),
    ("attestation", pa.string()),
    ("digest", pa.binary(32)),
]
"""The columns of every file of facts; `shape` and `body` are both null for raw samples, which are in another file.

`digest` is that of the bodies that are not in the file; of the others it can be computed."""

_SCALAR = re.compile(r'(?<=[:\[,\s])("(?:[^"\\]|\\.)*+"(?!\s*:)|-?\d[0-9.eE+-]*+)')
_MOST_SCALARS = 200
_MOST_COLUMNS = 300
_OWN = ("id", "time")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which paths have columns, and how their scalars are stored."""

    columns: dict[str, Column]

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file: values under the path, exceptions and texts under the path and ` (text)`."""
        fields = [pa.field(*item) for item in ENVELOPE]
        for path, column in self.columns.items():
            if column.type is not None:
                fields.append(pa.field(path, column.type))
            fields.append(pa.field(_text_name(path), pa.string()))
        return pa.schema(fields)

    @property
    def repeating(self) -> list[str]:
        """The columns in which few values come often."""
        names = ["type", "source", "subject", "shape", "attestation"]
        for path, column in self.columns.items():
            if column.repeats:
                names += [_text_name(path)] + ([path] if column.type is not None else [])
        return names

    def taken_apart(self, table: pa.Table) -> pa.Table:
        """Return a table of events (the envelope without `shape`, bodies as sent) in the schema of the file."""
        rows = table.num_rows
        shapes: list[str | None] = [None] * rows
        bodies: list[str | None] = [None] * rows
        scalars: dict[str, list[str | None]] = {path: [None] * rows for path in self.columns}
        paths: dict[str, tuple[str, ...] | None] = {}
        identifiers = id_texts(table["id"].combine_chunks().cast(pa.binary(16)))
        for row, (body, identifier) in enumerate(zip(table["body"].to_pylist(), identifiers.to_pylist(), strict=True)):
            if body is None:
                continue
            pieces = _SCALAR.split(body)
            shape = MARK.join(pieces[::2])
            if shape not in paths:
                paths[shape] = self._paths(shape)
            result = paths[shape]
            if result is None:
                bodies[row] = body.replace(identifier, MARK)
                continue
            shapes[row] = shape
            for path, scalar in zip(result, pieces[1::2], strict=True):
                scalars[path][row] = scalar
        own = _own(identifiers, table["time"].combine_chunks())
        made: dict[str, Any] = {name: table[name] for name, _ in ENVELOPE if name in table.column_names}
        made |= {"shape": pa.array(shapes, pa.string()), "body": pa.array(bodies, pa.string())}
        texts = {path: pa.array(scalars.pop(path), pa.string()) for path in self.columns}
        for path, column in self.columns.items():
            values, rest = column.encoded(texts[path], texts[column.of] if column.of else own[_own_name(column)])
            made |= {_text_name(path): rest} | ({} if values is None else {path: values})
        return pa.table({name: made[name] for name in self.schema.names}).cast(self.schema)

    def _paths(self, shape: str) -> tuple[str, ...] | None:
        paths = _paths_of(shape)
        return paths if paths is not None and all(path in self.columns for path in paths) else None

    def put_together(self, table: pa.Table) -> pa.Table:
        """Return the events of a file's table: the envelope with `event_id` as text, bodies as they were sent."""
        identifiers = id_texts(table["id"].combine_chunks().storage)
        own = _own(identifiers, table["time"].combine_chunks())
        whole = pc.binary_join(pc.split_pattern(table["body"].combine_chunks(), MARK), identifiers)
        shapes = table["shape"].combine_chunks().dictionary_encode()
        numbers = pc.fill_null(shapes.indices, -1).to_numpy(zero_copy_only=False)
        texts: dict[str, pa.Array] = {}
        parts, places = [], []
        for number, shape in enumerate([None, *shapes.dictionary.to_pylist()], start=-1):
            rows = np.flatnonzero(numbers == number)
            if not len(rows):
                continue
            places.append(rows)
            taken = pa.array(rows)
            if shape is None:
                parts.append(whole.take(taken))
                continue
            paths = _paths_of(shape) or ()
            for path in paths:
                if path not in texts:
                    texts[path] = self._texts(table, path, own)
            literals = shape.split(MARK)
            pieces: list[Any] = [literals[0]]
            for path, literal in zip(paths, literals[1:], strict=True):
                pieces += [texts[path].take(taken), literal]
            parts.append(pc.binary_join_element_wise(*pieces, "") if paths else pa.array([shape] * len(rows)))
        bodies = pa.concat_arrays(parts).take(pa.array(np.argsort(np.concatenate(places)))) if parts else whole
        envelope = {name: table[name] for name in ("position", "type", "source", "subject", "time", "recorded_at")}
        return pa.table({"event_id": identifiers, "body": bodies, **envelope})

    def _texts(self, table: pa.Table, path: str, own: Mapping[str, pa.Array]) -> pa.Array:
        column = self.columns[path]
        rest = table[_text_name(path)].combine_chunks()
        if column.kind == "text":
            return rest
        values = table[path].combine_chunks() if column.type is not None else None
        text = column.text(values, self._texts(table, column.of, own) if column.of else own[_own_name(column)])
        # The event's own id or time, or what is at another path, is what a scalar is unless the column says otherwise.
        return pc.coalesce(rest, text)


def planned(sample: Sequence[tuple[str, str, datetime | None]]) -> Plan:
    """Return the plan that suits events like these: id, body and time of some of them."""
    counted: Counter[str] = Counter()
    scalars: dict[str, list[tuple[str, str, datetime | None]]] = defaultdict(list)
    taken = [(identifier, _SCALAR.split(body), time) for identifier, body, time in sample]
    counted.update(MARK.join(pieces[::2]) for _, pieces, _ in taken)
    names: dict[str, tuple[str, ...]] = {}
    columns: set[str] = set()
    for shape, events in counted.most_common():
        paths = _paths_of(shape)
        if events > 1 and paths is not None and len(columns | set(paths)) <= _MOST_COLUMNS:
            names[shape] = paths
            columns |= set(paths)
    rows: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for row, (identifier, pieces, time) in enumerate(taken):
        for path, scalar in zip(names.get(MARK.join(pieces[::2]), ()), pieces[1::2], strict=False):
            scalars[path].append((scalar, identifier, time))
            rows[path].append((row, scalar))
    firsts: dict[tuple[tuple[int, str], ...], str] = {}
    made: dict[str, Column] = {}
    for path in sorted(columns):
        made[path] = _column(path, scalars[path])
        first = firsts.setdefault(tuple(rows[path]), path)
        # What never changes takes no room of its own.
        if first != path and made[path].kind not in _OWN and len({scalar for _, scalar in rows[path]}) > 1:
            made[path] = Column(kind="same", of=first, repeats=made[path].repeats)
    return Plan(columns=made)


def _column(path: str, seen: Sequence[tuple[str, str, datetime | None]]) -> Column:
    kind = path.removeprefix("$.")
    texts = [scalar for scalar, _, _ in seen]
    if kind == "id":
        return chosen(texts, [f'"{identifier}"' for _, identifier, _ in seen], kind="id")
    if kind == "time":
        return chosen(
            texts, [f'"{time:%Y-%m-%dT%H:%M:%S.%f}+00:00"' if time else "" for _, _, time in seen], kind="time"
        )
    return chosen(texts, [])


def _paths_of(shape: str) -> tuple[str, ...] | None:
    """Return the path of each scalar of a shape, in their order; None where that is not clear, or there are too many."""
    literals = shape.split(MARK)
    if len(literals) - 1 > _MOST_SCALARS:
        return None
    numbered = "".join(f"{literal}{number}" for number, literal in enumerate(literals[:-1])) + literals[-1]
    matches: dict[int, str] = {}
    try:
        _walk(msgspec.json.decode(numbered), "$", matches)
    except msgspec.DecodeError:
        return None
    paths = [matches.get(number) for number in range(len(literals) - 1)]
    matching_paths = [path for path in paths if path is not None]
    return tuple(matching_paths) if len(set(matching_paths)) == len(paths) == len(matches) else None


def _walk(value: Any, path: str, matches: dict[int, str]) -> None:
    if isinstance(value, dict):
        for name, inner in value.items():
            _walk(inner, f"{path}.{name}", matches)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _walk(inner, f"{path}[{index}]", matches)
    elif isinstance(value, int) and not isinstance(value, bool):
        matches[value] = path


def _text_name(path: str) -> str:
    return f"{path} (text)"


def _own_name(column: Column) -> str:
    return "time" if column.kind == "time" else "id"


def _own(identifiers: pa.StringArray, time: pa.TimestampArray) -> dict[str, pa.StringArray]:
    """Return what ids and times are as JSON strings, if they are spelled as our own events spell them."""
    moments = pc.strftime(time, format="%Y-%m-%dT%H:%M:%S")
    return {
        "id": pc.binary_join_element_wise('"', identifiers, '"', ""),
        "time": pc.binary_join_element_wise('"', moments, '+00:00"', ""),
    }


_HEX = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.uint8).reshape(256, 2)
_PARTS = ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24))


def id_texts(identifiers: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Return UUIDs of 16 bytes as text; Arrow has no cast for it."""
    rows = len(identifiers)
    raw = np.frombuffer(identifiers.buffers()[1], np.uint8, rows * 16, identifiers.offset * 16)
    digits = _HEX[raw].reshape(rows, 32)
    text = np.full((rows, 36), ord("-"), np.uint8)
    for start, end, column in _PARTS:
        text[:, column : column + end - start] = digits[:, start:end]
    offsets = np.arange(0, 36 * rows + 1, 36, dtype=np.int32)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))
