"""The table of docs/benchmarks.md, written from the kept results so that no figure is typed by hand."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.lines import Line
from benchmarks.rows import ROWS

__all__ = ["write_page"]

PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
_PLACE = re.compile(r"(<!-- figures -->\n).*?(<!-- /figures -->)", re.DOTALL)
_NOTE = "Not taken yet on this version.\n"


def write_page(results: Path) -> None:
    """Put the figures of `results` in their place in docs/benchmarks.md."""
    kept = [document for name in ROWS if (document := _read(results / f"{name}.json")) is not None]
    machines: dict[str, list[dict[str, Any]]] = {}
    for document in kept:
        machines.setdefault(document["machine"]["processor"], []).append(document)
    tables = "\n".join(f"{_machine(part)}\n\n{_table(part)}" for part in machines.values())
    text = f"{tables}{_processor(kept)}" if kept else _NOTE
    PAGE.write_text(_PLACE.sub(lambda found: f"{found[1]}{text}{found[2]}", PAGE.read_text()))


def _read(path: Path) -> dict[str, Any] | None:
    return msgspec.json.decode(path.read_bytes()) if path.is_file() else None


def _machine(kept: list[dict[str, Any]]) -> str:
    machine = kept[-1]["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in machine["packages"].items())
    return (
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_bytes'] / 2**30:.0f} GiB, {machine['system']}; "
        f"Python {machine['python']}, PostgreSQL {machine['postgres']}, {packages}; peers: {', '.join(machine['peers'])}. "
        f"Runs of {min(one['at'] for one in kept)[:10]} to {max(one['at'] for one in kept)[:10]}; load of the machine "
        f"before each: {min(one['load_before'] for one in kept):g} to {max(one['load_before'] for one in kept):g}."
    )


def _table(kept: list[dict[str, Any]]) -> str:
    rows = ["| what | ours | peer | ratio | bar | reach | met |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for document in kept:
        if document["failed"]:
            rows.append(f"| {document['benchmark']}: failed | | | | | | no |")
        for told in document["lines"]:
            line = msgspec.convert({name: value for name, value in told.items() if name != "passed"}, Line)
            rows.append("| " + line.text().replace(" | ", " | ") + " |")
    return "\n".join(rows) + "\n"


def _processor(kept: list[dict[str, Any]]) -> str:
    """Return who spends the processor's time on an event, for the lines that counted it."""
    rows = []
    for document in kept:
        for line in document["lines"]:
            for whose, key in (("ours", "processor"), ("peer", "peer_processor")):
                if key in line["details"]:
                    spent = line["details"][key]
                    rate = statistics.median(line["ours"] if whose == "ours" else line["peer"])
                    parts = ", ".join(
                        f"{name[:-3]} {value:,.0f}" for name, value in spent.items() if name.endswith("_us")
                    )
                    share = rate / spent["full_at_per_s"]
                    rows.append(f"| {line['what']} ({whose}) | {parts} | {spent['full_at_per_s']:,.0f} | {share:.0%} |")
    if not rows:
        return ""
    head = "\nProcessor time of one event, µs, and the rate at which all cores would be full:\n\n"
    return (
        head + "| what | µs an event | full at, events/s | used |\n| --- | --- | --- | --- |\n" + "\n".join(rows) + "\n"
    )
