"""Tables of kernel timings as events: judged, sorted and cut to size."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from domain.events import KERNEL_MEASURED
from domain.kernels import LATENCY, SIZES
from ingest.importers.document import Document
from ingest.importers.draft import PreparedFact
from ingest.importers.kernels.columns import Columns, Texts
from ingest.importers.kernels.judging import Judge, Marks
from ingest.importers.kernels.kernel_table import KernelTable
from ingest.importers.refusals import Refused

__all__ = ["facts"]

SAID_BYTES = 150 * 1024
"""So long may the columns of an event be, without the marks: the log takes 256 KiB, and marks are 15 bytes a row at the most."""
MOST_TIMINGS = 50_000


def facts(document: Document, columns: Columns, tables: Iterable[KernelTable]) -> Iterator[PreparedFact | Refused]:
    """Yield the events of tables, judged, and the refusals of `columns`, which all of them were read from."""
    judge = Judge()
    for table in tables:
        whole, marks = judge.judged(_sorted(table))
        if len(whole.latency):
            yield from _cut(whole, marks)
    yield from columns.refusals(document)


def _sorted(table: KernelTable) -> KernelTable:
    """Return the table in an order that is the same whatever the file's: alike columns then stand together."""
    import numpy as np

    keys = [_ranks(table.texts[name]) if name in table.texts else table.sizes[name] for name in reversed(table.order)]
    return table.taken(np.lexsort([table.latency, *keys]))


def _ranks(column: Texts) -> Any:
    import numpy as np

    ranks = np.argsort(np.argsort(np.array(column.values, object))) if column.values else np.zeros(0, np.int64)
    return np.append(ranks, -1)[column.codes]


def _cut(table: KernelTable, marks: Marks) -> Iterator[PreparedFact]:
    """Yield a table as events, cut by the length of what the source says: marks may change with the catalogue."""
    fixed, varying = _fixed(table)
    start, most = 0, MOST_TIMINGS
    while start < len(table.latency):
        size = min(most, len(table.latency) - start)
        while True:
            columns = _columns(table, varying, slice(start, start + size))
            said = msgspec.json.encode(columns)
            if len(said) <= SAID_BYTES or size == 1:
                break
            most = size = max(1, int(0.97 * size * SAID_BYTES / len(said)))
        yield _fact(table, fixed, columns, hashlib.sha256(said).hexdigest(), _marked(marks, slice(start, start + size)))
        start += size


def _fact(
    table: KernelTable, fixed: dict[str, Any], columns: dict[str, Any], digest: str, marked: tuple[dict[str, Any], Any]
) -> PreparedFact:
    """Return one event. Its id is made of what the source says, not of what we make of it: neither of our name of the
    device, nor of the number types, the method and the marks.
    """
    counted, codes = marked
    about, timings = table.about, len(columns[LATENCY])
    if counted:
        names = [*counted, None]
        columns = {**columns, "mark": _column(codes, lambda code: names[code])}
    data = {**about, "timings": timings, "columns": columns, "fixed": fixed, "marks": counted}
    device = [about.get("device_name") or about["hardware"]["id"], about["hardware"]["count"]]
    ours = ("hardware", "types", "method", "marks")
    identity = {name: value for name, value in data.items() if name not in ours} | {"columns": digest, "device": device}
    return PreparedFact(
        type=KERNEL_MEASURED,
        data={name: value for name, value in data.items() if value not in (None, {}, [])},
        identity=identity,
        timings=timings,
    )


def _fixed(table: KernelTable) -> tuple[dict[str, Any], list[str]]:
    """Return the sizes and texts that all rows share, and the names of the columns that are not the same throughout."""
    fixed: dict[str, Any] = dict(table.about.get("fixed") or {})
    varying = []
    needed = SIZES[table.about["operator"]].needed
    for name, values in table.sizes.items():
        if (values == values[0]).all():
            if values[0] >= 0 or name in needed:
                fixed[name] = int(values[0])
        else:
            varying.append(name)
    for name, column in table.texts.items():
        if (column.codes == column.codes[0]).all():
            if column.codes[0] >= 0:
                fixed[name] = column.values[column.codes[0]]
        else:
            varying.append(name)
    return fixed, varying


def _columns(table: KernelTable, varying: Sequence[str], part: slice) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for name in varying:
        if name in table.sizes:
            columns[name] = _column(table.sizes[name][part], lambda value: value if value >= 0 else None)
        else:
            names = [*table.texts[name].values, None]
            columns[name] = _column(table.texts[name].codes[part], names.__getitem__)
    return {**columns, LATENCY: shortest(table.latency[part])}


def _marked(marks: Marks, part: slice) -> tuple[dict[str, Any], Any]:
    """Return the marks that rows of a part bear, with how many do, and each row's place among them, -1 without."""
    import numpy as np

    counted: dict[str, Any] = {}
    codes: Any = None
    # A row bears the first mark that it earned, one that makes it invalid before others.
    for name, (verdict, reason, mask) in sorted(marks.items(), key=lambda item: item[1][0] != "invalid"):
        bears = mask[part]
        codes = np.full(len(bears), -1) if codes is None else codes
        bears = bears & (codes < 0)
        if bears.any():
            codes = np.where(bears, len(counted), codes)
            counted[name] = {"verdict": verdict, "reason": reason, "timings": int(bears.sum())}
    return counted, codes


def _column(values: Any, cell: Callable[[int], Any]) -> Any:
    """Return a column as JSON: value by value, or as runs where that is shorter; `cell` gives what a value or code is.

    The code -1 of a list that ends with None is None.
    """
    import numpy as np

    starts = np.flatnonzero(np.diff(values, prepend=values[0] - 1))
    if 2 * len(starts) < len(values):
        runs = np.diff(np.append(starts, len(values)))
        return {"values": [cell(value) for value in values[starts].tolist()], "runs": runs.tolist()}
    return [cell(value) for value in values.tolist()]


def shortest(values: Any) -> list[float]:
    """Return times with the seven digits of a 32-bit float: what Parquet files hold, and far below any repeatability."""
    import pyarrow as pa

    written = pa.array(values.astype("float32"), pa.float32()).cast(pa.string())
    numbers: list[float] = written.cast(pa.float64()).to_pylist()
    return numbers
