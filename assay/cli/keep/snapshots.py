"""`assay snapshot`, `assay baseline`: names for positions of the log, to come back to and to compare with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from domain.errors import UsageError
from presentation import formatting

if TYPE_CHECKING:
    from domain.answers.baselines import Baseline

__all__ = ["baseline", "snapshot"]

_COUNTED = ("models", "hardware", "runs", "measurements", "tests", "failures")


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
    rows = [
        ["position", formatting.count(snapshot["position"])],
        ["named", _day(snapshot)],
        ["note", snapshot["note"] or formatting.MISSING],
        *([noun, formatting.count(summary[noun])] for noun in _COUNTED),
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


@click.group(
    epilog="""\b
Examples:
  assay baseline set nightly --branch main --note "what nightly runs are compared with"
  assay baseline set release --branch release-1.4 --start-branch main --start-position 18000
  assay regressions --baseline nightly"""
)
def baseline() -> None:
    """Named baselines of branches: the state that runs are compared with, and where a branch started.

    `assay regressions --baseline NAME` compares with one. Naming one again moves it.
    """


@baseline.command("set", epilog='Example: assay baseline set nightly --branch main --snapshot "release 1.4"')
@click.argument("name")
@click.option("--branch", required=True, metavar="NAME", help="The branch whose state it is.")
@click.option("--position", type=click.IntRange(min=0), help="Of the log; the newest by default.")
@click.option("--snapshot", "snapshot_name", metavar="NAME", help="A named position in place of --position.")
@click.option("--start-branch", metavar="NAME", help="The branch that this branch started from.")
@click.option("--start-position", type=click.IntRange(min=0), help="The position of the log where it started.")
@click.option("--hardware", metavar="SLUG", help="Only for this hardware: others are refused.")
@click.option("--note", help="What it is for.")
@served
@as_json
def set_baseline(
    name: str,
    branch: str,
    position: int | None,
    snapshot_name: str | None,
    start_branch: str | None,
    start_position: int | None,
    hardware: str | None,
    note: str | None,
    server: str | None,
    token: str | None,
    as_json: bool,
) -> int:
    """Name the baseline of a branch. A baseline of this name is moved."""
    from assay.cli.connection import connected
    from domain.payloads import BranchStart

    if position is not None and snapshot_name is not None:
        raise UsageError("contradicts --position.", field="snapshot", remedy="Give one of them.")
    if (start_branch is None) != (start_position is None):
        raise UsageError(
            "a start is a branch and a position.", field="start", remedy="Give --start-branch and --start-position."
        )
    with connected(server, token) as client:
        if snapshot_name is not None:
            position = int(client.snapshot(snapshot_name)["position"])
        start = (
            BranchStart(branch=start_branch, position=start_position)
            if start_branch and start_position is not None
            else None
        )
        made = client.set_baseline(name, branch, position, start=start, hardware=hardware, note=note)
    if as_json:
        print_json(made)
    else:
        say(f"{made.name} is the state of {made.branch} at position {formatting.count(made.position)}")
    return 0


@baseline.command("list")
@served
@as_json
def list_baselines(server: str | None, token: str | None, as_json: bool) -> int:
    """List the named baselines."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        baselines = client.baselines()
    if as_json:
        print_json(baselines)
    elif not baselines:
        say("no baseline has a name; `assay baseline set NAME --branch BRANCH` gives one")
    else:
        columns: list[str | tuple[str, str]] = ["name", "branch", ("position", "right"), "started", "hardware", "note"]
        answers().print(grid(None, columns, [_baseline_row(item) for item in baselines]))
    return 0


def _baseline_row(item: Baseline) -> list[str]:
    start = f"{item.start.branch} at {formatting.count(item.start.position)}" if item.start else formatting.MISSING
    return [
        item.name,
        item.branch,
        formatting.count(item.position),
        start,
        item.hardware or "all",
        item.note or "",
    ]


@baseline.command("show")
@click.argument("name")
@served
@as_json
def show_baseline(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Show what a baseline stands for, and how much was known there."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        named = client.baseline(name)
        summary = client.summary(as_of=named.position)
    if as_json:
        print_json({"baseline": named, "known": summary})
        return 0
    heads = ("branch", "position", "started", "hardware", "note")
    rows = [[head, value or formatting.MISSING] for head, value in zip(heads, _baseline_row(named)[1:], strict=True)]
    rows += [["named", formatting.when(named.time)], *([noun, formatting.count(summary[noun])] for noun in _COUNTED)]
    answers().print(grid(named.name, ["", "value"], rows))
    return 0


@baseline.command("delete")
@click.argument("name")
@served
@as_json
def delete_baseline(name: str, server: str | None, token: str | None, as_json: bool) -> int:
    """Take a name away. The log stays as it is, and the name can be given again."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        gone = client.delete_baseline(name)
    if as_json:
        print_json(gone)
    else:
        say(f"{gone.name} is no baseline any more (it was position {formatting.count(gone.position)})")
    return 0
