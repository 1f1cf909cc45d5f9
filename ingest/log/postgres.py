"""Where Postgres is: the server named by ASSAY_DATABASE_URL, or one of our own under ASSAY_HOME/postgres."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from domain.errors import ServiceUnavailable

if TYPE_CHECKING:
    from ingest.log.embedded import EmbeddedServer

__all__ = ["DATABASE_NAME", "SETTLE", "UNSAFE", "Database", "connect", "not_durable", "open_database"]

DATABASE_NAME = "assay"
URL_VARIABLE = "ASSAY_DATABASE_URL"

SETTLE = """
SELECT set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false),
    set_config('default_transaction_isolation', 'read committed', false),
    set_config('default_transaction_read_only', 'off', false)
"""
"""Sets for a session what its server, role, database or URL may have set otherwise: an acknowledged commit is on disk."""
UNSAFE = "SELECT name FROM unnest(ARRAY['fsync', 'full_page_writes']) AS name WHERE current_setting(name) <> 'on'"
"""Settings of the server, which no session can change, with which it may lose what it has acknowledged."""


def not_durable(settings: Sequence[str]) -> ServiceUnavailable:
    """Return the error for a server with unsafe settings."""
    named = " and ".join(settings)
    return ServiceUnavailable(
        f"Postgres runs with {named} off and can lose acknowledged events when its machine fails.",
        field=settings[0],
        remedy="; ".join(f"ALTER SYSTEM SET {name} = on" for name in settings) + "; SELECT pg_reload_conf().",
    )


def connect(url: str, **options: Any) -> psycopg.Connection[Any]:
    """Connect as `psycopg.connect` does, with the session's settings of SETTLE."""
    connection: psycopg.Connection[Any] = psycopg.connect(url, **options)
    try:
        connection.execute(SETTLE)
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection


class Database:
    """A Postgres database that holds a log; a context manager that closes itself."""

    def __init__(self, url: str, server: EmbeddedServer | None = None) -> None:
        self.url = url
        self.server = server

    @property
    def embedded(self) -> bool:
        """Whether the server is our own."""
        return self.server is not None

    @property
    def adbc_uri(self) -> str:
        """The URL as ADBC's driver takes it."""
        return self.url.replace("postgresql+psycopg://", "postgresql://", 1)

    def create(self, name: str, template: str = "template1") -> Database:
        """Create another database on the same server, a copy of `template`, and return it; for tests and restores."""
        statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(sql.Identifier(name), sql.Identifier(template))
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)
        return Database(_with_name(self.url, name))

    def drop(self, name: str) -> None:
        """Drop a database that `create` made, whoever is connected to it."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
            connection.execute(statement.format(sql.Identifier(name)))

    def close(self) -> None:
        """Let go of it; the embedded server stops when its last user has."""
        if self.server is not None:
            self.server.stop()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_database(home: Path | str, url: str | None = None) -> Database:
    """Return the database named by `url` or ASSAY_DATABASE_URL, else the embedded one under `home`/postgres.

    The embedded server is started, or found running; its database is created where it is missing. The schema is not
    touched: that is `ingest.migrate.upgrade`. ServiceUnavailable or PartMissing say what to do.
    """
    named = url or os.environ.get(URL_VARIABLE)
    if named:
        return Database(named)
    # Not on Windows, where a program that reads logs of other servers still can be loaded.
    from ingest.log.embedded import EmbeddedServer

    server = EmbeddedServer(Path(home) / "postgres")
    for attempts_left in (2, 1, 0):
        maintenance = server.start()
        try:
            _require_database(maintenance)
            return Database(_with_name(maintenance, DATABASE_NAME), server)
        except psycopg.OperationalError as error:
            # It was killed between the question whether it runs and this one.
            server.stop()
            if not attempts_left:
                raise ServiceUnavailable(
                    f"the embedded Postgres does not answer: {error}.",
                    field="ASSAY_HOME",
                    remedy=f"Look into {server.folder / 'log'}, or set {URL_VARIABLE} to a server of your own.",
                ) from error
        except psycopg.Error:
            server.stop()
            raise
    raise AssertionError("the last attempt returns or raises")


def _require_database(maintenance: str) -> None:
    with psycopg.connect(maintenance, autocommit=True) as connection:
        row = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE_NAME]).fetchone()
        if row is None:
            # Two processes may both have found it missing.
            with contextlib.suppress(psycopg.errors.DuplicateDatabase, psycopg.errors.UniqueViolation):
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE_NAME)))


def _with_name(url: str, name: str) -> str:
    """Return the URL with another database name; everything else stays."""
    head, question, options = url.partition("?")
    return f"{head.rpartition('/')[0]}/{name}{question}{options}"
