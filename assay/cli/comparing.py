"""`assay compare`: what is known, side by side."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say

__all__ = ["compare"]


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
