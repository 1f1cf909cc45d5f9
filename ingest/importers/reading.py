"""Reading other tools' files: JSON and CSV with bounds, and values as numbers with their units settled."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import IO, Any

from ingest.importers.files import File
from ingest.importers.refusals import BadRow, Refused

__all__ = [
    "JSON_BYTES",
    "LINE_CHARACTERS",
    "UNITS",
    "BadFile",
    "csv_rows",
    "csv_text",
    "json_document",
    "json_lines",
    "json_text",
    "number",
    "text",
    "text_lines",
    "whole",
]

JSON_BYTES = 256 << 20
"""A JSON document beyond this is refused: it has to be in memory at once. Lines of JSON have no such bound."""
LINE_CHARACTERS = 16 << 20
"""A longer line is refused, because it has to be in memory at once; what follows it is read."""
_MISSING = frozenset(("", "-", "--", "n/a", "na", "nan", "none", "null", "unknown", "inf", "-inf", "#n/a"))
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+\.\d+")
_NOT_TEXT = re.compile("[\ud800-\udfff]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
UNITS: Mapping[str, tuple[str, float]] = {
    "s": ("ms", 1e3),
    "sec": ("ms", 1e3),
    "seconds": ("ms", 1e3),
    "ms": ("ms", 1.0),
    "milliseconds": ("ms", 1.0),
    "us": ("ms", 1e-3),
    "µs": ("ms", 1e-3),
    "microseconds": ("ms", 1e-3),
    "ns": ("ms", 1e-6),
    "nanoseconds": ("ms", 1e-6),
    "b": ("B", 1.0),
    "bytes": ("B", 1.0),
    "kb": ("B", 1e3),
    "mb": ("B", 1e6),
    "gb": ("B", 1e9),
    "kib": ("B", 2.0**10),
    "mib": ("B", 2.0**20),
    "gib": ("B", 2.0**30),
}
"""Units by the names that files give them, as Assay's unit and the factor to it."""


class BadFile(Exception):
    """A file that cannot be read as what it should be; `row` is the line where it breaks, from 1."""

    def __init__(self, reason: str, row: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.row = row


def json_document(file: File) -> Any:
    """Return the JSON value of a file. NaN and infinities become None, because nobody can have measured them.

    BadFile where it is no text, no JSON, larger than JSON_BYTES, nested too deeply, or names a member twice.
    """
    if file.size() > JSON_BYTES:
        raise BadFile(f"is a JSON document of more than {JSON_BYTES >> 20} MiB")
    with file.open_text() as opened:
        try:
            written = opened.read()
        except UnicodeError:
            raise BadFile(f"is not text in {_encoding(opened)}") from None
    return _decoded(written)


def json_lines(file: File) -> Iterator[tuple[int, Any | BadFile]]:
    """Yield each line's number and JSON value, or what is wrong with it; empty lines are passed over."""
    with file.open_text("surrogateescape") as opened:
        row = 0
        while True:
            row += 1
            try:
                line = opened.readline(LINE_CHARACTERS)
                if len(line) >= LINE_CHARACTERS and not line.endswith("\n"):
                    _pass_over_line(opened)
                    raise BadFile(f"is a line of more than {LINE_CHARACTERS:,} characters")
                if not line.isascii() and _NOT_TEXT.search(line):
                    raise BadFile(f"is not text in {_encoding(opened)}")
                if not line.strip():
                    if line:
                        continue
                    return
                value = _decoded(line)
            except UnicodeError:
                yield row, BadFile(f"is not text in {_encoding(opened)}", row)
                return
            except BadFile as error:
                yield row, BadFile(error.reason, row)
            else:
                yield row, value


def _pass_over_line(opened: IO[str]) -> None:
    while (piece := opened.readline(LINE_CHARACTERS)) and not piece.endswith("\n"):
        pass


def _encoding(opened: Any) -> str:
    return str(opened.encoding).upper().removesuffix("-SIG")


def json_text(written: str) -> Any:
    """Return the JSON value of a text; see `json_document`."""
    return _decoded(written)


def _decoded(written: str) -> Any:
    try:
        value = json.loads(written, parse_constant=lambda _: None, object_pairs_hook=_members)
        # Half of a pair is no character: nothing that holds one can be written down again.
        return _whole_characters(value) if _SURROGATE.search(written) else value
    except json.JSONDecodeError as error:
        raise BadFile(f"is not JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise BadFile("is nested too deeply") from None
    except ValueError as error:  # an integer of more digits than Python converts
        raise BadFile(f"is not JSON: {error}") from None


def _whole_characters(value: Any) -> Any:
    if isinstance(value, str):
        return _NOT_TEXT.sub("\ufffd", value)
    if isinstance(value, list):
        return [_whole_characters(item) for item in value]
    if isinstance(value, dict):
        return {_whole_characters(name): _whole_characters(item) for name, item in value.items()}
    return value


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise BadFile(f"names the member {_twice([name for name, _ in pairs])!r} twice in one object")
    return members


def _twice(names: list[str]) -> str | None:
    """Return the first name that stands there again, or None."""
    seen: set[str] = set()
    return next((name for name in names if name in seen or seen.add(name)), None)  # type: ignore[func-returns-value]


def csv_rows(
    file: File, *, delimiter: str = ",", header: list[str] | None = None
) -> Iterator[tuple[int, dict[str, str]] | Refused]:
    """Yield each row's line and its fields by column, stripped; what is no row of the table is refused with its content.

    The header is the first line that is not empty, unless one is given. Empty lines are passed over. BadFile where the
    header names a column twice.
    """
    with file.open_text("surrogateescape") as opened:
        reader = csv.reader(text_lines(opened), delimiter=delimiter, strict=True)
        columns = header
        while True:
            try:
                values = [value.strip() for value in next(reader)]
            except StopIteration:
                return
            except csv.Error as error:
                yield Refused(path=file.name, row=reader.line_num, reason=f"not CSV: {error}")
                continue
            except UnicodeError:
                yield Refused(path=file.name, row=reader.line_num + 1, reason=f"is not text in {_encoding(opened)}")
                return
            if not any(values):
                continue
            if columns is None:
                columns = values
                if (twice := _twice([name for name in columns if name])) is not None:
                    raise BadFile(f"names the column {twice[:80]!r} twice", reader.line_num)
                continue
            if len(values) != len(columns):
                reason = f"has {len(values)} fields where the header has {len(columns)}"
            elif (joined := "".join(values)).isascii() or not _NOT_TEXT.search(joined):
                yield reader.line_num, dict(zip(columns, values, strict=True))
                continue
            else:
                reason = f"is not text in {_encoding(opened)}"
            content = _NOT_TEXT.sub("\ufffd", csv_text([columns, values], delimiter))
            yield Refused(path=file.name, row=reader.line_num, field="row", reason=reason, content=content)


def text_lines(opened: IO[str]) -> Iterator[str]:
    """Yield the lines; of one that is too long for the memory only the beginning, which is then no row of the table."""
    while line := opened.readline(LINE_CHARACTERS):
        yield line
        if len(line) >= LINE_CHARACTERS and not line.endswith("\n"):
            _pass_over_line(opened)


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
    not a number, or negative. `1,234.5` is a number; `1,234` and `1.234,5` can be read in two ways, and are none.
    """
    said = row.get(field)
    if type(said) is float:
        value = said
    elif isinstance(said, bool | dict | list):
        raise BadRow(field, "is not a number")
    elif isinstance(said, int | float):
        value = float(said) if abs(said) < 1e300 else math.inf
    else:
        written = said if type(said) is str else text(row, field)
        value = _number_written(written, field)
    if unit is not None:
        value *= UNITS[unit][1]
    if not math.isfinite(value):
        return None
    if value < 0:
        raise BadRow(field, "is below 0")
    if value == 0 and not zero:
        return None
    return value


def _number_written(written: str | None, field: str) -> float:
    """Return the number that a text says, NaN where it says that there is none."""
    if written is None:
        return math.nan
    try:
        value = float(written)
    except ValueError:
        if written.strip().lower() in _MISSING:
            return math.nan
        if not _THOUSANDS.fullmatch(written.strip()):
            raise BadRow(field, "is not a number") from None
        value = float(written.replace(",", ""))
    if "_" in written:
        raise BadRow(field, "is not a number")
    return value


def whole(row: Mapping[str, Any], field: str) -> int | None:
    """Return a field as a whole number above 0, or None where it is missing; BadRow where it is not one."""
    value = number(row, field)
    if value is None:
        return None
    if value > 2**53 - 1 or value != int(value):
        raise BadRow(field, "is not a whole number")
    return int(value)
