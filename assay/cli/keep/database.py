"""`assay db`: the log's schema, and copies of the whole log."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import rich_click as click

from assay.cli.confirming import confirm, confirmed, performed
from assay.cli.options import as_json
from assay.cli.output import notes, print_json, say
from assay.cli.output_files import OutputFile, overwritable
from domain.errors import UsageError
from presentation import formatting

if TYPE_CHECKING:
    from ingest.log.postgres import Database

__all__ = ["db", "opened"]


@contextmanager
def opened(*, upgraded: bool = True) -> Iterator[Database]:
    """Give the database of ASSAY_DATABASE_URL, or the embedded one with its schema up to date."""
    from assay.home import find_home
    from ingest.log.migrate import upgrade
    from ingest.log.postgres import open_database

    with open_database(find_home().path, os.environ.get("ASSAY_DATABASE_URL")) as database:
        if database.embedded and upgraded:
            upgrade(database.url)
        yield database


@click.group()
def db() -> None:
    """The log's schema, and copies of the whole log."""


@db.command("upgrade", epilog="Example: ASSAY_DATABASE_URL=postgresql://… assay db upgrade")
def upgrade_schema() -> int:
    """Bring the log's schema to this version; the embedded server's does so by itself."""
    from ingest.log.migrate import upgrade

    with opened(upgraded=False) as database:
        say(f"the log's schema is at {upgrade(database.url)}")
    return 0


@db.command("revision")
@as_json
def show_revision(as_json: bool) -> int:
    """Show the revision of the log's schema, and the one that this version of Assay needs; exit 1 where they differ."""
    from ingest.log.migrate import head, revision

    with opened(upgraded=False) as database:
        result, needed = revision(database.url), head()
    if as_json:
        print_json({"revision": result, "needed": needed})
    else:
        say(f"the schema is at {result or 'nothing yet'}; this version needs {needed}")
    return 0 if result == needed else 1


@db.command("downgrade", epilog="Example: assay db downgrade 0001")
@click.argument("target", metavar="REVISION")
@confirmed
def downgrade_schema(target: str, yes: bool) -> int:
    """Take the log's schema back, for an older version of Assay. Stop every service first.

    Refused while bodies are only in the archive, which older schemas do not know. It leaves no event in the log.
    """
    from ingest.log.migrate import downgrade

    with opened(upgraded=False) as database:
        _require_bodies(database.url)
        if target == "base":
            confirm("This drops the log itself, and every event in it.", yes=yes)
        else:
            confirm(f"The schema goes back to {target}; this version of Assay will not work with it.", yes=yes)
        say(f"the log's schema is at {downgrade(database.url, target)}")
    return 0


def _require_bodies(url: str) -> None:
    import psycopg

    from ingest.archive.segments import SAMPLES_PREFIX

    with psycopg.connect(url) as connection:
        # A schema before 0002 has no archive, and body cannot be null.
        if connection.execute("SELECT to_regclass('archive_segment')").fetchone() == (None,):
            return
        trimmed = connection.execute("SELECT count(*) FROM archive_segment WHERE trimmed_at IS NOT NULL").fetchone()
        if trimmed and trimmed[0]:
            raise UsageError(
                f"the bodies of {trimmed[0]} trimmed segments are in the archive only, and the older schema knows no archive.",
                field="revision",
                remedy="Run `assay archive restore` first: it brings them back into the database.",
            )
        expired = "SELECT EXISTS (SELECT 1 FROM event WHERE body IS NULL AND starts_with(type, %s))"
        if connection.execute(expired, [SAMPLES_PREFIX]).fetchone() == (True,):
            raise UsageError(
                "raw samples have expired, and the older schema needs every body.",
                field="revision",
                remedy="Restore a backup from before they expired into a database of the older version, and export what is newer.",
            )


@db.command("backup", epilog="Example: assay db backup assay-2026-11-21.dump")
@click.argument("file", type=OutputFile())
@overwritable
def back_up_log(file: Path, force: bool) -> int:
    """Write the whole database to a file, by pg_dump, while the service goes on. The archive's folder is copied after it."""
    from assay.staging import Staged
    from ingest.log.backup import back_up

    with Staged(force=force) as staged, opened(upgraded=False) as database, notes().status("copying"):
        size = back_up(database.url, staged.file(file))
    say(f"{file}: {formatting.memory(size)}")
    return 0


@db.command("restore", epilog="Example: ASSAY_HOME=/new/home assay db restore assay-2026-11-21.dump")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def restore_log(file: Path) -> int:
    """Fill an empty database from such a file, by pg_restore; the tables are projected anew from it.

    The restored log says so, unless its schema is older than this version's and not the embedded server's.
    """
    from ingest.log.backup import restore
    from ingest.log.migrate import head, revision, upgrade

    with opened(upgraded=False) as database, notes().status("restoring"):
        restore(database.url, file)
        if database.embedded:
            upgrade(database.url)
        if revision(database.url) == head():
            performed(database.url, "log.restored", file.name, {})
    say("restored; put the archive's folder back too where there was one, and run `assay doctor`")
    return 0
