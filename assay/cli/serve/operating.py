"""`assay status`, `rebuild`: where the tables stand, and making them anew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json, say
from domain.errors import UsageError
from presentation import formatting

__all__ = ["rebuild", "status"]


@click.command(
    epilog="""\b
Examples:
  assay status --json
  assay status --day"""
)
@click.option(
    "--day", is_flag=True, help="The last 24 hours by the hour: what the log took, how far the tables were behind."
)
@served
@as_json
def status(day: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """Show where log and tables stand, what is known, and which predictor answers; or a day of it (admin)."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        if day:
            return _tell_day(client.operations(), as_json)
        document = {"server": client.server, **client.ready(), "known": client.summary()}
    if as_json:
        print_json(document)
        return 0
    rows = [[name, str(value)] for name, value in _flat(document) if value is not None]
    answers().print(grid("Status", ["", "value"], rows))
    return 1 if document.get("error") or document.get("dead_letters") else 0


def _tell_day(document: dict[str, Any], as_json: bool) -> int:
    if as_json:
        print_json(document)
        return 0
    events: dict[str, int] = {}
    lags: dict[str, list[int]] = {}
    for step in document["throughput"]:
        hour = _hour(step["at"])
        events[hour] = events.get(hour, 0) + step["events"]
    for minute in document["lag"]:
        if minute["lag_events"] is not None:
            lags.setdefault(_hour(minute["at"]), []).append(minute["lag_events"])
    rows = [
        [hour, formatting.count(taken), formatting.count(max(lags[hour])) if hour in lags else formatting.MISSING]
        for hour, taken in events.items()
    ]
    answers().print(
        grid("The last 24 hours", [("from", "fixed"), ("events taken", "right"), ("behind at the most", "right")], rows)
    )
    say(
        f"the tables were watched since {formatting.date(document['build']['began'])}; {formatting.MISSING} is not known"
    )
    return 0


def _hour(at: str) -> str:
    return formatting.date(datetime.fromisoformat(at).replace(minute=0, second=0))


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}".replace("_", " "), item


@click.command(
    epilog="""\b
Examples:
  assay rebuild
  assay rebuild --workers 4
  assay rebuild --ray 10.0.0.5:6379 --json"""
)
@click.option(
    "--workers", type=click.IntRange(1, 64), metavar="N", help="Fold ranges of the log in N processes, and merge them."
)
@click.option(
    "--ray", metavar="ADDRESS", help="Fold the ranges on this Ray cluster (extra `ray`); `auto` for a local one."
)
@served
@as_json
def rebuild(workers: int | None, ray: str | None, server: str | None, token: str | None, as_json: bool) -> int:
    """Project the whole log anew, beside the tables that go on answering, and swap.

    The tables are the same row for row, however many processes make them. A process or node that dies is replaced.
    """
    from assay.cli.connection import connected

    if workers and ray:
        raise UsageError("--workers and --ray are two ways to do it.", field="ray", remedy="Name one of them.")
    if ray and not server:
        # Where no service runs yet, the one that is started for this command is started for this cluster.
        os.environ["ASSAY_RAY"] = ray
    with connected(server, token) as client, notes().status("rebuilding"):
        answer = client.rebuild(workers=workers, ray=ray)
    if as_json:
        print_json(answer)
        return 0
    say(f"the tables were rebuilt up to position {formatting.count(answer.get('position'))}")
    if parallel := answer.get("parallel"):
        restarted = f", {parallel['restarted']} of them folded again" if parallel.get("restarted") else ""
        say(
            f"{parallel['ranges']} ranges{restarted}: {parallel['fold_s']:.1f} s to fold, "
            f"{parallel['merge_s']:.1f} s to merge"
        )
    return 0
