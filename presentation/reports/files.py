"""Reports as data: JSON of everything, CSV of one table. Both hold every row and raw values in SI."""

from __future__ import annotations

import csv
import io
from typing import Any

import msgspec

from assay import __version__
from presentation.reports.content import Chart, Report, Table

__all__ = ["as_csv", "as_data", "as_json", "defused"]

FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""What a spreadsheet takes for the beginning of a formula, or skips before one."""


def as_data(report: Report) -> dict[str, Any]:
    """Return the report as plain data: what it is of, then its sections with sentences, tables and pictures' rows."""
    return {
        "report": report.asked.kind,
        "subject": report.asked.subject,
        "title": report.title,
        "question": report.question,
        "position": report.position,
        "recorded_at": report.recorded_at,
        "filters": report.asked.filters(),
        "version": __version__,
        "empty": report.empty,
        "facts": list(report.facts),
        "sections": [
            {"title": section.title, "parts": [_part(part) for part in section.parts]} for section in report.sections
        ],
        "evidence": [report.evidence.raw(row) for row in report.evidence.rows],
    }


def _part(part: str | Table | Chart) -> dict[str, Any]:
    if isinstance(part, str):
        return {"sentence": part}
    if isinstance(part, Chart):
        return {"picture": part.name, "title": part.title, "sentence": part.sentence}
    return {
        "table": part.name,
        "title": part.title,
        "note": part.note,
        "columns": [{"key": column.key, "title": column.title} for column in part.columns],
        "rows": [part.raw(row) for row in part.rows],
    }


def as_json(report: Report) -> bytes:
    """Write the report as JSON."""
    return msgspec.json.format(msgspec.json.encode(as_data(report)), indent=2) + b"\n"


def as_csv(report: Report, table: Table) -> bytes:
    """Write one table with every column, and the position in a column `as_of`; missing is an empty cell.

    Text that a spreadsheet would take for a formula gets an apostrophe before it; numbers are left as they are.
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*(column.key for column in table.columns), "as_of"])
    for row in table.rows:
        writer.writerow([*(_cell(value) for value in table.raw(row).values()), report.position])
    return out.getvalue().encode()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return value
    if isinstance(value, list | tuple):
        return defused(" ".join(str(item) for item in value))
    return defused(str(value))


def defused(text: str) -> str:
    """Return text that a spreadsheet shows as text: what would begin a formula gets an apostrophe before it."""
    return f"'{text}" if text.startswith(FORMULA) else text
