"""`assay compare`, `assay trends`, `assay query`: what is known, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.tables import comparison_table

__all__ = ["compare", "query", "trends"]


@click.command(
    epilog="""\b
Examples:
  assay compare hardware bert-base-uncased
  assay compare models nvidia-rtx-4090"""
)
@click.argument("what", type=click.Choice(["hardware", "models", "modes"]))
@click.argument("subject", metavar="MODEL|HARDWARE")
@served
@as_json
def compare(what: str, subject: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Put what was measured or imported side by side: hardware for a model, models on a hardware, modes of a model."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        if what == "hardware":
            answer = client.compare_hardware(subject)
        elif what == "models":
            answer = client.compare_models(subject)
        else:
            answer = client.compare_modes(subject)
    rows = answer.get("rows", [])
    if as_json:
        print_json(answer)
    elif not rows:
        say(f"nothing was measured or imported for {subject}; `assay recommend` predicts, `assay bench` measures")
    else:
        _tell_comparison(answer, rows)
    return 0 if rows else 1


def _tell_comparison(answer: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    same, differs = answer.get("same") or {}, answer.get("differs") or {}
    known = [f"{name} {value}" for name, value in same.items() if value is not None]
    if known:
        answers().print("Same for all: " + ", ".join(known), markup=False)
    for name, values in differs.items():
        answers().print(f"Differs: {name} ({', '.join(map(str, values))})", markup=False)
    answers().print()
    columns: list[str | tuple[str, str]] = [
        *(name for name in ("model", "hardware", "mode") if len({row[name] for row in rows}) > 1 or name == "hardware"),
        ("platform", "fixed"), ("precision", "fixed"), ("batch", "right"), ("latency", "right"), ("items", "right"),
        ("memory", "right"), ("n", "right"), ("origin", "fixed"),
    ]  # fmt: skip
    table = [
        [
            *(str(row[name]) for name in ("model", "hardware", "mode") if name in columns),
            str(row["platform"]),
            str(row.get("precision") or numbers.MISSING),
            numbers.count(row.get("batch_size")),
            _latency(row),
            numbers.throughput(row.get("throughput_per_s")),
            numbers.memory(row.get("peak_memory_bytes")),
            numbers.count(row.get("n")),
            str(row.get("origin") or ""),
        ]
        for row in rows
    ]
    answers().print(grid(None, columns, table))


def _latency(row: dict[str, Any]) -> str:
    return numbers.latency(
        row.get("latency_ms"),
        row.get("latency_ms_low"),
        row.get("latency_ms_high"),
        mean=bool(row.get("latency_is_mean")),
    )


@click.command(epilog="Example: assay trends bert-base-uncased --metric latency_p50_ms")
@click.argument("model")
@click.option("--metric", default="latency_p50_ms", show_default=True)
@served
@as_json
def trends(model: str, metric: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Follow a metric of a model's configurations over time."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        answer = client.trends(model, metric=metric)
    points = [
        {**{name: line.get(name) for name in ("hardware_id", "platform", "precision", "batch_size")}, **point}
        for line in answer.get("lines", [])
        for point in line["points"]
    ]
    if as_json:
        print_json(answer)
    elif not points:
        say(f"nothing was measured for {model}")
    else:
        columns = ["hardware_id", "platform", "precision", "batch_size", "time", "value", "verdict"]
        answers().print(comparison_table(points, columns, f"{answer.get('model', model)}: {metric}"))
    return 0 if points else 1


@click.command(
    epilog="""\b
Examples:
  assay query "select platform, count(*) as n from measurements group by all"
  assay query "select * from tests" --format csv > tests.csv"""
)
@click.argument("sql")
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "json", "parquet"]), default="table", show_default=True
)
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write to a file (needed for parquet).")
@served
def query(sql: str, form: str, out: Path | None, server: str | None, token: str | None) -> int:
    """Run one SELECT over the documented views (docs/tables.md), read-only, under limits of time and memory."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        answer = client.query(sql)
    columns, rows = [column["name"] for column in answer["columns"]], answer["rows"]
    if form == "table" and out is None:
        answers().print(comparison_table([dict(zip(columns, row, strict=True)) for row in rows], columns))
        if answer.get("truncated"):
            say(f"the first {len(rows)} rows; add a LIMIT of your own")
        return 0
    content = _encoded(form, columns, rows)
    if out is not None:
        out.write_bytes(content)
    elif form == "parquet":
        raise click.UsageError("parquet is no text: name a file with --out.")
    else:
        sys.stdout.write(content.decode())
    return 0


def _encoded(form: str, columns: list[str], rows: list[list[Any]]) -> bytes:
    if form == "json" or form == "table":
        import msgspec

        return msgspec.json.format(msgspec.json.encode([dict(zip(columns, row, strict=True)) for row in rows])) + b"\n"
    if form == "csv":
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text)
        writer.writerow(columns)
        writer.writerows(rows)
        return text.getvalue().encode()
    import io

    import pyarrow as pa
    import pyarrow.parquet as parquet

    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(columns)})
    target = io.BytesIO()
    parquet.write_table(table, target)
    return target.getvalue()
