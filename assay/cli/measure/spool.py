"""`assay spool`: what this machine measured and no service has yet, and what a service refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from presentation import formatting

if TYPE_CHECKING:
    from runner.spool.spool import Spool

__all__ = ["spool"]


@click.group()
def spool() -> None:
    """Show, send and tidy the events that wait on this machine's disk."""


@spool.command("list")
@as_json
def list_(as_json: bool) -> int:
    """Show how many events wait, and each that a service refused, with its reason. Exit code 1 where some were."""
    with _opened() as spooled:
        path, limit = str(spooled.path), spooled.limit_bytes
        waiting, size, refused = spooled.waiting(), spooled.size_bytes(), spooled.refused()
    code = 1 if refused else 0
    if as_json:
        print_json({"path": path, "waiting": waiting, "bytes": size, "limit_bytes": limit, "refused": refused})
        return code
    say(f"{formatting.count(waiting)} events wait; {formatting.memory(size)} of {formatting.memory(limit)} used")
    if refused:
        rows = [[item.id, item.type, item.field or "", item.detail] for item in refused]
        answers().print(grid("Refused", ["event", "type", "field", "why"], rows))
        say("write them to a file with `assay spool save FILE`, mend them, and `assay post FILE`")
    return code


@spool.command()
@served
def send(server: str | None, token: str | None) -> int:
    """Send what waits to the service."""
    from assay.cli.connection import connected
    from assay.cli.measure.sending import empty_spool

    with _opened() as spooled, connected(server, token) as client:
        empty_spool(spooled, client)
    return 0


@spool.command()
@click.argument("file", type=OutputFile())
@overwritable
def save(file: Path, force: bool) -> int:  # noqa: ARG001 - the type of FILE reads it
    """Write the refused events to a FILE of lines, as they are."""
    from runner.spool.event_file import EventFile

    with _opened() as spooled:
        events = list(spooled.refused_events())
    target = EventFile(file)
    try:
        for event in events:
            target.write(event)
    finally:
        target.close()
    say(f"{formatting.count(len(events))} events written to {file}")
    return 0


@spool.command()
@click.option("--yes", is_flag=True, help="Do not ask.")
def discard(yes: bool) -> int:
    """Forget the refused events; what waits stays."""
    with _opened() as spooled:
        count = len(spooled.refused())
        if count and not yes:
            click.confirm(f"Forget {count} refused events?", abort=True, err=True)
        say(f"{formatting.count(spooled.discard_refused())} events forgotten")
    return 0


@contextmanager
def _opened() -> Iterator[Spool]:
    from assay.home import find_home
    from runner.spool.spool import Spool

    with Spool(find_home().spool) as spooled:
        yield spooled
