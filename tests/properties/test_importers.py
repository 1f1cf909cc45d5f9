"""Files that somebody has damaged: every importer answers with events that pass the gate, or with refusals, never else.

The samples are those of tests/unit/ingest/importers. Each is cut, encoded otherwise, has bytes, lines, columns, members
and values changed, and is read without the guard that makes a refusal of an importer's mistake.
"""

from __future__ import annotations

import copy
import csv
import importlib.util
import io
import json
import random
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from domain.events import decode_event, encode_event
from ingest.importers import IMPORTERS, File, Refused, import_paths, sniff
from ingest.importers.refusals import writable

SAMPLES = Path(__file__).parents[1] / "unit" / "ingest" / "importers"
MUTATIONS = 16
"""Of each sample, of which there are more than a hundred; in `make torture` 30 times as many."""
WITHOUT = frozenset({"mlflow", "rejects", "seed-duckdb", "seed-other", "table"})
"""Importers whose tests have no such sample: an address, a database, files without rows, a file beside another."""
TABLE = """\
net,where,ms,#mapping
bert,NVIDIA L4,12.5,"columns: {model: {column: net}, hardware: {column: where}, platform: {value: cuda},
 mode: {value: inference}, latency_ms.mean: {column: ms, unit: ms}}"
t5,NVIDIA L4,3.5,
"""
NAMES = (
    "benchmark.json", "results.json", "results.jsonl", "results.ndjson", "results.csv", "results.xml", "perf.yaml",
    "mlperf_log_detail.txt", "mlperf_log_summary.txt", "results.txt", "results.log", "data.js",
)  # fmt: skip
DEEP: Any = []
for _ in range(90):
    DEEP = [DEEP]
VALUES: list[Any] = [
    None, True, -1, 0, 0.0, 1e308, 1e-308, 10**30, 2**53, float("nan"), float("inf"), "", " ", "NaN", "1e400", "-1", "0",
    "=HYPERLINK(1)", "+1", "-2+3", "@SUM(A1)", "12 ms", "1,234", "1.234,5", "../../etc/passwd", "x" * 5000, "a b\tc", "\x00",
    "é😀\u2028", "\ud800", [], {}, [None], [{}], {"": None}, {"a": {"b": [1, "2"]}}, DEEP, ["x"] * 500,
]  # fmt: skip


class Sample(NamedTuple):
    importer: str
    name: str
    content: bytes


@pytest.mark.parametrize("mutations", [MUTATIONS, pytest.param(MUTATIONS * 30, marks=pytest.mark.torture)])
def test_damaged_files_are_refused_and_nothing_else_happens(tmp_path: Path, mutations: int) -> None:
    samples = [Sample("table", "times.csv", TABLE.encode()), *_samples(tmp_path)]
    missing = set(IMPORTERS) - {sample.importer for sample in samples} - WITHOUT
    assert not missing, f"no sample of {sorted(missing)} was found among the tests' constants"
    failed: dict[str, str] = {}
    for sample in samples:
        rng = random.Random(f"{sample.importer} {len(sample.content)}")
        for number in range(mutations):
            content = _damaged(sample.content, rng)
            try:
                _read(sample, content, tmp_path)
            except Exception as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                where = f"{sample.importer}: {type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
                failed.setdefault(where, f"{error}; mutation {number}: {content[:300]!r}")
    assert not failed, "\n".join(f"{where}: {what}" for where, what in sorted(failed.items()))


def _read(sample: Sample, content: bytes, folder: Path) -> int:
    """Read a file without the guard, and return how many events it gave; each passes the gate."""
    path = folder / sample.name
    path.write_bytes(content)
    count = 0
    for item in import_paths(sample.importer, [path], guarded=False):
        if isinstance(item, Refused):
            assert msgspec.json.encode(writable(item))
        else:
            decode_event(encode_event(item))
            count += 1
    return count


def _samples(folder: Path) -> Iterator[Sample]:
    """Find the samples: constants of the importers' tests that an importer recognises under one of the names."""
    seen = set()
    for path in sorted(SAMPLES.glob("test_*.py")):
        constants = _constants(path)
        named = [
            value
            for value in constants
            if isinstance(value, str) and re.fullmatch(r"[\w@.+ -]{1,120}\.[a-z]{2,6}", value)
        ]
        heads = [value for value in constants if isinstance(value, str) and value.find("\n") == len(value) - 1 > 20]
        whole = [head + value for head in heads for value in constants if isinstance(value, str) and value != head]
        for content in filter(None, map(_written, [*constants, *whole])):
            of_json = content.lstrip()[:1] in (b"{", b"[")
            for name in (*named, *NAMES):
                if name.endswith((".json", ".jsonl", ".ndjson")) != of_json:
                    continue
                (folder / name).write_bytes(content)
                importer = sniff(File(folder / name, name, given=True), IMPORTERS)
                if importer is None or importer.name in WITHOUT or (importer.name, content) in seen:
                    continue
                sample = Sample(importer.name, name, content)
                if _read(sample, content, folder) > 2:
                    seen.add((importer.name, content))
                    yield sample
                    break


def _constants(path: Path) -> list[Any]:
    spec = importlib.util.spec_from_file_location(f"samples_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [value for name, value in vars(module).items() if not name.startswith("__")]


def _written(value: Any) -> bytes | None:
    """Return a constant as the file that it may be; None where it can be none."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode() if len(value) > 30 and ("\n" in value or value.lstrip()[:1] in "{[") else None
    if isinstance(value, dict | list) and value:
        try:
            return json.dumps(value).encode()
        except (TypeError, ValueError):
            return None
    return None


def _damaged(content: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        content = rng.choice(DAMAGES)(content, rng)
    return content


def _cut(content: bytes, rng: random.Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _encoded(content: bytes, rng: random.Random) -> bytes:
    return content.decode("utf-8", "replace").encode(
        rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-8-sig", "cp037")), "replace"
    )


def _bytes(content: bytes, rng: random.Random) -> bytes:
    place = rng.randrange(len(content) + 1)
    piece = rng.choice((b"\xff", b"\x00", b'"', b"{", b"]", b",,", b"\n", b"\r", b"\\", bytes([rng.randrange(256)])))
    return content[:place] + piece + content[place + rng.randrange(3) :]


def _lines(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    one, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    kind = rng.randrange(4)
    if kind == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 1:
        del lines[one]
    elif kind == 2:
        lines.insert(other, lines[one])
    else:
        lines[one] = lines[one] * 40
    return b"\n".join(lines)


def _numbers(content: bytes, rng: random.Random) -> bytes:
    """Change one number in the text: its unit, its sign, or into something that is none."""
    found = list(re.finditer(rb"\d+(?:\.\d+)?", content))
    if not found:
        return content
    match = rng.choice(found)
    written = rng.choice(
        (b"-%b", b"%b000", b"0.000%b", b"%be300", b"0", b"%b ms", b"NaN", b"=%b", b"", b"1e999", b"%b" + b"9" * 30)
    )
    return content[: match.start()] + written.replace(b"%b", match[0]) + content[match.end() :]


def _cells(content: bytes, rng: random.Random) -> bytes:
    """Change cells, columns and header of a table."""
    text = content.decode("utf-8", "replace")
    delimiter = ";" if text.count(";") > text.count(",") else ","
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return content
    width = max(map(len, rows), default=0)
    if width < 2:
        return _numbers(content, rng)
    row = rng.choice([row for row in rows if row])
    one, other = rng.randrange(len(row)), rng.randrange(len(row))
    kind = rng.randrange(4)
    if kind == 0:
        row[one] = str(rng.choice(VALUES))
    elif kind == 1:
        rows = [[*row[:one], *row[one + 1 :]] for row in rows]
    elif kind == 2:
        row[one], row[other] = row[other], row[one]
    else:
        row.insert(one, row[other])
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue().encode("utf-8", "surrogatepass")


def _members(content: bytes, rng: random.Random) -> bytes:
    """Change a value of a JSON document, or of one of its lines: remove, rename, double or replace it."""
    lines = [content]
    try:
        documents = [json.loads(content)]
    except ValueError:
        lines = content.split(b"\n")
        try:
            documents = [json.loads(line) if line.strip() else None for line in lines]
        except ValueError:
            return _cells(content, rng)
    document = copy.deepcopy(rng.choice(documents))
    holders = list(_holders(document))
    if not holders:
        return content
    holder = rng.choice(holders)
    key = rng.choice(list(holder) if isinstance(holder, dict) else range(len(holder)))
    kind = rng.randrange(8)
    double = b""
    if kind == 0:
        del holder[key]
    elif kind == 1 and isinstance(holder, dict):
        holder[str(key) + "_"] = holder.pop(key)
    elif kind == 2 and isinstance(holder, dict):
        double = json.dumps(key).encode() + b": 1, "
    else:
        holder[key] = rng.choice(VALUES)
    changed = json.dumps(document).encode()
    changed = (
        changed.replace(json.dumps(key).encode() + b":", double + json.dumps(key).encode() + b":", 1)
        if double
        else changed
    )
    return changed if len(lines) == 1 else b"\n".join([changed, *rng.sample(lines, len(lines) - 1)])


def _holders(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list) and value:
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _holders(item)


DAMAGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut, _encoded, _bytes, _lines, _numbers, _numbers, _members, _members, _members, _members,
)  # fmt: skip
