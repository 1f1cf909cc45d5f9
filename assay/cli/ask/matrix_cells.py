"""How `assay matrix` writes tables of states, levels and claims: on a terminal, as Markdown and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

import msgspec
from rich.table import Table as Grid
from rich.text import Text

from assay.cli.output import grid
from domain.compatibility.states import NOTHING_SEEN
from presentation import formatting
from presentation.markdown import literal
from presentation.reports.content import Row, Table
from presentation.reports.files import defused
from presentation.reports.levels import claimed_words

__all__ = ["as_csv", "as_markdown", "checked_up", "terminal"]

_LEFT_OUT = frozenset({"evidence", "section", "where", "against", "measured_on"})
"""Columns that a terminal has no room for; the other forms have them."""
_SHORT = frozenset({"platform", "precision", "last_seen", "verdict"})
_COLOURS = {"high": "green", "medium": "yellow", "low": "red", "contradicted": "red"}


def terminal(table: Table, *, title: bool = True) -> Grid:
    """Return a table for a terminal; rows that nothing was seen of are dim."""
    columns = [column for column in table.shown if column.key not in _LEFT_OUT]
    heads: list[str | tuple[str, str]] = [
        (column.title or "", "right" if column.figures else "fixed")
        if column.figures or column.key in _SHORT
        else (column.title or "")
        for column in columns
    ]
    rows = [_words(table, row, [column.key for column in columns]) for row in table.rows]
    return grid(table.title if title else None, heads, rows)


def _words(table: Table, row: Row, keys: Sequence[str]) -> list[str | Text]:
    words = dict(zip((column.key for column in table.shown), table.words(row), strict=True))
    dim = row.get("state") in NOTHING_SEEN
    return [_text(formatting.plain(words[key]), "dim" if dim else "") for key in keys]


def _text(words: str, style: str) -> Text:
    first, _, rest = words.partition("\n")
    text = Text(first, style=style or _COLOURS.get(first, ""))
    if rest:
        text.append(f"\n{rest}", style="dim")
    return text


def as_markdown(table: Table) -> str:
    """Return a table as Markdown, with its note below; rows that nothing was seen of are in italics."""
    shown = [column for column in table.shown if column.key != "evidence"]
    lines = [
        f"**{literal(table.title)}**",
        "",
        _line([column.title or "" for column in shown]),
        _line(["---"] * len(shown)),
    ]
    for row in table.rows:
        words = dict(zip((column.key for column in table.shown), table.words(row), strict=True))
        cells = [literal(words[column.key].replace("\n", "; ")) for column in shown]
        if row.get("state") in NOTHING_SEEN:
            cells = [f"*{cell}*" if cell else "" for cell in cells]
        lines.append(_line(cells))
    return "\n".join([*lines, *(("", literal(table.note)) if table.note else ())])


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def as_csv(rows: Sequence[Row]) -> str:
    """Return rows as CSV with every member; lists and objects as JSON, missing as an empty cell."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(row.get(name)) for name in names])
    return out.getvalue()


def _cell(value: object) -> object:
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        return "" if value is None else value
    if isinstance(value, str):
        return defused(value)
    return msgspec.json.encode(value).decode()


def checked_up(rows: Sequence[Row]) -> list[Text]:
    """Return the lines that say of each platform of one model what is known, what failed, and what to try.

    `rows` are its rows over all precisions, with claims; platforms of which nothing was seen are dim.
    """
    from domain.compatibility.remedies import advice

    lines = []
    for row in rows:
        if row["state"] in NOTHING_SEEN:
            lines.append(Text(f"{row['platform']}: nothing seen; {claimed_words(row)}", style="dim"))
            continue
        lines.append(Text.assemble((str(row["platform"]), "bold"), ": ", _known(row)))
        if row["contradicted"]:
            lines.append(Text(f"  {claimed_words(row)}, which this contradicts", style="red"))
        if row.get("stopped_stage"):
            rule = advice(row["stopped_outcome"], row["stopped_stage"], row["stopped_error"])
            lines.append(Text(f"  why: {rule.cause}"))
            lines.append(Text(f"  try: {' '.join(filter(None, (row['stopped_remedy'], rule.advice)))}"))
        elif row["state"] == "ran":
            lines.append(Text("  try: `assay verify` compares its outputs with a reference"))
    return lines


def _known(row: Row) -> str:
    parts = [f"{row['level'] or 'no level'}, {row['state']}"]
    if row.get("speedup") is not None:
        works = row["speedup_works"]
        over = formatting.plain(formatting.factor(row["speedup"]))
        parts.append(f"{over} the plain CPU in {works} workload{'s' * (works != 1)}")
    tries = row["tries"] or 0
    parts.append(f"{tries} tr{'y' if tries == 1 else 'ies'}, last {formatting.date(row['last_seen'])}")
    return "; ".join([*parts, *([f"stale: {row['age_days']} days"] if row["stale"] else [])])
