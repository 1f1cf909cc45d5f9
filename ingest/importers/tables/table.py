"""Any table: CSV, TSV or Parquet, with a mapping that says what its columns are (`ingest.importers.tables.mapping`).

A mapping beside the data, `<file>.mapping.yaml`, is found by itself and goes before every other format; one can be named
instead. The first line of a CSV names its columns; the delimiter is the mapping's, or the one of `,`, `;` and tab that the
first line has most of. Parquet is read in portions, and of its columns only those that are mapped. A row with an outcome
other than `passed` is a failure, one with a `test` a test. What no mapping names is not taken.

A refused row's content is a CSV of its own, whose last column `#mapping` holds the mapping, so that it can be mended alone.

`template` writes the draft of a mapping from the columns of a file.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from domain.errors import UsageError
from ingest.importers.document import Document
from ingest.importers.draft import Draft
from ingest.importers.files import File
from ingest.importers.reading import BadFile, csv_rows, csv_text
from ingest.importers.refusals import BadRow, Refused
from ingest.importers.tables.mapping import TableMapping, parse_mapping, read_mapping
from ingest.importers.tables.mapping_rows import RowMaker
from ingest.importers.tables.parquet_rows import is_parquet, parquet_columns, parquet_rows

__all__ = ["Table", "template"]

_SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq")
_INSIDE = "#mapping"
"""The column of a refused row's content that holds its mapping."""


class Table:
    """CSV or Parquet with a mapping file."""

    name = "table"
    title = "any CSV or Parquet with a mapping (<file>.mapping.yaml)"

    def __init__(self, mapping: Path | None = None) -> None:
        """Take a mapping for every file, or None for those beside the files; UsageError where it is wrong."""
        self._mapping = read_mapping(mapping) if mapping is not None else None

    def sniff(self, file: File) -> bool:
        """Return whether there is a mapping for the file: named, beside it, or inside it."""
        if file.suffix not in _SUFFIXES:
            return False
        return self._mapping is not None or _beside(file).is_file() or _has_inside(file)

    def rows(self, file: File) -> Iterator[dict[str, Any] | Refused]:
        """Yield a run, what its rows are, and the end of the run; see Importer. BadFile where the mapping is wrong."""
        try:
            mapping = self._mapping_of(file)
        except UsageError as error:
            raise BadFile(f"its mapping is wrong: {error}") from error
        document = Document(file, self.name, source=mapping.source or "a table with a mapping", licence=mapping.licence)
        maker = RowMaker(mapping)
        rows = _parquet_rows(file, mapping) if is_parquet(file) else _csv_rows(file, mapping)
        return document.events(_drafts(rows, maker, document))

    def _mapping_of(self, file: File) -> TableMapping:
        if _has_inside(file):
            delimiter = _delimiter(file.head())
            first = next((item for item in csv_rows(file, delimiter=delimiter) if not isinstance(item, Refused)), None)
            if first is None or _INSIDE not in first[1]:
                raise BadFile("holds no row that has its mapping")
            return parse_mapping(first[1][_INSIDE], _INSIDE)._replace(delimiter=delimiter)
        if self._mapping is not None:
            return self._mapping
        beside = _beside(file)
        if not beside.is_file():
            raise BadFile(f"has no mapping: write {file.base}.mapping.yaml beside it, or name one")
        return read_mapping(beside)


def _drafts(
    rows: Iterable[tuple[int, Mapping[str, Any]] | Refused], maker: RowMaker, document: Document
) -> Iterator[Draft | Refused]:
    for item in rows:
        if isinstance(item, Refused):
            yield item
            continue
        line, row = item
        try:
            yield maker.draft(line, row)
        except BadRow as bad:
            shown = {column: value for column, value in row.items() if column != _INSIDE}
            content = csv_text([[*shown, _INSIDE], [*shown.values(), maker.mapping.text]])
            yield document.refused(bad.reason, row=line, field=bad.field, content=content)


def _csv_rows(file: File, mapping: TableMapping) -> Iterator[tuple[int, dict[str, str]] | Refused]:
    delimiter = mapping.delimiter or _delimiter(file.head())
    false = False
    for item in csv_rows(file, delimiter=delimiter):
        if not false and not isinstance(item, Refused):
            _require_columns(mapping, list(item[1]))
            false = True
        yield item


def _parquet_rows(file: File, mapping: TableMapping) -> Iterator[tuple[int, dict[str, Any]]]:
    _require_columns(mapping, parquet_columns(file))
    yield from parquet_rows(file, mapping.columns())


def _require_columns(mapping: TableMapping, header: list[str]) -> None:
    """Raise BadFile, naming the mapping's line, for a column that the table has not."""
    for source in mapping.sources:
        if source.column is not None and source.column not in header:
            shown = ", ".join(header[:12]) + (" …" if len(header) > 12 else "")
            where = f"{mapping.name}, line {source.line}"
            raise BadFile(f"has no column {source.column!r}, which {where} names; it has {shown}")


def _beside(file: File) -> Path:
    return file.path.with_name(f"{file.path.name}.mapping.yaml")


def _has_inside(file: File) -> bool:
    return not is_parquet(file) and _INSIDE in file.head().partition("\n")[0]


def _delimiter(head: str) -> str:
    first = head.lstrip().partition("\n")[0]
    return max((",", ";", "\t"), key=first.count)


_GUESSES: tuple[tuple[str, str], ...] = (
    (r"model(_?(name|id))?|net(work)?|arch(itecture)?", "model"),
    (r"hardware|gpu(_name)?|accelerator|device_name|chip|machine", "hardware"),
    (r"platform|device|backend|provider", "platform"),
    (r"mode|phase", "mode"),
    (r"runtime|framework|engine|library", "runtime"),
    (r"(runtime|framework|engine)_version", "runtime.version"),
    (r"precision|d_?type|quant(ization)?", "precision"),
    (r"batch(_?size)?|bs", "batch_size"),
    (r"seq(uence)?_?len(gth)?|sl", "sequence_length"),
    (r"(image|img|input)_size|resolution", "image_size"),
    (r"(in|input|prompt)_?(tokens|len(gth)?)|isl", "input_tokens"),
    (r"(out|output|generated)_?(tokens|len(gth)?)|osl", "output_tokens"),
    (r"concurrency|clients", "concurrency"),
    (r"(num_)?threads", "threads"),
    (r"(num_)?(gpus|devices)", "hardware.count"),
    (
        r"(mean|avg|average)_?(latency|time)|(latency|time)_?(mean|avg|average)|latency|time|step_time|duration",
        "latency_ms.mean",
    ),
    (r"(median|p50)(_?(latency|time))?|(latency|time)_?(median|p50)", "latency_ms.p50"),
    (r"p90(_?(latency|time))?|(latency|time)_?p90", "latency_ms.p90"),
    (r"p95(_?(latency|time))?|(latency|time)_?p95", "latency_ms.p95"),
    (r"p99(_?(latency|time))?|(latency|time)_?p99", "latency_ms.p99"),
    (r"(latency|time)_?(std|stddev)|std(dev)?", "latency_ms.stddev"),
    (r"min_?(latency|time)|(latency|time)_?min", "latency_ms.min"),
    (r"max_?(latency|time)|(latency|time)_?max", "latency_ms.max"),
    (r"iterations|runs|samples|n", "latency_ms.n"),
    (r"throughput|fps|ips|qps|samples_per_sec(ond)?|images_per_sec(ond)?|items_per_s", "throughput_per_s"),
    (r"tokens?_per_s(ec(ond)?)?|tps", "tokens_per_s"),
    (r"ttft|time_to_first_token", "ttft_ms"),
    (r"tpot|itl|time_per_output_token", "tpot_ms"),
    (r"(gpu|device|vram)_?mem(ory)?(_used|_peak)?|peak_(gpu|device)_mem(ory)?", "device_memory_bytes"),
    (r"(peak_?)?(mem(ory)?|rss)(_used|_peak)?", "peak_memory_bytes"),
    (r"energy", "energy_j"),
    (r"power", "power_w"),
    (r"utili[sz]ation|util", "utilisation"),
    (r"timestamp|date(time)?|created(_at)?|when", "time"),
    (r"status|outcome|result", "outcome"),
    (r"error|exception", "message"),
    (r"(is_)?simulated|mock(ed)?", "simulated"),
)
"""What columns are mostly called, without their unit, and what that is."""
_UNIT = re.compile(
    r"[\s_]*[(\[]\s*(?P<bracketed>[^)\]]+?)\s*[)\]]$|_(?P<behind>ms|us|ns|sec|s|seconds|mb|mib|gb|gib|kb|kib|bytes|w|j|pct|percent)$"
)
_SPELLED = {
    "mb": "MB",
    "mib": "MiB",
    "gb": "GB",
    "gib": "GiB",
    "kb": "kB",
    "kib": "KiB",
    "bytes": "B",
    "b": "B",
    "sec": "s",
    "seconds": "s",
    "w": "W",
    "j": "J",
    "pct": "%",
    "percent": "%",
}
_TAKES = {
    "_ms": ("s", "ms", "us", "ns"),
    "_bytes": ("B", "kB", "KiB", "MB", "MiB", "GB", "GiB"),
    "_w": ("W",),
    "_j": ("J",),
}
_EXAMPLES = {"model": "?", "hardware": "?", "mode": "inference", "platform": "?"}


def template(file: Path) -> str:
    """Return the draft of a mapping for a CSV or Parquet file: what its columns probably are, and what is to be filled in.

    A value of `?` has to be replaced. UsageError where the file cannot be read or has no columns.
    """
    opened = File(file, file.name, given=True)
    try:
        header = _header(opened)
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(
            f"{file.name} cannot be read: {error}.", field="file", remedy="Name a CSV or Parquet file."
        ) from error
    if not any(header):
        raise UsageError(f"{file.name} has no columns.", field="file", remedy="Name a CSV or Parquet file.")
    guessed: dict[str, str] = {}
    unused: list[str] = []
    for column in header:
        target, unit = _guess(column)
        if target is None or target in guessed:
            unused.append(column)
        else:
            quoted = json.dumps(column, ensure_ascii=False)
            guessed[target] = f"{{column: {quoted}" + (f", unit: {json.dumps(unit)}}}" if unit else "}")
    lines = [
        f"# What the columns of {file.name} are. See docs/importers.md, or `assay import table --help`.",
        "columns:",
    ]
    for target, example in _EXAMPLES.items():
        lines.append(f"  {target}: {guessed.pop(target, f'{{value: {json.dumps(example)}}}')}")
    lines += [f"  {target}: {written}" for target, written in guessed.items()]
    if not any(target.startswith(("latency", "throughput", "tokens", "ttft", "tpot")) for target in guessed):
        lines.append('  # latency_ms.mean: {column: "…", unit: ms}')
    if unused:
        lines.append(f"# Not used: {', '.join(json.dumps(column, ensure_ascii=False) for column in unused)}")
    return "\n".join(lines) + "\n"


def _header(file: File) -> list[str]:
    if is_parquet(file):
        return parquet_columns(file)
    head = file.head().lstrip()
    return [column.strip() for column in next(csv.reader([head.partition("\n")[0]], delimiter=_delimiter(head)), [])]


def _guess(column: str) -> tuple[str | None, str | None]:
    """Return what a column probably is, and the unit that its name gives."""
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", column.strip()).lower()
    match = _UNIT.search(plain)
    said = (match["bracketed"] or match["behind"]) if match else None
    name = re.sub(r"[\s.\-/]+", "_", plain[: match.start()] if match else plain).strip("_")
    target = next((target for pattern, target in _GUESSES if re.fullmatch(pattern, name)), None)
    if target is None and match is not None:
        name = re.sub(r"[\s.\-/()\[\]]+", "_", plain).strip("_")
        target = next((target for pattern, target in _GUESSES if re.fullmatch(pattern, name)), None)
        said = None
    if target is None:
        return None, None
    unit = _SPELLED.get(said or "", said)
    base = "_ms" if target.startswith("latency_ms.") and target != "latency_ms.n" else target
    taken = next((units for suffix, units in _TAKES.items() if base.endswith(suffix)), ())
    return target, unit if unit in taken else None
