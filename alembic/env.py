"""Run the migrations on a connection that ingest.log.migrate passes in, or on ASSAY_DATABASE_URL."""

from __future__ import annotations

import os

import sqlalchemy as sa

from alembic import context
from ingest.log.migrate import sqlalchemy_url
from ingest.log.schema import metadata


def _run(connection: sa.Connection) -> None:
    context.configure(connection=connection, target_metadata=metadata, transactional_ddl=True)
    with context.begin_transaction():
        context.run_migrations()


def _main() -> None:
    given = context.config.attributes.get("connection")
    if given is not None:
        _run(given)
        return
    url = os.environ.get("ASSAY_DATABASE_URL")
    if url is None:
        raise SystemExit("Set ASSAY_DATABASE_URL, or run `assay db upgrade`, which knows the embedded server.")
    engine = sa.create_engine(sqlalchemy_url(url), poolclass=sa.NullPool)
    with engine.begin() as connection:
        _run(connection)


_main()
