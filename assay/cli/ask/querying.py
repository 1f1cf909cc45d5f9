"""`assay query`: one SELECT over the documented views, and what those views mean."""

from __future__ import annotations

import csv
import io
import re
import sys
from pathlib import Path
from typing import Any

import msgspec
import rich_click as click

from assay.cli.options import AS_OF, served
from assay.cli.output import answers, grid, print_json, say, write_json
from assay.cli.output_files import OutputFile, overwritable
from assay.cli.tables import comparison_table
from presentation import formatting

__all__ = ["query"]

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_ALL = ""
"""`--schema` without a name."""


@click.command(
    epilog="""\b
Examples:
  assay query "select platform, count(*) as n from measurements group by all"
  assay query "select * from tests" --format csv > tests.csv
  assay query --as-of "release 1.4" "select count(*) from measurements"
  assay query --schema measurements"""
)
@click.argument("sql", required=False)
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "json", "parquet"]), default="table", show_default=True
)
@click.option("--out", type=OutputFile(), help="Write to a file (needed for parquet).")
@overwritable
@click.option("--limit", type=click.IntRange(1, 100_000), help="Rows at the most; 10,000 by default.")
@click.option("--timeout", "timeout_s", type=click.FloatRange(0, 60, min_open=True), help="Seconds; 10 by default.")
@click.option("--as-of", type=AS_OF, help="The views as of a position of the log, or of a snapshot.")
@click.option(
    "--schema",
    is_flag=False,
    flag_value=_ALL,
    metavar="[VIEW]",
    help="The views, or the columns of one: type, unit, meaning.",
)
@served
def query(
    sql: str | None,
    form: str,
    out: Path | None,
    force: bool,
    schema: str | None,
    server: str | None,
    token: str | None,
    **options: Any,
) -> int:
    """Run one SELECT over the documented views (docs/tables.md), read-only, under limits of time and memory."""
    from assay.cli.connection import connected
    from assay.staging import Staged

    if (sql is None) == (schema is None):
        raise click.UsageError("give a SELECT, or --schema.")
    if form == "parquet" and out is None:
        raise click.UsageError("parquet is no text: name a file with --out.")
    values = {name: value for name, value in options.items() if value is not None}
    with connected(server, token) as client:
        if sql is None:
            return _tell_schema(client.schema(schema or None), form, alone=bool(schema))
        if form == "parquet" and out is not None:
            import pyarrow.parquet as parquet

            # As Arrow, so that the columns keep their types.
            table = client.query(sql, as_="arrow", **values)
            with Staged(force=force) as staged:
                parquet.write_table(table, staged.file(out))
            return 0
        answer = client.query(sql, **values)
    columns, rows = [column["name"] for column in answer["columns"]], answer["rows"]
    if answer.get("truncated"):
        say(f"the first {formatting.count(len(rows))} rows of more; aggregate, or raise --limit")
    if form == "table" and out is None:
        answers().print(comparison_table([dict(zip(columns, row, strict=True)) for row in rows], columns))
        return 0
    if out is not None:
        text = _csv(columns, rows) if form == "csv" else _json(columns, rows) + "\n"
        with Staged(force=force) as staged:
            staged.file(out).write_text(text, encoding="utf-8", newline="")
    elif form == "csv":
        sys.stdout.write(_csv(columns, rows))
    else:
        write_json(_json(columns, rows))
    return 0


def _tell_schema(document: dict[str, Any], form: str, *, alone: bool) -> int:
    if form == "json":
        print_json(document)
        return 0
    console = answers()
    if alone:
        (view,) = document["views"]
        console.print(f"{view['name']}: one row is {view['rows']}. {view['about']}\n", markup=False)
        rows = [[column["name"], column["type"], column["unit"] or "", column["meaning"]] for column in view["columns"]]
        console.print(grid(None, ["column", ("type", "fixed"), ("unit", "fixed"), "meaning"], rows))
        return 0
    rows = [[view["name"], view["rows"], formatting.count(len(view["columns"]))] for view in document["views"]]
    title = f"Views of schema version {document['schema']}; --schema VIEW shows the columns of one"
    console.print(grid(title, [("view", "fixed"), "one row is", ("columns", "right")], rows))
    return 0


def _json(columns: list[str], rows: list[list[Any]]) -> str:
    result = [dict(zip(columns, row, strict=True)) for row in rows]
    return msgspec.json.format(msgspec.json.encode(result)).decode()


def _csv(columns: list[str], rows: list[list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow([_cell(name) for name in columns])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return what stands in a cell of CSV: nested values as JSON, and no text that a spreadsheet would run."""
    if isinstance(value, list | dict):
        return msgspec.json.encode(value).decode()
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value
