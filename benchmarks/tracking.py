"""An MLflow tracking server on a database of our Postgres, in the peers' environment."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote, urlsplit

from assay.service import free_port
from benchmarks.bench import Bench
from benchmarks.peers import environment
from benchmarks.serving import Running, server
from ingest.log.migrate import sqlalchemy_url
from ingest.log.postgres import Database

__all__ = ["tracking_server"]


@contextmanager
def tracking_server(bench: Bench, database: Database) -> Iterator[Running]:
    """Give the server; uvloop as its documentation advises, all else as it comes."""
    home = bench.folder()
    port = free_port()
    command = [
        str(environment("peers")), "-m", "mlflow", "server", "--backend-store-uri", _address(database),
        "--artifacts-destination", str(home / "artifacts"), "--host", "127.0.0.1", "--port", str(port),
        "--uvicorn-opts", "--loop uvloop --log-level warning",
    ]  # fmt: skip
    with server(command, port, "/health", home) as running:
        yield running


def _address(database: Database) -> str:
    """Return the database's URL as SQLAlchemy and psycopg take it; a folder of sockets must be quoted."""
    parts = urlsplit(sqlalchemy_url(database.url))
    query = (
        "&".join(
            f"{name}={quote(value, safe='')}"
            for name, _, value in (item.partition("=") for item in parts.query.split("&"))
        )
        if parts.query
        else ""
    )
    return parts._replace(query=query).geturl()
