"""Reading other tools' files: JSON and CSV with bounds, and values as numbers with their units settled."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from ingest.importers.files import File
from ingest.importers.refusals import BadRow, Refused

__all__ = [
    "JSON_BYTES",
    "UNITS",
    "BadFile",
    "csv_rows",
    "csv_text",
    "json_document",
    "json_lines",
    "number",
    "text",
    "whole",
]

JSON_BYTES = 256 << 20
"""A JSON document beyond this is refused: it has to be in memory at once. Lines of JSON have no such bound."""
LINE_CHARACTERS = 16 << 20
_MISSING = frozenset(("", "-", "--", "n/a", "na", "nan", "none", "null", "unknown", "inf", "-inf", "#n/a"))
UNITS: Mapping[str, tuple[str, float]] = {
    "s": ("ms", 1e3), "sec": ("ms", 1e3), "seconds": ("ms", 1e3), "ms": ("ms", 1.0), "milliseconds": ("ms", 1.0),
    "us": ("ms", 1e-3), "µs": ("ms", 1e-3), "microseconds": ("ms", 1e-3), "ns": ("ms", 1e-6), "nanoseconds": ("ms", 1e-6),
    "b": ("B", 1.0), "bytes": ("B", 1.0), "kb": ("B", 1e3), "mb": ("B", 1e6), "gb": ("B", 1e9),
    "kib": ("B", 2.0**10), "mib": ("B", 2.0**20), "gib": ("B", 2.0**30),
}  # fmt: skip
"""Units by the names that files give them, as Assay's unit and the factor to it."""


class BadFile(Exception):
    """A file that cannot be read as what it should be; `row` is the line where it breaks, from 1."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


def json_document(file: File) -> Any:
    """Return the JSON value of a file. NaN and infinities become None, because nobody can have measured them.

    BadFile where it is no JSON, is larger than JSON_BYTES, is nested too deeply, or names a member twice.
    """
    if file.size() > JSON_BYTES:
        raise BadFile(f"is a JSON document of more than {JSON_BYTES >> 20} MiB")
    with file.open_text() as opened:
        return _decoded(opened.read())


def json_lines(file: File) -> Iterator[tuple[int, Any | BadFile]]:
    """Yield each line's number and JSON value, or what is wrong with it; empty lines are passed over."""
    with file.open_text() as opened:
        number_ = 0
        while line := opened.readline(LINE_CHARACTERS):
            number_ += 1
            if len(line) >= LINE_CHARACTERS:
                yield number_, BadFile("is a line of more than 16 million characters", number_)
                return
            if line.strip():
                try:
                    yield number_, _decoded(line)
                except BadFile as error:
                    yield number_, BadFile(error.reason, number_)


def _decoded(written: str) -> Any:
    try:
        return json.loads(written, parse_constant=lambda _: None, object_pairs_hook=_members)
    except json.JSONDecodeError as error:
        raise BadFile(f"is not JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise BadFile("is nested too deeply") from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise BadFile(f"is not JSON: {error}") from None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise BadFile(f"names the member {twice!r} twice in one object")
    return found


def csv_rows(
    file: File, *, delimiter: str = ",", header: list[str] | None = None
) -> Iterator[tuple[int, dict[str, str]] | Refused]:
    """Yield each row's line and its fields by column, stripped; what is no row of the table is refused with its content.

    The header is the first line that is not empty, unless one is given. Empty lines are passed over.
    """
    with file.open_text() as opened:
        reader = csv.reader(opened, delimiter=delimiter, strict=True)
        columns = header
        while True:
            try:
                values = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Refused(path=file.name, row=reader.line_num, reason=f"not CSV: {error}")
                continue
            values = [value.strip() for value in values]
            if not any(values):
                continue
            if columns is None:
                columns = values
                continue
            if len(values) != len(columns):
                reason = f"has {len(values)} fields where the header has {len(columns)}"
                yield Refused(path=file.name, row=reader.line_num, field="row", reason=reason, content=csv_text([columns, values], delimiter))  # fmt: skip
                continue
            yield reader.line_num, dict(zip(columns, values, strict=True))


def csv_text(rows: list[list[Any]], delimiter: str = ",") -> str:
    """Return rows as CSV: the header and one row, as the content of a refusal."""
    out = io.StringIO()
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def text(row: Mapping[str, Any], field: str) -> str | None:
    """Return a field as text, or None where it is missing or says so in words."""
    value = row.get(field)
    if value is None or isinstance(value, dict | list | bool):
        return None
    said = str(value).strip()
    return None if said.lower() in _MISSING else said


def number(row: Mapping[str, Any], field: str, *, unit: str | None = None, zero: bool = False) -> float | None:
    """Return a field as a finite number in Assay's unit (ms, bytes), or None where it is missing.

    0 is "missing" in other tools' files, and None here, unless `zero` says that it can be a value. BadRow where it is
    not a number, or negative.
    """
    said = row.get(field)
    if isinstance(said, bool):
        raise BadRow(field, "is not a number")
    if isinstance(said, int | float):
        value = float(said) if abs(said) < 1e300 else math.inf
    else:
        written = text(row, field)
        if written is None:
            if isinstance(said, dict | list):
                raise BadRow(field, "is not a number")
            return None
        try:
            value = float(written.replace(",", "") if written.count(",") and "." in written else written)
        except ValueError:
            raise BadRow(field, "is not a number") from None
    if not math.isfinite(value):
        return None
    if value < 0:
        raise BadRow(field, "is below 0")
    if value == 0 and not zero:
        return None
    return value * (UNITS[unit][1] if unit else 1.0)


def whole(row: Mapping[str, Any], field: str) -> int | None:
    """Return a field as a whole number above 0, or None where it is missing; BadRow where it is not one."""
    value = number(row, field)
    if value is None:
        return None
    if value != int(value) or value > 2**53 - 1:
        raise BadRow(field, "is not a whole number")
    return int(value)
