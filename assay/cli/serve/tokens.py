"""`assay token`: who may append, read, run jobs or administer, and whose keys sign. It talks to the database, so that it
works before any service runs, and leaves what it did in the log.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import rich_click as click

from assay.cli.options import as_json
from assay.cli.output import answers, grid, print_json, say
from domain.errors import UsageError
from domain.permissions import SCOPES
from presentation import formatting

__all__ = ["token"]

OWN_KEY = "own"


@contextmanager
def _tokens() -> Iterator[Any]:
    """Give the store of tokens in the database of this machine or of ASSAY_DATABASE_URL."""
    from api.http.tokens import TokenStore
    from assay.home import find_home
    from ingest.log.migrate import upgrade
    from ingest.log.postgres import open_database

    with open_database(find_home().path, os.environ.get("ASSAY_DATABASE_URL")) as database:
        if database.embedded:
            upgrade(database.url)
        yield TokenStore(database.url)


def _performed(store: Any, action: str, on: str, details: dict[str, Any]) -> None:
    from api.background.audit import LOCAL, operation, record

    record(store.url, operation(action, LOCAL, on, details))


@click.group()
def token() -> None:
    """Tokens: who may append, read, submit jobs, work on them, or administer; and the keys by which runners sign."""


@token.command("create", epilog="Example: assay token create ci --scope append --source assay-runner/ci --days 90")
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, type=click.Choice(SCOPES))
@click.option("--source", help="With append: the only source it may append as.")
@click.option(
    "--public-key",
    metavar="FILE|KEY|own",
    help="With --source: register the key that signs this source's events; `own` is that of this machine.",
)
@click.option("--days", type=click.IntRange(1, 36500), help="It expires after so many days.")
@as_json
def create(
    name: str, scopes: tuple[str, ...], source: str | None, public_key: str | None, days: int | None, as_json: bool
) -> int:
    """Create a token; its secret is shown once, here and now."""
    from api.http.tokens import grant

    key_text = _key_text(public_key, source)
    key = None
    with _tokens() as store:
        if key_text is not None:
            # Before the token: a key that cannot be registered leaves nothing behind.
            key = _register(store, key_text, str(source), name)
        expires_at = datetime.now(UTC) + timedelta(days=days) if days else None
        secret, made = store.create(name, scopes, source=source, expires_at=expires_at)
        _performed(store, "token.created", made.id, grant(made))
    if as_json:
        print_json({"secret": secret, "token": made, **({"key": key} if key is not None else {})})
    else:
        answers().print(secret, soft_wrap=True, markup=False)
        say("shown this once; only its SHA-256 is kept")
        if key is not None:
            say(f"events of {key.source} that {key.id} signs are known as signed")
    return 0


def _key_text(public_key: str | None, source: str | None) -> str | None:
    """Return the public key that was named: the text itself, that of a file, or of this machine's key."""
    if public_key is None:
        return None
    if source is None:
        raise UsageError("a key signs for one source.", field="source", remedy="Add --source.")
    if public_key == OWN_KEY:
        from assay.home import find_home
        from runner.machine.signing import PublicKey, make_key

        return PublicKey(make_key(find_home().path)).text
    path = Path(public_key)
    try:
        return path.read_text("utf-8") if path.is_file() else public_key
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}.", field="public_key", remedy="Check the path.") from error


def _register(store: Any, text: str, source: str, name: str) -> Any:
    from api.http.keys import KeyStore

    key = KeyStore(store.url).register(text, source=source, name=name)
    _performed(store, "key.registered", key.id, key.details())
    return key


@token.command("list")
@as_json
def list_all(as_json: bool) -> int:
    """List tokens, without secrets."""
    with _tokens() as store:
        result = store.listed()
    if as_json:
        print_json(result)
        return 0
    rows = [
        [
            item.id,
            item.prefix,
            item.name,
            ", ".join(item.scopes),
            item.source or formatting.MISSING,
            formatting.date(item.expires_at),
            _state(item),
        ]
        for item in result
    ]
    answers().print(grid("Tokens", ["id", "prefix", "name", "scopes", "source", "expires", "state"], rows))
    return 0


def _state(item: Any) -> str:
    if item.revoked_at:
        return "revoked"
    return "valid" if item.valid(datetime.now(UTC)) else "expired"


@token.command("keys")
@as_json
def keys(as_json: bool) -> int:
    """List the keys by which runners sign, with the source that each signs for."""
    from api.http.keys import KeyStore

    with _tokens() as store:
        registered = KeyStore(store.url).listed()
    if as_json:
        print_json(registered)
        return 0
    rows = [
        [key.id, key.name, key.source, formatting.date(key.created_at), "revoked" if key.revoked_at else "valid"]
        for key in registered
    ]
    answers().print(grid("Signing keys", ["id", "name", "source", "registered", "state"], rows))
    return 0


@token.command("revoke", epilog="Examples: assay token revoke ci · assay token revoke ed25519:0198c0de…")
@click.argument("identifier", metavar="ID|PREFIX|NAME|KEY")
def revoke(identifier: str) -> int:
    """Revoke a token, or a signing key by its id; every worker knows within 30 s."""
    from api.http.keys import KeyStore
    from api.http.tokens import grant

    with _tokens() as store:
        if identifier.startswith("ed25519:"):
            key = KeyStore(store.url).revoke(identifier)
            _performed(store, "key.revoked", key.id, key.details())
            say(f"{key.name} ({key.id}) is revoked: what it signs counts as unsigned")
            return 0
        revoked = store.revoke(identifier)
        _performed(store, "token.revoked", revoked.id, grant(revoked))
    say(f"{revoked.name} ({revoked.prefix}…) is revoked")
    return 0
