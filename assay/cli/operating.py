"""`assay status`, `rebuild`: where the tables stand, and making them anew."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json, say

__all__ = ["rebuild", "status"]


@click.command(epilog="Example: assay status --json")
@served
@as_json
def status(server: str | None, token: str | None, as_json: bool) -> int:
    """Show where log and tables stand, what is known, and which predictor answers."""
    from assay.cli.connection import connected

    with connected(server, token) as client:
        told = {"server": client.server, **client.ready(), "known": client.summary()}
    if as_json:
        print_json(told)
        return 0
    rows = [[name, str(value)] for name, value in _flat(told) if value is not None]
    answers().print(grid("Status", ["", "value"], rows))
    return 1 if told.get("error") or told.get("dead_letters") else 0


def _flat(value: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _flat(item, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}".replace("_", " "), item


@click.command(epilog="Example: assay rebuild")
@served
def rebuild(server: str | None, token: str | None) -> int:
    """Project the whole log anew, beside the tables that go on answering, and swap."""
    from assay.cli.connection import connected

    with connected(server, token) as client, notes().status("rebuilding"):
        answer = client.rebuild()
    say(f"the tables were rebuilt up to position {numbers.count(answer.get('position'))}")
    return 0
