"""The tables of docs/dashboard.md and the results behind them, so that no figure is typed by hand."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.dashboard_data import DEVICES, MODELS
from benchmarks.lines import Line
from benchmarks.machine import machine, versions
from benchmarks.serving import ROOT

__all__ = ["HEADS", "keep", "row"]

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "dashboard.md"
HEADS = {"figures": "what | found | bar | met", "peer": "what | ours | MLflow UI | theirs over ours"}
"""By the name of a table's place in the page, and of its results: its columns."""
PACKAGES = ("streamlit", "altair", "duckdb", "litestar", "playwright")
VERSION = 1


def keep(table: str, lines: Sequence[Line], plan: Mapping[str, Any], load: float, page: Path = PAGE) -> None:
    """Write the results of a table, and the table into its place in the page; the other one stays as it is."""
    about = machine()
    document = {
        "version": VERSION, "benchmark": "dashboard", "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {**about, "packages": versions(PACKAGES)}, "plan": plan, "load_before": load,
        "lines": [{**msgspec.to_builtins(line), "passed": line.passed} for line in lines],
    }  # fmt: skip
    RESULTS.mkdir(parents=True, exist_ok=True)
    name = "dashboard.json" if table == "figures" else f"dashboard-{table}.json"
    (RESULTS / name).write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n")
    told = f"{plan['rows']:,} measurements of {MODELS} models on {DEVICES} devices; "
    if table == "peer":
        told += f"{plan['runs']:,} of them in MLflow as runs; "
    told += f"{about['processor']}, {about['cores']} cores, load of the machine before: {load:g}; {datetime.now(UTC):%Y-%m-%d}.\n\n"
    rows = "\n".join(f"| {row(line)} |" for line in lines)
    text = f"{told}| {HEADS[table]} |\n| --- | --- | --- | --- |\n{rows}\n"
    place = re.compile(rf"(<!-- {table} -->\n).*?(<!-- /{table} -->)", re.DOTALL)
    page.write_text(place.sub(lambda found: f"{found[1]}{text}{found[2]}", page.read_text()))


def row(line: Line) -> str:
    """Return a line as it is printed and stands in its table."""
    if line.peer:
        ours, theirs = (f"{statistics.median(values):.3g} {line.unit}" for values in (line.ours, line.peer))
        return f"{line.what} | {ours} | {theirs} | {line.value:.3g}"
    met = "–" if line.passed is None else "yes" if line.passed else "no"
    bar = f"≤ {line.limit.bar:g}" if line.limit else "–"
    return f"{line.what} | {line.value:.3g} {line.unit} | {bar} | {met}"
