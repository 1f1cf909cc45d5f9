"""`assay snapshot`: names for positions of the log, to come back to and to compare with."""

from __future__ import annotations

from typing import Any

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from presentation import formatting

__all__ = ["snapshot"]


@click.group(
    epilog="""\b
Examples:
  assay snapshot create "release 1.4" --note "what the release was tested with"
  assay recommend bert-base-uncased --as-of "release 1.4"
  assay regressions --baseline "release 1.4\""""
)
def snapshot() -> None:
    """Names for positions of the log. Nothing is copied: the log never changes, so what it held at a position stays."""


@snapshot.command("create")
@click.argument("name")
@click.option("--position", type=click.IntRange(min=0), help="The newest by default.")
@click.option("--note", help="What it is for.")
@served
@as_json
def create(
    name: str, position: int | None, note: str | None, server: str | None, token: str | None, as_json: bool
) -> int:
    """Name a position. A name that stands for another position already is not moved."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        made = client.create_snapshot(name, position, note)
    if as_json:
        print_json(made)
    else:
        say(f"{made['name']} is position {formatting.count(made['position'])}")
    return 0


@snapshot.command("list")
@served
@as_json
def list_snapshots(server: str | None, token: str | None, as_json: bool) -> int:
    """List the names."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        snapshots = client.snapshots()
    if as_json:
        print_json(snapshots)
    elif not snapshots:
        say("no position has a name; `assay snapshot create NAME` gives one")
    else:
        rows = [
            [item["name"], formatting.count(item["position"]), _day(item), item["note"] or ""] for item in snapshots
        ]
        answers().print(grid(None, ["name", ("position", "right"), ("named", "fixed"), "note"], rows))
    return 0


@snapshot.command("show")
@click.argument("name")
@served
@as_json
def show(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Show what a name stands for, and how much was known there."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        snapshot = client.snapshot(name)
        summary = client.summary(as_of=snapshot["position"])
    if as_json:
        print_json({**snapshot, "known": summary})
        return 0
    counted = ("models", "hardware", "runs", "measurements", "tests", "failures")
    rows = [
        ["position", formatting.count(snapshot["position"])],
        ["named", _day(snapshot)],
        ["note", snapshot["note"] or formatting.MISSING],
        *([noun, formatting.count(summary[noun])] for noun in counted),
        ["predictor", str(summary["predictor"])],
    ]
    answers().print(grid(snapshot["name"], ["", "value"], rows))
    return 0


@snapshot.command("delete")
@click.argument("name")
@served
@as_json
def delete(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Take a name away. The log stays as it is, and the name can be given again."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        gone = client.delete_snapshot(name)
    if as_json:
        print_json(gone)
    else:
        say(f"{gone['name']} is no name any more (it was position {formatting.count(gone['position'])})")
    return 0


def _day(row: dict[str, Any]) -> str:
    return str(row["time"] or formatting.MISSING)[:16].replace("T", " ")
