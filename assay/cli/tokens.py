"""`assay token`: who may append, read, run jobs or administer. It talks to the database, so that it works before any
service runs, and leaves what it did in the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import rich_click as click

from assay import numbers
from assay.cli.options import as_json
from assay.cli.output import answers, grid, print_json, say

__all__ = ["token"]


@contextmanager
def _tokens() -> Iterator[Any]:
    """Give the store of tokens in the database of this machine or of ASSAY_DATABASE_URL."""
    from api.tokens import TokenStore
    from assay.home import find_home
    from ingest.migrate import upgrade
    from ingest.postgres import open_database

    with open_database(find_home().path, os.environ.get("ASSAY_DATABASE_URL")) as database:
        if database.embedded:
            upgrade(database.url)
        yield TokenStore(database.url)


def _performed(store: Any, action: str, one: Any) -> None:
    from api.audit import LOCAL, operation, record
    from api.tokens import grant

    record(store.url, operation(action, LOCAL, one.id, grant(one)))


@click.group()
def token() -> None:
    """Tokens: who may append, read, run jobs or administer."""


@token.command("create", epilog="Example: assay token create ci --scope append --source assay-runner/ci --days 90")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(["append", "read", "jobs", "admin"]))
@click.option("--source", help="With append: the only source it may append as.")
@click.option("--days", type=click.IntRange(1, 36500), help="It expires after so many days.")
@as_json
def create(name: str, scopes: tuple[str, ...], source: str | None, days: int | None, as_json: bool) -> int:
    """Create a token; its secret is shown once, here and now."""
    with _tokens() as store:
        expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
        secret, made = store.create(name, scopes, source=source, expires_at=expires_at)
        _performed(store, "token.created", made)
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
    with _tokens() as store:
        found = store.listed()
    if as_json:
        print_json(found)
        return 0
    rows = [
        [
            one.id,
            one.prefix,
            one.name,
            ", ".join(one.scopes),
            one.source or numbers.MISSING,
            numbers.date(one.expires_at),
            _state(one),
        ]
        for one in found
    ]
    answers().print(grid("Tokens", ["id", "prefix", "name", "scopes", "source", "expires", "state"], rows))
    return 0


def _state(one: Any) -> str:
    if one.revoked_at:
        return "revoked"
    return "valid" if one.valid(datetime.now(UTC)) else "expired"


@token.command("revoke", epilog="Example: assay token revoke ci")
@click.argument("identifier", metavar="ID|PREFIX|NAME")
def revoke(identifier: str) -> int:
    """Revoke a token; every worker refuses it within 30 s."""
    with _tokens() as store:
        revoked = store.revoke(identifier)
        _performed(store, "token.revoked", revoked)
    say(f"{revoked.name} ({revoked.prefix}…) is revoked")
    return 0
