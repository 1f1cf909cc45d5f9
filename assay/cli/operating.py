"""`assay status`, `rebuild`, `doctor`, `db`, `token`: keeping it healthy."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json, served
from assay.cli.output import answers, grid, notes, print_json, say
from domain.errors import AssayError

__all__ = ["db", "doctor", "rebuild", "status", "token"]


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


@click.command(epilog="Example: assay doctor --fix")
@click.option("--fix", is_flag=True, help="Rebuild the tables where they differ from what the log says.")
@served
@as_json
def doctor(fix: bool, server: str | None, token: str | None, as_json: bool) -> int:
    """Check the installation: disk, packages, service, log against tables, dead letters; and say what to do."""
    from assay.cli.connection import connected
    from assay.home import find_home

    home = find_home()
    free = shutil.disk_usage(home.path).free
    findings = [
        _finding(
            "disk", free > 2e9, f"{numbers.memory(free)} free at {home.path}", "Make room: under 2 GB is too little."
        )
    ]
    findings += [_package(name) for name in ("duckdb", "litestar", "lightgbm", "streamlit", "torch", "openvino")]
    try:
        with connected(server, token) as client:
            health = client.ready()
            if fix and (health.get("dead_letters") or health.get("error")):
                client.rebuild()
                health = client.ready()
    except AssayError as error:
        findings.append(_finding("service", False, error.detail, error.remedy or "See the service's log."))
    else:
        findings += [
            _finding("service", True, "answers", ""),
            _finding(
                "tables",
                not health.get("error"),
                health.get("error") or f"at position {health['position']} of {health['log_position']}",
                "assay doctor --fix",
            ),
            _finding(
                "dead letters",
                not health.get("dead_letters"),
                f"{health.get('dead_letters', 0)} events could not be projected",
                "assay query 'select * from dead_letter'",
            ),
        ]
    if as_json:
        print_json(findings)
    else:
        rows = [
            ["✓" if one["ok"] else "✕", one["part"], one["found"], "" if one["ok"] else one["remedy"]]
            for one in findings
        ]
        answers().print(grid("Doctor", ["", "part", "found", "what to do"], rows))
    return 0 if all(one["ok"] for one in findings) else 1


def _finding(part: str, ok: bool, found: str, remedy: str) -> dict[str, Any]:
    return {"part": part, "ok": ok, "found": found, "remedy": remedy}


def _package(name: str) -> dict[str, Any]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return _finding(name, True, version(name), "")
    except PackageNotFoundError:
        return _finding(name, False, "not installed", "pip install 'assay-bench[all]'")


@click.group()
def db() -> None:
    """The log's schema."""


@db.command("upgrade", epilog="Example: ASSAY_DATABASE_URL=postgresql://… assay db upgrade")
def upgrade_schema() -> int:
    """Bring the log's schema to this version; the embedded server's does so by itself."""
    from ingest.migrate import upgrade

    with _database() as database:
        say(f"the log's schema is at {upgrade(database.url)}")
    return 0


@contextmanager
def _database() -> Iterator[Any]:
    from assay.home import find_home
    from ingest.postgres import open_database

    with open_database(find_home().path, os.environ.get("ASSAY_DATABASE_URL")) as database:
        yield database


@click.group()
def token() -> None:
    """Tokens: who may append, read, run jobs or administer."""


@token.command("create", epilog="Example: assay token create ci --scope append --source assay-runner/ci --days 90")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(["append", "read", "jobs", "admin"]))
@click.option("--source", help="With append: the only source it may append as.")
@click.option("--days", type=click.IntRange(min=1), help="It expires after so many days.")
@as_json
def create(name: str, scopes: tuple[str, ...], source: str | None, days: int | None, as_json: bool) -> int:
    """Create a token; its secret is shown once, here and now."""
    from api.tokens import create_token
    from ingest.migrate import upgrade

    with _database() as database:
        upgrade(database.url)
        expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
        secret, made = create_token(database.url, name, scopes, source=source, expires_at=expires_at)
    if as_json:
        print_json({"secret": secret, "token": made})
    else:
        answers().print(secret, soft_wrap=True, markup=False)
        say("shown this once; only its SHA-256 is kept")
    return 0


@token.command("list")
@as_json
def list_all(as_json: bool) -> int:
    """List tokens, without secrets."""
    from api.tokens import list_tokens

    with _database() as database:
        found = list_tokens(database.url)
    if as_json:
        print_json(found)
        return 0
    rows = [
        [
            one.id,
            one.name,
            ", ".join(one.scopes),
            one.source or numbers.MISSING,
            numbers.date(one.expires_at),
            "revoked" if one.revoked_at else "valid",
        ]
        for one in found
    ]
    answers().print(grid("Tokens", ["id", "name", "scopes", "source", "expires", "state"], rows))
    return 0


@token.command("revoke")
@click.argument("identifier", metavar="ID")
def revoke(identifier: str) -> int:
    """Revoke a token; it stops working within 30 s."""
    from api.tokens import revoke_token

    with _database() as database:
        revoke_token(database.url, identifier)
    say(f"{identifier} is revoked")
    return 0
