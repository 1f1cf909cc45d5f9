"""`assay doctor`: is everything as it should be, and if not, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import rich_click as click

from assay.cli.confirming import performed
from assay.cli.connection import connected
from assay.cli.keep.database import opened
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, print_json, say
from assay.cli.progress import counting
from assay.diagnosis.finding import Finding, problem
from assay.home import Home, find_home
from domain.errors import AssayError

__all__ = ["doctor"]

_SIGNS = {"ok": "✓", "note": "·", "problem": "✕"}


@click.command(epilog="Example: assay doctor --fix")
@click.option("--fix", is_flag=True, help="Do what is safe: remove files that nothing uses, make the tables anew.")
@click.option("--deep", is_flag=True, help="Also verify the whole log, and the archive against it.")
@served
@as_json
def doctor(fix: bool, deep: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """Check packages, disk, log, archive, tables, clock and tokens, and say what to do. Exit 1 where something is wrong.

    With --server only that service is looked at, and what is installed here.
    """
    findings = list(_looked_at(server, token, fix=fix, deep=deep))
    if as_json:
        print_json([finding.document() for finding in findings])
    else:
        rows = [[_SIGNS[finding.level], finding.part, finding.found, finding.remedy] for finding in findings]
        answers().print(grid("Doctor", ["", "part", "found", "what to do"], rows))
    return 1 if any(finding.level == "problem" for finding in findings) else 0


def _looked_at(server: str | None, token: str | None, *, fix: bool, deep: bool) -> Iterator[Finding]:
    from assay.diagnosis.machine import installed, room, spooled
    from assay.diagnosis.tables import tables

    yield from installed()
    if server:
        from assay.client import Client

        with Client(server, token=token) as client:
            yield from _mended(lambda: tables(client, None), fix)
        return
    home = find_home()
    yield from spooled(home)
    try:
        with opened() as database:
            yield from _log(home, database.url, fix=fix, deep=deep)
            with connected(None, token) as client:
                yield from _mended(lambda: tables(client, lambda position: _chain_at(database.url, position)), fix)
    except AssayError as error:
        yield room(home.path, "disk")
        yield problem("service", error.detail, error.remedy or "See the service's log.")


def _log(home: Home, url: str, *, fix: bool, deep: bool) -> Iterator[Finding]:
    from assay.diagnosis import log
    from assay.diagnosis.machine import left_behind, room
    from ingest.archive.archive import Archive, archive_folder
    from ingest.archive.segments import connected as connected_to

    schema = log.schema(url)
    yield schema
    if schema.level != "ok":
        yield room(home.path, "disk")
        return
    archive = Archive(archive_folder(home.path), url)
    segments = archive.segments()
    with connected_to(url) as connection:
        yield log.server(connection)
        yield log.durability(connection)
        grown, bytes_a_day = log.growth(connection)
        yield grown
        yield log.clock(connection)
        yield from log.tokens(connection)
        yield from log.peers(connection)
    yield room(home.path, "disk", bytes_a_day)
    if deep:
        with counting("events") as advance:
            yield from log.chain(archive, advance)
    if segments:
        yield from log.archived(archive, segments, deep=deep)
        yield room(archive.folder if archive.folder.is_dir() else home.path, "archive's disk")
    existing = [(segment.facts, segment.samples) for segment in segments]
    yield from _mended(
        lambda: left_behind(home, archive.folder, existing),
        fix,
        lambda item: performed(url, "doctor.fixed", item.part, {"found": item.found}),
    )


def _chain_at(url: str, position: int) -> str | None:
    from ingest.archive.segments import connected as connected_to

    with connected_to(url) as connection:
        row = connection.execute("SELECT encode(chain, 'hex') FROM event WHERE position = %s", [position]).fetchone()
    return None if row is None else str(row[0])


def _mended(
    look: Callable[[], Iterator[Finding]], fix: bool, function: Callable[[Finding], object] | None = None
) -> list[Finding]:
    """Return what a look finds; with `fix` after doing what can be done about it, and looking once more.

    `function` is called with each mend that leaves no event by itself, as making the tables anew does.
    """
    findings = list(look())
    mends = {finding.mend: finding for finding in findings if finding.mend is not None}
    if not fix or not mends:
        return findings
    failed = []
    for mend, value in mends.items():
        try:
            mend()
            if function is not None:
                function(value)
            say(f"{value.part}: done")
        except AssayError as error:
            failed.append(problem(value.part, f"could not be mended: {error.detail}", error.remedy or ""))
    return [*look(), *failed]
