"""The archive's Parquet files: written so that a crash leaves no half of one, and read.

A file of facts has every event of its range: the envelope, and the body taken apart (ingest.archive.shapes). A file of
samples has the bodies of raw samples, with U+001F in the place of the event's own id and U+001E in that of lists of numbers,
which are a column. A body's digest is not stored, but for those of samples; a file of facts says between which links of the
hash chain its events stand.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from domain.errors import ServiceUnavailable
from ingest.archive.columns import LISTS, with_lists, without_lists
from ingest.archive.shapes import MARK, Plan, id_texts
from ingest.log.chain_arrow import link_table

__all__ = [
    "UNFINISHED",
    "ArchiveDamaged",
    "Chained",
    "bodies_at",
    "damaged",
    "missing",
    "relinked",
    "samples",
    "sha256_of",
    "whole",
    "write_facts",
    "write_samples",
]

SAMPLES = pa.schema(
    [
        ("position", pa.int64()),
        ("id", pa.uuid()),
        ("recorded_at", pa.timestamp("us", tz="UTC")),
        ("body", pa.string()),
        ("lists", LISTS),
    ]
)
UNFINISHED = ".writing"

_FORMAT = b"assay.archive"
_VERSION = b"3"
_KNOWN = (b"1", b"2", _VERSION)
"""Files of version 1 have no attestation and do not say where they stand in the chain. Files of samples have lists of numbers
in their bodies up to version 2."""
_CHAINED = b"assay.chain"
_PLAN = b"assay.plan"
_GROUP_ROWS = 8_192
"""A single body costs the reading of its row group: in groups of twice the size 50 % more, which take 2 % less room."""
_GROUP_BYTES = 16 * 2**20


class ArchiveDamaged(ServiceUnavailable):
    """A file of the archive is missing, or is not what was written; with it in place again, work goes on."""

    type = "archive-damaged"


class Chained(msgspec.Struct, frozen=True, kw_only=True):
    """Where the events of a file stand in the hash chain: the link before the first of them and that of the last, as hex."""

    log: str
    before: str
    link: str


def write_facts(path: Path, plan: Plan, tables: Iterable[pa.Table], chained: Chained) -> int:
    """Write a file of facts and return its rows. `tables` have the envelope and bodies as sent, null for samples."""
    repeating = plan.repeating
    plain = [field for field in plan.schema if field.name not in repeating]
    metadata = {_FORMAT: _VERSION, _PLAN: msgspec.json.encode(plan), _CHAINED: msgspec.json.encode(chained)}
    groups = (plan.taken_apart(group) for group in _groups(tables))
    return _written(path, plan.schema.with_metadata(metadata), groups, repeating, plain)


def write_samples(path: Path, tables: Iterable[pa.Table]) -> int:
    """Write a file of samples and return its rows; `tables` are as those of `samples`."""
    groups = (_without_lists(group) for group in _groups(tables))
    return _written(path, SAMPLES.with_metadata({_FORMAT: _VERSION}), groups, [], list(SAMPLES))


def samples(path: Path) -> Iterator[pa.Table]:
    """Yield the columns position, id, recorded_at and body of a file of samples, U+001F in the place of an event's own id."""
    for table, _ in _read(path, lambda *_: True):
        yield _with_lists(table)


def _without_lists(table: pa.Table) -> pa.Table:
    bodies, lists = without_lists(table["body"].combine_chunks())
    return table.set_column(table.column_names.index("body"), "body", bodies).append_column("lists", lists)


def _with_lists(table: pa.Table) -> pa.Table:
    if "lists" not in table.column_names:
        return table
    bodies = with_lists(table["body"].combine_chunks(), table["lists"].combine_chunks())
    return table.drop_columns(["lists"]).set_column(table.column_names.index("body"), "body", bodies)


def _written(
    path: Path, schema: pa.Schema, groups: Iterable[pa.Table], repeating: list[str], plain: list[pa.Field]
) -> int:
    """Write a file beside `path`, force it to the disk, and put it in place; memory stays flat."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + UNFINISHED)
    rows = 0
    with beside.open("wb") as sink:
        with pq.ParquetWriter(
            sink,
            schema,
            compression="zstd",
            compression_level=9,
            # One page a row group: zstd finds repetitions only within a page.
            data_page_size=8 * _GROUP_BYTES,
            use_dictionary=repeating,
            column_encoding=dict(_encoding(field.name, field.type) for field in plain),
            write_statistics=["position", "recorded_at"],
            write_page_checksum=True,
        ) as writer:
            for group in groups:
                writer.write_table(group.cast(schema), row_group_size=max(1, group.num_rows))
                rows += group.num_rows
        sink.flush()
        os.fsync(sink.fileno())
    beside.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return rows


def _encoding(name: str, kind: pa.DataType) -> tuple[str, str]:
    """Return the path of a column in the file and its encoding."""
    if pa.types.is_list(kind):
        return _encoding(f"{name}.list.element", kind.value_type)
    if pa.types.is_string(kind):
        return name, "DELTA_LENGTH_BYTE_ARRAY"
    if pa.types.is_timestamp(kind):
        return name, "DELTA_BINARY_PACKED"
    return name, "BYTE_STREAM_SPLIT" if kind in (pa.int64(), pa.float64(), pa.uuid()) else "PLAIN"


def _groups(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """Regroup tables so that each has about the rows or the bytes of one row group."""
    waiting: list[pa.Table] = []
    rows = size = 0
    for table in tables:
        for start in range(0, table.num_rows, _GROUP_ROWS):
            part = table.slice(start, _GROUP_ROWS)
            waiting.append(part)
            rows, size = rows + part.num_rows, size + part.nbytes
            if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
                yield pa.concat_tables(waiting)
                waiting, rows, size = [], 0, 0
    if rows:
        yield pa.concat_tables(waiting)


def sha256_of(path: Path) -> bytes:
    """Return the SHA-256 of a file; ArchiveDamaged where it is not there."""
    try:
        with path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").digest()
    except FileNotFoundError as error:
        raise missing(path) from error


def missing(path: Path) -> ArchiveDamaged:
    """Return the error of a file that is not there."""
    return ArchiveDamaged(
        f"{path.name} is missing from the archive in {path.parent}.",
        field="ASSAY_ARCHIVE",
        remedy="Put it back from a copy of the archive, or set ASSAY_ARCHIVE to where the archive is.",
    )


def damaged(path: Path, why: str) -> ArchiveDamaged:
    """Return the error of a file that is not what was written."""
    return ArchiveDamaged(
        f"{path} is damaged: {why}.",
        field="ASSAY_ARCHIVE",
        remedy="Put it back from a copy of the archive; `assay archive verify` tells whether it is whole.",
    )


def whole(path: Path, after: int = 0, upto: int | None = None) -> Iterator[pa.Table]:
    """Yield the events of a file with `after` < position ≤ `upto`, a row group at a time, in order.

    Columns: position, event_id (text), body (as sent), and of facts type, source, subject, time and recorded_at. Nothing
    here costs Python an event: it is how the projection reads the archive. ArchiveDamaged where the file is not whole.
    """
    for table, plan in _read(path, lambda first, last: last > after and (upto is None or first <= upto)):
        wanted = pc.greater(table["position"], after)
        if upto is not None:
            wanted = pc.and_(wanted, pc.less_equal(table["position"], upto))
        yield _restored(table.filter(wanted), plan)


def relinked(path: Path) -> tuple[Chained, bytes] | None:
    """Return where a file of facts says that it stands in the chain, and the link of its last event computed from what it holds.

    None for a file of version 1. ArchiveDamaged where it cannot be read.
    """
    try:
        said = (pq.read_schema(path).metadata or {}).get(_CHAINED)
        if said is None:
            return None
        chained = msgspec.json.decode(said, type=Chained)
        link = bytes.fromhex(chained.before)
    except FileNotFoundError as error:
        raise missing(path) from error
    except (pa.ArrowException, OSError, ValueError) as error:
        raise damaged(path, str(error).split("\n", 1)[0][:300]) from error
    for table, plan in _read(path, lambda *_: True):
        events = _restored(table, plan).append_column("id", table["id"].combine_chunks().storage)
        for name in ("attestation", "digest"):
            events = events.append_column(name, table[name])
        link = link_table(link, events)
    return chained, link


def bodies_at(path: Path, positions: Sequence[int]) -> dict[int, str]:
    """Return the bodies of a file at these positions, of those that it has; only row groups that hold some are read."""
    wanted = pa.array(positions, pa.int64())
    matches: dict[int, str] = {}
    for table, plan in _read(path, lambda first, last: any(first <= position <= last for position in positions)):
        events = _restored(table.filter(pc.is_in(table["position"], wanted)), plan)
        pairs = zip(events["position"].to_pylist(), events["body"].to_pylist(), strict=True)
        matches |= {position: body for position, body in pairs if body is not None}
    return matches


def _read(path: Path, holds: Any) -> Iterator[tuple[pa.Table, Plan | None]]:
    """Yield the row groups of a file for whose lowest and highest position `holds`, and the plan of a file of facts."""
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            metadata = file.schema_arrow.metadata or {}
            if metadata.get(_FORMAT) not in _KNOWN:
                raise damaged(path, "it is not an archive file of a version that this Assay knows")
            plan = msgspec.json.decode(metadata[_PLAN], type=Plan) if _PLAN in metadata else None
            for group in range(file.num_row_groups):
                statistics = file.metadata.row_group(group).column(0).statistics
                if holds(statistics.min, statistics.max):
                    yield file.read_row_group(group), plan
    except FileNotFoundError as error:
        raise missing(path) from error
    except (pa.ArrowException, OSError, msgspec.DecodeError) as error:
        raise damaged(path, str(error).split("\n", 1)[0][:300]) from error


def _restored(table: pa.Table, plan: Plan | None) -> pa.Table:
    if plan is not None:
        return plan.put_together(table)
    identifiers = id_texts(table["id"].combine_chunks().storage)
    body = pc.binary_join(pc.split_pattern(_with_lists(table)["body"].combine_chunks(), MARK), identifiers)
    return pa.table({"position": table["position"], "event_id": identifiers, "body": body})
