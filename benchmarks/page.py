"""The tables and the picture of docs/benchmarks.md, made from the kept results so that no figure is typed by hand."""

from __future__ import annotations

import re
import statistics
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.growth_page import picture, section
from benchmarks.lines import Line
from benchmarks.rows import ROWS

__all__ = ["write_page"]

DOCS = Path(__file__).resolve().parents[1] / "docs"
GROWTH = "growth"
"""The benchmark whose lines have a section and a picture of their own."""
_NOTE = "Not taken yet on this version.\n"


def write_page(results: Path, docs: Path = DOCS) -> None:
    """Put the figures of `results` in their places in `docs`/benchmarks.md, and the curves into `docs`/images/growth.svg."""
    page = docs / "benchmarks.md"
    text = _replaced(page.read_text(encoding="utf-8"), "figures", _figures(results))
    curves = _read(results / f"{GROWTH}.json")
    if curves is not None:
        text = _replaced(text, GROWTH, section(curves))
        (docs / "images" / "growth.svg").write_bytes(picture(curves))
    page.write_text(text, encoding="utf-8")


def _replaced(page: str, name: str, text: str) -> str:
    """Return the page with other text between the comments of this name."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
    return place.sub(lambda match: f"{match[1]}{text}{match[2]}", page)


def _figures(results: Path) -> str:
    kept = [document for name in ROWS if name != GROWTH and (document := _read(results / f"{name}.json")) is not None]
    machines: dict[str, list[dict[str, Any]]] = {}
    for document in kept:
        machines.setdefault(document["machine"]["processor"], []).append(document)
    tables = "\n".join(f"{_machine(part)}\n\n{_table(part)}" for part in machines.values())
    return f"{tables}{_processor(kept)}" if kept else _NOTE


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
