"""Bring a database to the log's schema, by alembic, quietly."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import sqlalchemy as sa
from alembic.command import downgrade as alembic_downgrade
from alembic.command import upgrade as alembic_upgrade
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError

from domain.errors import PartMissing, ServiceUnavailable, UsageError

__all__ = ["downgrade", "head", "job_engine", "migrations", "require_current", "revision", "sqlalchemy_url", "upgrade"]

_UPGRADE_LOCK = 4_702_111_234_474_983_746
"""Two services that start at once must not both create the tables."""


def migrations() -> Path:
    """Return the folder of migrations: the one in the installed package, else the repository's."""
    here = Path(__file__).resolve().parents[1]
    for folder in (here / "migrations", here.parent / "alembic"):
        if (folder / "env.py").is_file():
            return folder
    raise PartMissing(
        "the migrations of the event log are not where the package has them.",
        remedy="Install Assay again; the folder is assay/ingest/migrations in a wheel, alembic/ in the repository.",
    )


def sqlalchemy_url(url: str) -> str:
    """Return a libpq URL as one that makes SQLAlchemy use psycopg 3."""
    for scheme in ("postgresql://", "postgres://"):
        if url.startswith(scheme):
            return "postgresql+psycopg://" + url.removeprefix(scheme)
    return url


def upgrade(url: str, target: str = "head") -> str:
    """Bring the database at `url` to `target` and return the revision reached; ServiceUnavailable where it is away.

    Where procrastinate is installed, its tables are made or brought to its version too. Safe to call by any number of processes at once: one migrates, the others wait and find it done.
    """
    return _move(url, target, down=False)


def downgrade(url: str, target: str) -> str:
    """Take the database at `url` back to revision `target` (`base` drops the log itself)."""
    return _move(url, target, down=True)


def _move(url: str, target: str, *, down: bool) -> str:
    engine = sa.create_engine(sqlalchemy_url(url), poolclass=sa.NullPool)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _UPGRADE_LOCK})
            config = Config()
            config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
            config.set_main_option("path_separator", "os")
            config.attributes["connection"] = connection
            existing = MigrationContext.configure(connection).get_current_revision()
            if existing is not None and not _knows(existing):
                raise _newer(existing)
            try:
                (alembic_downgrade if down else alembic_upgrade)(config, target)
            except CommandError as error:
                raise UsageError(
                    f"the schema cannot be moved to {target}: {error}.",
                    field="revision",
                    remedy="`assay db revision` shows where it is; a downgrade goes to an earlier one.",
                ) from error
            if not down:
                _upgrade_job_engine(connection)
            return MigrationContext.configure(connection).get_current_revision() or "base"
    except sa.exc.OperationalError as error:
        raise _away(error) from error
    finally:
        engine.dispose()


def job_engine() -> Path | None:
    """Return the folder of procrastinate's SQL; None where the package is not installed."""
    spec = find_spec("procrastinate")
    return Path(spec.origin).parent / "sql" if spec is not None and spec.origin else None


def _upgrade_job_engine(connection: sa.Connection) -> None:
    """Make procrastinate's tables, or run those of its migrations that the database does not have."""
    folder = job_engine()
    if folder is None or connection.execute(sa.text("SELECT to_regclass('job_engine')")).scalar() is None:
        return
    files = {path.name: path for path in sorted((folder / "migrations").glob("*.sql"))}
    present = connection.execute(sa.text("SELECT migration FROM job_engine")).scalar()
    missing = [path for name, path in files.items() if present is not None and name > present]
    # Not through SQLAlchemy, which would take % for the beginning of a parameter.
    driver = connection.connection.driver_connection
    assert driver is not None
    for path in [folder / "schema.sql"] if present is None else missing:
        driver.execute(path.read_text(encoding="utf-8"))
    if present is None or missing:
        statement = (
            "INSERT INTO job_engine (migration) VALUES (:newest) ON CONFLICT (single) DO UPDATE SET migration = :newest"
        )
        connection.execute(sa.text(statement), {"newest": max(files)})


def revision(url: str) -> str | None:
    """Return the revision that the database is at; None for an empty one."""
    engine = sa.create_engine(sqlalchemy_url(url), poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            return MigrationContext.configure(connection).get_current_revision()
    except sa.exc.OperationalError as error:
        raise _away(error) from error
    finally:
        engine.dispose()


def head() -> str:
    """Return the newest revision that this version of Assay knows."""
    return _scripts().get_current_head() or "base"


def require_current(url: str) -> None:
    """Raise ServiceUnavailable, with the remedy, where the database has an older or newer schema, or none."""
    existing, needed = revision(url), head()
    if existing == needed:
        return
    if existing is not None and not _knows(existing):
        raise _newer(existing)
    state = f"no schema yet; this version needs {needed}"
    if existing is not None:
        state = f"schema {existing}, which is older than this version needs ({needed})"
    raise ServiceUnavailable(
        f"the database has {state}.", field="ASSAY_DATABASE_URL", remedy="Run `assay db upgrade` once."
    )


def _knows(revision: str) -> bool:
    return any(script.revision == revision for script in _scripts().walk_revisions())


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(migrations()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    return ScriptDirectory.from_config(config)


def _newer(revision: str) -> ServiceUnavailable:
    return ServiceUnavailable(
        f"the database has schema {revision}, which is newer than this version of Assay knows ({head()}).",
        remedy="Install the version of Assay that upgraded it, or a newer one.",
    )


def _away(error: sa.exc.OperationalError) -> ServiceUnavailable:
    first, *_ = str(error.orig).strip().splitlines() or ["it gives no reason"]
    return ServiceUnavailable(
        f"Postgres does not answer: {first.rstrip('.')}.",
        field="ASSAY_DATABASE_URL",
        remedy="Start it, or correct the URL; without ASSAY_DATABASE_URL an embedded server is used.",
    )
